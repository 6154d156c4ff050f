"""Stages of fits on a GPU: they take and return arrays of the host, like those on the CPU, and leave copies there."""
