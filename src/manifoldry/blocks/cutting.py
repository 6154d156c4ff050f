"""Where blocks begin: rows that come in pieces of any size, cut anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from manifoldry.blocks.sampling import stacked
from manifoldry.values import Array


def regrouped(pieces: Iterable[Array], block_rows: int) -> Iterator[Array]:
    """Yield the rows of consecutive pieces in blocks of ``block_rows``, the last with what is left."""
    return cut_at(pieces, count(block_rows, block_rows))


def cut_at(pieces: Iterable[Array], ends: Iterable[int]) -> Iterator[Array]:
    """Yield the rows of consecutive pieces in others, which end before the rows ``ends`` or with the last row."""
    held: list[Array] = []
    coming = iter(ends)
    start, end = 0, next(coming, None)
    for piece in pieces:
        at = 0
        while piece.shape[0] - at:
            taken = piece[at:] if end is None else piece[at : at + end - start]
            held.append(taken)
            at, start = at + taken.shape[0], start + taken.shape[0]
            if start == end:
                yield stacked(held)
                held, end = [], next(coming, None)
    if held:
        yield stacked(held)
