"""A trained net as a map: rows to places, or places to rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from manifoldry.geometry.neighborhoods import dense
from manifoldry.run import Run
from manifoldry.solve.eigen import column_signs
from manifoldry.solve.linear_span import FeatureRows, principal_span
from manifoldry.solve.network import Network
from manifoldry.values import Array, FloatArray

MAX_NETWORK_INPUTS = 1024
"""Principal components that a net is given at most, the leading ones. Of wider rows the others have little variance,
and the net's first layer stays small enough to train."""

N_ORDERING_COMPONENTS = 3
"""Leading components by which rows are ordered: more than one, for the first may be the same of many rows."""


@dataclass(frozen=True)
class NetworkMap:
    """The map ``network(row - mean)``: its size does not depend on the number of rows it was trained on."""

    mean: FloatArray
    network: Network

    def __call__(self, X: Any, run: Run) -> FloatArray:
        """Place new points."""
        return self.network(dense(X) - self.mean, run)


@dataclass(frozen=True)
class NetworkInverse:
    """The map ``mean + network(place)``."""

    mean: FloatArray
    network: Network

    def __call__(self, Y: Array, run: Run) -> FloatArray:
        """Return the points of given coordinates."""
        points: FloatArray = self.mean + self.network(np.asarray(Y, dtype=np.float64), run)
        return points


@dataclass(frozen=True)
class NetworkInputs:
    """Rows in the form in which a net is trained: principal components, divided by the largest standard deviation.

    So a rotation, a shift or another unit of the data changes nothing. ``order`` sorts the rows by their components:
    in that order the same rows make the same minibatches, however they came. ``lost`` is the share of the variance that
    is in none of the components, ``origin`` what remains of the mean where it was rounded.
    """

    mean: FloatArray
    origin: FloatArray
    directions: FloatArray
    unit: float
    rows: FloatArray
    order: Array
    lost: float

    @classmethod
    def of(cls, X: Any, run: Run, most: int = MAX_NETWORK_INPUTS) -> NetworkInputs:
        """Return the inputs of rows: at most so many components."""
        table = dense(X)
        mean = table.mean(axis=0)
        span = principal_span(FeatureRows(table - mean), run)  # of rows far from zero the mean is rounded: see `origin`
        kept = slice(0, min(span.rank, most))
        signs = column_signs(span.coordinates[:, kept])
        unit = float(span.singular_values[0] / np.sqrt(len(table)))
        scores = span.coordinates[:, kept] * (signs / unit)
        lost = float((span.singular_values[kept.stop :] ** 2).sum() / (span.singular_values**2).sum())
        order = np.lexsort(scores.T[:N_ORDERING_COMPONENTS][::-1])
        return cls(mean, span.mean, span.directions[:, kept] * signs, unit, scores, order, lost)

    @property
    def variance(self) -> float:
        """The sum of the variances of the inputs."""
        return float((self.rows**2).sum() / len(self.rows))

    def of_all(self, lost: float) -> float:
        """Return the share of the rows' variance that is lost, by that of the inputs'."""
        return self.lost + (1.0 - self.lost) * lost

    def encoder(self, network: Network, unit: float = 1.0, center: FloatArray | None = None) -> NetworkMap:
        """Return the map of rows that a net of these inputs makes, its outputs in a unit about a center."""
        outer = network.after(self.directions / self.unit, self.origin).before(unit * np.eye(network.sizes[-1]))
        return NetworkMap(self.mean, outer if center is None else outer.shifted(center))

    def decoder(self, network: Network) -> NetworkInverse:
        """Return the way back to rows that a net from coordinates, in the unit of the rows, to these inputs makes."""
        from_unit = network.after(np.eye(network.sizes[0]) / self.unit)
        return NetworkInverse(self.mean + self.origin, from_unit.before(self.unit * self.directions.T))
