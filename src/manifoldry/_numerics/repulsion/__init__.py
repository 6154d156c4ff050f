r"""The repulsive term of SNE and related methods, an n-body sum: over all pairs, by Barnes-Hut, or by FFT on a mesh.

With a kernel w of squared distances, the layout has the potential :math:`\varphi(y) = \sum_j c_j\, w(\|y - y_j\|^2)`.
Minus half its gradient is the repulsion; its sum over the points is the normalizer.
"""

from __future__ import annotations

from typing import Literal

from manifoldry._core import check
from manifoldry._numerics.repulsion.fft import FFTRepulsion, Potential, Repulsion
from manifoldry._numerics.repulsion.sums import BarnesHutRepulsion, ExactRepulsion, LayoutKernel

__all__ = ["LayoutKernel", "Potential", "Repulsion", "RepulsionName", "choose_repulsion", "resolve_repulsion"]

RepulsionName = Literal["auto", "exact", "barnes_hut", "fft"]
DEFAULT_ACCURACY = 1e-2  # default relative error of the gradient (norm of the difference over the norm)
MAX_ERROR, MIN_FFT_ERROR = 1e-1, 5e-5
"""The error above which no time is saved, and the smallest one that a mesh of float32 guarantees."""
MAX_POINTS_EXACT = {1: 1000, 2: 1000, 3: 1500}
"""Maximum number of points for which all pairs are summed, by dimension: as fast as FFT or Barnes-Hut."""
TSNE_KERNEL_FACTOR = 2
"""With t-SNE's kernel in the plane it is this many times as large: a fit of 1,797 digits takes 0.59 CPU s, by FFT 0.62,
and 3,000 images 1.4 and 1.1. Moreover mesh and tree need not be compiled."""
MAX_DIMENSIONS = {"barnes_hut": 3, "fft": 2}


def resolve_repulsion(
    kernel: LayoutKernel, repulsion: str, n: int, d: int, accuracy: float | None = None
) -> tuple[str, float]:
    """Return the name of the summation for ``n`` points in ``d`` dimensions and its error, after checking both."""
    check.choice("repulsion", repulsion, ("auto", *MAX_DIMENSIONS, "exact"))
    error = DEFAULT_ACCURACY if accuracy is None else check.number("accuracy", accuracy, 0.0, open_low=True)
    error = min(error, MAX_ERROR)
    if repulsion == "auto":
        factor = TSNE_KERNEL_FACTOR if d == 2 and kernel.dof == 1 else 1
        if n <= factor * MAX_POINTS_EXACT.get(d, n):
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
    """Return the fastest way to sum the repulsion of n points in d dimensions with a relative error of the gradient."""
    name, error = resolve_repulsion(kernel, repulsion, n, d, accuracy)
    if name == "exact":
        return ExactRepulsion(kernel)
    return BarnesHutRepulsion(kernel, error) if name == "barnes_hut" else FFTRepulsion(kernel, error)
