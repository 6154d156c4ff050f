"""Polynomial PCA: principal components of monomials, and the equation that the points nearly satisfy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.validation import check_is_fitted

from manifoldry._core.parameters import Positive, PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run, blas_threads_for
from manifoldry._core.values import Array, Embedding, FloatArray, IntArray, Spectrum
from manifoldry._numerics.eigen import column_signs
from manifoldry._numerics.extension.linear import LinearInverse, LinearMap
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry._numerics.geometry.principal import centered_rows, principal_directions
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport

MAX_BELIEVED_DEVIATION = 0.2
"""Deviation from an equation below which one may believe it: an ellipsoid with a tenth of its axes as noise has 0.1, a
Gaussian 0.6."""
MAX_SHARE_OF_POWER = 0.5
"""Deviation of an equation relative to that of a power of the thinnest direction above which it says no more."""


@register(
    family="kernel",
    problem="eigen",
    papers=("gnanadesikan1969", "scholkopf1998"),
    gives=("transform", "inverse", "spectrum"),
    keeps="variance of the columns, their products and powers",
    loses="what bends more than the degree",
    use_when="points may satisfy an equation: a conic, an ellipsoid, a product of measurements",
    fails_when="monomials outnumber the points, or columns have different units: any points satisfy an equation then",
    cost="binomial(p + degree, degree) monomials per row, then as PCA of these",
    test_params={"n_components": 2},
)
@estimator
class PolynomialPCA(Embedder):
    r"""Find principal components of products and powers of the columns, if points may satisfy an equation.

    .. math:: y = V^T (\phi(x) - \overline{\phi}), \qquad \phi_\alpha(x) = w_\alpha
              \Bigl(\frac{x - \overline{x}}{s}\Bigr)^\alpha, \quad 1 \leq |\alpha| \leq d,
              \qquad w_\alpha^2 = \frac{d!}{\alpha!\, (d - |\alpha|)!}\, c^{d - |\alpha|}

    Products and powers up to a degree are added to the columns, about the mean and in units of the root mean square
    distance s from it. The leading principal components of these are curved coordinates; the last one is a
    polynomial that varies least over the points, and if it does not vary at all they satisfy an equation. With these
    weights inner products are those of the polynomial kernel, so that neither a rotation nor the unit matters.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        Centered, orthogonal columns; those of `KernelPCA` with ``kernel="poly"`` of the centered rows.
    spectrum_ : Spectrum
        Squared singular values of the centered monomials, with the normalized scores as vectors.
    components_ : ndarray of shape (n_components, n_monomials)
        Directions in the space of the weighted monomials.
    powers_ : ndarray of shape (n_monomials, n_features)
        The exponents of the monomials.
    equation_ : ndarray of shape (n_monomials + 1,)
        Coefficients of the polynomial of least variance in ``(x - mean_) / unit_``: the constant, then those of
        ``powers_``. Its mean over the points is 0. Only where points outnumber monomials.
    mean_ : ndarray of shape (n_features,)
        The mean of the rows.
    unit_ : float
        The length s.
    diagnostics_ : dict
        Seconds, ``n_monomials``, and ``equation_deviation``: the root mean square of the equation's values over the
        points, relative to that of an average component: near 0 if they satisfy it, or if they are thin along some
        direction, as with columns in different units, which ``advice`` reports.

    See Also
    --------
    KernelPCA : other kernels, and many columns.
    NonlinearFactorAnalysis : polynomials of hidden factors.

    Notes
    -----
    Nothing is random. `inverse_transform` is the projection in the space of monomials, of which those of degree 1 are
    read off.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import PolynomialPCA
    >>> angle = np.linspace(0, 6, 50)
    >>> model = PolynomialPCA(degree=2).fit(np.column_stack([3 * np.cos(angle), 3 * np.sin(angle)]))
    >>> bool(model.diagnostics_["equation_deviation"] < 1e-7)
    True
    """

    degree: PositiveInt = parameter("Largest degree d of a monomial; 1 gives PCA.", default=2)
    coef0: Positive = parameter(
        "Constant c of the kernel: larger values give monomials of low degree more weight.", default=1.0
    )

    components_: FloatArray = fitted()
    powers_: IntArray = fitted()
    equation_: FloatArray = fitted()
    mean_: FloatArray = fitted()
    unit_: float = fitted()

    _invertible = True

    _chunk_support = ChunkSupport(n_rows=10_000)

    def equation_values(self, X: Any) -> FloatArray:
        """Return the values of the equation at rows, shape (n,): near 0 where they satisfy it.

        Parameters
        ----------
        X : array of shape (n, n_features)
            Rows, in memory.
        """
        check_is_fitted(self, "embedding_")
        if not hasattr(self, "equation_"):
            raise ValueError(
                f"{len(self.powers_)} monomials are as many as the points or more, and any points satisfy an equation "
                "of so many terms; fit more points, fewer columns or a lower degree."
            )
        monomials = self._extension.features
        values = monomials(self._validated(X, reset=False), self._run()) / monomials.weights()
        return np.asarray(self.equation_[0] + values @ self.equation_[1:])

    def _embed(self, X: Any, run: Run) -> Embedding:
        rows = dense(X)
        n, p = rows.shape
        count = math.comb(p + self.degree, self.degree) - 1
        run.announce(f"{count:,} monomials of {n:,} rows", 24 * n * count, "KernelPCA(kernel='poly') makes none")
        centered, mean = centered_rows(rows)
        unit = float(np.sqrt((centered**2).sum(axis=1).mean()))
        features = MonomialFeatures(mean, unit, self.degree, self.coef0)
        with run.stage("monomials"):
            table = MonomialFeatures(np.zeros(p), unit, self.degree, self.coef0)(centered, run)
            middle = table.mean(axis=0)
            table -= middle
        with run.stage("components"), blas_threads_for(min(table.shape), max(table.shape)):
            values, directions = principal_directions(table)
            spectrum, components = _leading(table, values, directions, self.n_components)
        run.step(1, 1)
        leading = components[: len(spectrum)]
        return Embedding(
            np.pad(table @ leading.T, ((0, 0), (0, self.n_components - len(leading)))),
            spectrum=spectrum,
            extension=LinearMap(middle, components, features),
            inverse=_inverse(features, middle, components),
            notes={"n_monomials": count, **_deviation(values, count, n), **self._thinness(centered / unit, values)},
            fitted={
                "components_": components,
                "powers_": features.powers(),
                "mean_": mean,
                "unit_": unit,
                **_equation(features, middle, directions, n),
            },
        )

    def _thinness(self, rows: FloatArray, values: FloatArray) -> dict[str, Any]:
        """Return a remark if the least variance is that of a power of the thinnest direction, so no equation."""
        n, d = len(rows), self.degree
        if d == 1 or math.comb(rows.shape[1] + d, d) > n or values[-1] > MAX_BELIEVED_DEVIATION**2 * values.mean():
            return {}
        t = rows @ principal_directions(rows)[1][:, -1]
        powers = [math.comb(d, j) * self.coef0 ** (d - j) * (t**j).var() * n for j in range(1, d + 1)]
        if min(powers) > max(values[-1] / MAX_SHARE_OF_POWER**2, np.finfo(float).eps * n * values[0]):
            return {}
        return {
            "remarks": (
                f"The points spread {np.sqrt((t**2).mean()):.1g} of their total spread along their thinnest direction, "
                "and the equation says little more than that, which any such points satisfy. Scale the columns "
                "(StandardScaler), or drop directions that are noise by PCA.",
            )
        }


def _leading(table: FloatArray, values: FloatArray, directions: FloatArray, d: int) -> tuple[Spectrum, FloatArray]:
    """Return the leading pairs of the Gram matrix of the rows, and the directions (d, monomials), zeros beyond them."""
    values, directions = values[:d], directions[:, :d]
    scores = table @ directions
    signs = column_signs(scores)
    norms = np.sqrt((scores**2).sum(axis=0))
    vectors = scores * signs / np.where(norms > 0, norms, 1.0)
    residuals = np.linalg.norm(table @ (table.T @ vectors) - values * vectors, axis=0)
    components = np.pad((directions * signs).T, ((0, max(0, d - len(values))), (0, 0)))
    return Spectrum(values, vectors, residuals, "largest"), np.ascontiguousarray(components)


def _inverse(features: MonomialFeatures, middle: FloatArray, components: FloatArray) -> LinearInverse:
    """Return the map that reads the monomials of degree 1, the first ones, off the projection."""
    p = len(features.mean)
    factor = features.unit / features.weights()[:p]
    return LinearInverse(features.mean + factor * middle[:p], components[:, :p] * factor)


def _equation(
    features: MonomialFeatures, middle: FloatArray, directions: FloatArray, n_points: int
) -> dict[str, FloatArray]:
    """Return the polynomial of least variance with mean 0, where there is one of them."""
    if len(middle) >= n_points:
        return {}
    least = directions[:, -1] * column_signs(directions[:, -1:])[0]
    return {"equation_": np.concatenate([[-least @ middle], features.weights() * least])}


def _deviation(values: FloatArray, count: int, n_points: int) -> dict[str, Any]:
    if count >= n_points:
        remark = (
            f"{count:,} monomials are as many as the {n_points:,} points or more, and any points satisfy an equation "
            "of so many terms, so none is given; KernelPCA(kernel='poly') has the same coordinates without monomials."
        )
        return {"remarks": (remark,)}
    return {"equation_deviation": float(np.sqrt(values[-1] / values.mean()))}


# Rows of monomials whose inner products are those of the polynomial kernel.


@dataclass(frozen=True)
class MonomialFeatures:
    r"""Monomials of degree 1 to d of ``(x - mean) / unit``, with the weights of the polynomial kernel.

    .. math:: (c + x^T y)^d = c^d + \sum_{1 \leq |\alpha| \leq d} w_\alpha^2 x^\alpha y^\alpha, \qquad
              w_\alpha^2 = \frac{d!}{\alpha!\, (d - |\alpha|)!}\, c^{d - |\alpha|}
    """

    mean: FloatArray
    unit: float
    degree: int
    coef0: float

    def __call__(self, X: Array, run: Run) -> FloatArray:  # noqa: ARG002
        """Return the weighted monomials of rows, in the order of `powers`."""
        rows = (dense(X) - self.mean) / self.unit
        return np.asarray(self._monomials().fit_transform(rows) * self.weights())

    def powers(self) -> IntArray:
        """Return the exponents of every monomial, shape (number, p)."""
        return np.asarray(self._monomials().fit(np.zeros((1, len(self.mean)))).powers_)

    def weights(self) -> FloatArray:
        """Return the weight of every monomial."""
        powers = self.powers()
        free = self.degree - powers.sum(axis=1)
        counts = gammaln(self.degree + 1) - gammaln(powers + 1).sum(axis=1) - gammaln(free + 1)
        return np.sqrt(np.round(np.exp(counts)) * self.coef0**free)

    def _monomials(self) -> PolynomialFeatures:
        return PolynomialFeatures(self.degree, include_bias=False)
