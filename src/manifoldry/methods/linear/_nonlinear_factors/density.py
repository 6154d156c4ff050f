"""The density of nonlinear factor analysis: polynomials of normal factors plus noise, by adaptive quadrature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, reduce
from itertools import product

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.geometry.neighborhoods import dense


@dataclass(frozen=True)
class HermiteBasis:
    r"""Products of normalized Hermite polynomials of total degree 1 to ``degree`` in ``d`` variables.

    .. math:: \phi_\alpha(f) = \prod_i \frac{He_{\alpha_i}(f_i)}{\sqrt{\alpha_i!}}, \qquad
              E\, \phi_\alpha(f) \phi_\beta(f) = \delta_{\alpha \beta}, \quad E\, \phi_\alpha(f) = 0

    for f from N(0, I). Those of degree 1 come first and are the variables. A rotation of f does not change the span.
    """

    d: int
    degree: int

    @property
    def powers(self) -> IntArray:
        """The exponents of every polynomial, shape (number, d)."""
        return _powers(self.d, self.degree)

    def __len__(self) -> int:
        return len(self.powers)

    def values(self, f: FloatArray) -> FloatArray:
        """Return the polynomials at factors f (..., d), shape (..., number)."""
        single = self._single(f)
        return _multiplied([self._of_variable(single, i, 0) for i in range(self.d)])

    def derivatives(self, f: FloatArray, order: int = 2) -> list[FloatArray]:
        """Return values, first derivatives (..., number, d) and, for order 2, second ones (..., number, d, d)."""
        single, d = self._single(f), self.d
        parts = [[self._of_variable(single, i, k) for i in range(d)] for k in range(order + 1)]
        plain = parts[0]
        slopes = np.stack([_multiplied([*plain[:i], parts[1][i], *plain[i + 1 :]]) for i in range(d)], axis=-1)
        if order == 1:
            return [_multiplied(plain), slopes]
        bends = np.empty((*slopes.shape, d))
        for i in range(d):
            for j in range(i + 1):
                mixed = [*plain]
                mixed[i], mixed[j] = (parts[2][i],) * 2 if i == j else (parts[1][i], parts[1][j])
                bends[..., i, j] = bends[..., j, i] = _multiplied(mixed)
        return [_multiplied(plain), slopes, bends]

    def after(self, shift: FloatArray, turn: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return c and T with :math:`\phi(m + A f) = c + T \phi(f)`, by quadrature that is exact for polynomials."""
        nodes, weights = gauss_hermite(self.d, self.degree + 1)
        moved, here = self.values(shift + nodes @ turn.T), self.values(nodes)
        return weights @ moved, (weights[:, None] * moved).T @ here

    def _single(self, f: FloatArray) -> FloatArray:
        """Return the normalized polynomials of each variable alone, shape (..., d, degree + 1)."""
        # The recurrence is sqrt(k) h_k = f h_(k-1) - sqrt(k-1) h_(k-2).
        single = np.empty((*f.shape, self.degree + 1))
        single[..., 0] = 1.0
        single[..., 1] = f
        for k in range(2, self.degree + 1):
            single[..., k] = (f * single[..., k - 1] - np.sqrt(k - 1) * single[..., k - 2]) / np.sqrt(k)
        return single

    def _of_variable(self, single: FloatArray, i: int, order: int) -> FloatArray:
        r"""Return what variable i has in every polynomial, differentiated: :math:`h_k' = \sqrt{k} h_{k-1}`."""
        indices, factors = _derivative(self.d, self.degree, i, order)
        part = single[..., i, indices]
        return part if order == 0 else part * factors


def _multiplied(parts: list[FloatArray]) -> FloatArray:
    return reduce(np.multiply, parts)


@cache
def _derivative(d: int, degree: int, i: int, order: int) -> tuple[IntArray, FloatArray]:
    """Return which polynomial of variable i is in each derivative, and its factor, 0 where the degree is too low."""
    powers = _powers(d, degree)[:, i]
    factors = np.ones(len(powers))
    for k in range(order):
        factors = factors * np.maximum(powers - k, 0)
    return np.maximum(powers - order, 0), np.sqrt(factors)


@cache
def _powers(d: int, degree: int) -> IntArray:
    every = [powers for powers in product(range(degree + 1), repeat=d) if 1 <= sum(powers) <= degree]
    return np.array(sorted(every, key=lambda powers: (sum(powers), [-k for k in powers])))


@cache
def gauss_hermite(d: int, n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes (n_nodes^d, d) and weights for means over N(0, I), exact for degrees up to 2 n_nodes - 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    nodes = (nodes - nodes[::-1]) / 2  # exactly symmetric
    grid = np.stack(np.meshgrid(*[nodes] * d, indexing="ij"), axis=-1).reshape(-1, d)
    shares = np.stack(np.meshgrid(*[weights / weights.sum()] * d, indexing="ij"), axis=-1).reshape(-1, d)
    return grid, shares.prod(axis=1)


QUADRATURE_BLOCK = 300_000  # entries of the polynomials at all nodes in memory at a time
MODE_GRID = {1: np.linspace(-4.0, 4.0, 17), 2: np.linspace(-3.5, 3.5, 8), 3: np.linspace(-3.0, 3.0, 5)}
"""Grid along each factor, by their number, from whose highest points the modes are climbed to."""
MAX_MODES = {1: 2, 2: 3, 3: 3}
"""Maximum number of modes of a posterior that get nodes, by the number of factors: a parabola has at most two."""
MAX_NEWTON = 60  # maximum number of steps towards a mode; five are usual
MODE_TOL = 1e-9  # length of a Newton step after which the mode is reached to rounding
MODE_RISE_TOL = 1e-12  # share by which rounding may lower the log-posterior in an accepted step
MAX_QUADRATURE_NODES = 1000  # maximum number of nodes along a factor in a model file
LEAST_CURVATURE = 0.25
"""Minimum curvature for which nodes are spread: flatter posteriors are about as wide as the prior, of curvature 1."""


@dataclass(frozen=True)
class LatentMoments:
    """Posterior moments: log-densities (n,), means of 1 and the polynomials (n, m + 1), and their summed products."""

    log_density: FloatArray
    means: FloatArray
    products: FloatArray


@dataclass(frozen=True)
class LatentPolynomial:
    r"""The model :math:`(x - c) / s = \mu + \Lambda \phi(f) + \epsilon`, normal factors and noise.

    ``center`` and ``scale`` are those of the columns; one that does not vary has scale 0 and no part in the density.
    ``mean``, ``loadings`` (p, m) and the variances ``noise`` are in these units. ``n_nodes`` is the number of nodes of
    the quadrature along each factor, about each mode.
    """

    center: FloatArray
    scale: FloatArray
    mean: FloatArray
    loadings: FloatArray
    noise: FloatArray
    basis: HermiteBasis
    n_nodes: int

    def _check_loaded(self) -> None:
        """Raise an error for noise without variance, and for an unknown quadrature."""
        if (
            not (self.noise[self.scale > 0] > 0).all()
            or not 1 <= self.n_nodes <= MAX_QUADRATURE_NODES
            or self.basis.d not in MODE_GRID
        ):
            raise ValueError("A latent polynomial needs noise in its columns and a quadrature for its factors.")

    def __call__(self, X: FloatArray, run: Run) -> FloatArray:
        """Return the posterior means of the factors given each row, shape (n, d)."""
        return self.moments(self.in_units(X), run).means[:, 1 : 1 + self.basis.d]

    def points(self, f: FloatArray) -> FloatArray:
        """Return the points of given factors, in the units of the rows."""
        return self.center + self.scale * (self.mean + self.basis.values(f) @ self.loadings.T)

    def log_density(self, X: FloatArray, run: Run) -> FloatArray:
        """Return the log-density of each row in the units of the rows, shape (n,)."""
        volume = np.log(self.scale[self.scale > 0]).sum()
        return np.asarray(self.moments(self.in_units(X), run).log_density - volume)

    def in_units(self, X: FloatArray) -> FloatArray:
        """Return rows in units of the columns, zeros in those that do not vary."""
        return np.divide(dense(X) - self.center, self.scale, out=np.zeros(X.shape), where=self.scale > 0)

    def moments(self, Z: FloatArray, run: Run) -> LatentMoments:
        """Return the posterior moments of rows in units of the columns."""
        varies = self.scale > 0
        weighted = self.loadings[varies] / self.noise[varies, None]
        gram = weighted.T @ self.loadings[varies]
        constant = -0.5 * np.log(2 * np.pi * self.noise[varies]).sum()

        def block(lo: int, hi: int) -> LatentMoments:
            offsets = Z[lo:hi, varies] - self.mean[varies]
            posterior = FactorPosterior(self.basis, offsets @ weighted, gram)
            heights = constant - 0.5 * (offsets**2 / self.noise[varies]).sum(axis=1)
            return posterior.moments(heights, self.n_nodes)

        size = MAX_MODES[self.basis.d] * self.n_nodes**self.basis.d * (1 + len(self.basis))
        parts = run.map(block, run.ranges(len(Z), max(1, QUADRATURE_BLOCK // size)), blas=True)
        return LatentMoments(
            np.concatenate([np.empty(0), *(part.log_density for part in parts)]),
            np.concatenate([np.empty((0, 1 + len(self.basis))), *(part.means for part in parts)]),
            np.sum([part.products for part in parts], axis=0),
        )


@dataclass(frozen=True)
class FactorPosterior:
    r"""The log-posteriors :math:`t^T \phi(f) - \frac12 \phi(f)^T G \phi(f) - \frac12 |f|^2` of rows, up to constants.

    Here :math:`t = \Lambda^T \Psi^{-1} (x - \mu)`, shape (n, m), and :math:`G = \Lambda^T \Psi^{-1} \Lambda`.
    """

    basis: HermiteBasis
    pulls: FloatArray
    gram: FloatArray

    def height(self, f: FloatArray, phi: FloatArray) -> FloatArray:
        """Return the log-posteriors at factors (n, ..., d) with polynomials phi (n, ..., m), shape (n, ...)."""
        pulls = self.pulls.reshape(len(self.pulls), *[1] * (phi.ndim - 2), -1)
        return np.asarray(((pulls - 0.5 * phi @ self.gram) * phi).sum(axis=-1) - 0.5 * (f**2).sum(axis=-1))

    def expansion(self, f: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return, at one point (n, d) of each row, gradients, minus the Hessians, and their Gauss-Newton parts."""
        phi, slopes, bends = self.basis.derivatives(f)
        rest = self.pulls - phi @ self.gram
        gradient = np.matmul(rest[:, None, :], slopes)[:, 0] - f
        main = np.eye(self.basis.d) + slopes.swapaxes(1, 2) @ (self.gram @ slopes)
        return gradient, main - np.einsum("nm,nmij->nij", rest, bends), main

    def take(self, which: IntArray) -> FactorPosterior:
        """Return the posteriors of some rows."""
        return FactorPosterior(self.basis, self.pulls[which], self.gram)

    def starts(self) -> tuple[IntArray, FloatArray]:
        """Return rows (k,) and factors (k, d) of the highest maxima on a grid; 0 for degree 1, which has one mode."""
        n, d = len(self.pulls), self.basis.d
        if self.basis.degree == 1:
            return np.arange(n), np.zeros((n, d))
        line = MODE_GRID[d]
        grid = np.stack(np.meshgrid(*[line] * d, indexing="ij"), axis=-1).reshape(-1, d)
        phi = self.basis.values(grid)
        flat = 0.5 * ((phi @ self.gram) * phi).sum(axis=1) + 0.5 * (grid**2).sum(axis=1)
        heights = (self.pulls @ phi.T - flat).reshape(n, *[len(line)] * d)
        top = np.ones(heights.shape, dtype=bool)
        for axis in range(1, d + 1):
            rises = np.diff(heights, axis=axis) > 0
            edge = np.ones_like(rises[(slice(None),) * axis + (slice(0, 1),)])
            top &= np.concatenate([edge, rises], axis=axis) & np.concatenate([~rises, edge], axis=axis)
        chosen = np.where(top, heights, -np.inf).reshape(n, -1)
        best = np.argsort(-chosen, axis=1, kind="stable")[:, : MAX_MODES[d]]
        rows, columns = np.nonzero(np.isfinite(np.take_along_axis(chosen, best, axis=1)))
        return rows, grid[best[rows, columns]]

    def climbed(self, f: FloatArray) -> FloatArray:
        """Return the modes reached from one point of each row by Newton steps, shortened until they climb."""
        f = f.copy()
        active, shares = np.arange(len(f)), np.ones(len(f))
        heights = self.height(f, self.basis.values(f))
        for _ in range(MAX_NEWTON):
            here = self.take(active)
            gradient, exact, main = here.expansion(f[active])
            concave = np.linalg.eigvalsh(exact)[:, 0] > 0
            step = np.linalg.solve(np.where(concave[:, None, None], exact, main), gradient[..., None])[..., 0]
            trial = f[active] + shares[active, None] * step
            after = here.height(trial, self.basis.values(trial))
            risen = after >= heights[active] - MODE_RISE_TOL * (1 + np.abs(heights[active]))
            f[active[risen]], heights[active[risen]] = trial[risen], after[risen]
            shares[active] = np.where(risen, np.minimum(1.0, 4 * shares[active]), shares[active] / 4)
            active = active[~risen | (np.abs(step).max(axis=1) > MODE_TOL)]
            active = active[shares[active] > MODE_TOL]
            if not len(active):
                break
        return f

    def moments(self, constants: FloatArray, n_nodes: int) -> LatentMoments:
        r"""Return the moments by Gauss-Hermite nodes about each mode, scaled by the inverse root of its curvature.

        With modes :math:`q_k = N(m_k, H_k^{-1})` of shares :math:`a_k`, those of Laplace's approximation, integrals of
        the posterior p are :math:`\sum_k a_k E_{q_k} [p / \sum_j a_j q_j]`: exact for a mixture of these Gaussians.
        """
        rows, starts = self.starts()
        rows, modes = _distinct(rows, self.take(rows).climbed(starts))
        values, vectors = np.linalg.eigh(self.take(rows).expansion(modes)[1])
        roots = vectors / np.sqrt(np.maximum(values, LEAST_CURVATURE))[:, None, :]
        volumes = -0.5 * np.log(np.maximum(values, LEAST_CURVATURE)).sum(axis=1)
        masses = self.take(rows).height(modes, self.basis.values(modes)) + volumes
        totals = np.full(len(self.pulls), -np.inf)
        np.logaddexp.at(totals, rows, masses)
        shares = masses - totals[rows]
        nodes, weights = gauss_hermite(self.basis.d, n_nodes)
        f = modes[:, None, :] + np.einsum("kij,qj->kqi", roots, nodes)
        phi = self.basis.values(f)
        proposed = _mixture_density(f, rows, modes, roots, shares - volumes)
        logs = self.take(rows).height(f, phi) - proposed + shares[:, None] + np.log(weights)
        return _summed(rows, logs, phi, constants)


def _distinct(rows: IntArray, modes: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the modes without those that an earlier start of the same row has reached; rows are in order."""
    keep = np.ones(len(rows), dtype=bool)
    for back in range(1, max(MAX_MODES.values())):
        same = (rows[back:] == rows[:-back]) & (np.abs(modes[back:] - modes[:-back]).max(axis=1) < np.sqrt(MODE_TOL))
        keep[back:] &= ~same
    return rows[keep], modes[keep]


def _mixture_density(
    f: FloatArray, rows: IntArray, modes: FloatArray, roots: FloatArray, heights: FloatArray
) -> FloatArray:
    r"""Return the log of :math:`\sum_j a_j q_j` of each row's modes at its nodes f (k, q, d), without the constant."""
    total = np.full(f.shape[:2], -np.inf)
    inverse = np.linalg.inv(roots)
    for offset in range(1 - max(MAX_MODES.values()), max(MAX_MODES.values())):
        mode = np.arange(max(0, -offset), len(rows) - max(0, offset))
        mode = mode[rows[mode] == rows[mode + offset]]
        other = mode + offset
        scaled = np.einsum("kij,kqj->kqi", inverse[other], f[mode] - modes[other, None, :])
        total[mode] = np.logaddexp(total[mode], heights[other, None] - 0.5 * (scaled**2).sum(axis=-1))
    return total


def _summed(rows: IntArray, logs: FloatArray, phi: FloatArray, constants: FloatArray) -> LatentMoments:
    """Return the moments from log-weights (k, q) of the nodes about the modes of rows."""
    peaks = np.full(len(constants), -np.inf)
    np.maximum.at(peaks, rows, logs.max(axis=1))
    weights = np.exp(logs - peaks[rows, None])
    sums = np.zeros(len(constants))
    np.add.at(sums, rows, weights.sum(axis=1))
    weights /= sums[rows, None]
    means = np.zeros((len(constants), phi.shape[2] + 1))
    np.add.at(means[:, 1:], rows, np.matmul(weights[:, None, :], phi)[:, 0])
    means[:, 0] = 1.0
    flat = phi.reshape(-1, phi.shape[2])
    products = np.empty((means.shape[1], means.shape[1]))
    products[0] = products[:, 0] = means.sum(axis=0)
    products[1:, 1:] = (weights.reshape(-1, 1) * flat).T @ flat
    return LatentMoments(constants + peaks + np.log(sums), means, products)
