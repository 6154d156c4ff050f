"""Multilinear PCA: principal components of images and other tensors, with a projection for each mode."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from manifoldry._core.parameters import NonNegative, PositiveInt, PositiveShare, Sizes, parameter
from manifoldry._core.registry import register
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding, FloatArray, IntArray, Stop, Trace
from manifoldry._numerics.eigen import column_signs
from manifoldry._numerics.geometry.neighborhoods import dense
from manifoldry._numerics.geometry.principal import centered_rows, principal_directions
from manifoldry.methods._base import Embedder, estimator, fitted
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods.linear._base import LinearMixin, linear_embedding


@register(
    problem="alternation",
    papers=("lu2008",),
    gives=("transform", "inverse", "trace"),
    keeps="variance, by directions that are products of one for each mode",
    loses="variance to PCA at the same number of coordinates; everything curved",
    use_when="rows are images or other tensors, and few of them for their many entries",
    fails_when="structure moves over the image, or there are rows enough for PCA",
    cost="O(n p max(shape)) per iteration, of which a few are enough; sum of squares of the shape in memory",
)
@estimator
class MultilinearPCA(LinearMixin, Embedder):
    r"""Reduce images or other tensors by a projection of each mode, if there are few rows for PCA.

    .. math:: \max_{U_1, \dots, U_M} \sum_i \| (\mathcal X_i - \overline{\mathcal X})
              \times_1 U_1^T \dots \times_M U_M^T \|^2, \qquad U_m^T U_m = I

    Rows are tensors :math:`\mathcal X_i` of a given shape, flattened with the last mode fastest. The projections of the
    modes are optimized in turn, starting from the higher-order singular value decomposition. Coordinates are the
    entries of the projected tensors with the largest variance. One mode gives PCA.

    Attributes
    ----------
    embedding_ : ndarray of shape (n_samples, n_components)
        ``(X - mean_) @ components_.T``, largest variance first; columns of zeros if there are fewer directions.
    components_ : ndarray of shape (n_components, n_features)
        Orthonormal directions, each the product of one direction of every mode.
    mode_components_ : list of ndarray of shape (shape[m], ranks[m])
        The projections :math:`U_m`.
    core_indices_ : ndarray of shape (number of directions, number of modes)
        Which direction of each mode a coordinate is the product of.
    mean_
    trace_ : Trace
        Share of the scatter in the projected tensors, at the start and after each round; never falling.
    diagnostics_ : dict
        Seconds, ``ranks``, the share of the scatter ``captured`` by the projected tensors and ``kept`` by the
        coordinates, and ``n_parameters``: the number of entries of all :math:`U_m`.

    See Also
    --------
    PCA : rows enough for their number of entries.
    NMF : parts that add up.

    Notes
    -----
    Nothing is random. The coordinates depend on the shape: a rotation of columns changes them, unless it rotates modes.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manifoldry import MultilinearPCA
    >>> model = MultilinearPCA(n_components=10, shape=(8, 8), ranks=(4, 4)).fit(load_digits().data)
    >>> model.embedding_.shape, [basis.shape for basis in model.mode_components_]
    ((1797, 10), [(8, 4), (8, 4)])
    """

    n_components: PositiveInt = parameter(
        "Number of entries of the projected tensors that are kept.", default=2, kw_only=False
    )
    shape: Sizes | None = parameter(
        "Shape of a row, such as (height, width) of an image; None is one mode, that is PCA.", default=None
    )
    ranks: Sizes | None = parameter(
        "Number of directions kept along each mode; None keeps the share ``variance`` of the scatter of each mode, "
        "and at least ``n_components`` entries in total.",
        default=None,
    )
    variance: PositiveShare = parameter(
        "Share of the scatter of each mode that is kept if ``ranks`` is None.", default=0.97
    )
    max_iter: PositiveInt = parameter("Maximum number of rounds over the modes.", default=100)
    tol: NonNegative = parameter(
        "The iteration stops when the captured share of the scatter rises by less than this.", default=1e-10
    )

    mode_components_: list[FloatArray] = fitted()
    core_indices_: IntArray = fitted()

    _chunk_support = ChunkSupport(n_rows=20_000)

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        shape = self._shape()
        if not shape:
            raise ValueError("shape must have a number for each mode; got none.")
        if math.prod(shape) != self.n_features_in_:
            raise ValueError(
                f"shape {shape} has {math.prod(shape)} entries, and the rows of X have {self.n_features_in_} columns; "
                "give the shape of one row."
            )
        if self.ranks is None:
            return
        ranks = tuple(self.ranks)
        if len(ranks) != len(shape) or any(rank > size for rank, size in zip(ranks, shape, strict=False)):
            raise ValueError(f"ranks must have a number up to the size of each mode of {shape}; got {ranks}.")
        if math.prod(ranks) < self.n_components:
            raise ValueError(
                f"n_components must be at most the product of ranks, {math.prod(ranks)}; got {self.n_components}."
            )

    def _shape(self) -> tuple[int, ...]:
        return (self.n_features_in_,) if self.shape is None else tuple(self.shape)

    def _embed(self, X: Any, run: Run) -> Embedding:
        rows = dense(X)
        centered, mean = centered_rows(rows)
        tensors = centered.reshape(-1, *self._shape())
        with run.stage("start"):
            spectra = mode_spectra(tensors)
            ranks = self._ranks([scatter for scatter, _ in spectra])
        with run.stage("modes"), run.stoppable():
            start = [directions[:, :rank] for (_, directions), rank in zip(spectra, ranks, strict=True)]
            bases, trace = alternate_modes(tensors, start, self.max_iter, self.tol, run)
        core = projected(tensors, bases)
        scatter = (core**2).sum(axis=0)
        strongest = np.argsort(-scatter.ravel(), kind="stable")[: self.n_components]
        indices = np.column_stack(np.unravel_index(strongest, scatter.shape))
        scores = core.reshape(len(rows), -1)[:, strongest]
        signs, missing = column_signs(scores), self.n_components - len(indices)
        components = np.pad(signs[:, None] * _products(bases, indices), ((0, missing), (0, 0)))
        notes = {
            "ranks": tuple(ranks),
            "captured": float(trace.objective[-1]),
            "kept": float(scatter.ravel()[strongest].sum()) / float((tensors**2).sum()),
            "n_parameters": sum(basis.size for basis in bases),
        }
        coordinates = np.pad(scores * signs, ((0, 0), (0, missing)))
        return linear_embedding(
            coordinates, mean, components, trace, notes, mode_components_=bases, core_indices_=indices
        )

    def _ranks(self, scatters: list[FloatArray]) -> list[int]:
        """Return the number of directions of each mode: as given, or by the share of its scatter."""
        if self.ranks is not None:
            return [min(rank, len(each)) for rank, each in zip(self.ranks, scatters, strict=True)]
        left = [1.0 - np.cumsum(each) / each.sum() for each in scatters]
        ranks = [1 + int(np.argmax(each <= 1.0 - self.variance + np.finfo(float).eps * len(each))) for each in left]
        while math.prod(ranks) < min(self.n_components, math.prod(len(each) for each in scatters)):
            open_ = [
                each[rank] / each.sum() if rank < len(each) else -1.0
                for each, rank in zip(scatters, ranks, strict=True)
            ]
            ranks[int(np.argmax(open_))] += 1
        return ranks


def _products(bases: list[FloatArray], indices: IntArray) -> FloatArray:
    """Return the flattened outer products of one column of each basis for every row of indices, shape (count, p)."""
    columns = [basis[:, indices[:, mode]].T for mode, basis in enumerate(bases)]
    return reduce(lambda left, right: (left[:, :, None] * right[:, None, :]).reshape(len(left), -1), columns)


def unfolded(tensors: FloatArray, mode: int) -> FloatArray:
    """Return the fibers along a mode of tensors (n, i_1, ..., i_M) as rows (n * others, i_mode)."""
    return np.moveaxis(tensors, mode + 1, -1).reshape(-1, tensors.shape[mode + 1])


def projected(tensors: FloatArray, bases: list[FloatArray], without: int | None = None) -> FloatArray:
    """Return the tensors multiplied by the transposed bases (i_m, r_m) along their modes, but for one of them."""
    for mode, basis in enumerate(bases):
        if mode != without:
            tensors = np.moveaxis(np.tensordot(tensors, basis, axes=(mode + 1, 0)), -1, mode + 1)
    return tensors


def mode_spectra(tensors: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Return the scatter along the principal directions of each mode, descending, and the directions."""
    return [principal_directions(unfolded(tensors, mode)) for mode in range(tensors.ndim - 1)]


def alternate_modes(
    tensors: FloatArray, bases: list[FloatArray], max_iter: int, tol: float, run: Run
) -> tuple[list[FloatArray], Trace]:
    """Return orthonormal bases of the modes that capture a largest scatter, and the captured share of it.

    Given the bases of all other modes the best of one are the leading eigenvectors of the scatter of its projected
    fibers, so the share never falls; the iteration stops when it rises by less than ``tol``.
    """
    total = float((tensors**2).sum())
    shares, stop = [float((projected(tensors, bases) ** 2).sum()) / total], Stop.LIMIT
    for step in range(1, max_iter + 1):
        for mode, basis in enumerate(bases):
            fibers = unfolded(projected(tensors, bases, without=mode), mode)
            scatter, directions = principal_directions(fibers)
            bases = [*bases[:mode], directions[:, : basis.shape[1]], *bases[mode + 1 :]]
        shares.append(float(scatter[: basis.shape[1]].sum()) / total)
        if not run.step(step, max_iter, f"{shares[-1]:.6f} of the scatter"):
            stop = Stop.ASKED
            break
        if shares[-1] - shares[-2] <= tol:
            stop = Stop.CONVERGED
            break
    return bases, Trace(np.array(shares), stop)
