"""Where the entries of an array lie in memory: stored with it, for the order of sums follows, and their last bits.

Products of the same matrices differ in the last bit between rows in C and in Fortran order, and, of a single row, even
between a matrix and a view of the same numbers in a wider one. So an array is stored with its axes in the order of
memory, and the document says how to put it back: which axes, which of them backwards, and how far rows are apart.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from manifoldry.values import Array

MAX_SPACING_BYTES = 64 * 2**20
"""Memory for the gaps of all arrays of a model together; beyond, views of wide matrices become matrices of their own,
whose products may differ in the last bit."""


class SpacingBudget:
    """What is left of the memory for gaps, in saving and in loading: the same arrays keep theirs."""

    def __init__(self) -> None:
        self._left = MAX_SPACING_BYTES

    def take(self, n_bytes: int) -> bool:
        """Take some bytes if they are left."""
        if n_bytes > self._left:
            return False
        self._left -= n_bytes
        return True


def in_memory_order(value: Array, budget: SpacingBudget) -> tuple[Array, dict[str, Any]]:
    """Return the entries in the order of memory, without gaps, and the layout: how `laid_out` puts them back."""
    if value.flags.c_contiguous:
        return np.asarray(value), {}
    flipped = [axis for axis, step in enumerate(value.strides) if step < 0]
    turned = np.flip(value, tuple(flipped))
    axes = sorted(range(value.ndim), key=lambda axis: -turned.strides[axis])
    turned = turned.transpose(axes)
    layout: dict[str, Any] = {"axes": axes} if axes != sorted(axes) else {}
    if flipped:
        layout["flipped"] = flipped
    spacing = None if turned.flags.c_contiguous else _spacing(turned)
    if spacing is not None and budget.take(_spaced_bytes(turned.shape, spacing, turned.itemsize)):
        layout["spacing"] = spacing
    return np.ascontiguousarray(turned), layout


def laid_out(stored: Array, layout: dict[str, Any], budget: SpacingBudget) -> Array:
    """Return stored entries as the array that `in_memory_order` was given."""
    spacing = layout.get("spacing")
    if spacing is not None:
        if len(spacing) != stored.ndim or not all(type(step) is int for step in spacing):
            raise ValueError("it has an array with impossible gaps")
        if not all(size <= step for size, step in zip((*stored.shape[1:], 1), spacing, strict=True)):
            raise ValueError("it has an array with impossible gaps")
        if not budget.take(_spaced_bytes(stored.shape, spacing, stored.itemsize)):
            raise ValueError("it has arrays with wider gaps than any saved model has")
        wide = np.zeros((stored.shape[0], *spacing), dtype=stored.dtype)
        place: tuple[Any, ...] = (*(slice(size) for size in stored.shape), 0)
        inside = wide[place]
        inside[...] = stored
        stored = inside
    if "axes" in layout:
        stored = stored.transpose(np.argsort(layout["axes"]))
    return np.flip(stored, layout["flipped"]) if "flipped" in layout else stored


def _spacing(turned: Array) -> list[int] | None:
    """Return the lengths of all axes but the first, and of the entries, in the wider array of which this is a view.

    None where it is no such view: entries lie over each other, or apart by parts of an entry.
    """
    steps = [*turned.strides, turned.itemsize]
    if not turned.ndim or 0 in (*steps, turned.size):
        return None
    long = [axis for axis, size in enumerate(turned.shape) if size > 1]
    for axis, size in enumerate(turned.shape):
        if size == 1:  # its step means nothing
            steps[axis] = steps[axis - 1] if axis else steps[long[0]] * turned.shape[long[0]]
    ratios = [outer // inner for outer, inner in pairwise(steps)]
    whole = all(outer % inner == 0 for outer, inner in pairwise(steps))
    fits = all(size <= ratio for size, ratio in zip((*turned.shape[1:], 1), ratios, strict=True))
    return ratios if whole and fits else None


def _spaced_bytes(shape: tuple[int, ...], spacing: list[int], itemsize: int) -> int:
    total = shape[0] * itemsize
    for length in spacing:
        total *= length
    return total
