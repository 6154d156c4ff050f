r"""The field of a layout: what every point feels of all the others, exactly, by a tree or by a grid.

For a layout Y and a weight w of squared distances, the potential and its gradient

.. math:: \varphi(y) = \sum_j c_j\, w(\|y - y_j\|^2), \qquad
          \nabla \varphi(y) = 2 \sum_j c_j\, w'(\|y - y_j\|^2)\, (y - y_j)

give the repulsion of SNE and its kin, minus half the gradient, and their normalizer, the sum of the potential.
"""

from manifoldry.solve.fields.choice import Field, Landscape, choose_field
from manifoldry.solve.fields.profile import GAUSSIAN, STUDENT, Profile

__all__ = ["GAUSSIAN", "STUDENT", "Field", "Landscape", "Profile", "choose_field"]
