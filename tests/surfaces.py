"""Surfaces that the data sets do not have."""

import numpy as np


def tube(n, height, seed):
    """Return points of a round tube of radius 1."""
    rng = np.random.default_rng(seed)
    angle, z = rng.uniform(0, 2 * np.pi, n), rng.uniform(0, height, n)
    return np.column_stack([np.cos(angle), np.sin(angle), z])


def moebius(n, seed, width=0.4):
    """Return points of a Moebius strip about a circle of radius 1."""
    rng = np.random.default_rng(seed)
    angle, across = rng.uniform(0, 2 * np.pi, n), rng.uniform(-width, width, n)
    radius = 1 + across * np.cos(angle / 2)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), across * np.sin(angle / 2)])
