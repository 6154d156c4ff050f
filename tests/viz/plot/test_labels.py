"""Names over the points of a plot: where they are, that they do not overlap, and whose they are."""

import matplotlib as mpl
import numpy as np
import pytest

from manifoldry import plot

mpl.use("Agg")
import matplotlib.pyplot as plt

from manifoldry.viz.plot._labels import LARGEST_FONT, MapLabels, central_point, contains, place_boxes


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def blobs(n, centers):
    """Return n points around centers on a circle, and their labels."""
    labels = np.arange(n) % centers
    angle = 2 * np.pi * labels / centers
    noise = np.random.default_rng(0).normal(size=(n, 2))
    return 8 * np.column_stack([np.cos(angle), np.sin(angle)]) + noise, labels


def written(ax):
    """Return the names on axes that have been drawn."""
    ax.figure.canvas.draw()
    (labels,) = (artist.draw.__self__ for artist in ax.artists if isinstance(artist.draw.__self__, MapLabels))
    return labels


def texts(labels):
    return [text.get_text() for text in labels.texts]


def overlaps(boxes):
    """Return the number of pairs of boxes (m, 2, 2) with a common area."""
    low, high = np.maximum(boxes[:, None, 0], boxes[None, :, 0]), np.minimum(boxes[:, None, 1], boxes[None, :, 1])
    common = ((high - low) > 1e-6).all(axis=2)
    return int(np.triu(common, 1).sum())


def test_boxes_stay_near_their_anchors_and_do_not_overlap():
    rng = np.random.default_rng(0)
    anchors, sizes = rng.uniform(150, 450, (30, 2)), rng.uniform([40, 12], [120, 30], (30, 2))
    hidden = np.arange(30) % 3 == 0
    centers = place_boxes(anchors, sizes, hidden, np.zeros(2), np.full(2, 600.0))
    boxes = np.stack([centers - sizes / 2, centers + sizes / 2], axis=1)
    assert np.isfinite(centers).all()
    assert overlaps(np.stack([anchors - sizes / 2, anchors + sizes / 2], axis=1)) > 15  # without moving them
    assert overlaps(boxes) == 0
    assert boxes.min() >= 0
    assert boxes.max() <= 600
    covers = contains(centers, sizes / 2, anchors)
    nearest = np.linalg.norm(centers[:, None] - anchors, axis=2).argmin(axis=1)
    assert (nearest[covers] == np.flatnonzero(covers)).all()
    assert not covers[hidden].any()
    assert covers[~hidden].sum() > 3
    np.testing.assert_array_equal(centers[1], anchors[1])  # the largest class that is not hidden comes first


def test_a_box_without_space_is_left_out():
    centers = place_boxes(
        np.full((2, 2), 50.0), np.full((2, 2), 60.0), np.zeros(2, bool), np.zeros(2), np.full(2, 100.0)
    )
    np.testing.assert_array_equal(np.isfinite(centers[:, 0]), [True, False])


def test_the_middle_of_a_class_is_a_point_inside_it():
    rng = np.random.default_rng(0)
    ball = rng.normal(size=(4000, 2))
    row, radius = central_point(ball)
    # The mean of the points within half the median distance of a center varies by 1 / sqrt(about 600) per axis.
    assert np.linalg.norm(ball[row]) < 0.2
    assert radius == pytest.approx(np.sqrt(2 * np.log(2)), abs=0.1)  # the median of a Rayleigh distribution
    angle = rng.uniform(0, 2 * np.pi, 500)
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    # From a point of a unit ring, half of the others are farther than a chord of 90 degrees.
    assert central_point(ring)[1] == pytest.approx(np.sqrt(2), abs=0.1)
    two = np.concatenate([ball[:1500], ball[1500:2500] + np.array([30, 0])])
    assert np.linalg.norm(two[central_point(two)[0]]) < 0.5  # inside the larger part


def test_names_replace_the_legend_and_do_not_overlap():
    Y, labels = blobs(400, centers=8)
    names = {i: f"a rather long name of class {i}" for i in range(8)}
    ax = plot.scatter(Y, labels, names=names, annotate=True)
    labels_drawn = written(ax)
    assert ax.get_legend() is None
    assert sorted(text.replace("\n", " ") for text in texts(labels_drawn)) == sorted(names.values())
    assert all(max(map(len, text.split("\n"))) <= 18 for text in texts(labels_drawn))
    assert overlaps(labels_drawn.boxes) == 0


def test_names_follow_the_axes():
    Y = np.repeat([[0.0, 0.0], [10.0, 0.0]], 20, axis=0) + np.random.default_rng(0).normal(size=(40, 2))
    ax = plot.scatter(Y, np.repeat(["left", "right"], 20), annotate=True)
    before = written(ax).boxes.mean(axis=1)
    assert before[0, 0] < before[1, 0]
    ax.set_aspect("auto")
    ax.set_xlim(5, 15)
    after = written(ax)
    np.testing.assert_array_equal(np.isfinite(after.boxes[:, 0, 0]), [False, True])
    center = ax.transData.transform(after.anchors[1])
    np.testing.assert_allclose(after.boxes[1].mean(axis=0), center, atol=1e-6)


def test_large_classes_have_large_names_and_the_thirty_largest_are_named():
    sizes = np.arange(3, 43)
    labels = np.repeat([f"c{i}" for i in range(40)], sizes)
    angle = np.repeat(2 * np.pi * np.arange(40) / 40, sizes)
    Y = 50 * np.column_stack([np.cos(angle), np.sin(angle)]) + np.random.default_rng(0).normal(size=(len(angle), 2))
    labels_drawn = written(plot.scatter(Y, labels, annotate=True))
    assert texts(labels_drawn) == [f"c{i}" for i in range(39, 9, -1)]
    fonts = [text.get_size() for text in labels_drawn.texts]
    assert fonts == sorted(fonts, reverse=True)
    assert fonts[0] == pytest.approx(LARGEST_FONT * np.sqrt(12 / 30))  # more names, smaller fonts
    assert written(plot.scatter(Y, labels == "c39", annotate=True)).texts[0].get_size() == LARGEST_FONT


def test_without_labels_the_detected_clusters_are_named():
    rng = np.random.default_rng(0)
    Y = np.concatenate([rng.normal(center, 0.5, (n, 2)) for n, center in ((60, 0), (120, 20), (40, -20))])
    Y = np.concatenate([Y, [[np.nan, np.nan]]])
    labels_drawn = written(plot.scatter(Y, annotate=True))
    assert texts(labels_drawn) == ["1", "2", "3"]
    np.testing.assert_allclose(labels_drawn.anchors, [[20, 20], [0, 0], [-20, -20]], atol=1.0)
    with pytest.raises(ValueError, match="the layout has none: pass labels"):
        plot.scatter(rng.normal(size=(12, 2)), annotate=True)


def test_other_classes_are_written_over_numbers_and_missing_ones_are_not():
    Y, labels = blobs(90, centers=3)
    kinds = np.array(["x", "y", None], dtype=object)[labels]
    ax = plot.scatter(Y, color=Y[:, 0], annotate=kinds)
    assert sorted(texts(written(ax))) == ["x", "y"]
    assert len(ax.figure.axes) == 2  # with the color bar
    with pytest.raises(ValueError, match="one entry for each of the 90 points"):
        plot.scatter(Y, annotate=["x"])


def test_names_are_text_not_formulas():
    Y = np.random.default_rng(0).normal(size=(20, 2))
    assert texts(written(plot.scatter(Y, ["$x_1^$"] * 20, annotate=True))) == ["$x_1^$"]
