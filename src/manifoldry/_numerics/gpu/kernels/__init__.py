"""Loops of a GPU. Each has a slow numpy reference in the tests, which also run it in numba's simulator."""
