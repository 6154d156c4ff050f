"""Maps of where an embedding can be believed: local distortion and reliability, point by point."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry import check
from manifoldry.palette import COLORMAP, DIVERGING_COLORMAP, PALETTE, UNKNOWN
from manifoldry.plot.axes import DrawnLayout, chosen_columns, equal_scale, layout_of, name_axes, new_axes
from manifoldry.plot.curves import rows_of
from manifoldry.plot.points import draw_values, scatter
from manifoldry.quality.distortion import LocalDistortion, local_distortion
from manifoldry.quality.reliability import Reliability
from manifoldry.quality.reliability import reliability as judge_reliability
from manifoldry.values import FloatArray

SHOWN_FOLD = 4.0
"""Stretches are colored up to this factor, and down to one by it; what lies beyond has the color of the end."""

VERDICT_COLORS = {"trustworthy": PALETTE[0], "undecided": UNKNOWN, "dubious": PALETTE[2]}
"""Colors of the verdicts on points, in the order of the legend."""

DISTORTIONS = {
    "areas": "area, times the median",
    "longest": "largest stretch, times the median",
    "shortest": "smallest stretch, times the median",
    "conformality": "smallest over largest stretch (1: angles kept)",
    "residuals": "share torn or folded",
}
"""What of `LocalDistortion` can be drawn, and how it is called beside the bar."""


def distortion(
    X: Any, Y: Any, *, by: str = "areas", ax: Any = None, n_neighbors: int = 15, metric: str = "euclidean"
) -> Any:
    """Draw an embedding colored by what it does to the neighborhood of each point.

    Parameters
    ----------
    X : array, data frame, Dataset or sparse matrix of shape (n, d); or a LocalDistortion
        The data, or what `quality.local_distortion` returned for all points.
    Y : fitted estimator or array of shape (n, 2)
        The embedding.
    by : {"areas", "longest", "shortest", "conformality", "residuals"}
        Which property of `quality.LocalDistortion` to show; areas and stretches relative to their median, on a
        logarithmic scale: one color enlarged, the other shrunk.
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.
    n_neighbors, metric
        As in `quality.local_distortion`.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from manifoldry import PCA, datasets, plot
    >>> roll = datasets.swiss_roll(200)
    >>> plot.distortion(roll.X, PCA(n_components=2).fit(roll.X), by="residuals").get_title()
    'PCA'
    """
    check.choice("by", by, tuple(DISTORTIONS))
    layout = layout_of(Y)
    places = chosen_columns(layout, (0, 1))
    found = X
    if not isinstance(X, LocalDistortion):
        found = local_distortion(rows_of(X), layout.coordinates, n_neighbors=n_neighbors, metric=metric)
    if len(found.points) != len(places):
        raise ValueError(
            f"The distortion of {len(found.points):,} points does not fit an embedding of {len(places):,}."
        )
    values = np.asarray(getattr(found, by))
    ax = new_axes(ax)
    if by in ("conformality", "residuals"):
        draw_values(ax, places, values, (0.0, 1.0), COLORMAP, DISTORTIONS[by])
        return _finished(ax, layout)
    folds = _folds(values)
    end = np.log2(SHOWN_FOLD)
    draw_values(ax, places, folds, (-end, end), DIVERGING_COLORMAP, DISTORTIONS[by])
    bar = ax.figure.axes[-1]
    ticks = np.arange(-end, end + 1)
    bar.set_yticks(ticks, [f"{2.0**tick:g}" for tick in ticks])
    return _finished(ax, layout)


def reliability(X: Any, Y: Any, *, ax: Any = None, metric: str = "euclidean") -> Any:
    """Draw an embedding colored by which of its points can be believed.

    Parameters
    ----------
    X : array, data frame, Dataset or sparse matrix of shape (n, d); or a Reliability
        The data, or what `quality.reliability` returned.
    Y : fitted estimator or array of shape (n, 2)
        The embedding.
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.
    metric : str
        Metric of X, as in scikit-learn.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from manifoldry import PCA, datasets, plot
    >>> roll = datasets.swiss_roll(200)
    >>> ax = plot.reliability(roll, PCA(n_components=2).fit(roll.X))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['trustworthy, 88%', 'undecided, 12%']
    """
    layout = layout_of(Y)
    found = X if isinstance(X, Reliability) else judge_reliability(rows_of(X), layout.coordinates, metric=metric)
    verdicts = found.verdict
    present = [verdict for verdict in VERDICT_COLORS if (verdicts == verdict).any()]
    order = {verdict: i for i, verdict in enumerate(present)}
    return scatter(
        Y,
        np.array([order[verdict] for verdict in verdicts]),
        ax=ax,
        names=[f"{verdict}, {found.counts[verdict] / len(verdicts):.0%}" for verdict in present],
        palette=[VERDICT_COLORS[verdict] for verdict in present],
    )


def _folds(values: FloatArray) -> FloatArray:
    """Return by how many doublings each value exceeds the median."""
    positive = np.where(values > 0, values, np.nan)
    middle = np.nanmedian(positive) if np.isfinite(positive).any() else 1.0
    return np.log2(positive / middle)


def _finished(ax: Any, layout: DrawnLayout) -> Any:
    name_axes(ax, layout, (0, 1))
    equal_scale(ax)
    return ax
