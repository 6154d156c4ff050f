"""Minimum volume embedding: the most variance in the leading dimensions, the least in all others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from manifoldry._core.parameters import NonNegativeInt, Positive, PositiveInt, ProperShare, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Certificate, Embedding, FloatArray, Stop, Trace
from manifoldry._numerics.extension.local import distances_fit, embed_unfolded, refuse_many_pairs
from manifoldry._numerics.semidefinite.barrier_path import Stretched
from manifoldry._numerics.semidefinite.pairs import PairDistances, unfold_points
from manifoldry.graph._sample import Sample
from manifoldry.methods._base import GraphEmbedder, estimator, fitted
from manifoldry.methods._base._chunks import BlockFit
from manifoldry.methods._base._texts import CONSTRAINTS_TEXT, SLACK_TEXT


@register(
    family="unfolding",
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
class MVE(GraphEmbedder):
    r"""Unfold noise or branches into few visible dimensions, if MVU needs more than can be shown.

    Minimum volume embedding solves

    .. math:: \max_{G \succeq 0,\; G 1 = 0} \; \sum_{i \le d} \lambda_i(G) - \sum_{i > d} \lambda_i(G) \quad
              \text{with} \quad G_{ii} - 2 G_{ij} + G_{jj} = d_{ij}^2 \;\; (\text{or} \le d_{ij}^2) \;\;
              \text{for neighbors } i, j ,

    with d = ``n_components`` and the eigenvalues in descending order. `MVU` stretches along all dimensions; here those
    that will not be shown are flattened. A convex function has to be maximized, which is done in steps: with the
    leading eigenvectors V of the last G, the largest :math:`\operatorname{tr}(G (2 V V^\top - H))` is a semidefinite
    program, solved to a proven gap. The first G is that of `MVU`, and the function never falls.

    Each step is proven optimal, the end of the sequence is not: another start may lead to another end. The bound for
    all Gram matrices with these distances is in ``overall_certificate_``: the value is at most the largest variance,
    which is proven. If nearly all variance is in d dimensions, that proves the result optimal.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        The points in their first principal axes.
    spectrum_ : Spectrum
        Eigenpairs of the Gram matrix, in all dimensions used.
    certificate_ : Certificate
        Certificate of the last step: of minus :math:`\operatorname{tr}(G (2 V V^\top - H))` with V fixed.
    overall_certificate_ : Certificate
        Certificate of minus ``eigengap_``, by the bound of the largest variance: loose if the data has more dimensions.
    error_certificate_ : Certificate
        Certificate of the smallest mean squared relative error of the squared distances to keep: zero if they fit.
    eigengap_ : float
        The sum of the d leading eigenvalues less that of all others.
    error_ : float
        Mean squared relative error of the squared distances, in all dimensions used.
    trace_ : Trace
        Minus the eigengap from step to step, that of `MVU` first.
    graph_ : NeighborGraph
        The graph whose distances are kept.
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
    constraints: Literal["equal", "at most"] = parameter(CONSTRAINTS_TEXT, default="equal")
    slack: ProperShare = parameter(SLACK_TEXT, default=1e-2)
    max_iter: NonNegativeInt = parameter("Maximum number of steps after the first, that of `MVU`.", default=20)
    tol: Positive = parameter(
        "Relative gap, proven by the dual, at which a step stops, and relative increase at which the sequence stops.",
        default=1e-4,
    )

    eigengap_: float = fitted()
    error_: float = fitted()
    error_certificate_: Certificate = fitted()
    overall_certificate_: Certificate = fitted()

    _invertible = _local_inverse = True

    _blockwise = BlockFit(
        "no",
        instead="its semidefinite programs take a thousand points or so. IPA unfolds all rows, and is certified too.",
    )

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        pairs = PairDistances.of_graph(sample.graph)
        refuse_many_pairs(type(self).__name__, pairs)
        with run.stage("semidefinite program"), run.stoppable():
            found = least_volume(
                pairs,
                n_components,
                run,
                slack=self.slack,
                tol=self.tol,
                max_iter=self.max_iter,
                fits=distances_fit(sample, pairs, self),
                at_most=self.constraints == "at most",
            )
        embedding = embed_unfolded(sample, found.step, n_components, run, n_constraints=len(pairs))
        proven = {name: embedding.fitted[name] for name in ("error_", "error_certificate_")}
        return replace(
            embedding,
            trace=found.trace,
            fitted={**proven, "eigengap_": found.eigengap, "overall_certificate_": found.overall},
        )


# The least volume beside some leading dimensions: a sequence of stretches, each along the leading axes of the last.

VOLUME_STEP_CLAIM = "the last step of the sequence, along fixed leading axes (not the sequence's end)"
VOLUME_CLAIM = "leading less other variances, for they are never more than the largest variance"


@dataclass(frozen=True)
class LeastVolume:
    """The last solution of the sequence, its leading less its other variances, and how far any others can be.

    ``step.certificate`` is that of the program of the last step, ``overall`` of all Gram matrices with these distances.
    The trace is of minus the leading less the other variances, from step to step.
    """

    step: Stretched
    eigengap: float
    overall: Certificate
    trace: Trace


def least_volume(
    pairs: PairDistances, n_leading: int, run: Run, *, tol: float, max_iter: int, **settings: Any
) -> LeastVolume:
    r"""Maximize :math:`\sum_{i \le d} \lambda_i - \sum_{i > d} \lambda_i` of points with their distances kept.

    The function is convex in A: the largest :math:`\operatorname{tr}((2 P - H) A)` of all projections P to d
    dimensions. At the leading eigenvectors of one A it is linear and touches; where that has its maximum, which is a
    program for `unfold_points`, the function is at least as large. So it never falls, but for the gap of a step, and
    the sequence ends at a stationary point, which need not be the best: of a star with three equal arms it may be one
    with two of them opposite, and the third pressed to the hub. It starts from the largest variance, whose bound no
    difference of variances passes. ``settings`` are those of `unfold_points`.
    """
    found = first = unfold_points(pairs, run, tol=tol, **settings)
    gap, axes = _leading(found.V, n_leading)
    gaps, stop = [gap], Stop.LIMIT
    for _ in range(max_iter):
        if run.stopped:
            break
        form = 2 * axes @ axes.T - np.eye(len(axes)) + 1 / len(axes)
        after = unfold_points(pairs, run, tol=tol, form=form, **settings)
        gap, axes = _leading(after.V, n_leading)
        if run.stopped:  # a step cut short is not taken
            break
        rise = gap - gaps[-1]
        found = after if rise > 0 else found
        gaps.append(max(gap, gaps[-1]))
        if rise <= tol * abs(gap):
            stop = Stop.CONVERGED
            break
    stop = Stop.ASKED if run.stopped else stop
    certificate = found.certificate if found is first else replace(found.certificate, claim=VOLUME_STEP_CLAIM)
    overall = replace(
        certificate, objective=-gaps[-1], bound=first.certificate.bound, claim=VOLUME_CLAIM, smallest=None
    )
    return LeastVolume(replace(found, certificate=certificate), gaps[-1], overall, Trace(-np.array(gaps), stop))


def _leading(V: FloatArray, count: int) -> tuple[float, FloatArray]:
    """Return the leading less the other variances of points, and the leading unit vectors, a column each."""
    left, roots, _ = np.linalg.svd(V - V.mean(axis=0), full_matrices=False)
    values = np.square(roots)
    return float(values[:count].sum() - values[count:].sum()), left[:, :count]
