"""Clusterings by affine subspaces, geodesics, means and likelihood."""
