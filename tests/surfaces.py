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


def helicoid(n, seed):
    """Return points of a strip of a helicoid, curved in every direction: it cannot be laid flat."""
    rng = np.random.default_rng(seed)
    away, turn = rng.uniform(0.4, 2.4, n), rng.uniform(0, 1.5 * np.pi, n)
    return np.column_stack([away * np.cos(turn), away * np.sin(turn), turn])


def cut_cone(n, seed):
    """Return a sector of 288 degrees between the radii 1 and 6, bent to 339 degrees around a cone, and laid flat.

    At its inner border the cut is as wide as the points are apart, so that neighbors are joined across it.
    """
    rng = np.random.default_rng([seed, 26])
    radius, angle = np.sqrt(rng.uniform(1, 36, n)), np.deg2rad(288) * rng.uniform(size=n)
    flat = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    around = 0.85 * radius[:, None] * np.column_stack([np.cos(angle / 0.85), np.sin(angle / 0.85)])
    return np.column_stack([around, np.sqrt(1 - 0.85**2) * radius]), flat
