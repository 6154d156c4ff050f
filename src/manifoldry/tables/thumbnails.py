"""Small pictures of rows that are images."""

from __future__ import annotations

import numpy as np

from manifoldry.values import Array

MAX_SIDE = 64
"""Height and width of a small picture at the most, in pixels: what fits beside the pointer."""

MAX_PICTURE_BYTES = 2**28
"""Bytes of all small pictures of a table together, beyond which there are none: a page could not hold them."""

CHANNELS = 3
"""Colors of a pixel: red, green, blue."""


def small_pictures(images: Array) -> Array | None:
    """Return images as bytes, every second, third, ... pixel of large ones; None if they are too many.

    Parameters
    ----------
    images : ndarray of shape (n, height, width) or (n, height, width, 3)
        Gray values or colors: 8-bit integers as they are, others scaled so that the largest is white.
    """
    n, height, width = images.shape[:3]
    step = -(-max(height, width) // MAX_SIDE)
    small = images[:, ::step, ::step]
    if small.size > MAX_PICTURE_BYTES or n == 0:
        return None
    if small.dtype == np.uint8:
        return np.ascontiguousarray(small)
    finite = small[np.isfinite(small)]
    low, high = (min(0.0, float(finite.min())), float(finite.max())) if finite.size else (0.0, 1.0)
    unit = (np.nan_to_num(small.astype(np.float64), nan=low, posinf=high, neginf=low) - low) / ((high - low) or 1.0)
    return np.round(255 * unit).astype(np.uint8)
