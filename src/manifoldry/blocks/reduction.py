"""Sums over blocks in an order that depends on the number of blocks alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

S = TypeVar("S")


class Pairwise(Generic[S]):
    """Shares of blocks, merged in pairs of neighbors, then pairs of pairs, as they come.

    With k blocks added there are at most log2(k) + 1 shares kept. The last ones are merged from the right, which is
    what merging level by level gives too (`merge_levels`): so one process and a cluster add up in the same order.
    ``stack`` holds (level, share), the largest level first.
    """

    def __init__(self, merge: Callable[[S, S], S], stack: Iterable[tuple[int, S]] = ()) -> None:
        self.merge = merge
        self.stack = list(stack)

    def add(self, share: S) -> None:
        """Add the share of the next block."""
        level = 0
        while self.stack and self.stack[-1][0] == level:
            share = self.merge(self.stack.pop()[1], share)
            level += 1
        self.stack.append((level, share))

    def total(self) -> S:
        """Return the merged shares of all blocks."""
        if not self.stack:
            raise ValueError("There are no rows to read; pass at least two.")
        shares = [share for _, share in self.stack]
        total = shares.pop()
        while shares:
            total = self.merge(shares.pop(), total)
        return total


def merge_levels(shares: list[S], merge: Callable[[S, S], S]) -> S:
    """Return all shares merged, pairs of neighbors level by level; an odd last one waits for the next level."""
    while len(shares) > 1:
        pairs = [merge(shares[i], shares[i + 1]) for i in range(0, len(shares) - 1, 2)]
        shares = pairs + shares[len(shares) - len(shares) % 2 :]
    return shares[0]
