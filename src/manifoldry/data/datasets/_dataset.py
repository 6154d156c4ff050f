"""The value that every generator and loader returns, and what all generators share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypedDict

import numpy as np

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Points, and the known properties of the manifold that they were sampled from.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        The points, in double precision.
    name : str
        Name of the generator or file.
    intrinsic_dim : int or None
        Dimension of the manifold; None if it is unknown.
    truth : ndarray of shape (n, d) or None
        Flat coordinates of the manifold: curves on the manifold have the same length as their images here, so the
        geodesic distance of two points is the Euclidean distance of their rows if the straight segment between them
        stays in the domain. None if the manifold is not flat.
    parameters : ndarray of shape (n, p) or None
        The numbers that each point was computed from (angles, heights, a pose).
    labels : ndarray of shape (n,) or None
        Class or cluster of each point.
    extras : mapping of str to ndarray
        All other arrays of a file, as stored.

    Examples
    --------
    >>> from manifoldry.data.datasets import swiss_roll
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

        The first true coordinate, otherwise the first parameter, the label, or the row number.
        """
        for columns in (self.truth, self.parameters):
            if columns is not None:
                return columns[:, 0]
        return np.arange(len(self.X)) if self.labels is None else self.labels

    def __repr__(self) -> str:
        present = [word for word in ("truth", "parameters", "labels") if getattr(self, word) is not None]
        n, D = self.X.shape
        return (
            f"Dataset({self.name!r}, n={n}, D={D}, intrinsic_dim={self.intrinsic_dim}, "
            f"known: {', '.join(present) or 'points only'})"
        )


Hole = tuple[float, float]
"""Half widths of a rectangular hole in the middle of the unit square."""


P = ParamSpec("P")

COMMON_PARAMETERS = """\
noise : float
    Standard deviation of isotropic Gaussian noise added in the ambient space. Truth and parameters are those of
    the point before the noise.
unevenness : float
    1.0 samples uniformly. A ratio r above 1 puts each point into the lower half of the manifold, along its first
    true coordinate or parameter, with probability r / (1 + r): at 9.0, nine points are in the dense half for each
    one in the sparse half. The halves have equal length or area, or are halves of the domain of the generator.
random_state : None, int, numpy Generator or RandomState
    Source of all randomness; the same integer gives bit-identical data."""


class CommonOptions(TypedDict, total=False):
    """The options of every generator."""

    noise: float
    unevenness: float
    random_state: Any


def generator(arrays: str) -> Callable[[Callable[P, Dataset]], Callable[P, Dataset]]:
    """Complete the signature and docstring of a generator: n, the common options, and the arrays that it returns."""

    def complete(function: Callable[P, Dataset]) -> Callable[P, Dataset]:
        *options, _ = inspect.signature(function).parameters.values()
        common = list(inspect.signature(ManifoldSampler).parameters.values())[2:-1]
        function.__signature__ = inspect.Signature([*options, *common], return_annotation="Dataset")  # type: ignore[attr-defined]
        if function.__doc__:
            text, _, examples = inspect.cleandoc(function.__doc__).partition("Examples\n--------\n")
            summary, _, entries = text.partition("Parameters\n----------\n")
            all_entries = f"n : int\n    Number of points.\n{entries.rstrip()}\n{COMMON_PARAMETERS}"
            parameters = all_entries.replace("\n\n", "\n")  # of a generator without further options
            function.__doc__ = (
                f"{summary.rstrip()}\n\nParameters\n----------\n{parameters}\n\nReturns\n-------\nDataset\n"
                f"    {arrays}.\n\nExamples\n--------\n{examples}"
            )
        return function

    return complete


class ManifoldSampler:
    """The random numbers of one data set. Points and noise have separate streams: noise does not move the truth."""

    def __init__(
        self, name: str, n: int, *, noise: float = 0.0, unevenness: float = 1.0, random_state: Any = 0, **unknown: Any
    ) -> None:
        if unknown:
            raise TypeError(f"{name}() has no option {next(iter(unknown))!r}.")
        self.name = name
        self.n = check.integer("n", n, 1)
        self.noise = check.number("noise", noise, 0)
        self.unevenness = check.number("unevenness", unevenness, 1)
        self._run = Run(random_state)

    def rng(self, purpose: str) -> np.random.Generator:
        """Return the random stream of one purpose."""
        return self._run.rng(f"{self.name}: {purpose}")

    def unit(self, columns: int, keep: Callable[..., Array] | None = None) -> FloatArray:
        """Return numbers in [0, 1), shape (columns, n), the first uneven; those without ``keep`` are redrawn."""
        rng = self.rng("points")
        dense = self.unevenness / (1.0 + self.unevenness)
        parts: list[FloatArray] = []
        missing = self.n
        while missing > 0:
            draw = rng.random((columns, missing))
            draw[0] = np.interp(draw[0], [0.0, dense, 1.0], [0.0, 0.5, 1.0])
            if keep is not None:
                draw = draw[:, keep(*draw)]
            parts.append(draw)
            missing -= draw.shape[1]
        return np.concatenate(parts, axis=1)

    def rectangle(self, aspect: float, *, hole: Hole | None = None, grid: bool = False) -> FloatArray:
        """Return points of the unit square, shape (2, m), at random or on the regular grid of `unit_grid`."""
        if not grid:
            return self.unit(2, keep=None if hole is None else lambda u, v: outside_hole(u, v, hole))
        if self.unevenness != 1:
            raise ValueError(f"A grid is even, so unevenness must be 1.0; got {self.unevenness}, try grid=False.")
        return unit_grid(self.n, aspect, hole)

    def dataset(
        self,
        columns: Sequence[FloatArray],
        *,
        intrinsic_dim: int,
        truth: Sequence[FloatArray] | None = None,
        parameters: Sequence[FloatArray] | None = None,
        labels: Array | None = None,
    ) -> Dataset:
        """Stack the columns, add the noise and return the data set; parameters default to the truth."""
        X = np.stack(columns, axis=1)
        if self.noise > 0:
            X += self.noise * self.rng("noise").standard_normal(X.shape)
        flat = None if truth is None else np.stack(truth, axis=1)
        numbers = flat if parameters is None else np.stack(parameters, axis=1)
        return Dataset(X, self.name, intrinsic_dim, flat, numbers, labels)


def outside_hole(u: FloatArray, v: FloatArray, hole: Hole) -> Array:
    """Tell which points of the unit square are outside the open rectangle in its middle."""
    return (np.abs(u - 0.5) >= hole[0]) | (np.abs(v - 0.5) >= hole[1])


def unit_grid(n: int, aspect: float, hole: Hole | None = None) -> FloatArray:
    """Return about n cell centers of a grid over the unit square, shape (2, m), without those in the hole."""
    # Cells are nearly square once the first axis is stretched by the aspect; the count is as near to n as possible.
    n_full = n if hole is None else n / (1.0 - 4.0 * hole[0] * hole[1])
    rows = max(1, round(np.sqrt(n_full / aspect)))
    candidates = []
    for columns in range(max(1, round(n_full / rows) - 2), round(n_full / rows) + 3):
        u, v = np.meshgrid((np.arange(columns) + 0.5) / columns, (np.arange(rows) + 0.5) / rows)
        present = np.full(u.shape, True) if hole is None else outside_hole(u, v, hole)
        candidates.append(np.stack([u[present], v[present]]))
    filled = [points for points in candidates if points.shape[1]]
    return min(filled, key=lambda points: abs(points.shape[1] - n))


def invert_increasing(
    function: Callable[[FloatArray], FloatArray],
    slope: Callable[[FloatArray], FloatArray],
    values: FloatArray,
    start: float,
    end: float,
) -> FloatArray:
    """Return the arguments in [start, end] at which a smooth increasing function has the values."""
    # The error of a table of cells of width h is about h^2 |f''| / (8 f'); a step of Newton's method squares it.
    knots = np.linspace(start, end, 4097)
    arguments = np.interp(values, function(knots), knots)
    settled = 1e-8 * (end - start)
    for _ in range(10):
        step = (function(arguments) - values) / slope(arguments)
        arguments = np.clip(arguments - step, start, end)
        if np.abs(step).max(initial=0.0) <= settled:
            break
    return arguments
