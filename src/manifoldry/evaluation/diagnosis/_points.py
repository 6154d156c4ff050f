"""Points: their number, copies, outliers, and the order of the rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from manifoldry._core.values import FloatArray, IntArray
from manifoldry.evaluation.diagnosis._finding import Finding
from manifoldry.evaluation.diagnosis._subject import MIN_DIAGNOSED_POINTS, Subject

MAX_NEAR_SHARE = 1e-3
"""Distance to the nearest neighbor, over the median of all, below which a point passes for a copy with rounding."""

MAX_NEAR_COPIES_SHARE = 0.01
"""Share of near copies without a note: of a plane's random points 1e-6 are as near, of a line's 1e-3."""

MIN_REMOTENESS = 3.0
"""Distance to the neighbors, over the median of all, from which on a point may be an outlier."""

MIN_FENCE = 3.0
"""And by so many ranges of the middle half of all logarithms beyond them (Tukey's far out)."""

MAX_OUTLIER_SHARE = 0.05
"""Share of the points up to which they are outliers; more are a part of the data that is sparse."""

MIN_RULED_VARIANCE = 0.2
"""Share of the variance held by outliers from which on they rule a picture."""

MIN_OUTLIER_VARIANCE = 0.01
"""Share of the variance below which they are not worth a note: they cannot be seen in a picture."""

N_ROWS_NAMED = 4
"""Rows that a sentence names."""

NEARBY_ROWS_SHARE = 0.05
"""Rows nearby in the table: so many of all, before and after."""

MIN_ORDER_LIFT = 0.2
"""How far beyond chance (0) towards always (1) neighbors must be rows nearby to call the rows ordered."""

MIN_FOLLOWING_SHARE, MIN_FOLLOWING_RATIO = 0.45, 1.5
"""Share of the rows that must have the row before or after among their neighbors to call the rows a sequence, and how
much more often than the third row: 0.52 and 1.7 in a video of a face, 0.67 and 1.4 in pictures sorted by person."""

N_ORDER_NEIGHBORS = 5
"""Neighbors compared with the order of the rows."""


def size(subject: Subject) -> Iterator[Finding]:
    """Too few points, or fewer than columns."""
    if not subject.enough:
        yield Finding(
            "rows",
            f"{len(subject.chosen)} different rows are too few to tell anything about their shape "
            f"({MIN_DIAGNOSED_POINTS} are needed).",
            len(subject.chosen),
            "look at the distances themselves, or collect more rows",
            "note",
        )
    elif not subject.pairwise and subject.X.shape[1] > subject.n:
        yield Finding(
            "rows",
            f"There are more columns ({subject.X.shape[1]:,}) than rows ({subject.n:,}): any {subject.n:,} rows fit "
            "a plane of as many dimensions exactly, so that linear methods explain everything.",
            subject.X.shape[1] / subject.n,
            "judge by what holds for rows left out, not by the variance explained",
            "note",
        )
    else:
        yield Finding("rows", f"There are enough rows ({subject.n:,}).", subject.n)


def _how(subject: Subject) -> str:
    """Say by what call rows are dropped; of distances columns go too."""
    return " (of distances the row and the column)" if subject.pairwise else " (numpy.unique(X, axis=0))"


def duplicates(subject: Subject) -> Iterator[Finding]:
    """Rows that repeat others, exactly or up to rounding."""
    repeated, largest = subject.n_repeated
    if largest > subject.n_neighbors:
        yield Finding(
            "duplicates",
            f"One row occurs {largest:,} times, more often than n_neighbors={subject.n_neighbors}: its neighbors "
            f"are all copies of it ({repeated:,} of {subject.n:,} rows repeat others).",
            repeated / subject.n,
            f"drop repeated rows before the fit{_how(subject)}, and weight or copy them afterwards",
            "problem",
        )
    elif repeated:
        yield Finding(
            "duplicates",
            f"{repeated:,} of {subject.n:,} rows {'repeats another' if repeated == 1 else 'repeat others'} exactly.",
            repeated / subject.n,
            f"drop them if they are entered twice{_how(subject)}; repeated measurements may stay",
            "note",
        )
    else:
        yield from _near_copies(subject)


def _near_copies(subject: Subject) -> Iterator[Finding]:
    if subject.enough:
        nearest = subject.lengths[:, 0]
        share = float((nearest < MAX_NEAR_SHARE * np.median(nearest)).mean())
        if share > MAX_NEAR_COPIES_SHARE:
            yield Finding(
                "duplicates",
                f"{share:.0%} of the rows have another that is the same up to rounding, a thousand times nearer than "
                f"neighbors are{subject.where}.",
                share,
                "round the columns and drop repeated rows, if they are entered twice",
                "note",
            )
            return
    yield Finding("duplicates", "No row occurs twice.", 0.0)


def outliers(subject: Subject) -> Iterator[Finding]:
    """Points far from all others, by the distance to their neighbors."""
    if not subject.enough:
        return
    far = _remote(subject.lengths[:, subject.k - 1])
    if not 0 < len(far) <= MAX_OUTLIER_SHARE * len(subject.chosen):
        yield Finding("outliers", "No point lies far from all others.", 0.0)
        return
    share = _variance_share(subject, far)
    if share < MIN_OUTLIER_VARIANCE:
        yield Finding("outliers", f"{len(far):,} points lie apart, with less than 1% of the variance.", len(far))
        return
    rules = share > MIN_RULED_VARIANCE
    rows = ", ".join(str(subject.chosen_numbers[row]) for row in far[:N_ROWS_NAMED])
    some = f"row {rows}" if len(far) == 1 else f"rows {rows}{', ...' if len(far) > N_ROWS_NAMED else ''}"
    one = "s" if len(far) == 1 else ""
    held = f" and hold{one} {share:.0%} of the variance" if np.isfinite(share) else ""
    yield Finding(
        "outliers",
        f"{len(far):,} of {len(subject.chosen):,} points ({some}) lie{one} {MIN_REMOTENESS:g} times or more as far "
        f"from neighbors as usual{held}{subject.where}.",
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


def _variance_share(subject: Subject, points: IntArray) -> float:
    """Return the share of the variance that some points hold; NaN where there are no coordinates."""
    rows = subject.euclidean
    if rows is None or hasattr(rows, "tocsr"):
        return float("nan")
    squares = ((rows - rows.mean(axis=0)) ** 2).sum(axis=1)
    return float(squares[points].sum() / squares.sum())


def order(subject: Subject) -> Iterator[Finding]:
    """Rows whose neighbors are rows nearby in the table: a sequence, or sorted by something."""
    if not subject.enough:
        return
    n, rows = subject.n, subject.chosen
    steps = np.abs(rows[subject.neighbors[:, :N_ORDER_NEIGHBORS]] - rows[:, None])
    width = max(1, int(NEARBY_ROWS_SHARE * n))
    nearby, chance = float((steps <= width).mean()), _chance(n, width)
    lift = (nearby - chance) / (1.0 - chance)
    following = float((steps == 1).any(axis=1).mean())
    sharp = (steps == 1).sum() >= MIN_FOLLOWING_RATIO * (steps == 3).sum()
    if lift < MIN_ORDER_LIFT:
        yield Finding("order of rows", "The order of the rows says nothing about who is near.", lift)
    elif following > MIN_FOLLOWING_SHARE and sharp:
        yield Finding(
            "order of rows",
            f"The rows are a sequence, like a video, a scan or a path: {following:.0%} of them have the row before "
            f"or after among their {N_ORDER_NEIGHBORS} nearest.",
            following,
            "neighbors may be neighbors in time only: color the picture by row number, and split by time, not at "
            "random",
            "note",
        )
    else:
        yield Finding(
            "order of rows",
            f"The rows are in an order that shows in the data, like a class, a batch or time: {nearby:.0%} of the "
            f"neighbors are at most {width:,} rows away, {chance:.0%} by chance{subject.where}.",
            lift,
            "color the picture by row number; shuffle the rows before you split them",
            "note",
        )


def _chance(n: int, width: int) -> float:
    """Return the share of all pairs of n rows that are at most ``width`` rows apart."""
    return width * (2 * n - width - 1) / (n * (n - 1))


def agreement_with_labels(subject: Subject) -> Iterator[Finding]:
    """How often neighbors share the known labels."""
    if subject.labels is None or not subject.enough:
        return
    codes = np.unique(subject.labels[subject.chosen], return_inverse=True)[1]
    if len(np.unique(codes)) < 2:
        return
    frequencies = np.bincount(codes) / len(codes)
    chance = float(np.sum(frequencies**2))
    k = max(1, min(subject.k, int(np.median(np.bincount(codes)[codes])) // 2))  # more than a class has cannot share it
    shared = float((codes[subject.neighbors[:, :k]] == codes[:, None]).mean())
    lift = (shared - chance) / (1.0 - chance)
    apart = lift >= MIN_ORDER_LIFT
    yield Finding(
        "labels",
        f"{shared:.0%} of the {k} nearest neighbors share the label, {chance:.0%} by chance{subject.where}.",
        lift,
        "" if apart else "do not expect the labels to lie apart in a picture of these columns",
        "fine" if apart else "note",
    )
