"""Expectation maximization for mixtures of Gaussians around flats: a likelihood that never falls."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from manifoldry.clusters.gaussians import Beliefs, Mixture, coordinates, expect
from manifoldry.run import Run
from manifoldry.values import FloatArray, IntArray, Stop, Trace

DENSE_COLUMNS = 16
"""Up to here (and up to three times the flats' dimension) a step takes eigenvectors of whole covariances; beyond, it
improves the directions it has, at the price of two products with the data."""
DEAD = 0.5
"""A component that explains less than half a point may be moved."""
TRACELESS = 1e-9
"""Below this many points a component keeps its shape: there is nothing to estimate it from."""
HARD_STEPS = 3
"""Maximizations on the first hard clusters, so that directions and variances have settled before they soften."""


@dataclass(frozen=True)
class Rule:
    """What the maximization may choose.

    Parameters
    ----------
    floor : float
        Least noise variance of any component in any direction.
    factors : bool
        Estimate a variance per column (factor analysis) and not one for all (probabilistic PCA).
    shared : bool
        The components have the variances of the columns in common.
    """

    floor: float
    factors: bool = False
    shared: bool = False


@dataclass(frozen=True)
class Fit:
    """A mixture at the end of one ascent, and how it got there."""

    mixture: Mixture
    trace: Trace
    moved: int
    dropped: int


def maximize(
    Z: FloatArray, squares: FloatArray, mixture: Mixture, beliefs: Beliefs, rule: Rule
) -> tuple[Mixture, FloatArray | None]:
    r"""Return a mixture whose expected log-likelihood under the ``beliefs`` is not below that of ``mixture``.

    With it come the points' coordinates inside its flats, if they were a by-product.

    Weights and means are the maximizers. With few columns so are directions and variances of probabilistic PCA: the
    eigenpairs :math:`\lambda_1 \geq \lambda_2 \dots` of the weighted covariance, :math:`\sigma^2` the mean of
    those after the r-th, or the floor if that is larger. With many columns the directions are the best within the
    span of the old ones and their images under the covariance, which is enough for the likelihood not to fall.
    Factor analyzers take the best directions for the old :math:`\Psi`, then the best :math:`\Psi` given those and the
    expected factors.
    """
    masses = beliefs.responsibilities.sum(axis=0)
    live = masses > TRACELESS
    shares = np.where(live, beliefs.responsibilities, 0.0) / np.where(live, masses, 1.0)
    means = np.where(live[:, None], shares.T @ Z, mixture.means)
    diagonals = np.maximum(shares.T @ squares - means**2, 0.0)
    values, bases, inside = _directions(Z, shares, means, mixture, beliefs)
    found = replace(mixture, weights=masses / len(Z), means=means, bases=bases)
    if rule.factors:
        inside = coordinates(Z, means, found.axes) if inside is None else inside
        images = _images(Z, shares, inside, mixture.columns)
        found, inside = _with_factors(found, values, images, diagonals, rule), None
    else:
        noise = np.maximum(_discarded(values, diagonals.sum(axis=1), mixture.dimension), rule.floor)
        found = replace(found, noise=noise, spreads=np.maximum(values, noise[:, None]))
    return (found, inside) if live.all() else (_keeping(mixture, found, live, shared=rule.shared), None)


def ascend(Z: FloatArray, start: Mixture, rule: Rule, max_iter: int, tol: float, run: Run) -> Fit:
    """Return the mixture reached from ``start`` once a step gains no more than ``tol`` per dimension and point.

    Components that are no point's likeliest are dropped at the end, and the ascent begins anew with the others; the
    trace is that of the last ascent.
    """
    mixture, moved = start, 0
    while True:
        mixture, beliefs, trace, more = _climb(Z, mixture, rule, max_iter, tol, run)
        moved += more
        owned = np.unique(beliefs.responsibilities.argmax(axis=1))
        if len(owned) == len(mixture):
            return Fit(mixture, trace, moved, len(start) - len(mixture))
        mixture = mixture.chosen(owned)


def _climb(
    Z: FloatArray, mixture: Mixture, rule: Rule, max_iter: int, tol: float, run: Run
) -> tuple[Mixture, Beliefs, Trace, int]:
    """Return the mixture at the end of one ascent, what it says of the points, the trace, components moved.

    The likelihood never falls: a step that rounding spoils is not taken. A component that explains less than half a
    point is moved, once, to the point of lowest likelihood, if that raises the likelihood.
    """
    squares = Z**2
    beliefs, stop = expect(Z, squares, mixture), Stop.LIMIT
    levels, tried, moved = [beliefs.level], np.zeros(len(mixture), dtype=bool), 0
    for _ in range(max_iter):
        better, inside = maximize(Z, squares, mixture, beliefs, rule)
        found = expect(Z, squares, better, inside)
        dead = np.flatnonzero((found.responsibilities.sum(axis=0) < DEAD) & ~tried)
        if len(dead):
            tried[dead[0]] = True
            other = _moved(Z, better, found, int(dead[0]))
            elsewhere = expect(Z, squares, other)
            if elsewhere.level > found.level:
                better, found, moved = other, elsewhere, moved + 1
        gain = found.level - levels[-1]
        if gain >= 0:
            mixture, beliefs = better, found
        levels.append(beliefs.level)
        stop = Stop.CONVERGED if gain <= tol * mixture.dimension else Stop.ASKED if run.stopped else Stop.LIMIT
        if stop is not Stop.LIMIT:
            break
    return mixture, beliefs, Trace(-np.array(levels), stop), moved


def hard_start(
    Z: FloatArray, labels: IntArray, seeds: FloatArray, dimension: int, n_components: int, rule: Rule
) -> Mixture:
    """Return the mixture fitted to hard clusters; one without points stays at its seed, as wide as the data."""
    n, m = Z.shape
    c = len(seeds)
    squares = Z**2
    spread = np.maximum(squares.mean(axis=0), rule.floor)
    columns = np.tile(spread if rule.factors else np.ones(m), (c, 1))
    noise = np.full(c, 1.0 if rule.factors else float(spread.sum()) / dimension)
    # Directions to begin with: of points of the sample, with some of the columns' own where those coincide.
    rows = Z[np.linspace(0, n - 1, n_components).astype(int)]
    basis, _ = np.linalg.qr(rows.T + np.sqrt(spread.mean()) * np.eye(m, n_components))
    bases = np.tile(basis, (c, 1, 1))
    spreads = np.repeat(noise[:, None], n_components, axis=1)
    mixture = Mixture(np.full(c, 1.0 / c), seeds, bases, spreads, noise, columns, dimension)
    responsibilities = (labels[:, None] == np.arange(c)).astype(float)
    for _ in range(HARD_STEPS):
        inside = coordinates(Z, mixture.means, mixture.axes)
        beliefs = Beliefs(responsibilities, np.zeros(n), inside)
        mixture, _ = maximize(Z, squares, mixture, beliefs, rule)
    return mixture


def _images(Z: FloatArray, shares: FloatArray, inside: FloatArray, columns: FloatArray) -> FloatArray:
    """Return the scaled weighted covariances times the axes that gave the centered coordinates ``inside``."""
    c, r, n = inside.shape
    products = (shares.T[:, None, :] * inside).reshape(c * r, n) @ Z
    return products.reshape(c, r, -1).transpose(0, 2, 1) / np.sqrt(columns)[:, :, None]


def _directions(
    Z: FloatArray, shares: FloatArray, means: FloatArray, mixture: Mixture, beliefs: Beliefs
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return leading eigenvalues (c, r) and vectors (c, m, r) of the scaled weighted covariances.

    With many columns, return the best estimates in the span of the old directions and their images, and the points'
    coordinates (c, r, n) along them.
    """
    _, m, r = mixture.bases.shape
    if m <= max(DENSE_COLUMNS, 3 * r):
        # The mean need be taken off one factor only: the weighted sum of the other is then zero.
        centered = (np.ascontiguousarray(Z.T) - means[:, :, None]) / np.sqrt(mixture.columns)[:, :, None]
        values, vectors = np.linalg.eigh(_images(Z, shares, centered, mixture.columns))
        return np.maximum(values[:, ::-1][:, :r], 0.0), vectors[:, :, ::-1][:, :, :r], None
    shift = np.einsum("cm,cmr->cr", mixture.means - means, mixture.axes)
    inside = beliefs.inside + shift[:, :, None]
    fresh = _images(Z, shares, inside, mixture.columns)
    for _ in range(2):  # the first leaves rounding along the old directions, magnified where little was new
        fresh -= mixture.bases @ (mixture.bases.transpose(0, 2, 1) @ fresh)
        fresh = np.linalg.qr(fresh)[0]
    beside = coordinates(Z, means, fresh / np.sqrt(mixture.columns)[:, :, None])
    both = np.concatenate([inside, beside], axis=1)
    values, turn = np.linalg.eigh((both * shares.T[:, None, :]) @ both.transpose(0, 2, 1))
    values, turn = values[:, ::-1][:, :r], turn[:, :, ::-1][:, :, :r]
    bases = np.concatenate([mixture.bases, fresh], axis=2) @ turn
    return np.maximum(values, 0.0), bases, turn.transpose(0, 2, 1) @ both


def _discarded(values: FloatArray, totals: FloatArray, dimension: int) -> FloatArray:
    """Return the mean variance outside the leading directions, counting those as outside that have less."""
    r = min(values.shape[1], dimension - 1)  # a Gaussian of all dimensions has the least variance for its noise
    values = values[:, :r]
    kept = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
    rest = np.maximum(totals[:, None] - kept, 0.0) / (dimension - np.arange(r + 1))
    enough = np.concatenate([np.ones((len(values), 1), dtype=bool), values >= rest[:, 1:]], axis=1)
    last = r - np.argmax(enough[:, ::-1], axis=1)
    return np.take_along_axis(rest, last[:, None], axis=1)[:, 0]


def _with_factors(found: Mixture, values: FloatArray, images: FloatArray, diagonals: FloatArray, rule: Rule) -> Mixture:
    r"""Return the factor analyzers with the new directions and, from the expected factors, the new :math:`\Psi`.

    In coordinates scaled by the old :math:`\Psi` the loadings are :math:`V (A - I)^{1/2}`; there the second moments
    of the expected factors are I, and the expected squared residuals of column j are
    :math:`S_{jj} - 2 \sum_i V_{ji} (1 - 1/A_i) (S V)_{ji} + \sum_i V_{ji}^2 (A_i - 1)`.
    """
    spreads = np.maximum(values, 1.0)
    explained = 2.0 * (1.0 - 1.0 / spreads)[:, None, :] * images - (spreads - 1.0)[:, None, :] * found.bases
    residuals = diagonals - found.columns * np.einsum("cmr,cmr->cm", found.bases, explained)
    if rule.shared:
        residuals = np.tile(found.weights @ residuals, (len(found), 1))
    columns = np.maximum(residuals, rule.floor)
    scaled = found.bases * np.sqrt(found.columns / columns)[:, :, None] * np.sqrt(spreads - 1.0)[:, None, :]
    bases, lengths, _ = np.linalg.svd(scaled, full_matrices=False)
    return replace(found, bases=bases, spreads=1.0 + lengths**2, columns=columns)


def _keeping(old: Mixture, new: Mixture, live: FloatArray, *, shared: bool) -> Mixture:
    """Return the new mixture with the shapes that the components not ``live`` had."""

    def chosen(after: FloatArray, before: FloatArray) -> FloatArray:
        return np.where(live.reshape(-1, *[1] * (after.ndim - 1)), after, before)

    return replace(
        new,
        bases=chosen(new.bases, old.bases),
        spreads=chosen(new.spreads, old.spreads),
        noise=chosen(new.noise, old.noise),
        columns=new.columns if shared else chosen(new.columns, old.columns),
    )


def _moved(Z: FloatArray, mixture: Mixture, beliefs: Beliefs, dead: int) -> Mixture:
    """Return the mixture with one component's mean at the least likely point, with the weight of one point."""
    worst = int(beliefs.log_densities.argmin())
    which = np.arange(len(mixture))
    which[dead] = beliefs.responsibilities[worst].argmax()
    shape = mixture.chosen(which)
    weights, means = mixture.weights.copy(), mixture.means.copy()
    weights[dead] = 0.0
    weights *= (1.0 - 1.0 / len(Z)) / weights.sum()
    weights[dead] = 1.0 / len(Z)
    means[dead] = Z[worst]
    return replace(shape, weights=weights, means=means)
