r"""The repulsive term of SNE and its kin, an n-body sum: over all pairs, by Barnes-Hut, or by FFT on a mesh.

For a layout Y and a kernel w of squared distances, the potential and its gradient

.. math:: \varphi(y) = \sum_j c_j\, w(\|y - y_j\|^2), \qquad
          \nabla \varphi(y) = 2 \sum_j c_j\, w'(\|y - y_j\|^2)\, (y - y_j)

give the repulsion, minus half the gradient, and the normalizer, the sum of the potential over the points.
"""

from manifoldry._numerics.repulsion.exact import LayoutKernel
from manifoldry._numerics.repulsion.fft import Potential, Repulsion, RepulsionName, choose_repulsion, resolve_repulsion

__all__ = ["LayoutKernel", "Potential", "Repulsion", "RepulsionName", "choose_repulsion", "resolve_repulsion"]
