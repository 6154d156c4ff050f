"""Neighbor search, neighbor graphs, and geodesic distances along them."""

from manifoldry.neighbors.transformer import KNeighborsTransformer

__all__ = ["KNeighborsTransformer"]
