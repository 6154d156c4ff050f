"""Unfolding: methods that keep true distances, by semidefinite programs and rigid patches."""
