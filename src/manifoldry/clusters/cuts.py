"""Cuts of graphs into clusters: their value, the eigenvalues that bound it, and the number these suggest."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from manifoldry.geometry.laplacian import LaplacianKind, laplacian
from manifoldry.run import Run
from manifoldry.solve.eigen import smallest
from manifoldry.solve.spectrum import MIN_CLUSTER_GAP, MIN_CURVE_SHARE, REASON_WIDTH
from manifoldry.values import FloatArray, IntArray, Spectrum

LOW_PAIR_TOL = 1e-6
"""Residual of eigenpairs, relative to the norm: eigenvalues have twice as many digits, and clusters do not need more
(5,000 images: 0.4 against 2.7 seconds for all digits)."""
N_NAMED_STEPS = 3
"""Steps of the eigenvalues that are named where none is clear."""


def cut_value(W: csr_array, labels: IntArray, kind: LaplacianKind) -> float:
    r"""Return the normalized cut of a graph into clusters, or with the unnormalized Laplacian the ratio cut.

    .. math:: \mathrm{Ncut} = \sum_\ell \frac{\mathrm{cut}(A_\ell, \bar A_\ell)}{\mathrm{vol}\, A_\ell}, \qquad
              \mathrm{RatioCut} = \sum_\ell \frac{\mathrm{cut}(A_\ell, \bar A_\ell)}{|A_\ell|}

    Weights W are symmetric, without loops. Labels from 0 to c - 1 all occur.

    References: shi2000, luxburg2007.

    Examples
    --------
    >>> path = csr_array(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    >>> round(cut_value(path, np.array([0, 0, 1]), "random_walk"), 6)
    1.333333
    """
    rows = np.repeat(np.arange(W.shape[0]), np.diff(W.indptr))
    crosses = labels[rows] != labels[W.indices]
    cuts = np.bincount(labels[rows], np.where(crosses, W.data, 0.0))
    if kind == "unnormalized":
        return float(np.sum(cuts / np.bincount(labels)))
    volumes = np.bincount(labels[rows], W.data)
    return float(np.sum(np.divide(cuts, volumes, out=np.zeros_like(cuts), where=volumes > 0)))


def low_eigenpairs(W: csr_array, count: int, kind: LaplacianKind, run: Run) -> Spectrum:
    r"""Return the ``count`` lowest eigenpairs of a Laplacian, the null vectors of all components among them.

    Those of the random walk, :math:`L v = \lambda D v` with :math:`v^T D v = 1`, are :math:`v = D^{-1/2} u` by the
    symmetric one, to which the residuals refer. A graph of more components than ``count`` gives as many null vectors as
    it has components.
    """
    L = laplacian(W, "symmetric" if kind == "random_walk" else kind)
    zeros, wanted = np.zeros(L.n_components), count - L.n_components
    spectrum = Spectrum(zeros, L.null, zeros, "smallest", "components")
    if wanted > 0:
        found = smallest(L.matrix, wanted, null=L.null, tol=LOW_PAIR_TOL, run=run)
        values = np.concatenate([zeros, np.maximum(found.values, 0.0)])
        vectors = np.concatenate([L.null, found.vectors], axis=1)
        spectrum = Spectrum(values, vectors, np.concatenate([zeros, found.residuals]), "smallest", found.solver)
    if kind == "random_walk":
        return replace(spectrum, vectors=spectrum.vectors / np.sqrt(L.degrees)[:, None])
    return spectrum


@dataclass(frozen=True, repr=False)
class SuggestedClusters:
    """A number of clusters, why, and whether a gap of the eigenvalues speaks for it; printed, lines of text."""

    n_clusters: int
    why: str
    clear: bool

    def __int__(self) -> int:
        return self.n_clusters

    def __repr__(self) -> str:
        return f"n_clusters={self.n_clusters}. {self.why}"

    def __str__(self) -> str:
        """Return the number and the reason, in lines of text."""
        return textwrap.fill(repr(self), REASON_WIDTH)


def suggest_clusters(values: FloatArray, n_pieces: int) -> SuggestedClusters:
    """Return how many of the lowest eigenvalues of a Laplacian stand before its last clear gap.

    A gap is clear if the next eigenvalue is eight times as large: without clusters they are harmonics, the second of
    which is four times the first. The zeros of ``n_pieces`` components end with a gap, and finer clusters may follow;
    without any gap the graph is one cluster.

    Examples
    --------
    >>> suggest_clusters(np.array([0.0, 1e-3, 2e-3, 0.2, 0.3]), 1)
    n_clusters=3. Eigenvalue 4 (0.2) is 100 times the one before; no later step is clear.
    """
    floor = MIN_CURVE_SHARE * float(np.max(values, initial=0.0)) or 1.0
    sizes = np.maximum(values, floor)
    steps = sizes[1:] / sizes[:-1]
    steps[0] = 1.0  # every graph has one eigenvalue 0
    clear = np.flatnonzero(steps >= MIN_CLUSTER_GAP)
    pieces = f"The graph has {n_pieces} components" if n_pieces > 1 else ""
    if len(clear) and clear[-1] + 1 > n_pieces:
        c = int(clear[-1]) + 1
        ratio = (
            f"Eigenvalue {c + 1} ({sizes[c]:.2g}) is {steps[c - 1]:.3g} times the one before; no later step is clear."
        )
        return SuggestedClusters(c, f"{pieces}, and finer clusters. {ratio}" if pieces else ratio, True)
    if n_pieces > 1:
        return SuggestedClusters(n_pieces, f"{pieces}, and no clear gap of the eigenvalues divides them further.", True)
    widest = [int(step) + 1 for step in np.argsort(-steps, kind="stable")[:N_NAMED_STEPS] if steps[step] > 1]
    named = ", ".join(f"{c} (by a factor of {steps[c - 1]:.2g})" for c in widest)
    return SuggestedClusters(
        1,
        f"No eigenvalue is {MIN_CLUSTER_GAP:.0f} times the one before, as between clusters: the graph hangs together, "
        "and no number of clusters stands out." + (f" The widest steps are after {named}." if named else ""),
        False,
    )


def spectral_values(W: Any, count: int, kind: LaplacianKind, run: Run) -> tuple[FloatArray, int]:
    """Return at least one eigenvalue more than ``count`` and the components, and the number of components."""
    n_pieces = int(laplacian(W).n_components)
    return low_eigenpairs(W, min(max(count, n_pieces) + 1, W.shape[0]), kind, run).values, n_pieces
