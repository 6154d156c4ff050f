"""Multidimensional scaling: coordinates from pairwise distances."""
