"""Optimization: eigenproblems, scaling, gradient descent on layouts, semidefinite programs."""
