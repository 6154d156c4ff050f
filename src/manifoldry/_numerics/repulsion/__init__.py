r"""The repulsive term of SNE and related methods, an n-body sum: over all pairs, by Barnes-Hut, or by FFT on a mesh.

For a layout Y and a kernel w of squared distances, the potential and its gradient

.. math:: \varphi(y) = \sum_j c_j\, w(\|y - y_j\|^2), \qquad
          \nabla \varphi(y) = 2 \sum_j c_j\, w'(\|y - y_j\|^2)\, (y - y_j)

give the repulsion, minus half the gradient, and the normalizer, the sum of the potential over the points.
"""

from __future__ import annotations

from typing import Literal, Protocol

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray
from manifoldry._numerics.repulsion.fft import FFTRepulsion
from manifoldry._numerics.repulsion.sums import BarnesHutRepulsion, ExactRepulsion, LayoutKernel

__all__ = ["LayoutKernel", "Potential", "Repulsion", "RepulsionName", "choose_repulsion", "resolve_repulsion"]

RepulsionName = Literal["auto", "exact", "barnes_hut", "fft"]
DEFAULT_ACCURACY = 1e-2
"""Default relative error of the gradient (norm of the difference over the norm)."""
MAX_ERROR, MIN_FFT_ERROR = 1e-1, 5e-5
"""The error above which no time is saved, and the smallest one that a mesh of float32 guarantees."""
MAX_POINTS_EXACT = {1: 1000, 2: 1000, 3: 1500}
"""Maximum number of points for which all pairs are summed, by dimension. In the plane: 0.8 ms for 1000 points, as with
FFT; 20 ms for 5000, with FFT 2.4 ms. In space: 2.2 ms for 1500 points, as with Barnes-Hut."""
MAX_DIMENSIONS = {"barnes_hut": 3, "fft": 2}


class Potential(Protocol):
    """The potential of a fixed layout at any position; picklable."""

    def __call__(self, positions: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (m,) and its gradient (m, d) at ``positions`` (m, d)."""


class Repulsion(Protocol):
    """A way to sum the potential of layouts and its gradient."""

    name: str
    exact: bool

    def potential(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> Potential:
        """Return the potential of ``charges`` (None: ones; never negative) at the rows of ``Y``."""

    def at_points(self, Y: FloatArray, charges: FloatArray | None, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return the potential (n,) and its gradient (n, d) at the rows of ``Y``, each without its own term."""


def resolve_repulsion(repulsion: str, n: int, d: int, accuracy: float | None = None) -> tuple[str, float]:
    """Return the name of the summation for ``n`` points in ``d`` dimensions and its error, after checking both."""
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

    "auto" selects the fastest one with this ``accuracy``: the relative error of the gradient, 1e-2 by default. Arrays
    are kept between calls, but results depend only on the arguments of the call. Only one thread may call it at a time;
    it uses the threads of the run.

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
