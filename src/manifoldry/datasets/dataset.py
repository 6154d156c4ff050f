"""The value that every generator and loader returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from manifoldry.values import Array, FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Points, and what is known about the manifold they were taken from.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        The points, in double precision.
    name : str
        Name of the generator or file.
    intrinsic_dim : int or None
        Dimension of the manifold; None where it is unknown.
    truth : ndarray of shape (n, d) or None
        Flat coordinates of the manifold: lengths of curves on the manifold equal lengths of their images
        here, so the geodesic distance of two points is the Euclidean distance of their rows wherever the
        straight segment between them stays in the domain. None where the manifold is not flat.
    parameters : ndarray of shape (n, p) or None
        The numbers that each point was computed from (angles, heights, a pose).
    labels : ndarray of shape (n,) or None
        Class or cluster of each point.
    extras : mapping of str to ndarray
        Whatever else a file holds, as stored.

    Examples
    --------
    >>> from manifoldry.datasets import swiss_roll
    >>> roll = swiss_roll(500)
    >>> roll.X.shape, roll.truth.shape, roll.isometric
    ((500, 3), (500, 2), True)
    """

    X: FloatArray
    name: str
    intrinsic_dim: int | None = None
    truth: FloatArray | None = None
    parameters: FloatArray | None = None
    labels: Array | None = None
    extras: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.X.dtype != np.float64:
            raise ValueError(
                f"A data set needs points of shape (n, D) in float64; got shape {self.X.shape} of "
                f"{self.X.dtype}, so reshape it to one row per point and convert it."
            )
        for word in ("truth", "parameters", "labels"):
            value = getattr(self, word)
            n_dim = 1 if word == "labels" else 2
            if value is not None and (value.ndim != n_dim or len(value) != len(self.X)):
                raise ValueError(
                    f"The {word} of a data set must have {n_dim} dimension(s) and one entry per point; "
                    f"got shape {value.shape} for {len(self.X)} points."
                )

    @property
    def isometric(self) -> bool:
        """Whether the manifold is flat, so that ``truth`` exists."""
        return self.truth is not None

    @property
    def color(self) -> Array:
        """One number per point to color a plot by.

        The first true coordinate, else the first parameter, else the label, else the row number.
        """
        for columns in (self.truth, self.parameters):
            if columns is not None:
                return columns[:, 0]
        return np.arange(len(self.X)) if self.labels is None else self.labels

    def __repr__(self) -> str:
        known = [word for word in ("truth", "parameters", "labels") if getattr(self, word) is not None]
        n, D = self.X.shape
        return (
            f"Dataset({self.name!r}, n={n}, D={D}, intrinsic_dim={self.intrinsic_dim}, "
            f"known: {', '.join(known) or 'points only'})"
        )
