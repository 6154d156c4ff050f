"""Methods of local geometry: enough neighbors for the dimension, small components, the local rule for new points."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from manifoldry.base.estimator import estimator
from manifoldry.base.graph import GraphEmbedder
from manifoldry.extend.local import forward
from manifoldry.extend.placement import LinearPlacement
from manifoldry.geometry.tangent import local_variances
from manifoldry.neighbors.pieces import Policy
from manifoldry.neighbors.sample import Sample
from manifoldry.neighbors.search import DEFAULT_N_NEIGHBORS, NeighborRule
from manifoldry.run import Run
from manifoldry.solve.eigen import smallest
from manifoldry.solve.scaling import classical_scaling, principal_scaling
from manifoldry.solve.spectrum import Suggestion, enough
from manifoldry.values import Embedding, FloatArray, Spectrum
from manifoldry.warnings import warn

TOLERABLE = 1e-4
"""Relative residual with which a layout is still given, with a warning, where no solver that fits does better."""


def bottom(matrix: Any, n_components: int, run: Run) -> tuple[Spectrum, FloatArray]:
    """Return the lowest eigenpairs of an alignment matrix beside the constant, and coordinates with Y'Y = nI."""
    n = matrix.shape[0]
    constant = np.full(n, 1 / np.sqrt(n))
    spectrum = smallest(matrix, n_components, null=constant, tolerable=TOLERABLE, run=run)
    return spectrum, spectrum.vectors * np.sqrt(n)


@estimator
class LocalEmbedder(GraphEmbedder):
    """Base of the methods whose matrix is a sum over neighborhoods.

    A subclass says in ``_least_neighbors`` how many neighbors its mathematics needs for d dimensions, and embeds
    a connected sample in ``_align``.
    """

    disconnected: Policy = "apart"

    _invertible = _local_inverse = True

    def _least_neighbors(self, d: int) -> int:
        return d + 1

    @abstractmethod
    def _align(self, sample: Sample, n_components: int, run: Run) -> tuple[Spectrum, FloatArray, dict[str, Any]]:
        """Return the eigenpairs, the coordinates and notes of a connected sample."""

    def _enough(self, n_points: int) -> int | str | None:
        """Return the number of neighbors asked for, or what the mathematics needs if that is more."""
        least = min(self._least_neighbors(self.n_components), n_points - 1)
        k = self.n_neighbors
        if k == "auto":
            return None if self.radius is not None else min(max(DEFAULT_N_NEIGHBORS, least), n_points - 1)
        return k if k is None else max(int(k), least)

    def _rule(self, n_points: int) -> NeighborRule:
        return replace(super()._rule(n_points), n_neighbors=self._enough(n_points))

    def _check_parameters(self, n_points: int) -> None:
        super()._check_parameters(n_points)
        k = self._enough(n_points)
        if k != self.n_neighbors and self.n_neighbors != "auto":
            warn(
                f"{type(self).__name__} needs {k} neighbors for {self.n_components} dimensions; "
                f"n_neighbors={self.n_neighbors} was raised to that."
            )

    def _unfold(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        if sample.X is None:
            raise ValueError(
                f"{type(self).__name__} needs points or all pairwise distances for its local geometry; got a graph."
            )
        if sample.n_points <= self._least_neighbors(n_components):
            return self._principal(sample, n_components, run)
        spectrum, coordinates, notes = self._align(sample, n_components, run)
        return Embedding(
            coordinates,
            spectrum=spectrum,
            extension=forward(sample, coordinates),
            notes={"local_variances": local_variances(sample, run), **notes},
        )

    def _principal(self, sample: Sample, n_components: int, run: Run) -> Embedding:
        """Embed a sample or component too small for local geometry by its principal coordinates."""
        if sample.pairwise:
            scaling = classical_scaling(np.array(sample.X, dtype=np.float64), n_components, run, overwrite=True)
            extension: Any = forward(sample, scaling.coordinates)
        else:
            X = sample.X if isinstance(sample.X, np.ndarray) else sample.X.toarray()
            scaling, directions = principal_scaling(X, n_components, run)
            extension = LinearPlacement(X.mean(axis=0), directions)
        variances = local_variances(sample, run)
        return Embedding(
            scaling.coordinates,
            spectrum=scaling.spectrum,
            extension=extension,
            notes={"local_variances": variances, "principal": True},
        )

    def suggest_n_components(self) -> Suggestion:
        """Return the dimension of the neighborhoods, and why: the first that leaves at most 5% of their variance."""
        check_is_fitted(self, "embedding_")
        return enough(self.diagnostics_["local_variances"], "variance of the neighborhoods")
