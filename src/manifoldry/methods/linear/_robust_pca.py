"""Robust PCA: principal component pursuit, the table as a low-rank part plus few gross errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from manifoldry._core.parameters import Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run, blas_threads_for
from manifoldry._core.values import Array, Certificate, Embedding, FloatArray, Stop, Trace
from manifoldry._numerics.eigen import column_signs
from manifoldry._numerics.extension.linear import LinearInverse
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES, dense
from manifoldry._numerics.geometry.principal import principal_directions
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods._base._texts import MAX_ITER_TEXT
from manifoldry.methods.linear._base import LinearMixin

CLAIM = (
    "no decomposition of this table has a smaller sum of nuclear norm and weighted errors (whether its parts are the "
    "true ones is another question)"
)
"""What the certificate proves: the program, not the recovery."""
SPARSE_TOL = 1e-3  # entries of the sparse part below this share of the table's root mean square do not count as errors
MAX_ERROR_SHARE = 0.5  # share of entries with errors above which the sparse part may not be sparse
GROSS_PART = 0.8  # share of the squares of the sparse part in gross errors; the rest is noise
MAX_GROSS_SHARE = 0.1
"""Share of the entries that may be gross errors: at most 0.09 if a tenth is wrong, 0.13 to 0.3 if none is."""
LOW_RANK_PART = 0.999  # share of the squares of the low-rank part that its rank must hold; the rest is noise
REGIME_FACTOR = 2.7
"""Rank times the squared log of the larger side, over the smaller side, up to which 48 of 48 tables are recovered."""
MAX_LOW_RANK = 0.3
"""Share of the largest possible rank above which there is no low rank: such tables are off by 0.3 to 0.7."""
MIN_REGIME_COLUMNS = 20
"""Minimum number of columns, or rows if there are fewer, for a warning: in narrower tables no rank is low."""
GROSS_RATIO = 1e3  # multiple of the typical entry at which entries are cut off to measure the size of the others
MAX_HIDDEN_SHARE = 0.01
"""Share of the other entries' weighted sum that the gap may be: with 0.1 a low-rank part is right to 0.05 only."""


@register(
    problem="convex",
    papers=("candes2011", "lin2010"),
    gives=("transform", "inverse", "trace", "certificate"),
    keeps="the subspace of most rows, though some entries are grossly wrong",
    loses="everything curved; small noise, which is shared out between both parts",
    use_when="individual entries are corrupted: salt, glare, occlusion, typing errors",
    fails_when="errors fill whole rows or columns, columns are few or in different units, or there is no low rank",
    cost="a decomposition as for PCA per iteration, a few hundred, then each row by itself; six tables of memory",
)
@estimator
class RobustPCA(LinearMixin, Embedder):
    r"""Separate a table into a low-rank part and sparse errors, if individual entries are corrupted.

    Principal component pursuit solves

    .. math:: \min_{\mu, L, S} \|L\|_* + \lambda \|S\|_1 \qquad \text{such that} \qquad 1 \mu^T + L + S = X

    with the nuclear norm, the sum of singular values. The offset is free and part of the solution, so that a
    shift of the data changes nothing. If L has low rank and is spread over its entries, and S has few entries of any
    size at positions without pattern, both are recovered exactly. The solution of the convex program is proven optimal.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Principal scores of L; columns of zeros beyond its rank.
    low_rank_ : ndarray of shape (n_samples, n_features)
        :math:`1 \mu^T + L`, the table without the errors.
    sparse_ : ndarray of shape (n_samples, n_features)
        S, the errors: ``X - low_rank_``.
    components_ : ndarray of shape (n_components, n_features)
        The directions, orthonormal; rows of zeros beyond the rank.
    mean_ : ndarray of shape (n_features,)
        The offset.
    singular_values_ : ndarray of shape (rank,)
        Singular values of L.
    certificate_ : Certificate
        Certificate of the program, not of the recovery: the value reached and the bound of a feasible point of the
        dual, :math:`\max \langle X, Z \rangle` over :math:`1^T Z = 0, \|Z\|_2 \leq 1, |z_{ij}| \leq \lambda`.
    trace_ : Trace
        The best value after each iteration.
    diagnostics_ : dict
        Seconds, the ``weight`` used, the ``rank`` of L; ``error_share``: the share of entries of S above a thousandth
        of the table's root mean square, nearly all with noise; and ``gross_share``: the share of entries that hold
        four fifths of the squares of S. If these are few, ``dimension`` and ``figures`` are those of ``low_rank_``. If
        rank or errors are too large for both parts to be the true ones, ``remarks`` or ``advice`` say so.

    See Also
    --------
    L1PCA : entire rows that lie far away.
    PCA : clean tables.
    ProbabilisticPCA : missing instead of wrong entries.

    Notes
    -----
    A new row is embedded by solving the problem of one row, with the fitted directions and singular values:
    :math:`\min_c \lambda \|x - \mu - V c\|_1 + \frac12 \sum_k c_k^2 / \sigma_k`, whose solutions fitted rows are.
    `inverse_transform` is linear. Nothing is random. With noise L has a higher rank than the table without it; its
    ``singular_values_`` show which directions matter.

    An error counts by its size, so columns in different units must be scaled first, robustly (RobustScaler), as errors
    move standard deviations. Errors belong to columns: the result follows their order and signs, but not a rotation.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import RobustPCA
    >>> rng = np.random.default_rng(0)
    >>> clean = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 50))
    >>> X = clean + np.where(rng.random(clean.shape) < 0.05, 20.0, 0.0)
    >>> model = RobustPCA(n_components=2).fit(X)
    >>> bool(abs(model.low_rank_ - clean).max() < 1e-3), model.certificate_.verdict
    (True, 'proven optimal')
    """

    n_components: PositiveInt = parameter(
        "Number of principal components of L that are kept; L itself has the rank that the program gives it.",
        default=2,
        kw_only=False,
    )
    weight: Positive | Literal["auto"] = parameter(
        r'Weight :math:`\lambda` of the errors; "auto" is one over the root of the number of rows, or of varying '
        "columns if there are more, which is right whatever the share of errors. A large weight finds no errors and "
        "gives PCA.",
        default="auto",
    )
    max_iter: PositiveInt = parameter(MAX_ITER_TEXT, default=2000)
    tol: Positive = parameter("Relative gap between value and bound at which the iteration stops.", default=1e-05)

    low_rank_: FloatArray = fitted()
    sparse_: FloatArray = fitted()
    singular_values_: FloatArray = fitted()

    _of_columns = True
    _chunk_support = ChunkSupport(n_rows=5_000)

    def _complete(self, points: Any) -> Any:
        """Return the rows without errors if these are few: neighbors of rows with gross errors mean nothing."""
        many = self.diagnostics_["gross_share"] > MAX_GROSS_SHARE or not self.diagnostics_["rank"]
        return points if many else self.low_rank_

    def _embed(self, X: Any, run: Run) -> Embedding:
        rows = dense(X)
        run.announce("six tables of the size of X", 48 * rows.size, "fit a sample of the rows")
        shift = rows.mean(axis=0)
        centered = rows - shift
        varies = int(np.count_nonzero(np.ptp(rows, axis=0)))
        weight = 1 / np.sqrt(max(len(rows), varies)) if isinstance(self.weight, str) else self.weight
        with run.stage("pursuit"), run.stoppable():
            pursuit = pursue(centered, weight, self.max_iter, self.tol / 2, run)  # half for the rows below
        with run.stage("rows"):
            signs = column_signs(pursuit.low_rank @ pursuit.directions)
            directions = np.ascontiguousarray((pursuit.directions * signs).T)
            penalty = float(centered.size / (4 * np.abs(centered).sum()))
            # About the mean, as far from the origin the rounding of the offset would count as errors.
            local = RobustProjection(
                pursuit.offset, directions, pursuit.singular_values, float(weight), penalty, self.n_components
            )
            coordinates = local.coordinates(centered, run)
            low = pursuit.offset + coordinates @ directions
            errors = centered - low
            certificate = _certificate(pursuit, coordinates, errors, weight, self.tol)
        missing = max(0, self.n_components - len(directions))
        components = np.pad(directions[: self.n_components], ((0, missing), (0, 0)))
        mean = shift + pursuit.offset
        return Embedding(
            np.pad(coordinates[:, : self.n_components], ((0, 0), (0, missing))),
            trace=pursuit.trace,
            certificate=certificate,
            extension=replace(local, mean=mean),
            inverse=LinearInverse(mean, components),
            notes={
                "weight": float(weight),
                **_error_notes(errors, centered, pursuit.singular_values, _hidden_advice(rows, weight, certificate)),
            },
            fitted={
                "components_": components,
                "mean_": mean,
                "low_rank_": shift + low,
                "sparse_": errors,
                "singular_values_": pursuit.singular_values,
            },
        )


def _certificate(
    pursuit: Pursuit, coordinates: FloatArray, errors: FloatArray, weight: float, tol: float
) -> Certificate:
    sizes = np.linalg.svd(coordinates, compute_uv=False)
    objective = float(sizes.sum() + weight * np.abs(errors).sum())
    return Certificate(
        objective=objective,
        bound=pursuit.bound,
        rank=len(pursuit.singular_values),
        claim=CLAIM,
        tol=tol,
        noise=errors.size**0.5 * float(np.finfo(float).eps) * objective,
    )


def _error_notes(
    errors: FloatArray, centered: FloatArray, singular_values: FloatArray, advice: tuple[str, ...]
) -> dict[str, Any]:
    """Return rank, shares of errors, and findings if the recovery of a low rank under few errors is unsure."""
    share = float((np.abs(errors) > SPARSE_TOL * np.sqrt((centered**2).mean())).mean())
    squares = np.cumsum(np.sort((errors**2).ravel())[::-1])
    gross = float(np.searchsorted(squares, GROSS_PART * squares[-1]) / errors.size)
    rank = len(singular_values)
    findings: dict[str, tuple[str, ...]] = {"advice": advice, "remarks": ()}
    if share > MAX_ERROR_SHARE and gross > MAX_GROSS_SHARE:
        findings["remarks"] = (  # true of nearly all real tables, so it is not worth a warning
            f"{share:.0%} of the entries have a part that does not fit the low rank of {rank}: the errors are not "
            "few, so noise is among them; PCA or ProbabilisticPCA model noise, a larger weight finds fewer errors.",
        )
    sizes = np.cumsum(singular_values**2)
    main_rank = int(np.searchsorted(sizes, LOW_RANK_PART * sizes[-1])) + 1 if rank else 0
    kind, unsure = _outside_regime(main_rank, gross, centered.shape)
    findings[kind] = (*findings[kind], *unsure)
    notes = {"rank": rank, "error_share": share, "gross_share": gross}
    return {**notes, **{name: sentences for name, sentences in findings.items() if sentences}}


def _outside_regime(rank: int, gross: float, shape: tuple[int, ...]) -> tuple[str, tuple[str, ...]]:
    """Return a sentence if the parts of the solution need not be the true ones, and its kind."""
    # It is advice if both rank and errors are too large, or the rank is not low, in a table that is not narrow.
    smaller = min(shape)
    limit = REGIME_FACTOR * smaller / np.log(max(*shape, 2)) ** 2
    if rank <= limit and gross <= MAX_GROSS_SHARE:
        return "remarks", ()
    sentence = (
        f"The program is solved, but the low-rank part need not be the true one: its rank is {rank} of {smaller}, and "
        f"{gross:.0%} of the entries hold most of the errors. Recovery is expected for a rank up to about {limit:.1f} "
        f"and errors in up to {MAX_GROSS_SHARE:.0%} of the entries; more columns help."
    )
    beyond = (rank > limit and gross > MAX_GROSS_SHARE) or rank > MAX_LOW_RANK * smaller
    return "advice" if beyond and smaller >= MIN_REGIME_COLUMNS else "remarks", (sentence,)


def _hidden_advice(rows: FloatArray, weight: float, certificate: Certificate) -> tuple[str, ...]:
    """Return a sentence if a few entries are so large that the tolerance hides all others."""
    sizes = np.abs(rows - np.median(rows, axis=0))
    if not sizes.any():
        return ()
    typical = float(np.median(sizes[sizes > 0]))
    others = weight * float(np.minimum(sizes, GROSS_RATIO * typical).sum())
    if certificate.tol * certificate.objective <= MAX_HIDDEN_SHARE * others:
        return ()
    return (
        f"The largest entry is {sizes.max() / typical:.0e} times the typical one, so the low-rank part of the others "
        "is lost in the tolerance, which is relative to the sum of all: set such entries to NaN for ProbabilisticPCA, "
        "cut them to the range of the others, or scale the columns.",
    )


OVER_RELAXATION = 1.6  # Factor of the multiplier's steps: 1.5 to 1.8 is usual and saves a third of the iterations
PENALTY_FACTOR = 2.0  # Factor by which the penalty follows the residuals
PENALTY_WAIT = 10  # iterations before the penalty first changes
WAIT_GROWTH = 2.0  # Factor of the wait with every change: with endless changes the iteration need not converge
RESIDUAL_RATIO = 3.0  # ratio of primal and dual residuals beyond which the penalty changes


def soft_threshold(entries: FloatArray, threshold: float | FloatArray) -> FloatArray:
    r"""Return :math:`\arg\min_s \tau |s| + \frac12 (s - x)^2` for each entry x."""
    return np.sign(entries) * np.maximum(np.abs(entries) - threshold, 0.0)


def shrunk_singular_values(rows: FloatArray, threshold: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Return :math:`\arg\min_L \tau \|L\|_* + \frac12 \|L - A\|_F^2`, its nonzero singular values and directions."""
    with blas_threads_for(min(rows.shape), max(rows.shape)):
        squares, directions = principal_directions(rows)
    sizes = np.sqrt(squares)
    positive = sizes > threshold
    sizes, directions = sizes[positive], directions[:, positive]
    return (rows @ (directions * (1 - threshold / sizes))) @ directions.T, sizes - threshold, directions


@dataclass(frozen=True)
class Pursuit:
    r"""The offset, L with its singular values and directions, and a proven bound of the objective."""

    offset: FloatArray
    low_rank: FloatArray
    singular_values: FloatArray
    directions: FloatArray
    bound: float
    trace: Trace


def pursue(X: FloatArray, weight: float, max_iter: int, tol: float, run: Run) -> Pursuit:
    r"""Minimize :math:`\|L\|_* + \lambda \|S\|_1` over :math:`1 \mu^T + L + S = X`, to a relative gap of ``tol``.

    By alternating directions. After the step of L the multiplier Z is centered and its largest singular value at most
    1, so that divided by :math:`\max(1, \|Z\|_\infty / \lambda)` it is feasible in the dual,
    :math:`\max \langle X, Z \rangle` over :math:`1^T Z = 0, \|Z\|_2 \leq 1, \|Z\|_\infty \leq \lambda`.
    """
    penalty = X.size / (4 * np.abs(X).sum())
    S, U = np.zeros_like(X), np.zeros_like(X)
    best, bound, values, stop = np.inf, -np.inf, [], Stop.LIMIT
    wait, due = float(PENALTY_WAIT), float(PENALTY_WAIT)
    solution = Pursuit(*(np.empty(0),) * 4, bound, Trace(np.empty(0), stop))
    for step in range(1, max_iter + 1):
        left = X - S + U
        mean = left.mean(axis=0)
        L, sizes, directions = shrunk_singular_values(left - mean, 1 / penalty)
        Z = penalty * (left - mean - L)
        bound = max(bound, float((X * Z).sum()) / max(1.0, float(np.abs(Z).max()) / weight))
        objective = float(sizes.sum() + weight * np.abs(X - mean - L).sum())
        if objective < best:
            best = objective
            solution = replace(solution, offset=mean, low_rank=L, singular_values=sizes, directions=directions)
        values.append(best)
        if best - bound <= tol * best:
            stop = Stop.CONVERGED
            break
        if not run.step(step, max_iter, f"gap {(best - bound) / best:.1e}"):
            stop = Stop.ASKED
            break
        relaxed = OVER_RELAXATION * (mean + L) + (1 - OVER_RELAXATION) * (X - S)
        before, S = S, soft_threshold(X - relaxed + U, weight / penalty)
        U = U + X - relaxed - S
        if step >= due:
            factor = float(penalty_factors(np.linalg.norm(X - mean - L - S), np.linalg.norm(S - before)))
            if factor != 1:
                penalty, U, wait = penalty * factor, U / factor, wait * WAIT_GROWTH
                due = step + wait
    return replace(solution, bound=bound, trace=Trace(np.array([values[0], *values]), stop))


def penalty_factors(primal: Any, dual: Any) -> FloatArray:
    """Return the factors of the penalties: up for residuals of the constraint, down for those of the steps."""
    up, down = primal > RESIDUAL_RATIO * dual, dual > RESIDUAL_RATIO * primal
    return np.where(up, PENALTY_FACTOR, np.where(down, 1 / PENALTY_FACTOR, 1.0))


ROW_GAP = 1e-8
"""Relative gap at which a row is solved: far less than that of the fit, to which the gaps of its rows add."""
MAX_ROW_STEPS = 1000  # maximum number of steps of a row; most take less than two hundred
ROW_CHECK = 10  # steps between two checks of the gaps, which cost as much as a step, and changes of the penalty


@dataclass(frozen=True)
class RobustProjection:
    r"""Coordinates of rows along given directions, with gross errors in some entries left out.

    .. math:: \min_c \lambda \|x - \mu - V c\|_1 + \tfrac12 \sum_k c_k^2 / \sigma_k

    The nuclear norm is the least of :math:`\frac12 \operatorname{tr} L M^{-1} L^T + \frac12 \operatorname{tr} M` over
    M, reached at :math:`M = V \Sigma V^T`; with the fitted M a pursuit separates into this problem for each row.
    ``directions`` (r, p) are V', ``sizes`` the singular values, ``penalty`` the first one of the iteration.
    """

    mean: FloatArray
    directions: FloatArray
    sizes: FloatArray
    weight: float
    penalty: float
    n_components: int

    def __call__(self, X: Array, run: Run) -> FloatArray:
        """Return the coordinates of new points."""
        ranges = run.ranges(X.shape[0], max(1, MAX_STACK_ENTRIES // len(self.mean)))
        parts = [self.coordinates(dense(X[lo:hi]), run)[:, : self.n_components] for lo, hi in ranges]
        missing = max(0, self.n_components - len(self.sizes))
        return np.pad(np.concatenate([np.empty((0, self.n_components - missing)), *parts]), ((0, 0), (0, missing)))

    def coordinates(self, rows: FloatArray, run: Run) -> FloatArray:
        """Return all r coordinates of rows; each row is solved by itself, bit-identical in any batch."""
        run.step(0)
        x = rows - self.mean
        coordinates = np.zeros((len(rows), len(self.sizes)))
        active, s, z = np.arange(len(rows)), np.zeros_like(x), np.zeros_like(x)
        penalty, norms = np.full((len(rows), 1), self.penalty), partial(np.linalg.norm, axis=1, keepdims=True)
        for step in range(1, MAX_ROW_STEPS + 1):
            c = self._along(x - s + z) / (1 + 1 / (penalty * self.sizes))
            fitted = self._back(c)
            relaxed = OVER_RELAXATION * fitted + (1 - OVER_RELAXATION) * (x - s)
            before, s = s, soft_threshold(x - relaxed + z, self.weight / penalty)
            z = z + x - relaxed - s
            if step % ROW_CHECK == 0 or step == MAX_ROW_STEPS:
                coordinates[active] = c
                rest = self._gaps(x, c, x - fitted, penalty * z) > ROW_GAP
                if not rest.any():
                    break
                factor = penalty_factors(norms(x - fitted - s), norms(s - before))
                penalty, z = penalty * factor, z / factor
                active, x, s, z, penalty = active[rest], x[rest], s[rest], z[rest], penalty[rest]
        return coordinates

    def _gaps(self, x: FloatArray, c: FloatArray, errors: FloatArray, z: FloatArray) -> FloatArray:
        r"""Return relative gaps to the dual, :math:`x^T z - \frac12 \|V^T z\|_\Sigma^2` with entries up to lambda."""
        value = self.weight * np.abs(errors).sum(axis=1) + (c**2 / self.sizes).sum(axis=1) / 2
        bound = (x * z).sum(axis=1) - (self._along(z) ** 2 * self.sizes).sum(axis=1) / 2
        return np.divide(value - bound, value, out=np.zeros(len(x)), where=value > 0)

    def _along(self, rows: FloatArray) -> FloatArray:
        # A stack of products, not one for the batch: coordinates must not depend on the rest of the batch.
        return np.asarray(np.matmul(self.directions, rows[:, :, None])[:, :, 0])

    def _back(self, c: FloatArray) -> FloatArray:
        return np.asarray(np.matmul(c[:, None, :], self.directions)[:, 0, :])
