r"""The objective of SNE and related methods: the Kullback-Leibler divergence of a layout from the data's probabilities.

With a kernel w(s) of squared distances, :math:`g = -d \ln w / ds` and the potential
:math:`\phi(y) = \sum_j w(\|y - y_j\|^2)`, only the attraction is a sum over pairs, the listed ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, Trace
from manifoldry._numerics.descent.initialization import best_scale
from manifoldry._numerics.descent.optimizer import MIN_GAIN, Descent, Momentum, Phase, local_order, renumbered
from manifoldry._numerics.geometry.neighbor_affinity import JointRows, host_matrix
from manifoldry._numerics.repulsion import LayoutKernel, Repulsion, choose_repulsion
from manifoldry._numerics.repulsion.fft import (
    ERROR_SLACK,
    FAINT_SHARE,
    MIN_POINTS_PER_FAINT,
    FFTRepulsion,
    KernelTransform,
    exact_sample,
)

LAYOUT_ROWS_PER_TASK = 2048
MIN_POTENTIAL = 1e-30
"""Lower bound of the potential: where it underflows, far from all other points, only the attraction counts."""
MAX_POINTS_EXACT_VALUE = 20_000
"""Maximum number of points for which the final divergence is computed from all pairs, in half a second."""
CHECK_EVERY = 50  # steps between two computations of the divergence
EXAGGERATED_MOMENTUM, MOMENTUM = 0.8, 0.95
"""With exaggerated probabilities, and without: 150 steps with 0.95 reach what takes 450 with 0.8 (5,000 digits)."""
TSNE_INITIAL_STD = 1e-4  # Standard deviation of an initial layout of t-SNE that is not given
EARLY_EXAGGERATION_ITER = 250  # steps with exaggerated probabilities from such a start
COLLAPSED_SHARE = 0.1  # early exaggeration ends when the layout has shrunk to this share of its start
MAX_MOVE = 5.0  # longest move of a coordinate in one step


@dataclass(eq=False)
class Divergence(ABC):
    """A divergence from joint probabilities (symmetric, with sum 1); ``information`` is the sum of p ln p."""

    joint: csr_array | JointRows
    information: float
    kernel: LayoutKernel
    repulsion: Repulsion
    run: Run

    @property
    def dtype(self) -> Any:
        return np.float64 if self.repulsion.exact else np.float32

    @cached_property
    def _rows(self) -> tuple[Any, Any, Any]:
        joint = host_matrix(self.joint, self.run)
        return (
            np.ascontiguousarray(joint.indptr, dtype=np.int64),
            np.ascontiguousarray(joint.indices, dtype=np.int32),
            np.ascontiguousarray(joint.data, dtype=self.dtype),
        )

    @property
    def degrees(self) -> FloatArray:
        """The sum of the joint probabilities of each point."""
        joint = self.joint
        return joint.degrees if isinstance(joint, JointRows) else np.asarray(joint.sum(axis=1), dtype=np.float64)

    def gradient(self, Y: FloatArray, exaggeration: float = 1.0) -> FloatArray:
        """Return the gradient (n, d) with the probabilities multiplied by ``exaggeration``."""
        from manifoldry._numerics.kernels.attraction import attraction_rows

        positions = np.ascontiguousarray(Y, dtype=self.dtype)
        attraction = self._row_sums(attraction_rows, positions, np.empty(Y.shape, dtype=self.dtype))
        return 4.0 * exaggeration * attraction.astype(np.float64) + self._repulsive_term(positions)

    def value(self, Y: FloatArray) -> float:
        """Return the divergence: 0 where the probabilities of the layout are those of the data."""
        from manifoldry._numerics.kernels.attraction import log_kernel_rows

        positions = np.ascontiguousarray(Y, dtype=self.dtype)
        logs = self._row_sums(log_kernel_rows, positions, np.empty(len(Y)))
        return self.information - float(logs.sum()) + self._log_normalizer(positions)

    def final_value(self, Y: FloatArray, estimate: float | None = None) -> tuple[float, str]:
        """Return the divergence, summed over all pairs for few points, and whether it is "exact" or "estimated".

        ``estimate`` is that of `value`, if it has been computed.
        """
        n, d = Y.shape
        if self.repulsion.exact:
            return self.value(Y), "exact"
        if n <= MAX_POINTS_EXACT_VALUE:
            return replace(self, repulsion=choose_repulsion(self.kernel, n, d, repulsion="exact")).value(Y), "exact"
        return self.value(Y) if estimate is None else estimate, f"estimated ({self.repulsion.name})"

    @abstractmethod
    def _repulsive_term(self, Y: FloatArray) -> FloatArray:
        """Return the gradient of the logarithm of the normalizer."""

    @abstractmethod
    def _log_normalizer(self, Y: FloatArray) -> float:
        """Return the logarithm of the normalizer, averaged over its rows if there is one for each."""

    def _row_sums(self, sum_rows: Any, positions: FloatArray, sums: FloatArray) -> FloatArray:
        arguments = *self._rows, positions, *self.kernel.compiled, sums
        self.run.map(lambda lo, hi: sum_rows(*arguments, lo, hi), self.run.shares(len(sums), LAYOUT_ROWS_PER_TASK))
        return sums


class JointDivergence(Divergence):
    r"""One divergence between joint distributions: t-SNE and symmetric SNE (vandermaaten2008).

    .. math:: C = \sum_{ij} p_{ij} \ln \frac{p_{ij}}{q_{ij}}, \qquad q_{ij} = \frac{w(s_{ij})}{Z}, \quad
        Z = \sum_{k \ne l} w(s_{kl}), \qquad
        \nabla_i C = 4 \sum_j p_{ij}\, g(s_{ij}) (y_i - y_j) + \frac{2}{Z} \nabla \phi(y_i) .
    """

    def _repulsive_term(self, Y: FloatArray) -> FloatArray:
        potential, gradient = self.repulsion.at_points(Y, None, self.run)
        return (2.0 / float(potential.sum(dtype=np.float64))) * gradient

    def _log_normalizer(self, Y: FloatArray) -> float:
        return float(np.log(self.repulsion.at_points(Y, None, self.run)[0].sum(dtype=np.float64)))


class ConditionalDivergence(Divergence):
    r"""The mean of the points' own divergences: SNE (hinton2002), with :math:`p_{ij} = (p_{j|i} + p_{i|j}) / (2n)`.

    .. math:: C = \frac1n \sum_i \sum_j p_{j|i} \ln \frac{p_{j|i}}{q_{j|i}}, \qquad
        q_{j|i} = \frac{w(s_{ij})}{Z_i}, \quad Z_i = \phi(y_i) - w(0), \qquad
        \nabla_i C = 4 \sum_j p_{ij}\, g(s_{ij}) (y_i - y_j)
        + \frac1n \Big( \frac{\nabla \phi(y_i)}{Z_i} + \nabla \sum_j \frac{w(\|y_i - y_j\|^2)}{Z_j} \Big) .
    """

    def _repulsive_term(self, Y: FloatArray) -> FloatArray:
        potential, gradient = self.repulsion.at_points(Y, None, self.run)
        inverse = 1.0 / np.maximum(potential, MIN_POTENTIAL)
        _, of_others = self.repulsion.at_points(Y, inverse, self.run)
        return (gradient * inverse[:, None] + of_others) / len(Y)

    def _log_normalizer(self, Y: FloatArray) -> float:
        potential, _ = self.repulsion.at_points(Y, None, self.run)
        return float(np.log(np.maximum(potential, MIN_POTENTIAL)).mean())


EDGES_PER_CALL = 200_000_000
"""Edges between two chances to interrupt a descent, for each thread: half a second. Results do not depend on it."""
MIN_TEAM_POINTS = 20_000
"""Number of points from which many steps are one call, whose loops compile for seven seconds at their first use: 10,000
images take as long without, because most of their steps sum by a tree."""
CHECK_MESH_EVERY = 10  # steps between two comparisons of the mesh with exact sums


@dataclass
class MeshMomentum:
    """`Momentum` on a joint divergence with its repulsion by FFT: many steps in one call of a team of threads.

    A layout that does not suit a mesh moves by ``single`` steps, until the mesh is compared with exact sums again.
    ``collapsed`` tells whether all columns are below ``min_width``.
    """

    single: Momentum
    divergence: JointDivergence
    repulsion: FFTRepulsion
    exaggeration: float = 1.0
    min_width: float = 0.0
    collapsed: bool = False
    suited: bool = True

    def objective(self, Y: FloatArray) -> float:
        return self.single.objective(Y)

    def advance(self, Y: FloatArray, step: int, limit: int) -> int:
        self.suited = self.suited or step % CHECK_MESH_EVERY == 0
        taken = self._advance_on_mesh(Y, step, limit) if self.suited else 0
        if taken == 0:
            taken = self.single.advance(Y, step, 1)
            self.collapsed = bool(Y.std(axis=0).max() < self.min_width)
        return taken

    def _advance_on_mesh(self, Y: FloatArray, step: int, limit: int) -> int:
        """Move ``Y`` until another mesh is needed, or a tree, and return the number of steps."""
        from manifoldry._numerics.kernels.joint_descent import (
            COLLAPSED,
            ENDING,
            HIGH,
            LOW,
            SQUARE,
            STEPS,
            descend_jointly,
        )

        columns, charges, layout = self._arrays
        exact = np.ascontiguousarray(Y.T)
        columns[: Y.shape[1]] = exact.astype(np.float32)
        mesh = self.repulsion.mesh(columns)
        if mesh is None:
            return 0
        # Sums of a centered layout that has not collapsed.
        layout.sums[:] = 0.0
        layout.sums[:, SQUARE : SQUARE + 2] = np.inf
        for c, column in enumerate(exact):
            layout.sums[:, LOW + c], layout.sums[:, HIGH + c] = column.min(), column.max()
        run = self.divergence.run
        limit = min(limit, max(1, EDGES_PER_CALL * run.n_jobs // max(1, len(layout.indices))))
        arrays, transform = self.repulsion.arrays(mesh, columns, charges)
        velocity, gains = self.single.state(Y)
        layout = layout._replace(Y=Y, velocity=velocity, gains=gains)
        run.team(descend_jointly, arrays, layout, self._settings(transform, len(Y), step, limit))
        taken, self.collapsed = int(layout.state[STEPS]), bool(layout.state[COLLAPSED])
        self.suited = taken == limit or bool(layout.state[ENDING])
        return taken

    @cached_property
    def _arrays(self) -> tuple[FloatArray, FloatArray, Any]:
        """Columns and charges of a layout in the plane, and the arrays of its descent."""
        from manifoldry._numerics.kernels.joint_descent import N_STATE, N_SUMS, Layout
        from manifoldry._numerics.kernels.mesh import POINTS_PER_TICKET

        n = self.divergence.joint.shape[0]
        indptr, indices, affinities = self.divergence._rows
        rates, sample, plane = np.empty(n), exact_sample(n), (n, 2)
        rates[:, None] = self.single.learning_rate
        layout = Layout(
            indptr,
            indices,
            affinities,
            None,
            positions=np.zeros(plane, np.float32),
            velocity=None,
            gains=None,
            rates=rates,
            pull=np.empty(plane, np.float32),
            push=np.empty(plane, np.float32),
            potential=np.empty(n),
            sums=np.empty((-(-n // POINTS_PER_TICKET), N_SUMS)),
            sample=sample,
            exact=np.empty((len(sample), 2)),
            state=np.zeros(N_STATE),
        )
        return np.zeros((2, n)), np.ones(n), layout

    def _settings(self, transform: KernelTransform, n: int, step: int, limit: int) -> Any:
        from manifoldry._numerics.kernels.joint_descent import Settings

        gaussian, dof = self.divergence.kernel.compiled
        return Settings(
            gaussian,
            dof,
            exaggeration=self.exaggeration,
            momentum=self.single.momentum,
            max_move=self.single.max_move,
            min_gain=MIN_GAIN,
            per_point=self.single.restart == "per_point",
            min_width=self.min_width,
            spacing=self.repulsion.spacing,
            min_cells=self.repulsion.min_cells,
            offset=transform.mean * n,
            factor=transform.span,
            faint_share=FAINT_SHARE,
            points_per_faint=MIN_POINTS_PER_FAINT,
            error=ERROR_SLACK * self.repulsion.error,
            check_every=CHECK_MESH_EVERY,
            first_step=step,
            n_steps=limit,
        )


@dataclass(frozen=True)
class ExaggerationPhase:
    """Some steps down a divergence with exaggerated probabilities; it ends when all columns are below ``min_width``."""

    name: str
    max_iter: int
    exaggeration: float = 1.0
    tol: float = 0.0
    min_width: float = 0.0

    def optimizing(self, divergence: Divergence, learning_rate: Any, alone: bool = True) -> Phase:
        """Return the phase with its optimizer; the objective is the divergence without exaggeration.

        If it is not ``alone``, another term moves the layout after every step, which then is not centered.

        The automatic learning rate is lower for points of high degree, which would overshoot. Elsewhere it is twice the
        usual n / exaggeration, which applies to a gradient without the factor 4.
        """
        exaggerated = self.exaggeration > 1
        if learning_rate == "auto":
            n, degrees = divergence.joint.shape[0], divergence.degrees
            learning_rate = n / (2.0 * self.exaggeration * np.maximum(n * degrees[:, None], 1.0))
        single = Momentum(
            lambda Y: divergence.gradient(Y, self.exaggeration),
            divergence.value,
            learning_rate,
            EXAGGERATED_MOMENTUM if exaggerated else MOMENTUM,
            "per_point" if exaggerated else "global",
            MAX_MOVE,
            centered=alone,
        )
        tol = 0.0 if exaggerated else self.tol
        large = divergence.joint.shape[0] >= MIN_TEAM_POINTS
        if (
            alone
            and large
            and isinstance(divergence, JointDivergence)
            and isinstance(divergence.repulsion, FFTRepulsion)
        ):
            on_mesh = MeshMomentum(single, divergence, divergence.repulsion, self.exaggeration, self.min_width)
            return Phase(self.name, on_mesh, self.max_iter, tol, CHECK_EVERY, lambda _: on_mesh.collapsed, "divergence")
        collapsed = (lambda Y: bool(Y.std(axis=0).max() < self.min_width)) if self.min_width > 0 else None
        return Phase(self.name, single, self.max_iter, tol, CHECK_EVERY, collapsed, "divergence")


@dataclass(frozen=True)
class ExaggerationSchedule:
    """The phases of t-SNE, by its parameters of the same names."""

    max_iter: int = 1000
    tol: float = 5e-3
    early_exaggeration: float = 12.0
    early_exaggeration_iter: int | Literal["auto"] = "auto"
    late_exaggeration: float = 1.0
    late_exaggeration_iter: int = 250

    def phases(self, start: FloatArray, shaped: bool) -> list[ExaggerationPhase]:
        """Return the phases from an initial layout, which may have the shape of the data already."""
        # If a graph is too well connected (all eigenvalues of its normalized Laplacian above 1 / exaggeration),
        # exaggerated probabilities contract everything into one point, until only rounding is left.
        collapsed = COLLAPSED_SHARE * min(float(start.std(axis=0).max()), TSNE_INITIAL_STD)
        # Clusters form in the first phase. A layout that already has the shape of the data does not need it: a roll of
        # 20,000 points has divergence 0.661 after 200 iterations without, and 0.662 after 400 with this phase.
        default = 0 if shaped else EARLY_EXAGGERATION_ITER
        requested = self.early_exaggeration_iter
        early = min(default if isinstance(requested, str) else requested, self.max_iter)
        late = min(self.late_exaggeration_iter, self.max_iter - early) if self.late_exaggeration > 1 else 0
        return [
            ExaggerationPhase("early exaggeration", early, self.early_exaggeration, self.tol, collapsed),
            ExaggerationPhase("main", self.max_iter - early - late, 1.0, self.tol),
            ExaggerationPhase("late exaggeration", late, self.late_exaggeration),
        ]


def minimize_divergence(
    divergence: Divergence,
    start: FloatArray,
    phases: Sequence[ExaggerationPhase],
    learning_rate: float | Literal["auto"],
    run: Run,
    *,
    rescale: bool = False,
) -> tuple[FloatArray, Trace]:
    """Return the layout after the phases, and the trace; with ``rescale`` the start first gets its best scale."""
    descends_on_mesh = isinstance(divergence, JointDivergence) and isinstance(divergence.repulsion, FFTRepulsion)
    if run.gpu is not None and descends_on_mesh and start.shape[1] == 2:
        from manifoldry._numerics.gpu import joint_descent

        return joint_descent.minimize_divergence(divergence, start, phases, learning_rate, run, rescale)
    with run.stage("descent"):
        return prepare_divergence(divergence, start, phases, learning_rate, run, rescale=rescale).run(run)


def prepare_divergence(
    divergence: Divergence,
    start: FloatArray,
    phases: Sequence[ExaggerationPhase],
    learning_rate: float | Literal["auto"],
    run: Run,
    *,
    rescale: bool = False,
    alone: bool = True,
) -> Descent:
    """Return the descent of `minimize_divergence` before its first step."""
    divergence = replace(divergence, joint=host_matrix(divergence.joint, run))
    order: IntArray = np.arange(len(start))
    ordered = divergence
    if not divergence.repulsion.exact:  # with many points most time is spent on fetching coordinates
        joint = divergence.joint
        order = local_order(joint)
        rounded = csr_array((joint.data.astype(divergence.dtype), joint.indices, joint.indptr), shape=joint.shape)
        ordered = replace(divergence, joint=renumbered(rounded, order, run))
    moving: FloatArray = np.ascontiguousarray(start[order], dtype=np.float64)
    if rescale:
        moving *= best_scale(lambda scale: ordered.value(scale * moving))
    steps = [each.optimizing(ordered, learning_rate, alone) for each in phases if each.max_iter > 0]
    return Descent(order, moving, steps)
