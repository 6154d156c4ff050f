"""Neighbor search, neighbor graphs, and geodesic distances along them."""
