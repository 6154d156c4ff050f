"""Loops of the GPU."""
