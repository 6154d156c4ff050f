"""The neighbor graph that a method would work on: pieces, short circuits, hubs, density, contrast, noise, recall."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.csgraph import minimum_spanning_tree
from manifoldry._core.values import IntArray
from manifoldry.evaluation.diagnosis._finding import Finding
from manifoldry.evaluation.diagnosis._subject import Subject
from manifoldry.graph._operations import MAX_GAP_RATIO, bridge, components, local_scale
from manifoldry.graph._pairwise import distance_rows
from manifoldry.graph._short_circuits import MIN_NEIGHBORS_ADVISED

MIN_SEPARATE_SHARE = 0.01
"""Share of the points in the second largest piece from which on a graph in pieces spoils a picture."""

MAX_ANTIHUBS_SHARE = 0.5
"""Share of the points in no list of neighbors without a problem."""

MIN_HUB_SKEWNESS = 2.0
"""Skewness of the number of lists a point is in from which on there are hubs: 0.1 on a plane, 0.8 for digits and normal
numbers in 10 columns, 2.2 in 20 and 5.4 in 100."""

N_HUB_NEIGHBORS = 10
"""Length of the lists whose skewness is taken, as in the literature."""

MAX_DENSITY_RATIO = 8.0
"""Ratio of the distances to the neighbors in sparse and in dense places without a note: 1.8 on rolls
and for digits, 4.7 for normal numbers in two columns."""

DENSITY_QUANTILES = (0.05, 0.95)
"""What dense and sparse places are."""

MIN_CONTRAST = 1.5
"""Mean distance over that to the nearest neighbor below which nearest hardly means near: 1.25 for normal numbers in 100
columns, 1.8 in 20, 3 for digits."""

N_CONTRAST_POINTS = 200
"""Points whose distances to all others are taken."""

MIN_SEARCH_RECALL = 0.95
"""Share of the true neighbors that a search must find without a note."""


def pieces(subject: Subject) -> Iterator[Finding]:
    """Components of the graph, the number of neighbors that connects them, and whether to connect them at all."""
    if not subject.enough:
        return
    parts = components(subject.graph)
    if len(parts) == 1:
        yield Finding("components", f"The graph of {subject.k} neighbors is connected{subject.where}.", 1)
        return
    sizes = ", ".join(f"{len(part):,}" for part in parts[:4]) + (", ..." if len(parts) > 4 else "")
    gap = _widest_gap(subject, parts)
    small = len(parts[1]) < MIN_SEPARATE_SHARE * len(subject.chosen)
    yield Finding(
        "components",
        f"The graph of {subject.k} neighbors is in {len(parts)} pieces ({sizes} points); the widest gap between "
        f"them is {gap:.1f} times the distance between neighbors{subject.where}.",
        len(parts),
        _about_pieces(_connecting(subject.neighbors), gap, small),
        "note" if small else "problem",
    )


def _about_pieces(enough: int | None, gap: float, small: bool) -> str:
    """Return what to do about pieces that so many neighbors connect, None for more than were looked at."""
    raising = "raise n_neighbors" if enough is None else f"raise n_neighbors to {enough}"
    if small:
        return f"{raising}, or leave out the small pieces"
    if enough is not None and gap <= MAX_GAP_RATIO:
        return f"{raising}, which connects them"
    return (
        "treat them as groups of their own (disconnected='apart', or a fit for each), as where one lies to another "
        f"is not in the data at this scale; to join them all the same, {raising}"
    )


def _widest_gap(subject: Subject, parts: list[IntArray]) -> float:
    """Return the longest of the shortest bridges, over the typical distance of neighbors in the pieces at its ends."""
    scale = local_scale(subject.graph)
    typical = np.empty(len(scale))
    for members in parts:
        typical[members] = np.median(scale[members])
    bridges = bridge(subject.graph, subject.points, subject.metric)[1]
    ends = bridges[:, :2].astype(np.int64)
    return float((bridges[:, 2] / typical[ends].max(axis=1)).max())


def _connecting(neighbors: IntArray) -> int | None:
    """Return the least number of nearest neighbors whose undirected graph is connected, None beyond the lists."""
    n, width = neighbors.shape
    ranks = np.tile(np.arange(1.0, width + 1), n)
    rows = np.repeat(np.arange(n), width)
    # The least rank of either direction decides; ranks from the far end make the larger entry the one to keep.
    graph = csr_array((width + 1 - ranks, (rows, neighbors.ravel())), shape=(n, n))
    both = csr_array(graph.maximum(graph.T))
    both.data = width + 1 - both.data
    tree = minimum_spanning_tree(both)
    return int(tree.data.max()) if tree.nnz == n - 1 else None


def shortcuts(subject: Subject) -> Iterator[Finding]:
    """Edges that jump between parts that are far apart along the data."""
    if not subject.enough:
        return
    found = subject.short
    if not subject.is_short_circuited:
        sentence = f"No short circuits rule the graph of {subject.k} neighbors."
        yield Finding("short circuits", sentence, 0.0)
        return
    fewer = MIN_NEIGHBORS_ADVISED <= found.n_neighbors < subject.k
    yield Finding(
        "short circuits",
        f"{len(found):,} of the {subject.graph.n_edges // 2:,} edges of the graph of {subject.k} neighbors jump "
        "between "
        f"parts that are far apart along the data; without them {found.affected:.0%} of the distances along the graph "
        f"would be longer by a quarter or more{subject.where}.",
        len(found),
        f"lower n_neighbors to {found.n_neighbors}"
        if fewer
        else "take more points, or fewer neighbors; noise of the size of the gaps cannot be helped by n_neighbors",
        "problem",
    )


def hubs(subject: Subject) -> Iterator[Finding]:
    """Points that are in far more lists of neighbors than others, and points that are in none."""
    if not subject.enough:
        return
    k = min(N_HUB_NEIGHBORS, subject.neighbors.shape[1])
    occurrences = np.bincount(subject.neighbors[:, :k].ravel(), minlength=len(subject.chosen)).astype(float)
    spread = float(occurrences.std())
    skewness = float(((occurrences - k) ** 3).mean() / spread**3) if spread > 0 else 0.0
    antihubs, largest = float((occurrences == 0).mean()), int(occurrences.max())
    if skewness < MIN_HUB_SKEWNESS:
        yield Finding("hubs", f"No points are neighbors of far too many (skewness {skewness:.1f}).", skewness)
        return
    yield Finding(
        "hubs",
        f"Some points are neighbors of very many: one is in {largest:,} lists of {k} neighbors, and {antihubs:.0%} "
        f"of the points are in none (skewness {skewness:.1f}){subject.where}.",
        skewness,
        "reduce to fewer columns first (PCA), or try metric='cosine'; distrust pictures with a crowded center",
        "problem" if antihubs > MAX_ANTIHUBS_SHARE else "note",
    )


def density(subject: Subject) -> Iterator[Finding]:
    """Distances to neighbors that differ much from place to place."""
    if not subject.enough:
        return
    low, high = np.quantile(subject.lengths[:, subject.k - 1], DENSITY_QUANTILES)
    ratio = float(high / low)
    if ratio <= MAX_DENSITY_RATIO:
        yield Finding("density", f"Neighbors are about equally far everywhere (ratio {ratio:.1f}).", ratio)
        return
    yield Finding(
        "density",
        f"The density is uneven: neighbors are {ratio:.0f} times as far apart in sparse places as in dense "
        f"ones{subject.where}.",
        ratio,
        "use a method with a scale for each point (TSNE, UMAP, ConformalIsomap), no radius, and no one bandwidth "
        "for all",
        "note",
    )


def contrast(subject: Subject) -> Iterator[Finding]:
    """Whether the nearest neighbor is much nearer than any other point (He, Kumar and Chang's relative contrast)."""
    if not subject.enough or callable(subject.metric):
        return
    some = np.sort(subject.run.rng("contrast").permutation(len(subject.chosen))[:N_CONTRAST_POINTS])
    metric = subject.metric
    points = subject.points if subject.pairwise or hasattr(subject.points, "tocsr") else subject.points.astype(float)
    mean = float(distance_rows(points, metric)(some).sum() / (len(some) * (len(subject.chosen) - 1)))
    ratio = mean / float(subject.lengths[some, 0].mean())
    if ratio >= MIN_CONTRAST:
        yield Finding("contrast", f"Nearest neighbors are {ratio:.1f} times nearer than others on average.", ratio)
        return
    yield Finding(
        "contrast",
        f"Nearest neighbors are hardly nearer than any other points ({ratio:.2f} times){subject.where}: neighbors say "
        "little, as in data of very many dimensions.",
        ratio,
        "reduce to fewer columns first (PCA, or choose those that matter), or take another metric",
        "problem",
    )


def recall(subject: Subject) -> Iterator[Finding]:
    """Whether the neighbor search found most neighbors."""
    if subject.enough and subject.recall < MIN_SEARCH_RECALL:
        yield Finding(
            "search recall",
            f"The approximate search found {subject.recall:.0%} of the true neighbors{subject.where}: the intrinsic "
            "dimension is high.",
            subject.recall,
            "set search='exact' if single neighbors matter",
            "note",
        )
