"""Checks of points (number, copies, outliers, order of the rows) and of the neighbor graph that a method would use."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from manifoldry._core.csgraph import minimum_spanning_tree
from manifoldry._core.values import FloatArray, IntArray
from manifoldry.evaluation._input import random_rows
from manifoldry.evaluation.diagnosis._finding import Finding, lift, note, problem
from manifoldry.evaluation.diagnosis._profile import MIN_DIAGNOSED_POINTS, DataProfile
from manifoldry.graph._operations import MAX_GAP_RATIO, bridge, components, local_scale
from manifoldry.graph._pairwise import distance_rows
from manifoldry.graph._short_circuits import MIN_NEIGHBORS_ADVISED

MAX_NEAR_SHARE = 1e-3  # nearest distance, relative to the median, below which a point is a copy up to rounding
MAX_NEAR_COPIES_SHARE = 0.01  # share of near copies without a note: 1e-3 of random points on a line
MIN_REMOTENESS = 3.0  # distance to the neighbors, relative to the median, from which a point may be an outlier
MIN_FENCE = 3.0  # and interquartile ranges of the logarithms beyond the quartiles (Tukey's far out)
MAX_OUTLIER_SHARE = 0.05  # largest share of points called outliers; more are a sparse part of the data
MIN_DOMINATING_VARIANCE = 0.2  # share of the variance held by outliers from which they dominate a picture
MIN_OUTLIER_VARIANCE = 0.01  # share of the variance below which they are not reported: they cannot be seen in a picture
N_ROWS_NAMED = 4  # rows that a text names
NEARBY_ROWS_SHARE = 0.05  # rows nearby in the table: this share of all, before and after
MIN_ORDER_LIFT = 0.2  # how often neighbors must be rows nearby to call the rows ordered, from chance (0) to always (1)
MIN_FOLLOWING_SHARE, MIN_FOLLOWING_RATIO = 0.45, 1.5  # of a sequence: 0.52 and 1.7 in a video
N_ORDER_NEIGHBORS = 5  # neighbors compared with the order of the rows


def size(profile: DataProfile) -> Finding | None:
    """Too few points, or fewer than columns."""
    if not profile.enough:
        text = (
            f"{len(profile.chosen)} different rows are too few to describe their shape "
            f"({MIN_DIAGNOSED_POINTS} are needed)."
        )
        return note("rows", text, len(profile.chosen), "look at the distances themselves, or collect more rows")
    if not profile.pairwise and profile.X.shape[1] > profile.n:
        text = (
            f"There are more columns ({profile.X.shape[1]:,}) than rows ({profile.n:,}): any {profile.n:,} rows fit "
            "a plane of as many dimensions exactly, so linear methods explain everything."
        )
        advice = "evaluate on held-out rows, not by the variance explained"
        return note("rows", text, profile.X.shape[1] / profile.n, advice)
    return Finding("rows", f"There are enough rows ({profile.n:,}).", profile.n)


def _how(profile: DataProfile) -> str:
    """Return how to drop rows; with distances the columns as well."""
    return " (with distances, the row and the column)" if profile.pairwise else " (numpy.unique(X, axis=0))"


def duplicates(profile: DataProfile) -> Finding | None:
    """Rows that repeat others, exactly or up to rounding."""
    repeated, largest = profile.n_repeated
    if largest > profile.n_neighbors:
        text = (
            f"One row occurs {largest:,} times, more often than n_neighbors={profile.n_neighbors}: its neighbors "
            f"are all copies of it ({repeated:,} of {profile.n:,} rows repeat others)."
        )
        advice = f"drop repeated rows before the fit{_how(profile)}, and weight or copy them afterwards"
        return problem("duplicates", text, repeated / profile.n, advice)
    if repeated:
        text = f"{repeated:,} of {profile.n:,} rows {'repeats another' if repeated == 1 else 'repeat others'} exactly."
        advice = f"drop them if they are entered twice{_how(profile)}; repeated measurements may stay"
        return note("duplicates", text, repeated / profile.n, advice)
    return _near_copies(profile)


def _near_copies(profile: DataProfile) -> Finding | None:
    if profile.enough:
        nearest = profile.lengths[:, 0]
        share = float((nearest < MAX_NEAR_SHARE * np.median(nearest)).mean())
        if share > MAX_NEAR_COPIES_SHARE:
            text = (
                f"{share:.0%} of the rows have another that is the same up to rounding, a thousand times nearer than "
                f"neighbors are{profile.where}."
            )
            advice = "round the columns and drop repeated rows, if they are entered twice"
            return note("duplicates", text, share, advice)
    return Finding("duplicates", "No row occurs twice.", 0.0)


def outliers(profile: DataProfile) -> Finding | None:
    """Points far from all others, by the distance to their neighbors."""
    far = _remote(profile.lengths[:, profile.k - 1])
    if not 0 < len(far) <= MAX_OUTLIER_SHARE * len(profile.chosen):
        return Finding("outliers", "No point lies far from all others.", 0.0)
    share = _variance_share(profile, far)
    if share < MIN_OUTLIER_VARIANCE:
        return Finding(
            "outliers", f"{len(far):,} points lie far from the others, with less than 1% of the variance.", len(far)
        )
    rules = share > MIN_DOMINATING_VARIANCE
    rows = ", ".join(str(profile.chosen_numbers[row]) for row in far[:N_ROWS_NAMED])
    which = f"row {rows}" if len(far) == 1 else f"rows {rows}{', ...' if len(far) > N_ROWS_NAMED else ''}"
    one = "s" if len(far) == 1 else ""
    held = f" and hold{one} {share:.0%} of the variance" if np.isfinite(share) else ""
    return Finding(
        "outliers",
        f"{len(far):,} of {len(profile.chosen):,} points ({which}) lie{one} {MIN_REMOTENESS:g} times or more as far "
        f"from neighbors as usual{held}{profile.where}.",
        len(far),
        "look at these rows, which dominate an axis: correct mistakes, or use RobustScaler"
        if rules
        else "look at these rows, and correct mistakes",
        "problem" if rules else "note",
    )


def _remote(reach: FloatArray) -> IntArray:
    """Return the points beyond both fences, the farthest first."""
    low, middle, high = np.quantile(np.log(reach), [0.25, 0.5, 0.75])
    fence = max(high + MIN_FENCE * (high - low), middle + np.log(MIN_REMOTENESS))
    order = np.argsort(-reach, kind="stable")
    return order[np.log(reach[order]) > fence]


def _variance_share(profile: DataProfile, points: IntArray) -> float:
    """Return the share of the variance that some points hold; NaN where there are no coordinates."""
    rows = profile.euclidean
    if rows is None or hasattr(rows, "tocsr"):
        return float("nan")
    squares = ((rows - rows.mean(axis=0)) ** 2).sum(axis=1)
    return float(squares[points].sum() / squares.sum())


def order(profile: DataProfile) -> Finding | None:
    """Rows whose neighbors are rows nearby in the table: a sequence, or sorted by something."""
    n, rows = profile.n, profile.chosen
    steps = np.abs(rows[profile.neighbors[:, :N_ORDER_NEIGHBORS]] - rows[:, None])
    width = max(1, int(NEARBY_ROWS_SHARE * n))
    nearby, chance = float((steps <= width).mean()), width * (2 * n - width - 1) / (n * (n - 1))  # of all pairs
    gain = (nearby - chance) / (1.0 - chance)
    following = float((steps == 1).any(axis=1).mean())
    sharp = (steps == 1).sum() >= MIN_FOLLOWING_RATIO * (steps == 3).sum()
    if gain < MIN_ORDER_LIFT:
        return Finding("order of rows", "The order of the rows is not related to which points are near.", gain)
    if following > MIN_FOLLOWING_SHARE and sharp:
        return note(
            "order of rows",
            f"The rows are a sequence, like a video, a scan or a path: {following:.0%} of them have the row before "
            f"or after among their {N_ORDER_NEIGHBORS} nearest.",
            following,
            "neighbors may be neighbors in time only: color the picture by row number, and split by time, not at "
            "random",
        )
    text = (
        f"The rows are in an order that shows in the data, like a class, a batch or time: {nearby:.0%} of the "
        f"neighbors are at most {width:,} rows away, {chance:.0%} by chance{profile.where}."
    )
    return note("order of rows", text, gain, "color the picture by row number; shuffle the rows before you split them")


def agreement_with_labels(profile: DataProfile) -> Finding | None:
    """How often neighbors share the known labels."""
    if profile.labels is None:
        return None
    codes = np.unique(profile.labels[profile.chosen], return_inverse=True)[1]
    if len(np.unique(codes)) < 2:
        return None
    k = max(1, min(profile.k, int(np.median(np.bincount(codes)[codes])) // 2))  # more than a class has cannot share it
    gain, shared, chance = lift(codes, profile.neighbors[:, :k])
    separate = gain >= MIN_ORDER_LIFT
    text = f"{shared:.0%} of the {k} nearest neighbors share the label, {chance:.0%} by chance{profile.where}."
    advice = "" if separate else "do not expect the labels to be separate in a picture of these columns"
    return note("labels", text, gain, advice)


MIN_SEPARATE_SHARE = 0.01  # points in the second largest component from which a disconnected graph spoils a picture
MAX_ANTIHUBS_SHARE = 0.5  # share of the points in no list of neighbors without a problem
MIN_HUB_SKEWNESS = 2.0  # skewness of the number of lists with a point: 0.8 for digits, 5.4 in 100 columns
N_HUB_NEIGHBORS = 10  # length of these lists, as in the literature
MAX_DENSITY_RATIO = 8.0  # neighbor distances in sparse over dense regions: 1.8 on rolls, 4.7 for a Gaussian
DENSITY_QUANTILES = (0.05, 0.95)  # quantiles of these distances in dense and in sparse regions
MIN_CONTRAST = 1.5  # mean over nearest distance: 1.25 for noise in 100 columns, 3 for digits
N_CONTRAST_POINTS = 200  # points whose distances to all others are averaged
MIN_SEARCH_RECALL = 0.95  # share of the true neighbors that a search must find without a note


def pieces(profile: DataProfile) -> Finding | None:
    """Components of the graph, the number of neighbors that connects them, and whether to connect them at all."""
    parts = components(profile.graph)
    if len(parts) == 1:
        return Finding("components", f"The graph of {profile.k} neighbors is connected{profile.where}.", 1)
    sizes = ", ".join(f"{len(part):,}" for part in parts[:4]) + (", ..." if len(parts) > 4 else "")
    gap = _widest_gap(profile, parts)
    small = len(parts[1]) < MIN_SEPARATE_SHARE * len(profile.chosen)
    text = (
        f"The graph of {profile.k} neighbors has {len(parts)} components ({sizes} points); the widest gap between "
        f"them is {gap:.1f} times the distance between neighbors{profile.where}."
    )
    advice = _about_components(_connecting(profile.neighbors), gap, small)
    return Finding("components", text, len(parts), advice, "note" if small else "problem")


def _about_components(enough: int | None, gap: float, small: bool) -> str:
    """Return what to do about components that ``enough`` neighbors connect, None for more than were searched."""
    raising = "raise n_neighbors" if enough is None else f"raise n_neighbors to {enough}"
    if small:
        return f"{raising}, or leave out the small components"
    if enough is not None and gap <= MAX_GAP_RATIO:
        return f"{raising}, which connects them"
    return (
        "treat them as separate groups (disconnected='apart', or a fit for each): their relative position is not in "
        f"the data at this scale; to join them anyway, {raising}"
    )


def _widest_gap(profile: DataProfile, parts: list[IntArray]) -> float:
    """Return the longest of the shortest bridges, over the typical neighbor distance in the components at its ends."""
    scale = local_scale(profile.graph)
    typical = np.empty(len(scale))
    for members in parts:
        typical[members] = np.median(scale[members])
    bridges = bridge(profile.graph, profile.points, profile.metric)[1]
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


def shortcuts(profile: DataProfile) -> Finding | None:
    """Edges that jump between parts that are distant along the data."""
    shorts = profile.short
    if not profile.is_short_circuited:
        sentence = f"No short circuits dominate the graph of {profile.k} neighbors."
        return Finding("short circuits", sentence, 0.0)
    fewer = MIN_NEIGHBORS_ADVISED <= shorts.n_neighbors < profile.k
    return problem(
        "short circuits",
        f"{len(shorts):,} of the {profile.graph.n_edges // 2:,} edges of the graph of {profile.k} neighbors jump "
        f"between parts that are distant along the data; without them {shorts.affected:.0%} of the distances along it "
        f"would be longer by a quarter or more{profile.where}.",
        len(shorts),
        f"lower n_neighbors to {shorts.n_neighbors}"
        if fewer
        else "use more points, or fewer neighbors; no n_neighbors helps against noise as wide as the gaps",
    )


def hubs(profile: DataProfile) -> Finding | None:
    """Points that are in far more lists of neighbors than others, and points that are in none."""
    k = min(N_HUB_NEIGHBORS, profile.neighbors.shape[1])
    occurrences = np.bincount(profile.neighbors[:, :k].ravel(), minlength=len(profile.chosen)).astype(float)
    spread = float(occurrences.std())
    skewness = float(((occurrences - k) ** 3).mean() / spread**3) if spread > 0 else 0.0
    antihubs, largest = float((occurrences == 0).mean()), int(occurrences.max())
    if skewness < MIN_HUB_SKEWNESS:
        return Finding("hubs", f"No points are neighbors of very many others (skewness {skewness:.1f}).", skewness)
    text = (
        f"Some points are neighbors of very many: one is in {largest:,} lists of {k} neighbors, and {antihubs:.0%} "
        f"of the points are in none (skewness {skewness:.1f}){profile.where}."
    )
    advice = "reduce to fewer columns first (PCA), or try metric='cosine'; distrust pictures with a crowded center"
    return Finding("hubs", text, skewness, advice, "problem" if antihubs > MAX_ANTIHUBS_SHARE else "note")


def density(profile: DataProfile) -> Finding | None:
    """Distances to neighbors that differ between regions."""
    low, high = np.quantile(profile.lengths[:, profile.k - 1], DENSITY_QUANTILES)
    ratio = float(high / low)
    if ratio <= MAX_DENSITY_RATIO:
        return Finding("density", f"Neighbors are about equally far everywhere (ratio {ratio:.1f}).", ratio)
    return note(
        "density",
        f"The density is uneven: neighbors are {ratio:.0f} times as far apart in sparse regions as in dense "
        f"ones{profile.where}.",
        ratio,
        "use a method with a scale for each point (TSNE, UMAP, ConformalIsomap), and neither a radius nor one "
        "bandwidth for all",
    )


def contrast(profile: DataProfile) -> Finding | None:
    """Whether the nearest neighbor is much nearer than any other point (He, Kumar and Chang's relative contrast)."""
    if callable(profile.metric):
        return None
    rows = random_rows(len(profile.chosen), N_CONTRAST_POINTS, profile.run.rng("contrast"))
    metric = profile.metric
    points = profile.points if profile.pairwise or hasattr(profile.points, "tocsr") else profile.points.astype(float)
    mean = float(distance_rows(points, metric)(rows).sum() / (len(rows) * (len(profile.chosen) - 1)))
    ratio = mean / float(profile.lengths[rows, 0].mean())
    if ratio >= MIN_CONTRAST:
        return Finding("contrast", f"Nearest neighbors are {ratio:.1f} times nearer than others on average.", ratio)
    text = (
        f"Nearest neighbors are hardly nearer than any other points ({ratio:.2f} times){profile.where}: neighbors mean "
        "little, as in data of very many dimensions."
    )
    advice = "reduce to fewer columns first (PCA, or choose those that matter), or use another metric"
    return problem("contrast", text, ratio, advice)


def recall(profile: DataProfile) -> Finding | None:
    """Whether the neighbor search found most neighbors."""
    if profile.recall >= MIN_SEARCH_RECALL:
        return None
    text = (
        f"The approximate search found {profile.recall:.0%} of the true neighbors{profile.where}: the intrinsic "
        "dimension is high."
    )
    return note("search recall", text, profile.recall, "set search='exact' if individual neighbors matter")
