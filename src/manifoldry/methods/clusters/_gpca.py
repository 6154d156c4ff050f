"""Generalized PCA: subspaces from the polynomials that vanish on the points, without a first guess."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import comb, factorial, prod

import numpy as np
from scipy.linalg import eigh

from manifoldry._core.parameters import PositiveInt, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray
from manifoldry._numerics.geometry.principal import descending_eigh
from manifoldry.methods._base._clusterer import Clustering
from manifoldry.methods._base._estimator import estimator
from manifoldry.methods._base._texts import N_CLUSTERS_TEXT
from manifoldry.methods.clusters._alternation import AlternatingClusterer, Outcome, Problem, alternate, finished_starts

MAX_MONOMIALS = 2000
"""Maximum size of the Veronese map: beyond, its eigenproblem takes seconds, and its polynomials follow noise."""
CONSTANT_AXIS_TOL = 1e-10  # share of the largest variance below which a direction counts as constant
EXACT_SHARE = 1e-3
"""Ratio of the two least values of polynomials up to which one of them vanishes, and the others do not."""


@register(
    family="subspaces",
    problem="eigen",
    papers=("vidal2005", "bradley2000"),
    gives=("predict", "trace"),
    keeps="squared distances to affine subspaces, from an algebraic start that does not depend on chance",
    loses="connectedness, as VQPCA",
    use_when="nearly noise-free points lie on two to four lines, planes or other flat pieces that cross",
    fails_when="there is noise, or many clusters or dimensions: the polynomials have too many coefficients; use VQPCA",
    cost="M = C(c + r + 1, c) monomials for c clusters of dimension r: O(n M^2 + M^3), at most 2,000",
    test_params={"n_clusters": 3, "n_components": 1, "n_neighbors": 6, "n_init": 3},
)
@estimator
class GPCA(AlternatingClusterer):
    r"""Cluster nearly noise-free points on crossing lines, planes or other affine subspaces, by one polynomial.

    Generalized principal component analysis finds c affine subspaces as the zeros of a polynomial of degree c:

    .. math:: p(x) = \prod_{\ell=1}^c b_\ell^T x = c^T \nu(x) = 0, \qquad b_\ell \propto \nabla p(x)
        \text{ at any } x \text{ of subspace } \ell .

    Points are projected to r + 1 dimensions, where affine subspaces of dimension r are hyperplanes, and get a constant
    coordinate; the coefficients c are the least eigenvector of the moments of the monomials :math:`\nu(x)` of degree c
    (the Veronese map). Normals are gradients at c selected points. The assignment of the points to the nearest
    hyperplane is the start of the alternation of `VQPCA`, in all dimensions. Without noise, and with as many points in
    general position as monomials, that assignment is already correct, whichever subspaces cross.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point. ``predict`` returns the same if ``trace_.stop`` is ``CONVERGED`` with ``tol=0``.
    objective_, objectives_
        Sum of the squared distances to the subspaces, for the projection that was kept and for all.
    n_clusters_, subspaces_, reconstruction_errors_, reconstruction_error_, trace_, localized_, n_nonlocalized_, graph_
    diagnostics_ : dict
        Seconds and memory, the number of ``monomials``, the ``vanishing`` ratio of the two smallest values of
        polynomials (0 without noise), ``advice``.

    See Also
    --------
    VQPCA : the same objective from random starts, for noisy points or many clusters.
    LDLC : connected clusters near affine subspaces.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import GPCA
    >>> t = np.linspace(-1, 1, 40)[:, None]
    >>> lines = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    >>> model = GPCA(n_clusters=3, n_components=1).fit(np.concatenate([t * line for line in lines]))
    >>> bool(model.reconstruction_error_ < 1e-20)
    True
    """

    n_clusters: PositiveInt = parameter(N_CLUSTERS_TEXT, default=2, kw_only=False)
    n_init: PositiveInt = parameter(
        "Number of projections tried, principal components and then random ones, of which the best is kept; one if "
        "the points have at most r + 1 dimensions.",
        default=10,
    )

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        count = n_monomials(self.n_clusters, self.n_components + 2)
        if count > min(n_points, MAX_MONOMIALS):
            raise ValueError(
                f"GPCA with n_clusters={self.n_clusters} and n_components={self.n_components} needs polynomials of "
                f"{count} coefficients, as many points, and no more than {MAX_MONOMIALS}; got {n_points} points: lower "
                "n_clusters or n_components, or use VQPCA."
            )

    def _cluster(self, X: FloatArray, run: Run) -> Clustering:
        problem = self._problem(X, rho=0.0)
        # Coordinates along the directions in which the points vary, in units of their largest spread.
        values, vectors = descending_eigh(problem.X.T @ problem.X / len(X))
        axes = problem.X @ vectors[:, values > CONSTANT_AXIS_TOL * values[0]] / np.sqrt(values[0])
        width = min(self.n_components + 1, axes.shape[1])
        numbers = range(self.n_init if axes.shape[1] > width else 1)
        tasks = [(problem, axes, _projection(axes.shape[1], width, number, run)) for number in numbers]
        done = finished_starts(self._start, tasks, run)
        objectives = np.array([outcome.objective for outcome, _ in done])
        outcome, vanishing = done[int(np.argmin(objectives))]
        notes = {
            "monomials": n_monomials(self.n_clusters, width + 1),
            "vanishing": vanishing,
            "remarks": _noise_remarks(vanishing),
        }
        return replace(self._to_clustering(X, problem, outcome, objectives), notes=notes)

    def _start(self, problem: Problem, axes: FloatArray, projection: FloatArray) -> tuple[Outcome, float]:
        """Return what the alternation makes of the hyperplanes in one projection, and how far a polynomial vanishes."""
        points = np.column_stack([np.ones(len(axes)), axes @ projection])
        points /= np.sqrt(np.square(points).sum(axis=1, keepdims=True))
        normals, values = hyperplanes(points, self.n_clusters)
        nearest = np.argmin(np.abs(points @ normals.T), axis=1)
        _, first, labels = np.unique(nearest, return_index=True, return_inverse=True)
        vanishing = float(np.sqrt(values[0] / values[1])) if len(values) > 1 and values[1] > 0 else 0.0
        return alternate(problem, first, labels), vanishing


def _projection(n_axes: int, width: int, number: int, run: Run) -> FloatArray:
    """Return the leading axes (number 0), or random orthonormal directions (n_axes, width)."""
    if number == 0:
        return np.eye(n_axes, width)
    return np.linalg.qr(run.rng(f"projection {number}").standard_normal((n_axes, width)))[0]


def _noise_remarks(vanishing: float) -> tuple[str, ...]:
    if vanishing <= EXACT_SHARE:
        return ()
    return (
        f"No polynomial vanishes on the points: the least is {vanishing:.2g} of the next, by noise, other dimensions "
        "or another number of clusters. The subspaces are those of VQPCA's alternation from this start; compare "
        "with VQPCA, which has more starts.",
    )


# Polynomials that vanish on a union of hyperplanes, and the hyperplanes that their gradients give back.

GRADIENT_SHARE = 1e-6
"""Gradients below this share of the longest have no direction: the point lies on several hyperplanes."""
SELECTION_SHIFT = 0.02
"""Added to both parts of the quotient by which points are selected, so that rounding does not decide between them."""


def n_monomials(degree: int, n_variables: int) -> int:
    """Return the number of monomials of a degree: the dimension of the Veronese map."""
    return comb(degree + n_variables - 1, degree)


@dataclass(frozen=True)
class Form:
    """A homogeneous polynomial: coefficients (M,) of the monomials with ``exponents`` (M, n_variables)."""

    coefficients: FloatArray
    exponents: IntArray

    def __call__(self, X: FloatArray) -> FloatArray:
        """Return its values at points (n, n_variables)."""
        values: FloatArray = monomials(X, self.exponents) @ self.coefficients
        return values

    def gradient(self, X: FloatArray) -> FloatArray:
        """Return its gradients at points, shape (n, n_variables)."""
        columns = []
        for variable in range(self.exponents.shape[1]):
            power = self.exponents[:, variable]
            lowered = self.exponents.copy()
            lowered[:, variable] = np.maximum(power - 1, 0)
            columns.append(monomials(X, lowered) @ (self.coefficients * power))
        return np.stack(columns, axis=1)


def all_exponents(degree: int, n_variables: int) -> IntArray:
    """Return the exponents of all monomials of a degree, (M, n_variables): [[2, 0], [1, 1], [0, 2]] of two squared."""
    factors = np.array(list(combinations_with_replacement(range(n_variables), degree))).reshape(-1, degree)
    return np.stack([(factors == variable).sum(axis=1) for variable in range(n_variables)], axis=1)


def monomials(X: FloatArray, exponents: IntArray) -> FloatArray:
    """Return the monomials of points: the Veronese map (n, M)."""
    powers = X[:, :, None] ** np.arange(int(exponents.max(initial=0)) + 1)
    values = np.ones((len(X), len(exponents)))
    for variable in range(X.shape[1]):
        values *= powers[:, variable, exponents[:, variable]]
    return values


def vanishing_form(X: FloatArray, degree: int) -> tuple[Form, FloatArray]:
    r"""Return the form least on points, :math:`\prod_\ell b_\ell^T x` (vidal2005), and the mean squares of all."""
    exponents = all_exponents(degree, X.shape[1])
    V = monomials(X, exponents)
    # Monomials as they come in the power of a sum have weights for which a rotation of the points changes no value.
    counts = [factorial(degree) // prod(factorial(power) for power in row) for row in exponents.tolist()]
    scale = np.sqrt(np.array(counts, dtype=float))
    values, vectors = eigh((scale * V).T @ (scale * V) / len(X))
    return Form(scale * vectors[:, 0], exponents), np.maximum(values, 0.0)


def hyperplanes(X: FloatArray, n_planes: int) -> tuple[FloatArray, FloatArray]:
    """Return unit normals (c, n_variables) of hyperplanes through points of unit length, and the values of forms.

    The normals are gradients of the vanishing form where it is least relative to these, far from earlier hyperplanes.
    """
    form, values = vanishing_form(X, n_planes)
    gradients = form.gradient(X)
    lengths = np.sqrt(np.square(gradients).sum(axis=1))
    usable = lengths > GRADIENT_SHARE * lengths.max()
    distances = np.where(usable, np.abs(form(X)) / np.where(usable, lengths, 1.0), np.inf)
    normals, far = np.empty((n_planes, X.shape[1])), np.ones(len(X))
    for plane in range(n_planes):
        chosen = int(np.argmin((distances + SELECTION_SHIFT) / (far + SELECTION_SHIFT)))
        normals[plane] = gradients[chosen] / lengths[chosen] if lengths[chosen] > 0 else np.eye(X.shape[1])[0]
        far = far * np.abs(np.einsum("nd,d->n", X, normals[plane]))
    return normals, values
