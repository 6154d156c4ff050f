"""Unfolding with other objectives than the variance: ColoredMVU shows targets, MVE flattens hidden dimensions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from manifoldry._core.parameters import Fraction, NonNegativeInt, Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Certificate, Embedding, FloatArray, Stop, Trace
from manifoldry._numerics.extension.local import embed_unfolded
from manifoldry._numerics.semidefinite.barrier_path import Stretched
from manifoldry._numerics.semidefinite.pairs import PairDistances, unfold_points
from manifoldry.graph._sample import NeighborhoodData, Targets
from manifoldry.methods._base import estimator, fitted
from manifoldry.methods._base._embedder import count_points
from manifoldry.methods._base._targets import known_classes, known_numbers
from manifoldry.methods.unfolding._kept_distances import KeptDistancesMixin

MIN_TARGET_SPREAD = 1e-12
"""Trace of the centered kernel, as a share of that of the kernel, below which the targets are all the same."""
DEPENDENCE_CLAIM = "the stretch along the targets with these distances kept"
VOLUME_STEP_CLAIM = "the last step of the sequence, along fixed leading axes (not the sequence's end)"
VOLUME_CLAIM = "leading less other variances, for they are never more than the largest variance"
NO_TARGETS = "No target is known, so the variance was maximized, as by MVU: give targets, fit(X, y)."
NO_COLOR = (
    "The known targets are all the same, so they say nothing about what to stretch: the variance was maximized, as by "
    "MVU. Give targets of at least two classes or values."
)

TargetMetric = Literal["categorical", "numeric", "linear"]


@register(
    problem="semidefinite",
    papers=("song2007", "gretton2005", "weinberger2006"),
    gives=("transform", "inverse", "spectrum", "trace", "certificate", "graph"),
    keeps="distances between neighbors, exactly, or as upper bounds",
    loses="variance that the targets do not need, as far as the kept distances allow",
    use_when="labels or numbers are known for some points, and the picture should show them without tearing neighbors",
    fails_when="classes are neighbors of each other: distances are kept, and labels cannot part what the graph joins",
    cost="as MVU: 178 wines in 0.3 s, 250 digits in 0.5 s; up to 9,000 kept distances",
    test_params={"n_components": 2, "n_neighbors": 5, "constraints": "at most"},
)
@estimator
class ColoredMVU(KeptDistancesMixin):
    r"""Unfold points so that the layout shows known labels or numbers, with distances between neighbors kept.

    Colored maximum variance unfolding maximizes the dependence on targets:

    .. math:: \max_{G \succeq 0,\; G 1 = 0} \operatorname{tr} (G L) \quad \text{with} \quad
              G_{ii} - 2 G_{ij} + G_{jj} = d_{ij}^2 \;\; (\text{or} \le d_{ij}^2) \;\; \text{for neighbors } i, j .

    L is a kernel of the targets ``y``; with the centering matrix H, :math:`\operatorname{tr}(H G H L)` is, but for a
    factor, the Hilbert-Schmidt independence criterion of coordinates and targets. With one class per point L = I, and
    the program is that of `MVU`, as it is without ``y``. Points whose target is not known (-1, NaN or None) are classes
    of their own. New points need no targets.

    Points of two classes that are neighbors stay neighbors: the targets only choose among the possible unfoldings. The
    result is not a classifier: nearest points predict hidden labels no better, on the whole, than in that of `MVU`.

    Attributes
    ----------
    certificate_ : Certificate
        Certificate of minus tr(G L) with these distances; ``gap`` is relative, ``violation`` is by how much a squared
        relative distance is farther than ``slack`` from those to keep.
    stretch_ : float
        tr(G L); without informative targets the variance.
    trace_ : Trace
        Minus tr(G L) from step to step.
    embedding_, spectrum_, error_, error_certificate_, graph_
    diagnostics_ : dict
        Seconds, components, bridges, ``n_constraints``: the number of distances, ``n_known``: the number of points
        with a target, and ``advice``: what to do if the points need more dimensions, or targets are not informative.

    See Also
    --------
    MVU : without targets.
    UMAP : labels for larger data.
    LPP : a linear map with targets.

    Notes
    -----
    Up to 9,000 distances are kept; more raise an error. Distances below a thousandth of their median (duplicates) are
    set to that. New points are mapped by the weights that reconstruct them from their neighbors.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import ColoredMVU, datasets
    >>> roll = datasets.swiss_roll(100)
    >>> halves = (roll.truth[:, 0] > np.median(roll.truth[:, 0])).astype(int)
    >>> colored = ColoredMVU(n_neighbors=5).fit(roll.X, halves)
    >>> colored.certificate_.verdict
    'proven optimal'
    """

    target_metric: TargetMetric = parameter(
        "What ``y`` holds, and its kernel: classes, :math:`L_{ij} = 1` for equal ones; numbers (one or more "
        r"columns), :math:`L_{ij} = \exp(-|y_i - y_j|^2 / 2 \sigma^2)` with the median distance :math:`\sigma` of "
        "distinct ones; or numbers whose entire spread should be visible, with the inner products of y about its "
        "mean.",
        default="categorical",
    )
    target_weight: Fraction = parameter(
        "Share w of the targets: :math:`(1 - w) H + w L`, with L centered and scaled to the trace of H. 0 is `MVU`.",
        default=1.0,
    )

    stretch_: float = fitted()

    def _embed(self, X: Any, run: Run) -> Embedding:
        return self._embed_with(X, None, run)

    def _embed_with(self, X: Any, y: Any, run: Run) -> Embedding:
        targets = None if y is None else self._targets(y, count_points(X))
        return self._embed_sample(replace(self._sample(X, run), targets=targets), run)

    def _targets(self, y: Any, n_points: int) -> Targets:
        if self.target_metric == "categorical":
            numbers, known = known_classes(y, n_points)
            return Targets(numbers[:, None], known, True, self.target_weight)
        return Targets(*known_numbers(y, n_points), False, self.target_weight)

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        pairs, options = self._kept_distances(sample)
        form, n_known = _target_form(sample, self.target_metric, self.target_weight)
        with run.stage("semidefinite program"), run.stoppable():
            solution = unfold_points(pairs, run, form=form, **options)
        if form is not None:
            solution = replace(solution, certificate=replace(solution.certificate, claim=DEPENDENCE_CLAIM))
        ignored = form is None and self.target_weight > 0
        advice = (NO_COLOR if n_known else NO_TARGETS,) if ignored else ()
        notes = {"n_constraints": len(pairs), "n_known": n_known}
        return embed_unfolded(sample, solution, n_components, run, advice=advice, **notes)


def _target_form(sample: NeighborhoodData, metric: TargetMetric, weight: float) -> tuple[FloatArray | None, int]:
    """Return the form to maximize, None for the variance, and how many targets are known."""
    n, targets = sample.n_points, sample.targets
    if targets is None:
        return None, 0
    rows, known = targets.values, targets.known
    n_known = int(known.sum())
    if not n_known or weight == 0:
        return None, n_known
    L = np.eye(n)
    L[np.ix_(known, known)] = _target_kernel(rows[known], metric)
    means = L.mean(axis=0)
    centered = L - means - means[:, None] + means.mean()
    spread = float(np.trace(centered))
    if spread <= MIN_TARGET_SPREAD * max(float(np.trace(L)), 1.0):
        return None, n_known
    return (1 - weight) * (np.eye(n) - 1 / n) + weight * (n - 1) / spread * centered, n_known


def _target_kernel(rows: FloatArray, metric: TargetMetric) -> FloatArray:
    if metric == "categorical":
        return (rows == rows.T).astype(float)
    if metric == "linear":
        # Unit mean square, so that points of unknown target count as others do.
        centered = rows - rows.mean(axis=0)
        return centered @ centered.T / (float(np.square(centered).sum(axis=1).mean()) or 1.0)
    squares = np.square(rows[:, None] - rows).sum(axis=2)
    median = float(np.median(squares[squares > 0])) if (squares > 0).any() else 1.0
    return np.exp(-squares / (2 * median))


@register(
    problem="semidefinite",
    papers=("shaw2007", "weinberger2006"),
    gives=("transform", "inverse", "spectrum", "trace", "certificate", "graph"),
    keeps="distances between neighbors, exactly, or as upper bounds",
    loses="width outside the requested dimensions, as of branches and noise, as far as the kept distances allow",
    use_when="MVU needs more dimensions than can be shown, due to noise or branches, and a picture should lose little",
    fails_when="n_components is wrong: it flattens a surface to a line as readily as noise; its end may be a local one",
    cost="a program of MVU's size for each of 3 to 20 steps: 178 wines in 2 to 4 s, 250 digits in 8 s",
    test_params={"n_components": 2, "n_neighbors": 5, "constraints": "at most", "max_iter": 1},
)
@estimator
class MVE(KeptDistancesMixin):
    r"""Unfold noise or branches into few visible dimensions, if MVU needs more than can be shown.

    Minimum volume embedding solves

    .. math:: \max_{G \succeq 0,\; G 1 = 0} \; \sum_{i \le d} \lambda_i(G) - \sum_{i > d} \lambda_i(G) \quad
              \text{with} \quad G_{ii} - 2 G_{ij} + G_{jj} = d_{ij}^2 \;\; (\text{or} \le d_{ij}^2) \;\;
              \text{for neighbors } i, j ,

    with d = ``n_components`` and the eigenvalues in descending order. `MVU` stretches along all dimensions; here those
    that will not be shown are flattened. A convex function has to be maximized, which is done in steps: with the
    leading eigenvectors V of the last G, the largest :math:`\operatorname{tr}(G (2 V V^\top - H))` is a semidefinite
    program, solved to a proven gap. The first G is that of `MVU`, and the function never falls.

    Each step is proven optimal, the end of the sequence is not: another start may lead to another end. The value is at
    most the largest variance, which bounds it for all Gram matrices with these distances: ``overall_certificate_``.

    Attributes
    ----------
    certificate_ : Certificate
        Certificate of the last step: of minus :math:`\operatorname{tr}(G (2 V V^\top - H))` with V fixed.
    overall_certificate_ : Certificate
        Certificate of minus ``eigengap_``, by the bound of the largest variance: loose if the data has more dimensions.
    eigengap_ : float
        The sum of the d leading eigenvalues less that of all others.
    trace_ : Trace
        Minus the eigengap from step to step, that of `MVU` first.
    embedding_, spectrum_, error_, error_certificate_, graph_
    diagnostics_ : dict
        Seconds, components, bridges, ``n_constraints``: the number of distances, and ``advice``.

    See Also
    --------
    MVU : stretches along all dimensions.
    FastMVU : more than a few thousand points.

    Notes
    -----
    Up to 9,000 distances are kept; more raise an error. A callback stops the fit at the last complete step. Distances
    below a thousandth of their median (duplicates) are set to that. New points are mapped by the weights that
    reconstruct them from their neighbors.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import MVE, MVU, datasets
    >>> roll = datasets.swiss_roll(80, noise=0.5)
    >>> def share(model):
    ...     return model.spectrum_.values[:2].sum() / model.spectrum_.values.sum()
    >>> mve, mvu = (method(n_neighbors=5).fit(roll.X) for method in (MVE, MVU))
    >>> bool(share(mve) > share(mvu))
    True
    """

    n_components: PositiveInt = parameter(
        "Dimension d of the embedding, which affects the solution, not only its projection.", default=2, kw_only=False
    )
    max_iter: NonNegativeInt = parameter("Maximum number of steps after the first, that of `MVU`.", default=20)
    tol: Positive = parameter("Proven gap of a step, and relative increase at which steps stop.", default=1e-4)

    eigengap_: float = fitted()
    overall_certificate_: Certificate = fitted()

    def _unfold(self, sample: NeighborhoodData, n_components: int, run: Run) -> Embedding:
        pairs, options = self._kept_distances(sample)
        with run.stage("semidefinite program"), run.stoppable():
            solution, overall, trace = least_volume(pairs, n_components, run, max_iter=self.max_iter, **options)
        embedding = embed_unfolded(sample, solution, n_components, run, n_constraints=len(pairs))
        proven = {name: embedding.fitted[name] for name in ("error_", "error_certificate_")}
        return replace(
            embedding,
            trace=trace,
            fitted={**proven, "eigengap_": -overall.objective, "overall_certificate_": overall},
        )


def least_volume(
    pairs: PairDistances, n_leading: int, run: Run, *, tol: float, max_iter: int, **options: Any
) -> tuple[Stretched, Certificate, Trace]:
    r"""Maximize :math:`\sum_{i \le d} \lambda_i - \sum_{i > d} \lambda_i` of points with their distances kept.

    The function is convex in G: the largest :math:`\operatorname{tr}((2 P - H) G)` of all projections P to d axes. With
    the leading axes of one G fixed it is a program for `unfold_points` with these ``options``: the value never falls.
    Return the last solution, the certificate of minus its value among all others, and the trace.
    """
    best = first = unfold_points(pairs, run, tol=tol, **options)
    gap, axes = _leading(best.V, n_leading)
    gaps, stop = [gap], Stop.LIMIT
    for _ in range(max_iter):
        if run.stopped:
            break
        form = 2 * axes @ axes.T - np.eye(len(axes)) + 1 / len(axes)
        after = unfold_points(pairs, run, tol=tol, form=form, **options)
        gap, axes = _leading(after.V, n_leading)
        if run.stopped:  # a step cut short is not taken
            break
        rise = gap - gaps[-1]
        best = after if rise > 0 else best
        gaps.append(max(gap, gaps[-1]))
        if rise <= tol * abs(gap):
            stop = Stop.CONVERGED
            break
    stop = Stop.ASKED if run.stopped else stop
    certificate = best.certificate if best is first else replace(best.certificate, claim=VOLUME_STEP_CLAIM)
    overall = replace(
        certificate, objective=-gaps[-1], bound=first.certificate.bound, claim=VOLUME_CLAIM, smallest=None
    )
    return replace(best, certificate=certificate), overall, Trace(-np.array(gaps), stop)


def _leading(V: FloatArray, count: int) -> tuple[float, FloatArray]:
    """Return the leading less the other variances of points, and the leading unit vectors, a column each."""
    left, roots, _ = np.linalg.svd(V - V.mean(axis=0), full_matrices=False)
    values = np.square(roots)
    return float(values[:count].sum() - values[count:].sum()), left[:, :count]
