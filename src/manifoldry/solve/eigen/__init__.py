"""Eigenpairs by intent: the smallest or the largest of a symmetric matrix or pencil.

`smallest` and `largest` take dense, sparse and matrix-free problems, ordinary or generalized. They choose a
solver, check what it returns, and try the next one before giving up.
"""

from manifoldry.solve.eigen.pairs import column_signs, fix_signs, largest, smallest

__all__ = ["column_signs", "fix_signs", "largest", "smallest"]
