"""Colored maximum variance unfolding: targets say which variance to maximize."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from manifoldry._core.parameters import Fraction, Positive, ProperShare, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Certificate, Embedding, FloatArray
from manifoldry._numerics.extension.local import distances_fit, embed_unfolded, refuse_many_pairs
from manifoldry._numerics.semidefinite import PairDistances, unfold_points
from manifoldry.graph._sample import Sample, Targets
from manifoldry.methods._base import GraphEmbedder, estimator, fitted
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods._base._embedder import count_points
from manifoldry.methods._base._targets import known_classes, known_numbers
from manifoldry.methods._base._texts import CONSTRAINTS_TEXT, GAP_TEXT, SLACK_TEXT

DEPENDENCE_CLAIM = "the stretch along the targets with these distances kept"

MIN_TARGET_SPREAD = 1e-12
"""Trace of the centered kernel, as a share of that of the kernel, below which the targets are all the same."""

NO_TARGETS = "No target is known, so the variance was maximized, as by MVU: give targets, fit(X, y)."
"""Advice where none was given."""

NO_COLOR = (
    "The known targets are all the same, so they say nothing about what to stretch: the variance was maximized, as by "
    "MVU. Give targets of at least two classes or values."
)

TargetMetric = Literal["categorical", "numeric", "linear"]


@register(
    family="unfolding",
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
class ColoredMVU(GraphEmbedder):
    r"""Unfold points so that the layout shows known labels or numbers, with distances between neighbors kept.

    Colored maximum variance unfolding maximizes the dependence on targets:

    .. math:: \max_{G \succeq 0,\; G 1 = 0} \operatorname{tr} (G L) \quad \text{with} \quad
              G_{ii} - 2 G_{ij} + G_{jj} = d_{ij}^2 \;\; (\text{or} \le d_{ij}^2) \;\; \text{for neighbors } i, j .

    L is a kernel of the targets ``y``; with the centering matrix H, :math:`\operatorname{tr}(H G H L)` is, but for a
    factor, the Hilbert-Schmidt independence criterion of coordinates and targets. With one class per point L = I, and
    the program is that of `MVU`, as it is without ``y``. Points whose target is not known (-1, NaN or None) are classes
    of their own. New points need no targets.

    Distances are kept whatever the targets are. So points of two classes that are neighbors stay neighbors: the targets
    only choose among the possible unfoldings, where `MVU` chooses that of the largest variance. The result is not a
    classifier: nearest points predict labels hidden from the fit no better, on the whole, than in the layout of `MVU`.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The unfolded points in their first principal axes.
    spectrum_ : Spectrum
        Eigenpairs of the unfolded Gram matrix, in all dimensions used.
    certificate_ : Certificate
        Certificate of minus tr(G L) with these distances; ``gap`` is relative, ``violation`` is by how much a squared
        relative distance is farther than ``slack`` from those to keep.
    error_certificate_ : Certificate
        Certificate of the smallest mean squared relative error of the squared distances to keep: zero if they fit.
    stretch_ : float
        tr(G L); without informative targets the variance.
    error_ : float
        Mean squared relative error of the squared distances, in all dimensions used.
    trace_ : Trace
        Minus tr(G L) from step to step.
    graph_ : NeighborGraph
        The graph whose distances are kept.
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
    constraints: Literal["equal", "at most"] = parameter(CONSTRAINTS_TEXT, default="equal")
    slack: ProperShare = parameter(SLACK_TEXT, default=1e-2)
    tol: Positive = parameter(GAP_TEXT, default=1e-4)

    stretch_: float = fitted()
    error_: float = fitted()
    error_certificate_: Certificate = fitted()

    _invertible = _local_inverse = True

    _blockwise = BlockFit(
        "no",
        instead="its semidefinite program takes a thousand or two points. IPA unfolds all rows, UMAP takes targets.",
    )

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

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        pairs = PairDistances.of_graph(sample.graph)
        refuse_many_pairs(type(self).__name__, pairs)
        form, n_known = _form(sample, self.target_metric, self.target_weight)
        with run.stage("semidefinite program"), run.stoppable():
            solution = unfold_points(
                pairs,
                run,
                slack=self.slack,
                tol=self.tol,
                fits=distances_fit(sample, pairs, self),
                form=form,
                at_most=self.constraints == "at most",
            )
        if form is not None:
            solution = replace(solution, certificate=replace(solution.certificate, claim=DEPENDENCE_CLAIM))
        silent = form is None and self.target_weight > 0
        advice = (NO_COLOR if n_known else NO_TARGETS,) if silent else ()
        notes = {"n_constraints": len(pairs), "n_known": n_known}
        return embed_unfolded(sample, solution, n_components, run, advice=advice, **notes)


def _form(sample: Sample, metric: TargetMetric, weight: float) -> tuple[FloatArray | None, int]:
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
        away = rows - rows.mean(axis=0)
        return away @ away.T / (float(np.square(away).sum(axis=1).mean()) or 1.0)
    squares = np.square(rows[:, None] - rows).sum(axis=2)
    usual = float(np.median(squares[squares > 0])) if (squares > 0).any() else 1.0
    return np.exp(-squares / (2 * usual))
