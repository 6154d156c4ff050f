"""Diagnostic curves: eigenvalues, residual variance, Shepard diagram, R_NX."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np

from manifoldry._core import check
from manifoldry._core.markup import ACCENT, FAINT, GHOST, PALETTE
from manifoldry._core.values import FloatArray, Spectrum
from manifoldry._numerics.elbow import elbow, gap
from manifoldry.evaluation._metrics._coranking import auc_of_r, r_nx
from manifoldry.evaluation._metrics._shepard import shepard_diagram
from manifoldry.viz.plot._axes import fitted_model, layout_of, new_axes, remark, rows_of

MAX_LINEAR_RATIO = 1e3  # ratio of eigenvalues above which the axis is logarithmic

N_HEXAGONS = 60  # hexagons across a Shepard diagram

MAX_RANKED_PAIRS = 20_000_000  # pairs that are ranked for a curve, which takes a few seconds; larger data is sampled

MIN_RANKED_POINTS = 100  # minimum size of that sample

LINE_STYLES = ("-", "--", "-.", ":")  # Line styles of the methods, in addition to their colors


def eigenvalues(model: Any, *, ax: Any = None) -> Any:
    """Draw the eigenvalues of a spectral method and the suggested dimension.

    Parameters
    ----------
    model : fitted estimator or Spectrum
        An estimator with ``spectrum_``. It has one eigenvalue per component: fit with ``n_components=10`` to see where
        they drop.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib axes
        The dashed line follows the dimension of ``model.suggest_n_components()``; for a `Spectrum`, it is at the
        widest gap.

    Examples
    --------
    >>> from manifoldry import PCA, datasets, plot
    >>> plot.eigenvalues(PCA(n_components=3).fit(datasets.swiss_roll(200).X)).get_ylabel()
    'eigenvalue'
    """
    source = model if isinstance(model, Spectrum) else fitted_model(model)
    spectrum = source if isinstance(source, Spectrum) else getattr(source, "spectrum_", None)
    if spectrum is None:
        raise ValueError(f"{type(source).__name__} has no eigenvalues: it is not fitted, or not a spectral method.")
    ax = new_axes(ax)
    values, suggested = spectrum.values, _suggested(source, spectrum)
    components = np.arange(1, len(values) + 1)
    positive = values[values > 0]
    if len(positive) and positive.max() > MAX_LINEAR_RATIO * positive.min():
        ax.set_yscale("log")
    ax.plot(components, values, color=GHOST, zorder=1)
    inside = components <= (suggested or 0)
    ax.scatter(components[inside], values[inside], color=ACCENT, zorder=2)
    ax.scatter(components[~inside], values[~inside], color=FAINT, zorder=2)
    if suggested is not None and suggested <= len(values):
        ink = ax.xaxis.label.get_color()  # follows light and dark style sheets
        ax.axvline(suggested + 0.5, color=ink, linestyle="--", linewidth=1)
        style = {"va": "top", "ha": "right" if 2 * suggested > len(values) else "left", "color": ink}
        ax.text(suggested + 0.5, 0.97, f" suggested: {suggested} ", transform=ax.get_xaxis_transform(), **style)
    elif suggested is not None:
        remark(ax, f"{suggested} dimensions are suggested; fit with more components to see them")
    _whole_ticks(ax, len(values))
    title = "" if isinstance(source, Spectrum) else type(source).__name__
    ax.set(xlabel=f"component, {spectrum.order} first", ylabel="eigenvalue", title=title)
    return ax


def residual_variance(models: Any, max_components: int = 10, *, ax: Any = None) -> Any:
    """Draw the residual variance for 1, 2, ... dimensions.

    The curve falls up to the dimension of the data, and is flat beyond it.

    Parameters
    ----------
    models : fitted estimator, or mapping of name to fitted estimator
        `Isomap` and its variants (residual variance of geodesic distances), `PCA` (unexplained variance).
    max_components : int
        The largest dimension.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib axes
        A ring marks the elbow of each curve.

    Examples
    --------
    >>> from manifoldry import Isomap, datasets, plot
    >>> model = Isomap(n_neighbors=8).fit(datasets.swiss_roll(300).X)
    >>> plot.residual_variance(model, 4).get_xlabel()
    'dimensions'
    """
    most = check.integer("max_components", max_components, 2)
    named = models if isinstance(models, Mapping) else {type(fitted_model(models)).__name__: models}
    curves = {name: _residual_curve(fitted_model(model), most) for name, model in named.items()}
    ax = new_axes(ax)
    for (name, left), color, style in zip(curves.items(), cycle(PALETTE), cycle(LINE_STYLES), strict=False):
        bend = elbow(left, name).n_components
        ax.plot(np.arange(1, len(left) + 1), left, style, color=color, marker="o", markersize=4, label=name)
        ax.plot(bend, left[bend - 1], "o", markersize=11, fillstyle="none", color=color)
    _whole_ticks(ax, max(map(len, curves.values())))
    ax.set(xlabel="dimensions", ylabel="unexplained share")
    ax.set_ylim(bottom=0)
    if len(curves) > 1:
        ax.legend(frameon=False)
    else:
        ax.set_title(next(iter(curves)))
    return ax


def shepard(X: Any, Y: Any, *, ax: Any = None, n_pairs: int = 20_000, metric: str = "euclidean") -> Any:
    """Draw the Shepard diagram: distances in the embedding over distances in the data, with monotone regression.

    Parameters
    ----------
    X : array, data frame, Dataset or sparse matrix of shape (n, d)
        The data, or distances for ``metric="precomputed"``.
    Y : fitted estimator or array of shape (n, p)
        The embedding.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    n_pairs : int
        Number of pairs, drawn at random.
    metric : str
        Metric of X, as in scikit-learn.

    Returns
    -------
    matplotlib axes
        Darker cells hold more pairs. A narrow band along a straight line means that distances are preserved up to a
        factor.

    Examples
    --------
    >>> import numpy as np
    >>> from manifoldry import plot
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> plot.shepard(X, X[:, :2]).get_ylabel()
    'distance in the embedding'
    """
    layout = layout_of(Y)
    diagram = shepard_diagram(rows_of(X), layout.coordinates, n_pairs=n_pairs, metric=metric)
    ax = new_axes(ax)
    ax.hexbin(diagram.before, diagram.after, gridsize=N_HEXAGONS, bins="log", cmap="binary", mincnt=1, linewidths=0)
    line = f"rank correlation {diagram.spearman:.3f}\ncorrelation {diagram.pearson:.3f}"
    ax.plot(diagram.before, diagram.fitted, color=PALETTE[2], label=line)
    ax.set(xlabel="distance in the data", ylabel="distance in the embedding", title=layout.method)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, loc="upper left")
    return ax


def rnx(X: Any, embeddings: Any, *, ax: Any = None, metric: str = "euclidean", sample: int | None = None) -> Any:
    """Draw R_NX: the share of preserved neighbors beyond chance, for neighborhoods of every size.

    Parameters
    ----------
    X : array, data frame, Dataset or sparse matrix of shape (n, d)
        The data, or distances for ``metric="precomputed"``.
    embeddings : mapping of name to fitted estimator or array; or one of these
        What to compare.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.
    metric : str
        Metric of X, as in scikit-learn.
    sample : int, optional
        Number of points whose neighborhoods are compared; by default as many as take a few seconds.

    Returns
    -------
    matplotlib axes
        The legend gives each area under the curve on the logarithmic axis, `metrics.r_nx_auc`; 1 is best, 0 is chance.

    Examples
    --------
    >>> from manifoldry import PCA, Isomap, datasets, plot
    >>> X = datasets.swiss_roll(300).X
    >>> models = {"PCA": PCA(n_components=2).fit(X), "Isomap": Isomap(n_neighbors=8).fit(X)}
    >>> [line.get_label()[:6] for line in plot.rnx(X, models).get_lines()[1:]]
    ['PCA, 0', 'Isomap']
    """
    rows = rows_of(X)
    named = embeddings if isinstance(embeddings, Mapping) else {"": embeddings}
    layouts = {name: layout_of(Y, name or "Y") for name, Y in named.items()}
    n = len(next(iter(layouts.values())).coordinates) if layouts else 0
    if not layouts:
        raise ValueError("embeddings is empty; pass a mapping of names to embeddings.")
    m = max(MIN_RANKED_POINTS, MAX_RANKED_PAIRS // max(1, n)) if sample is None else sample
    curves = {
        name or layout.method: np.asarray(r_nx(rows, layout.coordinates, metric=metric, sample=m))
        for name, layout in layouts.items()
    }
    ax = new_axes(ax)
    ax.axhline(0, color=GHOST)
    for (name, curve), color, style in zip(curves.items(), cycle(PALETTE), cycle(LINE_STYLES), strict=False):
        label = ", ".join(filter(None, [name, f"{auc_of_r(curve):.3f}"]))
        ax.plot(np.arange(1, len(curve) + 1), curve, style, color=color, label=label)
    ax.set_xscale("log")
    ax.set(xlabel="neighborhood size K", ylabel="neighbors preserved beyond chance, $R_{NX}$", xlim=(1, n - 2))
    ax.set_ylim(bottom=min(0.0, *(float(curve.min()) for curve in curves.values())), top=1.02)
    ax.legend(frameon=False, title="area under the curve")
    if m < n:
        remark(ax, f"neighborhoods of {m:,} of {n:,} points")
    return ax


def _residual_curve(model: Any, most: int) -> FloatArray:
    if hasattr(model, "residual_variances") and hasattr(model, "graph_"):
        return np.asarray(model.residual_variances(most))
    left = getattr(model, "diagnostics_", {}).get("left_over")
    if left is None:
        raise ValueError(
            f"{type(model).__name__} has no residual variance: it is not fitted, or neither Isomap nor PCA."
        )
    return np.asarray(left)[:most]


def _suggested(source: Any, spectrum: Spectrum) -> int | None:
    """Return the dimension that an estimator suggests, or that before the widest gap of a `Spectrum`."""
    if not isinstance(source, Spectrum):
        try:
            return int(source.suggest_n_components())
        except ValueError:  # no suggestion for affinities
            return None
    values = spectrum.values
    if len(values) < 3:
        return None
    smallest = max(float(np.abs(values).max()) * 1e-12, np.finfo(float).tiny)
    ascending = values if spectrum.order == "smallest" else 1 / np.maximum(values, smallest)
    return gap(ascending, "eigenvalue").n_components


def _whole_ticks(ax: Any, most: int) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlim(0.5, most + 0.5)
