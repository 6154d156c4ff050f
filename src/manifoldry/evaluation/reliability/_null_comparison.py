"""Whether the clusters of a picture are in the data, or are what the method makes of data without clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from manifoldry._core import check
from manifoldry._core.run import Run
from manifoldry._core.values import FloatArray, IntArray, NeighborGraph
from manifoldry._numerics.geometry.dimension import intrinsic_dimension
from manifoldry.evaluation._docs import REFIT_TEXTS, documented
from manifoldry.evaluation.reliability._picture_clusters import (
    border_step,
    checked_refit,
    cluster_labels,
    cut,
    embed,
    leakage,
    picture_clusters,
    shown,
    spread_dimension,
)
from manifoldry.graph._operations import distinct_rows
from manifoldry.graph._pairwise import as_points, chunk_rows
from manifoldry.graph._search import NeighborRule, neighbor_graph

N_LEAKAGE_NEIGHBORS = 10  # of 5, 10, 20 and 30, ten distinguish digits and squares best
MIN_NULL_CLUSTERS = 20  # null clusters of one kind: with fewer, p could not reach 5 %, and pictures are cut into parts
NULL_LEVEL = 0.05  # share of the null clusters that may be as well separated as one that is called real
NULL_QUANTILE_SDS = 1.645  # standard deviations to the 5 % quantile of a normal variable, as log leakage is
MIN_REAL_GAP = 2.5  # how many times less than that quantile a real cluster leaks: 4 of 210 null pictures have one
MAX_SEGMENT_DIMENSION = 1.8  # of a segment of a curve along the graph: 87 of 88 segments, 8 of 281 others
MIN_CURVE_STEP = 2.5  # least step out of a segment over its longest inside: 2.0 within a curve, 2.3 to 5.3 for moons
COLUMNS_LEGEND = """\
leaving: share of its neighbors in the data that are outside of the cluster; leakage: the same, over cutting it up;
gap: how many times less it leaks than all but 5% of structureless clusters (real: 2.5 or more, and p at most 0.05);
step: the shortest step out of a segment of a curve, over the longest inside (real: 2.5 or more)."""
"""What the columns of the printed table are."""
MIN_COMPARED_POINTS = 30  # least number of points of a picture with clusters


@dataclass(frozen=True, repr=False)
class NullComparison:
    """The clusters of a picture compared with those of structureless data; ``print`` shows them as a table.

    Parameters
    ----------
    embedding : ndarray of shape (n, p)
        The evaluated picture.
    labels : ndarray of shape (n,)
        The cluster of each point, from 0; -1 if no clusters are seen.
    sizes : ndarray of shape (n_clusters,)
        Points of each cluster.
    leaving : ndarray of shape (n_clusters,)
        Share of the neighbors in the data that lie outside of the cluster.
    leakage : ndarray of shape (n_clusters,)
        Pairs of neighbors that the border of the cluster separates, over those that cutting it into quarters does.
    p_values : ndarray of shape (n_clusters,)
        Share of the clusters of structureless data that leak as little; the larger of the kinds of null data.
    gaps : ndarray of shape (n_clusters,)
        How many times less the cluster leaks than all but 5 % of those of structureless data.
    steps : ndarray of shape (n_clusters,)
        For segments of curves: the shortest step out of the cluster over the longest necessary step inside. NaN for
        clusters that are not curves, and for those that leak too much anyway.
    verdicts : tuple of str
        "real", "artifact" or "undecided" for each cluster.
    null_leakage : dict of str to ndarray
        The leakage of the clusters of structureless data, by its kind.
    null_counts : dict of str to list of int
        Number of clusters seen in each structureless picture, by its kind.
    """

    embedding: FloatArray
    labels: IntArray
    sizes: IntArray
    leaving: FloatArray
    leakage: FloatArray
    p_values: FloatArray
    gaps: FloatArray
    steps: FloatArray
    verdicts: tuple[str, ...]
    null_leakage: Mapping[str, FloatArray]
    null_counts: Mapping[str, list[int]]

    @property
    def n_clusters(self) -> int:
        """Number of evaluated clusters."""
        return len(self.sizes)

    @property
    def real(self) -> IntArray:
        """The labels of the clusters that are called real."""
        return np.flatnonzero([verdict == "real" for verdict in self.verdicts])

    @property
    def artifacts(self) -> IntArray:
        """The labels of the clusters that are called artifacts."""
        return np.flatnonzero([verdict == "artifact" for verdict in self.verdicts])

    @property
    def sentence(self) -> str:
        """The verdict on the picture as a whole."""
        usual = float(np.mean([count for counts in self.null_counts.values() for count in counts]))
        null_text = f"Pictures of structureless data have {usual:.0f} clusters on average"
        if not self.n_clusters:
            return f"The picture shows no clusters. {null_text}."
        n_real, n_artifacts = len(self.real), len(self.artifacts)
        n_undecided = self.n_clusters - n_real - n_artifacts
        artifacts = f"{n_artifacts} artifact{'s' * (n_artifacts != 1)}"
        counts_text = f"Of {self.n_clusters} clusters: {n_real} real, {n_undecided} undecided, {artifacts}."
        if n_artifacts > self.n_clusters / 2 and not n_real:
            return f"{counts_text} {null_text}, and those are separated equally well in the data: do not trust these."
        return f"{counts_text} {null_text}."

    def __repr__(self) -> str:
        return self.sentence

    def __str__(self) -> str:
        """Return a line per cluster, the best separated first, and the verdict."""
        lines = [f"{'cluster':>7}{'points':>8}{'leaving':>9}{'leakage':>9}{'p':>8}{'gap':>8}{'step':>7}  verdict"]
        for i in np.argsort(self.leakage, kind="stable"):
            figures = f"{self.leaving[i]:>9.3f}{self.leakage[i]:>9.3f}{self.p_values[i]:>8.3f}{self.gaps[i]:>8.2f}"
            step = "" if np.isnan(self.steps[i]) else f"{self.steps[i]:.2f}"
            lines.append(f"{i:>7}{self.sizes[i]:>8}{figures}{step:>7}  {self.verdicts[i]}")
        return "\n".join([*lines, COLUMNS_LEGEND, self.sentence] if self.n_clusters else [self.sentence])


@documented(REFIT_TEXTS)
def null_comparison(
    estimator: Any,
    X: Any,
    *,
    n_nulls: int = 2,
    clusters: Any = "auto",
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> NullComparison:
    r"""Decide which clusters of a picture are in the data, with the same method on data without structure.

    The clusters seen in the picture are evaluated *in the data*, by their leakage: how many pairs of neighbors their
    border separates, over how many are separated by cutting the cluster into quarters. A cluster with a gap around it
    leaks little; an island that the method has cut out of something connected leaks as much as any cut. How little
    chance and method achieve is measured on pictures of structureless data: ``n_nulls`` Gaussians with the covariance
    of X, and as many uniform cubes of the dimension that X has locally. With q the 5 % quantile of the leakage of their
    clusters (the smaller one of both kinds), a cluster is

    - "real", if it leaks at least 2.5 times less than q, and p is at most 5 %; a segment of a curve, which can be cut
      off anywhere at the cost of few pairs, must also be 2.5 times farther from the rest than its longest step inside;
    - an "artifact", if p is above 5 %: it is separated no better than clusters of structureless data;
    - "undecided" between the two.

    Parameters
    ----------
    X : array-like of shape (n, D)
        The data, as the estimator accepts it.
    n_nulls : int
        Number of structureless sets of each kind, each fitted once.
    random_state : None, int, numpy Generator or RandomState
        Seed of the structureless data, and of the fits if the estimator has none.

    Returns
    -------
    NullComparison
        Verdicts, p-values and metrics per cluster, and an overall verdict.

    Notes
    -----
    Takes the time of 2 ``n_nulls`` fits (and one more if the estimator is not fitted). Metrics other than the
    Euclidean are compared with Gaussians only. That a cluster is real does not say that its parts are not, nor
    that its position, size or shape in the picture mean anything. Branches in many dimensions whose noise is nearly as
    wide as a branch is long have necks instead of gaps; their segments are often called real.

    References: xia2024 (the idea of a null picture), campello2013

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import TSNE
    >>> square = np.random.default_rng(0).random((300, 2))
    >>> result = null_comparison(TSNE(perplexity=5), square)
    >>> len(result.real)
    0
    """
    X, given = checked_refit(estimator, X, clusters, MIN_COMPARED_POINTS)
    n_nulls = check.integer("n_nulls", n_nulls, 1)
    if issparse(X):
        raise ValueError(
            "Structureless data with the covariance of X is dense, and X is sparse; reduce it first, for example by "
            "TruncatedSVD(50), and evaluate a picture of the result."
        )
    run = Run(random_state, n_jobs)
    metric = estimator.get_params().get("metric") or "euclidean"
    seed = int(run.rng("shown picture").integers(2**31 - 1))
    Y = shown(estimator, X, seed)[0]
    labels = cluster_labels(Y, given)
    if labels.max() < 1:
        labels = np.full(len(X), -1)
    kinds = NULL_KINDS if metric in ("euclidean", "minkowski", "l2") else NULL_KINDS[:1]
    border = _Borders(metric, *distinct_rows(X), run)
    nulls = {kind: _null_pictures(estimator, X, kind, n_nulls, labels, border) for kind in kinds}
    null_leakage = {kind: leaks for kind, (leaks, _) in nulls.items()}
    sizes = np.bincount(labels[labels >= 0])
    leaks, leaving = border.of(X, Y)(labels) if len(sizes) else (np.zeros(0), np.zeros(0))
    p_values, gaps = _against(leaks, null_leakage)
    steps = border.steps(X, labels, np.flatnonzero((p_values <= NULL_LEVEL) & (gaps >= MIN_REAL_GAP)), len(sizes))
    verdicts = tuple(map(_verdict, p_values, gaps, steps))
    counts = {kind: counted for kind, (_, counted) in nulls.items()}
    return NullComparison(Y, labels, sizes, leaving, leaks, p_values, gaps, steps, verdicts, null_leakage, counts)


@dataclass(frozen=True)
class _Borders:
    """Borders of clusters among distinct rows: a border cannot separate a row from its copy."""

    metric: Any
    first: IntArray
    inverse: IntArray
    run: Run

    def alike(self, Z: FloatArray) -> FloatArray:
        """Return rows with the same copies as the data."""
        return Z[self.first][self.inverse]

    def of(self, X: FloatArray, Y: FloatArray) -> Callable[[IntArray], tuple[FloatArray, FloatArray]]:
        """Return the leakage of clusters of one picture as a function of their labels."""
        neighbors, picture = self._lists(X).indices.reshape(len(self.first), -1), Y[self.first]
        return lambda labels: leakage(neighbors, picture, labels[self.first], int(labels.max()) + 1)

    def steps(self, X: FloatArray, labels: IntArray, which: IntArray, count: int) -> FloatArray:
        """Return the steps out of clusters that are segments of curves; NaN for all others."""
        steps = np.full(count, np.nan)
        if len(which):
            rows, lists, clusters = X[self.first], self._lists(X), labels[self.first]
            for name in which:
                if spread_dimension(lists, clusters == name, self.run) <= MAX_SEGMENT_DIMENSION:
                    steps[name] = border_step(rows, lists, clusters == name, self.metric, self.run)
        return steps

    def _lists(self, X: FloatArray) -> NeighborGraph:
        """Return the neighbors of each distinct row."""
        k = min(N_LEAKAGE_NEIGHBORS, len(self.first) - 1)
        return neighbor_graph(X[self.first], NeighborRule(k, metric=self.metric), self.run)[0]


def _null_pictures(
    estimator: Any, X: FloatArray, kind: str, n_nulls: int, labels: IntArray, border: _Borders
) -> tuple[FloatArray, list[int]]:
    """Return the leakage of the clusters of structureless pictures (of parts if few are seen), and their number."""
    pictures: list[tuple[FloatArray, Callable[[IntArray], tuple[FloatArray, FloatArray]]]] = []
    leaks: list[float] = []
    counts: list[int] = []
    for i in range(n_nulls):
        rng = border.run.rng(f"structureless {kind} {i}")
        Z = border.alike(null_data(X, kind, rng))
        seeded = {"random_state": int(rng.integers(2**31 - 1))} if "random_state" in estimator.get_params() else {}
        Y = embed(estimator, Z, **seeded)
        clusters = picture_clusters(Y)
        counts.append(int(clusters.max()) + 1)
        pictures.append((Y, border.of(Z, Y)))
        if counts[-1] > 1:
            leaks.extend(pictures[-1][1](clusters)[0])
    usual = np.median(np.bincount(labels[labels >= 0])) if labels.max() >= 0 else len(X) / 4
    depth = max(2, round(np.log2(len(X) / usual)))
    while len(leaks) < MIN_NULL_CLUSTERS:
        for Y, leaks_of in pictures:
            leaks.extend(leaks_of(cut(Y, depth))[0])
        depth += 1
    return np.array(leaks), counts


def _against(leaks: FloatArray, null_leakage: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Return p-values and gaps of clusters against those of structureless data, by the kind that favors them less."""
    p_values, gaps = np.zeros(len(leaks)), np.full(len(leaks), np.inf)
    for null in null_leakage.values():
        as_low = np.searchsorted(np.sort(null), leaks, side="right")
        p_values = np.maximum(p_values, (1 + as_low) / (1 + len(null)))
        logs = np.log(null)
        gaps = np.minimum(gaps, np.exp(logs.mean() - NULL_QUANTILE_SDS * logs.std()) / leaks)
    return p_values, gaps


def _verdict(p: float, gap: float, step: float) -> str:
    if p > NULL_LEVEL:
        return "artifact"
    separate = np.isnan(step) or step >= MIN_CURVE_STEP
    return "real" if gap >= MIN_REAL_GAP and separate else "undecided"


NULL_KINDS = ("gaussian", "uniform")

DIMENSION_SLACK = 0.25  # how far the cube's dimension may exceed the data's: a noisy circle (1.6) is a line


def null_data(X: Any, kind: str, rng: np.random.Generator) -> FloatArray:
    """Return as many rows without structure as X has: of its mean and covariance, or of its mean and total variance.

    "gaussian" has no border, and often more dimensions than data on a curved surface. "uniform" is a cube of as many
    dimensions as X has locally, rotated at random into the columns of X.
    """
    X = as_points("X", X)
    check.choice("kind", kind, NULL_KINDS)
    mean = X.mean(axis=0)
    centered = X - mean
    if kind == "gaussian":
        return mean + _gaussian(centered, rng)
    n, width = X.shape
    d = min(max(1, int(intrinsic_dimension(X).value + DIMENSION_SLACK)), width)
    frame = np.linalg.qr(rng.normal(size=(width, d)))[0]
    side = np.sqrt(12.0 * float(np.mean(np.square(centered).sum(axis=1))) / d)
    return mean + side * (rng.random((n, d)) - 0.5) @ frame.T


def _gaussian(centered: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return rows drawn from the Gaussian with the covariance of centered rows."""
    n, width = centered.shape
    if width <= n:
        factor = np.linalg.qr(centered, mode="r") / np.sqrt(n - 1)
        return rng.normal(size=(n, len(factor))) @ factor
    rows = np.empty_like(centered)
    step = chunk_rows(n)
    for low in range(0, n, step):
        weights = rng.normal(size=(min(step, n - low), n))
        rows[low : low + step] = weights @ centered / np.sqrt(n - 1)
    return rows
