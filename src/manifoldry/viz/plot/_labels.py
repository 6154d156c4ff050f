"""Names of classes or clusters, written over the points of a plot."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from manifoldry._core.markup import INK
from manifoldry._core.values import Array, FloatArray, IntArray

MAX_NAMES = 30  # names on one plot; with more classes, those of the largest are written
LINE_WIDTH, MAX_LINES = 18, 3  # characters in a line and lines of a name; longer names are cut
SMALLEST_FONT, LARGEST_FONT = 7.5, 13.0  # sizes of the names of small and large classes, in points
FEW_NAMES = 12  # names that have space in the largest font; more are smaller
HALO, MARGIN = 2.5, 2.0  # width of the white outline, and free space around a name, in points
MEAN_SHIFT_STEPS = 10  # enough to come to rest within a few percent of the radius
N_DIRECTIONS = 16  # directions in which a free position is searched
ABOVE_CURVES = 6  # drawing order of the names; that of curves is 2


def central_point(points: FloatArray) -> tuple[int, float]:
    """Return the index of a point in the middle of a dense part, and the median distance from the middle.

    The point is near the median, moved by mean shift. The median of a ring lies outside of it, and the mean of two
    groups between them; a point of the class does not.
    """
    start = points[_nearest(points, np.median(points, axis=0))]
    radius = float(np.median(np.linalg.norm(points - start, axis=1)))
    center = start
    for _ in range(MEAN_SHIFT_STEPS):
        center = points[np.linalg.norm(points - center, axis=1) <= radius / 2].mean(axis=0)
    return _nearest(points, center), radius


def _nearest(points: FloatArray, center: FloatArray) -> int:
    return int(np.argmin(np.linalg.norm(points - center, axis=1)))


def place_boxes(anchors: FloatArray, sizes: FloatArray, hidden: Array, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the centers (m, 2) of boxes of these sizes, near their anchors and without overlaps; NaN if none is free.

    The first box gets the best position. Each is tried at its anchor, unless it would hide (``hidden``) all of its
    class, then on growing circles around it. A box that contains its anchor is nearest to it of all anchors; another
    box needs a line to its anchor.
    """
    centers = np.full(anchors.shape, np.nan)
    step = sizes[:, 1].min(initial=np.inf) / 2
    angles = np.pi / 2 + 2 * np.pi * np.arange(N_DIRECTIONS) / N_DIRECTIONS
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    visible = np.flatnonzero(np.all((anchors >= low) & (anchors <= high), axis=1))
    for i in visible:
        radii = np.arange(1, np.hypot(*(high - low)) / step)
        tried = anchors[i] + np.concatenate([np.zeros((1, 2)), (step * radii[:, None, None] * circle).reshape(-1, 2)])
        half = sizes[i] / 2
        free = np.all((tried - half >= low) & (tried + half <= high), axis=1)
        others = np.flatnonzero(np.isfinite(centers[:, 0]))
        apart = np.abs(tried[:, None] - centers[others]) >= half + sizes[others] / 2
        free &= apart.any(axis=2).all(axis=1)
        away = np.linalg.norm(tried[:, None] - anchors[visible], axis=2)
        own = np.linalg.norm(tried - anchors[i], axis=1) <= away.min(axis=1)
        free &= (own & (not hidden[i])) | ~contains(tried, half, anchors[i])
        if free.any():
            centers[i] = tried[np.argmax(free)]
    return centers


def contains(center: FloatArray, half: FloatArray, point: FloatArray) -> Any:
    """Return whether a box contains a point."""
    return np.all(np.abs(point - center) <= half, axis=-1)


class MapLabels:
    """Names of classes over their points, arranged whenever their axes are drawn, so that they follow zoom and pan.

    After a draw, ``boxes`` (m, 2, 2) are the lower left and upper right corners in pixels, NaN for names that have no
    space or whose class is outside of the axes.
    """

    def __init__(self, axes: Any, points: FloatArray, codes: IntArray, names: tuple[str, ...]) -> None:
        from matplotlib.artist import Artist
        from matplotlib.text import Text

        self.axes = axes
        counts = np.bincount(codes[codes >= 0], minlength=len(names))
        largest = np.argsort(-counts, kind="stable")[:MAX_NAMES]
        shown = [int(code) for code in largest if counts[code] and names[code]]
        classes = [points[codes == code] for code in shown]
        middles = [central_point(group) for group in classes]
        self.anchors = np.array([group[i] for group, (i, _) in zip(classes, middles, strict=True)]).reshape(-1, 2)
        self.radii = np.array([radius for _, radius in middles])
        largest_font = max(SMALLEST_FONT, LARGEST_FONT * min(1.0, (FEW_NAMES / max(len(shown), 1)) ** 0.5))
        shares = np.sqrt(counts[shown] / counts.max(initial=1))
        self.texts = [
            Text(
                0.0,
                0.0,
                "\n".join(textwrap.wrap(names[code], LINE_WIDTH, max_lines=MAX_LINES, placeholder=" …")),
                size=SMALLEST_FONT + (largest_font - SMALLEST_FONT) * share,
                ha="center",
                va="center",
                weight="bold",
                color=INK,
                parse_math=False,
            )
            for code, share in zip(shown, shares, strict=True)
        ]
        self.boxes = np.empty((0, 2, 2))
        artist = Artist()
        artist.set(zorder=ABOVE_CURVES, in_layout=False)
        artist.draw = self.draw  # type: ignore[method-assign]
        axes.add_artist(artist)

    def draw(self, renderer: Any) -> None:
        """Arrange and draw the names."""
        from matplotlib.lines import Line2D
        from matplotlib.patheffects import withStroke

        if not self.texts:
            return
        figure, axes = self.axes.figure, self.axes
        halo = withStroke(linewidth=HALO, foreground=axes.get_facecolor())
        for text in self.texts:
            text.set_figure(figure)
            text.set_path_effects([halo])
        margin = 2 * renderer.points_to_pixels(MARGIN)
        sizes = np.array([text.get_window_extent(renderer).size for text in self.texts]) + margin
        anchors = axes.transData.transform(self.anchors)
        reach = np.linalg.norm(axes.transData.transform(self.anchors + self.radii[:, None] * [1, 0]) - anchors, axis=1)
        centers = place_boxes(anchors, sizes, 1.5 * reach < sizes[:, 1] / 2, axes.bbox.min, axes.bbox.max)
        self.boxes = np.stack([centers - sizes / 2, centers + sizes / 2], axis=1)
        placed = np.flatnonzero(np.isfinite(centers[:, 0]))
        for i in placed:
            if not contains(centers[i], sizes[i] / 2, anchors[i]):
                line = Line2D(*np.array([anchors[i], np.clip(anchors[i], *self.boxes[i])]).T, color=INK, marker="o")
                line.set(linewidth=0.8, markersize=2.5, markevery=[0], figure=figure, path_effects=[halo])
                line.draw(renderer)
        for i in placed:
            self.texts[i].set_position(centers[i])
            self.texts[i].draw(renderer)
