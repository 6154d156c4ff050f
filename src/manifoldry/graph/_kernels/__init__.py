"""Compiled loops of neighbor search and shortest paths; imported on first use only."""
