"""Charts: local coordinates of the patches; `fit_charts` says which kinds there are."""

from __future__ import annotations

from typing import Literal, Protocol

from manifoldry.patches.cover import Membership
from manifoldry.patches.curved import CurvedCharts, fit_curved_charts
from manifoldry.patches.geodesic import GeodesicCharts, fit_geodesic_charts
from manifoldry.run import Run
from manifoldry.values import Array, FloatArray, IntArray


class Charts(Protocol):
    """The charts of c patches: coordinates of points in them, and points at coordinates."""

    @property
    def n_patches(self) -> int:
        """Number of patches."""

    @property
    def width(self) -> int:
        """Largest dimension of a patch."""

    @property
    def means(self) -> FloatArray:
        """Mean of each patch's points, shape (c, d)."""

    @property
    def sizes(self) -> IntArray:
        """The dimension of each patch, shape (c,); coordinates beyond it are zero."""

    @property
    def spread(self) -> FloatArray:
        """Variances of each patch along its first axes, the chart's and some beyond, shape (c, q)."""

    @property
    def residuals(self) -> FloatArray:
        """Error of each chart relative to the spread of its patch, shape (c,)."""

    def coordinates(self, X: Array, members: Membership, run: Run) -> FloatArray:
        """Return the coordinates of every entry of a membership, shape (M, r)."""

    def points(self, patches: IntArray, f: FloatArray, run: Run) -> FloatArray:
        """Return the points at coordinates f of the charts, shape (M, d)."""


def fit_charts(
    X: Array,
    members: Membership,
    n_patches: int,
    width: int,
    run: Run,
    *,
    kind: str = "curved",
    share: float | None = None,
) -> Charts:
    """Fit a chart of at most ``width`` dimensions to each patch.

    ``kind`` is "curved" (principal directions and, where the points give evidence of it, the second fundamental form),
    "flat" (principal directions alone), "geodesic" (classical scaling of geodesic distances inside the patch) or
    "isomap" (the same of one patch of all points, see `fit_geodesic_charts`). With a ``share``, a patch
    gets only as many dimensions as leave at most this share of its variance.
    """
    if kind in ("geodesic", "isomap"):
        return fit_geodesic_charts(X, members, n_patches, width, run, share, whole=kind == "isomap")
    return fit_curved_charts(X, members, n_patches, width, run, curved=kind == "curved", share=share)


def layout_kind(charts: Charts) -> Literal["patches", "PCA", "Isomap"]:
    """Return what a layout is: one flat patch of all points is PCA, one by geodesic distances may be Isomap."""
    if charts.n_patches == 1 and isinstance(charts, CurvedCharts) and not charts.curved.any():
        return "PCA"
    return "Isomap" if isinstance(charts, GeodesicCharts) and charts.joined else "patches"
