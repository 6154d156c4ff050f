"""How the repulsion is summed: a table by size, dimension and the accuracy wanted."""

from __future__ import annotations

from typing import Literal, Protocol

from manifoldry import check
from manifoldry.run import Run
from manifoldry.solve.repulsion.barnes_hut import BarnesHutRepulsion
from manifoldry.solve.repulsion.exact import ExactRepulsion
from manifoldry.solve.repulsion.fft import FFTRepulsion
from manifoldry.solve.repulsion.layout_kernel import LayoutKernel
from manifoldry.values import FloatArray

RepulsionName = Literal["auto", "exact", "barnes_hut", "fft"]
DEFAULT_ACCURACY = 1e-2
"""Relative error of the gradient (norm of the difference over the norm) allowed when nothing is said."""
MAX_ERROR, MIN_FFT_ERROR = 1e-1, 5e-5
"""The error at which hardly anything is left to save, and the one that a mesh of float32 can promise."""
MAX_POINTS_EXACT = {1: 1000, 2: 1000, 3: 1500}
"""Points up to which all pairs are summed, by dimension: in the plane 0.8 ms for 1000 points, as by FFT; 20 ms for
5000 against 2.4 ms. In space 2.2 ms for 1500 points, as by Barnes-Hut."""
MAX_DIMENSIONS = {"barnes_hut": 3, "fft": 2}


class Potential(Protocol):
    """The potential of a frozen layout at any place; picklable."""

    def __call__(self, places: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (m,) and its gradient (m, d) at ``places`` (m, d), place by place."""


class Repulsion(Protocol):
    """A way to sum the potential of layouts and its gradient."""

    name: str
    exact: bool

    def potential(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> Potential:
        """Return the potential of ``charges`` (None: ones; never negative) at the rows of ``Y``, for any place."""

    def at_points(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (n,) and its gradient (n, d) at the rows of ``Y``, each without its own term."""


def resolve_repulsion(repulsion: str, n: int, d: int, accuracy: float | None = None) -> tuple[str, float]:
    """Return the name of the summation for ``n`` points in ``d`` dimensions and its error; refuse what none can do."""
    check.choice("repulsion", repulsion, ("auto", *MAX_DIMENSIONS, "exact"))
    error = DEFAULT_ACCURACY if accuracy is None else check.number("accuracy", accuracy, 0.0, open_low=True)
    error = min(error, MAX_ERROR)
    if repulsion == "auto":
        if n <= MAX_POINTS_EXACT.get(d, n):
            return "exact", error
        return "fft" if d <= 2 and error >= MIN_FFT_ERROR else "barnes_hut", error
    if d > MAX_DIMENSIONS.get(repulsion, d):
        raise ValueError(
            f"repulsion={repulsion!r} serves up to {MAX_DIMENSIONS[repulsion]} dimensions; got {d}: try "
            "repulsion='auto'."
        )
    if repulsion == "fft" and error < MIN_FFT_ERROR:
        raise ValueError(
            f"repulsion='fft' promises errors down to {MIN_FFT_ERROR:g}; got accuracy={error:g}: try "
            "repulsion='barnes_hut'."
        )
    return repulsion, error


def choose_repulsion(
    kernel: LayoutKernel, n: int, d: int, *, repulsion: str = "auto", accuracy: float | None = None
) -> Repulsion:
    """Return the way to sum the repulsion of ``n`` points in ``d`` dimensions.

    "auto" takes the fastest that keeps the ``accuracy``, the relative error of the gradient, by default 1e-2. What is
    returned may keep arrays between calls, but its results depend on the arguments of the call only. One thread at a
    time may call it; it takes its own threads from the run.

    Examples
    --------
    >>> import numpy as np
    >>> repulsion = choose_repulsion(LayoutKernel.student_t(), 4, 2)
    >>> potential, gradient = repulsion.at_points(np.array([[0.0, 0], [1, 0], [0, 1], [1, 1]]), None, Run(0))
    >>> repulsion.name, potential.round(3).tolist()
    ('exact', [1.333, 1.333, 1.333, 1.333])
    """
    name, error = resolve_repulsion(repulsion, n, d, accuracy)
    if name == "exact":
        return ExactRepulsion(kernel)
    return BarnesHutRepulsion(kernel, error) if name == "barnes_hut" else FFTRepulsion(kernel, error)
