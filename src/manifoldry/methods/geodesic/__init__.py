"""Isomap and its variants: coordinates from shortest paths along the neighbor graph."""
