"""Compiled reversal of lists: which lists contain a point, and where."""

from __future__ import annotations

from manifoldry._core.kernel import kernel


@kernel("void(int32[::1], int64[::1], int64, int64)")
def count_lists(members, counts, lo, hi):  # type: ignore[no-untyped-def]
    """Write how often the points ``lo`` to ``hi`` are members of blocks."""
    counts[lo:hi] = 0
    for i in members:
        if lo <= i < hi:
            counts[i] += 1


@kernel("void(int64[::1], int32[::1], int64[::1], int32[::1], int32[::1], int64, int64)")
def reverse_lists(ends, members, start, block, place, lo, hi):  # type: ignore[no-untyped-def]
    """Write, for the points ``lo`` to ``hi``, the blocks that list them, in their order, and their places there.

    The members of block b are ``members[ends[b]:ends[b + 1]]``, and the blocks of a point begin at ``start``.
    """
    fill = start[lo:hi].copy()
    for b in range(len(ends) - 1):
        for q in range(ends[b], ends[b + 1]):
            i = members[q]
            if lo <= i < hi:
                at = fill[i - lo]
                block[at], place[at] = b, q - ends[b]
                fill[i - lo] += 1
