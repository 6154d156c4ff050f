"""Approximate Euclidean search in many rows by NN-descent: a neighbor of a neighbor is likely a neighbor.

Random trees part the points into small leaves, and the points of a leaf become each other's first neighbors. Then,
round by round, every point meets those linked to the points linked to it and keeps the nearest, until hardly any list
changes. A list is written by the one task that owns it, from the lists of the round before, so the threads cannot
change the result. Where columns are many all this happens in the leading principal directions, with longer lists.
At the end the lists are put in order by exact distance in all columns, and their recall is measured on a sample; where
it is low, they are widened once and the descent goes on. A new point enters by the leaves that it falls into
and follows the links of the nearest found so far.

References: dong2011
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manifoldry.neighbors.engines import CENTER_ROWS, SAMPLE, Brute, recall_by_distance
from manifoldry.neighbors.faiss_ivf import RECALL_WANTED, principal_directions
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray

# Measured on MNIST, 70,000 rows, k = 15, seconds of one thread, recall in brackets. 50 columns: lists of 16 1.5 s
# (0.995), 18 1.6 s (0.996), 20 1.7 s (0.997); 6, 8 or 12 trees and leaves of 30, 50 or 70 within 0.1 s of each other.
LEAF, TREES = 50, 8
FEWEST, SPARE = 16, 3
"""Lists hold at least so many, and so many more than neighbors are wanted."""
FOLLOWED, LISTED_BY = 24, 10
"""Links followed in a round: the nearest of the point's own list, and so many more who list it."""
LONG = 52
"""Lists longer than this are shorter during the descent, two fifths and ten, and lengthened by a last round."""
STILL = 0.005
"""The share of all entries that a last round changes: three rounds on MNIST."""
# 784 columns, lists of 1.5 k: 128 directions 4.8 s (0.995), lists of 1.75 k 5.8 s (0.997), with 96 directions
# 4.9 s (0.994).
PROJECT_ABOVE, PROJECT_TO, PROJECTED_WIDTH = 160, 128, 1.6
HOPELESS = 0.96
"""Lists with less recall are not widened: that leaves about half of the misses."""
SAMPLE_COLUMNS = 64
"""Columns whose distances, never longer than the true ones, tell who can be near a sampled point."""
DOORS, BEAM = 4, 24
"""Trees by which a new point enters, and how many more than it wants it keeps on the way."""
WALK_LINKS, WALK_BACK = 16, 8
"""Links that a new point follows from an old one: its nearest, and those who list it."""
PRINCIPAL_ROWS = 5_000
FARTHEST = 1e6
"""Outliers farther than this, in units of the usual, are searched as if they were there, and ranked where they are."""


@dataclass(frozen=True)
class Lists:
    """The nearest found so far, a row for each point: ids (-1: none), ascending squared lengths, what is fresh."""

    ids: Array
    lengths: Array
    fresh: Array

    @classmethod
    def empty(cls, n: int, width: int) -> Lists:
        """Return lists of nobody."""
        ids, lengths = np.full((n, width), -1, np.int32), np.full((n, width), np.inf, np.float32)
        return cls(ids, lengths, np.zeros((n, width), np.uint8))

    @property
    def width(self) -> int:
        """The most that a list holds."""
        return self.ids.shape[1]

    def all_fresh(self) -> Lists:
        """Return the same lists for a round in which everybody meets all neighbors of neighbors again."""
        return Lists(self.ids, self.lengths, np.ones_like(self.fresh))


@dataclass(frozen=True)
class Branches:
    """A tree: its nodes, and its leaves as pieces of ``members``; see `compiled.nndescent.grow_tree`."""

    nodes: Array
    starts: Array
    members: Array

    @classmethod
    def grown(cls, Z: Array, seed: int) -> Branches:
        """Return a random tree over the rows."""
        from manifoldry.compiled.nndescent import grow_tree

        n = len(Z)
        nodes, starts = np.empty((n, 4), np.int32), np.empty(n + 1, np.int64)
        members = np.arange(n, dtype=np.int32)
        n_leaves = grow_tree(Z, LEAF, np.uint64(seed), members, starts, nodes)
        return cls(nodes[: n_leaves - 1].copy(), starts[: n_leaves + 1].copy(), members)

    def in_order(self) -> Branches:
        """Return the tree over the rows put in the order of its members."""
        place = np.full(len(self.members) + 1, -1, np.int32)  # the last for -1
        place[self.members] = np.arange(len(self.members))
        nodes = np.column_stack([place[self.nodes[:, :2]], self.nodes[:, 2:]])
        return Branches(nodes, self.starts, np.arange(len(self.members), dtype=np.int32))


class NNDescent:
    """Approximate k-nearest search; ``recall`` is the share of the old points' neighbors found, on a sample."""

    name = "nn-descent"

    def __init__(self, X: Array, k: int, run: Run) -> None:
        self.X = np.ascontiguousarray(X)
        n, columns = X.shape
        rng = run.rng("nn-descent")
        some = X[:: max(1, n // CENTER_ROWS)]
        self.center = np.median(some, axis=0).astype(X.dtype)
        # Squares of numbers near 1 neither overflow nor vanish in single precision.
        self.unit = float(np.abs(some - self.center).max()) or 1.0
        self.basis = None
        if columns > PROJECT_ABOVE:
            sample = X[rng.choice(n, min(n, PRINCIPAL_ROWS), replace=False)] - self.center
            self.basis = np.ascontiguousarray(principal_directions(sample, PROJECT_TO)[:, ::-1])
        seeds = rng.integers(2**63, size=TREES)
        Z = self._projected_old(run)
        first = Branches.grown(Z, seeds[0])
        # In the order of a tree's leaves, who is near in space is near in memory.
        self.order, self.Z = first.members, Z[first.members]
        others = run.map(Branches.grown, [(self.Z, seed) for seed in seeds[1:]])
        trees = [first.in_order(), *others]
        self.doors = trees[:DOORS]
        sample = np.sort(rng.choice(n, min(n, SAMPLE), replace=False))
        self.lists, self.recall = self._built(trees, k, sample, run)
        links, n_fresh, _ = _links(self.lists, np.ones(self.lists.shape, np.uint8), WALK_LINKS, WALK_BACK, run)
        self.links = np.where(np.arange(links.shape[1]) < n_fresh[:, None], links, -1)

    def nearest(self, Q: Array, k: int, run: Run, own: bool = False) -> tuple[FloatArray, IntArray]:
        """K near old points of each row of Q, nearly all of them the nearest; old points list themselves too."""
        if own and k <= self.lists.shape[1] + 1:
            places = np.argsort(self.order)
            distances, indices = self._own(np.arange(len(Q)), k, run)
            distances, indices = distances[places], indices[places]
        else:
            width = k if self.basis is None else int(PROJECTED_WIDTH * k)
            beams = self._walked(Q, min(len(self.Z), width + BEAM), run)
            distances, indices = self._ranked(Q, np.arange(len(Q)), beams, k, run)
        short = np.flatnonzero(indices[:, -1] < 0)  # a beam that came to its end before it was full
        if len(short):
            distances[short], indices[short] = Brute(self.X, "euclidean", None).nearest(Q[short], k, run)
        return distances, indices

    # Old points

    def _built(self, trees: list[Branches], k: int, sample: IntArray, run: Run) -> tuple[Array, float]:
        """Return the lists and their recall on the sample."""
        most = len(self.Z) - 1
        share = 1.0 if self.basis is None else PROJECTED_WIDTH
        width = min(most, max(FEWEST, int(np.ceil(share * k)) + SPARE))
        lists = self._first_lists(trees, width if width <= LONG else 10 + 2 * width // 5, run)
        lists = self._settled(lists, FOLLOWED, run)
        if lists.width < width:
            lists, _ = self._round(lists.all_fresh(), lists.width, width, run)
        recall = self._recall(lists, k, sample, run)
        if HOPELESS <= recall < RECALL_WANTED:
            followed = FOLLOWED * 3 // 2
            lists, _ = self._round(lists.all_fresh(), followed, min(most, width * 3 // 2), run)
            lists = self._settled(lists, followed, run)
            recall = self._recall(lists, k, sample, run)
        return lists.ids, recall

    def _first_lists(self, trees: list[Branches], width: int, run: Run) -> Lists:
        from manifoldry.compiled.nndescent import join_leaves

        lists = Lists.empty(len(self.Z), width)
        for tree in trees:  # one after the other: only the leaves of one tree have no point in common

            def join(lo: int, hi: int, tree: Branches = tree) -> None:
                join_leaves(self.Z, tree.members, tree.starts, lists.ids, lists.lengths, lists.fresh, lo, hi)

            run.map(join, run.ranges(len(tree.starts) - 1, 256))
        return lists

    def _settled(self, lists: Lists, followed: int, run: Run) -> Lists:
        """Return the lists after as many rounds as change them."""
        changes = lists.ids.size
        while changes > STILL * lists.ids.size:
            lists, changes = self._round(lists, followed, lists.width, run)
        return lists

    def _round(self, lists: Lists, followed: int, width: int, run: Run) -> tuple[Lists, int]:
        """Return the lists, then ``width`` long, after everybody met the neighbors' neighbors; and the changes."""
        from manifoldry.compiled.nndescent import expand

        links = _links(lists.ids, lists.fresh, followed, LISTED_BY, run)
        new = Lists.empty(len(self.Z), width)

        def block(lo: int, hi: int) -> int:
            return expand(self.Z, lists.ids, lists.lengths, *links, new.ids, new.lengths, new.fresh, lo, hi)

        return new, sum(run.map(block, run.ranges(len(self.Z), 1 + len(self.Z) // 64)))

    def _own(self, points: IntArray, k: int, run: Run, lists: Array | None = None) -> tuple[FloatArray, IntArray]:
        """Return the k nearest, themselves among them, of old points given by their places."""
        listed = (self.lists if lists is None else lists)[points]
        candidates = np.column_stack([points.astype(np.int32), listed])
        return self._ranked(self.X, self.order[points], candidates, k, run)

    def _recall(self, lists: Lists, k: int, sample: IntArray, run: Run) -> float:
        """Return the share of the k nearest of the sampled places that the lists hold."""
        found, _ = self._own(sample, k + 1, run, lists.ids)
        # Who found enough copies of itself has found all, and a list that is not full nothing.
        unsure = (found[:, -1] > 0) & np.isfinite(found[:, -1])
        recall = float(np.mean(found[:, -1] == 0))
        if unsure.any():
            found, sample = found[unsure], sample[unsure]
            truth, _ = self._ranked(self.X, self.order[sample], self._within(sample, found[:, -1], run), k + 1, run)
            recall += float(np.mean(unsure)) * recall_by_distance(found, truth)
        return recall

    def _within(self, sample: IntArray, radii: FloatArray, run: Run) -> Array:
        """Return the places (-1: none) that can be within the radius of each sampled one."""
        head = self.Z[:, :SAMPLE_COLUMNS]
        slack = 4 * head.shape[1] * np.finfo(np.float32).eps  # rounding of |p|^2 + |q|^2 - 2 p.q, as a share
        limits = (1 + slack) * (radii / self.unit) ** 2

        def block(lo: int, hi: int) -> IntArray:
            # From the middle of neighbors in the order, those of a sampled point are not far, and rounding little.
            middle = head[lo:hi].mean(axis=0)
            here, there = head[lo:hi] - middle, head[sample] - middle
            gaps = (-2 * there) @ here.T
            gaps += (1 - slack) * np.einsum("ij,ij->i", here, here)
            close = limits - (1 - slack) * np.einsum("ij,ij->i", there, there)
            return np.argwhere(gaps <= close.astype(np.float32)[:, None]) + np.array([0, lo])

        pairs = np.concatenate(run.map(block, run.ranges(len(self.Z), 1024), blas=True))
        rows, places = pairs[np.argsort(pairs[:, 0], kind="stable")].T
        counts = np.bincount(rows)
        candidates = np.full((len(sample), counts.max()), -1, np.int32)
        candidates[rows, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)] = places
        return candidates

    # New points

    def _walked(self, Q: Array, width: int, run: Run) -> Array:
        """Return places near each row of Q, by single precision and in the leading directions."""
        from manifoldry.compiled.beam import enter, walk

        beams = Lists.empty(len(Q), width)

        def block(lo: int, hi: int) -> None:
            Y = self._projected_new(Q[lo:hi])
            beam = beams.ids[lo:hi], beams.lengths[lo:hi], beams.fresh[lo:hi]
            for tree in self.doors:
                enter(Y, self.Z, tree.nodes, tree.starts, tree.members, *beam)
            walk(Y, self.Z, self.links, *beam)

        run.map(block, run.ranges(len(Q), 1024))
        return beams.ids

    # Both

    def _ranked(self, Q: Array, rows: IntArray, places: Array, k: int, run: Run) -> tuple[FloatArray, IntArray]:
        """Return the k nearest by exact distance to ``rows`` of Q among their candidates, given by place (-1: none)."""
        from manifoldry.compiled.rank import rank

        distances, indices = np.empty((len(rows), k)), np.empty((len(rows), k), dtype=np.int64)

        def block(lo: int, hi: int) -> None:
            candidates = np.where(places[lo:hi] >= 0, self.order[places[lo:hi]], np.int32(-1))
            asked = np.ascontiguousarray(Q[rows[lo:hi]], dtype=np.float64)
            rank(asked, self.X, candidates, distances[lo:hi], indices[lo:hi])

        run.map(block, run.ranges(len(rows), 512))
        return distances, indices

    def _projected_old(self, run: Run) -> Array:
        Z = np.empty((len(self.X), self.X.shape[1] if self.basis is None else PROJECT_TO), np.float32)

        def block(lo: int, hi: int) -> None:
            centered = np.clip((self.X[lo:hi] - self.center) / self.X.dtype.type(self.unit), -FARTHEST, FARTHEST)
            Z[lo:hi] = centered if self.basis is None else centered @ self.basis

        run.map(block, run.ranges(len(self.X), 1024), blas=True)
        return Z

    def _projected_new(self, Q: Array) -> Array:
        centered = np.clip(np.subtract(Q, self.center, dtype=np.float64) / self.unit, -FARTHEST, FARTHEST)
        if self.basis is None:
            return centered.astype(np.float32)
        from manifoldry.compiled.beam import project

        Y = np.empty((len(Q), PROJECT_TO), np.float32)
        project(centered, self.basis.astype(np.float64), Y)
        return Y


def _links(ids: Array, fresh: Array, near: int, back: int, run: Run) -> tuple[Array, Array, Array]:
    """Return everybody's links, and how many of them are fresh and old; see `compiled.nndescent.link`."""
    from manifoldry.compiled.nndescent import link

    n, near = len(ids), min(near, ids.shape[1])
    links, n_fresh, n_old = np.empty((n, near + back), np.int32), np.empty(n, np.int32), np.empty(n, np.int32)

    def block(lo: int, hi: int) -> None:
        link(ids, fresh, near, links, n_fresh, n_old, lo, hi)

    run.map(block, run.ranges(n, 1 + n // 8))  # each task reads all lists, so there are few of them
    return links, n_fresh, n_old
