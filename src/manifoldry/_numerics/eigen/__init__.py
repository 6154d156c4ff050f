"""Eigenpairs by intent: the smallest or the largest of a symmetric matrix or pencil.

`smallest` and `largest` take dense, sparse and matrix-free problems, ordinary or generalized. They try
the solvers of `solvers.py` in turn, from the cheapest on, and check the residuals of what each returns.
"""

from manifoldry._numerics.eigen.pairs import column_signs, fix_signs, largest, smallest
from manifoldry._numerics.eigen.pencil import GramMatrix

__all__ = ["GramMatrix", "column_signs", "fix_signs", "largest", "smallest"]
