"""The shape of the data: tangent frames, borders and loops of its surface, and the findings about them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.csgraph import breadth_first_order, connected_components, dijkstra, minimum_spanning_tree
from manifoldry._core.run import Run
from manifoldry._core.values import Array, FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.elbow import MAX_LOST_VARIANCE
from manifoldry._numerics.geometry.dimension import N_DIMENSION_NEIGHBORS
from manifoldry._numerics.geometry.neighborhoods import MAX_STACK_ENTRIES, gather
from manifoldry._numerics.geometry.principal import principal_directions
from manifoldry._numerics.patches.advice import MAX_LOOP_DIMENSION, is_loop
from manifoldry.evaluation.diagnosis._finding import Finding, note, problem
from manifoldry.evaluation.dimension import UndecidedError, local
from manifoldry.graph._operations import components, local_scale, rescaled
from manifoldry.methods._base._wrapped import residual_variance_shares

if TYPE_CHECKING:
    from manifoldry.evaluation.diagnosis._profile import DataProfile

N_AROUND = 20  # neighbors whose directions show a border: 20 random ones leave a gap of 135 degrees in 0.3 % of cases
MIN_BORDER_GAP = 0.75 * np.pi  # angle without a neighbor from which a point may be at a border, where it is about pi
MIN_BORDER_COMPANIONS = 2  # neighbors at the border that a border point needs: a lone gap is chance
BORDER_DEPTH = float(np.cos(MIN_BORDER_GAP / 2))
"""Depth from a straight border, over the reach of the neighbors, at which the gap has that angle."""
MIN_FRAME_AGREEMENT = 0.7  # determinant of two frames from which it is clear whether they have the same side up
MAX_TURNED_SHARE = 0.07  # turned edges times root n on a two-sided surface: 0 on rolls, 0.1 to 0.5 on Moebius strips
N_PLANE_NEIGHBORS = 14  # neighbors that span the plane an edge is compared with: with 8, noise tilts it
MAX_CHECKED_PAIRS = 300  # edges that are checked, those of the largest detours


@dataclass(frozen=True)
class Sheet:
    """Points (n, D) of a surface of given dimension, with the indices and distances (n, s) of their neighbors."""

    points: Array
    neighbors: IntArray
    lengths: FloatArray
    dimension: int
    run: Run

    @cached_property
    def _local(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Tangent coordinates of the neighbors of each point (n, s, d), frames (n, D, d), distances off the plane."""
        n, width = self.neighbors.shape
        step = max(1, MAX_STACK_ENTRIES // ((width + 1) * self.points.shape[1]))

        def work(lo: int, hi: int) -> tuple[FloatArray, FloatArray, FloatArray]:
            rows = gather(self.points, np.column_stack([np.arange(lo, hi), self.neighbors[lo:hi]]))
            rows -= rows[:, :1].copy()
            values, directions = principal_directions(rows - rows.mean(axis=1, keepdims=True))
            frames = directions[:, :, : self.dimension]
            residuals = np.sqrt(values[:, self.dimension :].sum(axis=1) / (width + 1))
            return rows[:, 1:] @ frames, frames, residuals

        parts = self.run.map(work, self.run.ranges(n, step), blas=True)
        coordinates, frames, residuals = (np.concatenate(part) for part in zip(*parts, strict=True))
        return coordinates, frames, residuals

    @property
    def off_plane(self) -> FloatArray:
        """Root mean square distance of each neighborhood from its tangent plane."""
        return self._local[2]

    @cached_property
    def border(self) -> Array:
        """Which points of a two-dimensional surface are at a border: no neighbors in a wide angle."""
        coordinates = self._local[0]
        angles = np.sort(np.arctan2(coordinates[..., 1], coordinates[..., 0]), axis=1)
        around = np.concatenate([angles, angles[:, :1] + 2 * np.pi], axis=1)
        gap = np.diff(around, axis=1).max(axis=1) > MIN_BORDER_GAP
        return gap & (gap[self.neighbors].sum(axis=1) >= MIN_BORDER_COMPANIONS)

    @property
    def border_share(self) -> float:
        """Number of border points over that of a flat disk of as many points, whose border is the shortest."""
        n, s = self.neighbors.shape
        return float(self.border.mean()) / (BORDER_DEPTH * 2 * np.sqrt(s / n))

    @property
    def n_borders(self) -> int:
        """Number of components of the border: border points that share a neighbor are connected."""
        at = np.flatnonzero(self.border)
        if not len(at):
            return 0
        n, s = self.neighbors.shape
        lists = csr_array((np.ones(n * s), self.neighbors.ravel(), np.arange(0, n * s + 1, s)), shape=(n, n))
        touches = (lists + csr_array(lists.T))[at][:, at]
        common = csr_array(lists[at] @ lists[at].T) + touches
        return int(connected_components(common, directed=False)[0])

    @property
    def one_sided(self) -> bool:
        """Whether the surface, of two dimensions, has one side only, as a Moebius strip."""
        return self.turned_share > MAX_TURNED_SHARE / np.sqrt(len(self.neighbors))

    @cached_property
    def turned_share(self) -> float:
        """Share of the edges whose ends have different sides up, with sides carried along the best edges."""
        frames, n = self._local[1], len(self.neighbors)
        near = self.neighbors[:, : N_AROUND // 2]
        rows, columns = np.repeat(np.arange(n), near.shape[1]), near.ravel()
        turns = np.linalg.det(np.einsum("edi,edj->eij", frames[rows], frames[columns]))
        clear = np.abs(turns) > MIN_FRAME_AGREEMENT
        rows, columns, turns = rows[clear], columns[clear], turns[clear]
        # Sides are carried along the tree of the edges whose frames agree best.
        cost = csr_array((1.0 + 1e-9 - np.abs(turns), (rows, columns)), shape=(n, n))
        tree = minimum_spanning_tree(cost.maximum(cost.T))
        sides = _carried(tree + tree.T, frames)
        return float(np.mean(sides[rows] * sides[columns] * turns < 0))


def _carried(tree: csr_array, frames: FloatArray) -> FloatArray:
    """Return a side (1 or -1) for each point such that frames along the tree agree."""
    n = tree.shape[0]
    sides = np.ones(n)
    _, part = connected_components(tree, directed=False)
    for root in np.unique(part, return_index=True)[1]:
        order, before = breadth_first_order(tree, int(root), directed=False)
        for point in order[1:]:
            turn = np.linalg.det(frames[before[point]].T @ frames[point])
            sides[point] = sides[before[point]] * (1.0 if turn > 0 else -1.0)
    return sides


def along_surface(points: Array, neighbors: IntArray, pairs: IntArray, dimension: int) -> FloatArray:
    """Return the share of each pair's length in the tangent planes of its ends: 1 along a surface, 0 between sheets."""
    jumps = {*map(tuple, pairs.tolist()), *map(tuple, pairs[:, ::-1].tolist())}

    def plane(end: int) -> FloatArray:
        near = [other for other in neighbors[end].tolist() if (end, other) not in jumps][:N_PLANE_NEIGHBORS]
        rows = gather(points, np.array([end, *near]))
        return np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][:dimension]

    checked = pairs[:MAX_CHECKED_PAIRS]
    planes = {end: plane(end) for end in np.unique(checked).tolist()}
    ends = gather(points, checked)
    directions = (ends[:, 1] - ends[:, 0]) / np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1, keepdims=True)
    shares = [
        min(np.linalg.norm(planes[i] @ step), np.linalg.norm(planes[j] @ step))
        for (i, j), step in zip(checked.tolist(), directions, strict=True)
    ]
    return np.array([*shares, *np.full(len(pairs) - len(checked), np.median(shares))])


MIN_PIECE_POINTS = 30  # least number of points of a component whose shape is described
N_LANDMARKS, MIN_POINTS_PER_LANDMARK = 200, 5  # landmarks, and points for each: with fewer, gaps look like holes
MIN_LOOP_PERSISTENCE = 2.7  # death over birth of a loop of the shape: up to 2.5 on random sheets, 3 around a torus
MIN_BIRTH_REACH = 1.5  # least birth, relative to the largest distance of a point from its landmark


@dataclass(frozen=True)
class Outline:
    """The largest component without short circuits (``cut`` if they changed much), its surface, and the ``others``."""

    graph: NeighborGraph
    sheet: Sheet | None
    others: tuple[NeighborGraph, ...]
    cut: bool
    where: str

    @cached_property
    def n_loops(self) -> int:
        """Number of loops that are not gaps between points, by lengths relative to the local distance of neighbors."""
        even = rescaled(self.graph, local_scale(self.graph))
        chosen, distances = landmarks(even, min(N_LANDMARKS, self.graph.n_points // MIN_POINTS_PER_LANDMARK))
        births, deaths = loops(distances[:, chosen]).T
        floor = MIN_BIRTH_REACH * float(distances.min(axis=0).max())
        return int((deaths >= MIN_LOOP_PERSISTENCE * np.maximum(births, floor)).sum())


def outline_of(points: DataProfile, where: str) -> Outline:
    """Return the outline of all points of a profile of bounded size."""
    graph = points.short.removed_from(points.graph) if len(points.short) else points.graph
    largest, *others = (np.sort(part) for part in components(graph))
    large = tuple(graph.subset(part) for part in others if len(part) >= MIN_PIECE_POINTS)
    sheet = None
    if points.euclidean is not None and points.dimension is not None and len(largest) > 2 * N_AROUND:
        width = min(N_AROUND, points.neighbors.shape[1])
        near, lengths = points.neighbors[largest, :width], points.lengths[largest, :width]
        position = np.full(len(points.chosen), -1)
        position[largest] = np.arange(len(largest))
        # The nearest neighbor in this component replaces the few neighbors in others.
        first = near[np.arange(len(near)), np.argmax(position[near] >= 0, axis=1)]
        inside = np.where(position[near] >= 0, position[near], position[first][:, None])
        sheet = Sheet(points.euclidean[largest], inside, lengths, points.dimension.value, points.run)
    return Outline(graph.subset(largest), sheet, large, points.is_short_circuited, where)


# Loops of a set of points: persistent cohomology of the Rips complex of a few landmarks, in dimension one over Z/2.

WORD_BITS = 64  # loops that one word of an edge's mask represents
MAX_MASK_WORDS = 64  # words of a mask, 4,096 loops at a time: 200 landmarks of a plane have at most 30


def landmarks(graph: NeighborGraph, count: int) -> tuple[IntArray, FloatArray]:
    """Return points, each the farthest from those before it, and their distances along the graph to all (count, n)."""
    lengths = graph.to_sparse()
    chosen, rows = [int(np.argmax(dijkstra(lengths, indices=0)))], []  # the lengths are symmetric
    nearest = np.full(graph.n_points, np.inf)
    while True:
        rows.append(dijkstra(lengths, indices=chosen[-1]))
        nearest = np.minimum(nearest, rows[-1])
        far = int(np.argmax(nearest))
        if len(chosen) == count or nearest[far] == 0:
            return np.array(chosen), np.array(rows)
        chosen.append(far)


def loops(distances: FloatArray, most: float = np.inf) -> FloatArray:
    """Return the birth and death of every loop of the Rips complex of distances (n, n), the longest-lived first.

    Every edge that closes a cycle begins a cocycle; a triangle on which cocycles do not vanish ends the youngest of
    them. An edge holds the mask of its living cocycles, so that a triangle costs two exclusive ors. Once a point is
    linked to all others, the complex is a cone without loops, and longer edges change nothing. References: desilva2011

    Examples
    --------
    >>> angles = 2 * np.pi * np.arange(12) / 12
    >>> circle = np.column_stack([np.cos(angles), np.sin(angles)])
    >>> loops(np.linalg.norm(circle[:, None] - circle, axis=2)).round(3)
    array([[0.518, 1.732]])
    """
    state = _Cocycles(len(distances))
    most = min(most, float(distances.max(axis=1).min()))
    i, j = np.triu_indices(len(distances), 1)
    lengths = distances[i, j]
    order = np.argsort(lengths, kind="stable")
    for edge in order[lengths[order] <= most]:
        state.add(int(i[edge]), int(j[edge]), float(lengths[edge]))
    pairs = np.array([*state.ended, *((birth, np.inf) for birth in state.births.values())]).reshape(-1, 2)
    with np.errstate(invalid="ignore"):
        lived = np.where(pairs[:, 0] > 0, pairs[:, 1] / np.maximum(pairs[:, 0], np.finfo(float).tiny), np.inf)
    return pairs[np.argsort(-lived, kind="stable")]


class _Cocycles:
    """The living cocycles while edges are added: masks of the edges they are in, by both ends, and their births."""

    def __init__(self, n: int) -> None:
        self.linked = np.zeros((n, n), dtype=bool)
        self.masks = np.zeros((n, n, 1), dtype=np.uint64)
        self.parts = np.arange(n)
        self.births: dict[int, float] = {}  # by bit, in the order of birth
        self.ended: list[tuple[float, float]] = []

    def add(self, i: int, j: int, length: float) -> None:
        """Add an edge and all triangles that it completes."""
        common = (self.linked[i] & self.linked[j]).nonzero()[0]
        self.linked[i, j] = self.linked[j, i] = True
        if self.parts[i] != self.parts[j]:
            self.parts[self.parts == self.parts[j]] = self.parts[i]
            return
        if not len(common):
            self._begin(i, j, length)
            return
        if not self.births:  # all masks are empty
            return
        # The new cocycle ends at once, at the first triangle, and the edge gets what the two others have.
        around = self.masks[i, common] ^ self.masks[j, common]
        self.masks[i, j] = self.masks[j, i] = around[0]
        odd = around ^ around[0]
        while odd.any():
            first = odd[int(np.argmax(odd.any(axis=1)))].copy()
            bit = self._end_youngest(first, length)
            word, shift = divmod(bit, WORD_BITS)
            with_it = (odd[:, word] >> np.uint64(shift)) & np.uint64(1) == 1
            odd[with_it] ^= first

    def _begin(self, i: int, j: int, length: float) -> None:
        bit = next(bit for bit in range(len(self.births) + 1) if bit not in self.births)
        self.births[bit] = length
        word, shift = divmod(bit, WORD_BITS)
        if word == MAX_MASK_WORDS:
            raise ValueError(f"More than {WORD_BITS * MAX_MASK_WORDS} loops at a time; use fewer points.")
        if word == self.masks.shape[2]:
            self.masks = np.concatenate([self.masks, np.zeros_like(self.masks)], axis=2)
        self.masks[i, j, word] |= np.uint64(1) << np.uint64(shift)
        self.masks[j, i] = self.masks[i, j]

    def _end_youngest(self, odd: Array, length: float) -> int:
        """End the youngest of the cocycles with a bit in ``odd``, add it to the others, and return its bit."""
        bit = next(bit for bit in reversed(self.births) if int(odd[bit // WORD_BITS]) >> bit % WORD_BITS & 1)
        birth = self.births.pop(bit)
        if length > birth:
            self.ended.append((birth, length))
        word, shift = divmod(bit, WORD_BITS)
        inside = (self.masks[:, :, word] >> np.uint64(shift)) & np.uint64(1) == 1
        self.masks[inside] ^= odd
        return bit


# Findings about the shape.

MAX_NOISE_DIMENSION = 4  # at which noise is distinguished from more dimensions: 20 neighbors span few
N_NOISE_NEIGHBORS = 5  # the neighbor whose distance noise is compared with
MAX_NOISE_RATIO = 0.5  # distance off the tangent plane, over that of neighbors, without a note
MAX_CLOSED_BORDER, MIN_OPEN_BORDER = 0.1, 0.2  # border points over a disk's: tori 0.02, tubes 0.3
PLACE_QUANTILES = (0.1, 0.9)  # regions of low and of high dimension
MIN_PLACES_RATIO = 1.8  # ratio of the dimensions in such regions from which they differ: 1.2 on rolls, 1.6 for digits
KIND_WORDS = {
    "curved": ", and neighborhoods are curved",
    "falling": ", more at the scale of near neighbors, as with noise",
    "apart": ", and neighborhoods are curved or uneven at every scale",
}
"""What the scales of a `dimension.Consensus` show, in short."""


def dimension(profile: DataProfile) -> Finding | None:
    """Measure the dimension of the data."""
    estimate = profile.dimension
    if estimate is None:
        return Finding(
            "dimension", "The dimension cannot be estimated: too few neighbors are at different distances.", np.nan
        )
    text = (
        f"The data has about {estimate.value} dimension{'s' if estimate.value != 1 else ''} ({estimate.low:.1f} to "
        f"{estimate.high:.1f}){KIND_WORDS.get(estimate.kind, '')}{profile.where}."
    )
    return note("dimension", text, estimate.measured, _as_components(profile, estimate.value))


def _as_components(profile: DataProfile, d: int) -> str:
    if d <= 2:
        seen = shape(profile)
        if seen is not None and seen.severity == "problem":
            return f"n_components={d} is enough for parts of it; no map of {d} dimensions keeps the shape of the whole"
        return f"a faithful map needs n_components={d} at least"
    plain = isinstance(profile.metric, str) and profile.metric == "euclidean"
    residual = float(residual_variance_shares(profile.points)[:2][-1]) if plain else 1.0
    if residual <= MAX_LOST_VARIANCE:
        kept = f"2 principal components keep {1 - residual:.0%} of the variance"
        return f"{kept}; to keep near neighbors use n_components={d}"
    return f"a picture of 2 dimensions cannot keep distances; as features use n_components={d}"


def varying(profile: DataProfile) -> Finding | None:
    """Find parts of different dimensions."""
    width = min(N_DIMENSION_NEIGHBORS, profile.neighbors.shape[1])
    lists = NeighborGraph.from_rows(profile.neighbors[:, :width], profile.lengths[:, :width])
    try:
        estimate = local(lists)
    except UndecidedError:
        return None
    low, high = np.nanquantile(estimate.values, PLACE_QUANTILES)
    ratio = float(high / low)
    if not estimate.varies or ratio < MIN_PLACES_RATIO:
        return Finding("dimension by place", "The dimension is about the same everywhere.", ratio)
    text = (
        f"The dimension differs between regions: 10% of the points lie where it is {low:.1f} or less, 10% "
        f"where it is {high:.1f} or more{profile.where}."
    )
    return note("dimension by place", text, ratio, "look at the parts one by one; no single n_components suits all")


def flatness(profile: DataProfile) -> Finding | None:
    """How far points lie off the tangent planes, relative to the distance of neighbors: by noise, or by curvature."""
    sheet = profile.outline.sheet
    if sheet is None or sheet.dimension > MAX_NOISE_DIMENSION or sheet.dimension >= sheet.points.shape[1]:
        return None
    ratio = float(np.median(sheet.off_plane) / np.median(sheet.lengths[:, N_NOISE_NEIGHBORS - 1]))
    curved = profile.dimension is not None and profile.dimension.kind == "curved"
    what = "a line" if sheet.dimension == 1 else f"a plane of {sheet.dimension} dimensions"
    off = f"Points are {ratio:.1f} neighbor distances off {what} in their neighborhoods{profile.outline.where}"
    if ratio <= MAX_NOISE_RATIO:
        return Finding(
            "noise", f"Neighborhoods are flat (points are off by {ratio:.2f} of a neighbor distance).", ratio
        )
    if curved:
        advice = "use fewer neighbors or more points; methods with flat neighborhoods (LTSA, IPA) miss the curvature"
        return note("curvature", f"{off}: they are curved.", ratio, advice)
    advice = "raise n_neighbors until neighborhoods are wider than the noise, or denoise first (PCA)"
    return note("noise", f"{off}: noise decides which points are near.", ratio, advice)


def shape(profile: DataProfile) -> Finding | None:
    """Rings, closed surfaces, tubes, holes and one-sided strips."""
    if not profile.enough or profile.dimension is None or profile.dimension.value > MAX_LOOP_DIMENSION:
        return None
    outline, d = profile.outline, profile.dimension.value
    surface = outline.sheet if d == 2 and not outline.cut else None
    rings = _rings(outline)
    if rings is not None:
        return rings
    # A Moebius strip has one side, and a thin torus goes around one long loop, as a ring does.
    if (
        outline.n_loops == 1
        and is_loop(outline.graph)
        and not (surface is not None and (surface.one_sided or surface.border_share <= MAX_CLOSED_BORDER))
    ):
        ring = "lie around one large loop, as a ring does, or a sheet with a large hole"
        advice = "use n_components=2 or more; one dimension has to cut it"
        return note("shape", f"The points {'form a closed ring' if d == 1 else ring}{outline.where}.", 1, advice)
    if surface is not None:
        return _surface(outline, surface)
    if outline.n_loops:
        what = "parts that short circuits join, or a hole" if outline.cut else "something that turns around, or a hole"
        return _looped(outline, f"{_count(outline.n_loops)}: {what}")
    return Finding("shape", "No loop or hole was found, larger than the gaps between points.", 0)


def _rings(outline: Outline) -> Finding | None:
    """Report how many of several components are rings, if any is."""
    parts = (outline.graph, *outline.others)
    count = sum(map(is_loop, parts)) if len(parts) > 1 else 0
    if not count:
        return None
    text = (
        f"{count} of {len(parts)} components {'is a closed ring' if count == 1 else 'are closed rings'}{outline.where}."
    )
    return note("shape", text, count, "show each in two dimensions or more; one dimension has to cut them")


def _surface(outline: Outline, sheet: Sheet) -> Finding:
    """Distinguish closed surfaces from open ones, and describe the latter by their borders, loops and sides."""
    share, count, borders = sheet.border_share, outline.n_loops, sheet.n_borders
    at_border = f"({int(sheet.border.sum())} of {len(sheet.border):,}){outline.where}"
    if share <= MAX_CLOSED_BORDER:
        like = "a sphere or a torus" if count == 0 else "a torus" if count == 2 else f"a torus, with {_count(count)}"
        text = f"The surface is closed, like {like}: hardly any of its points is at a border {at_border}."
        advice = "no map of 2 dimensions is faithful: use n_components=3, or cut it open (IPA, TSNE)"
        return problem("shape", text, share, advice)
    if count and sheet.one_sided:
        text = f"The surface has only one side, like a Moebius strip, with {_count(count)}{outline.where}."
        advice = "no map of 2 dimensions is faithful: use n_components=3 or more, or leave out a strip to cut it"
        return problem("shape", text, count, advice)
    if share < MIN_OPEN_BORDER:
        text = f"It is not clear whether the surface is closed: few points are at a border {at_border}."
        return note("shape", text, share, "use more points to decide, or try both n_components=2 and 3")
    if not count:
        sampled_text = f"No hole and no closed surface was seen{outline.where}."
        open_text = "The surface is open, without holes larger than the gaps between points."
        return Finding("shape", sampled_text if outline.where else open_text, share)
    if borders == count + 1:
        what = "a hole in a sheet, or a tube" if count == 1 else "holes in a sheet"
        return _looped(outline, f"{_count(count)} and {borders} borders: {what}")
    return _looped(outline, f"{_count(count)}: a hole, a tube, or parts that short circuits join")


def _looped(outline: Outline, what: str) -> Finding:
    text = f"There {'is' if outline.n_loops == 1 else 'are'} {what}{outline.where}."
    advice = (
        "geodesic methods stretch holes (Isomap), IPA and neighbor embeddings do not; a tube needs one dimension "
        "more or a cut"
    )
    return note("shape", text, outline.n_loops, advice)


def _count(n_loops: int) -> str:
    return "one loop" if n_loops == 1 else f"{n_loops} loops"
