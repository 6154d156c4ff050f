"""Measures with labels against loops over points, scikit-learn, and stored values of ZADU."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import silhouette_samples, silhouette_score
from sklearn.neighbors import NearestNeighbors

from manifoldry import metrics, score
from manifoldry._numerics import ranks

ROUNDING = 1e-12  # means of some hundred terms of size 1


def clouds(n=90, seed=0, n_classes=3):
    rng = np.random.default_rng(seed)
    classes = rng.integers(n_classes, size=n)
    return rng.normal(size=(n, 2)) + 2.0 * np.column_stack([classes, classes % 2]), classes


def slow_neighbors(Y, i, k):
    others = [j for j in range(len(Y)) if j != i]
    return sorted(others, key=lambda j: (np.linalg.norm(Y[i] - Y[j]), j))[:k]


def slow_silhouette(Y, labels, i):
    def mean_to(label):
        members = [j for j in range(len(Y)) if labels[j] == label and j != i]
        return np.mean([np.linalg.norm(Y[i] - Y[j]) for j in members]) if members else None

    own = mean_to(labels[i])
    if own is None:
        return 0.0
    other = min(mean_to(label) for label in set(labels) if label != labels[i])
    return (other - own) / max(own, other) if max(own, other) > 0 else 0.0


@pytest.mark.parametrize("k", [1, 4, 30])
def test_definitions(k):
    Y, labels = clouds()
    labels[7] = 9  # the only one of its class
    near = [slow_neighbors(Y, i, k) for i in range(len(Y))]
    hits = [np.mean([labels[j] == labels[i] for j in near[i]]) for i in range(len(Y))]
    assert metrics.neighborhood_hit(Y, labels, n_neighbors=k) == pytest.approx(np.mean(hits), abs=ROUNDING)
    slow = np.mean([slow_silhouette(Y, labels, i) for i in range(len(Y))])
    assert metrics.silhouette(Y, labels) == pytest.approx(slow, abs=ROUNDING)


def test_sklearn_agrees():
    Y, labels = clouds(150, seed=1, n_classes=2)
    assert metrics.silhouette(Y, labels) == pytest.approx(silhouette_score(Y, labels), abs=ROUNDING)
    nearest = NearestNeighbors(n_neighbors=1).fit(Y).kneighbors(return_distance=False)[:, 0]  # of the other points
    peer = np.mean(labels[nearest] == labels)
    found = score(Y, Y, labels, figures=["label_accuracy"])["label_accuracy"]
    assert found == metrics.neighborhood_hit(Y, labels, n_neighbors=1) == pytest.approx(peer, abs=ROUNDING)
    rows = ranks.sample_rows(150, 40, 3)
    some = metrics.silhouette(Y, labels, sample=40, random_state=3)
    assert some == pytest.approx(silhouette_samples(Y, labels)[rows].mean(), abs=ROUNDING)


def test_zadu_agrees():
    """Neighborhood hit and the silhouette of ZADU; its neighbors are those of scikit-learn without the point itself."""
    stored = json.loads((Path(__file__).parents[2] / "peer_values" / "labels.json").read_text(encoding="utf-8"))
    rng = np.random.default_rng(stored["seed"])
    labels = rng.integers(4, size=200)
    Y = rng.normal(size=(200, 2)) + labels[:, None] * [1.5, 0.5]
    for k, hit in stored["neighborhood_hit"].items():
        assert metrics.neighborhood_hit(Y, labels, n_neighbors=int(k)) == pytest.approx(hit, abs=1e-9)
    assert metrics.silhouette(Y, labels) == pytest.approx(stored["silhouette"], abs=1e-9)


def test_names_do_not_matter_and_duplicates_do_not_hurt():
    Y, labels = clouds(seed=2)
    Y[[3, 4, 5]] = Y[8]
    Y[[13, 14]] = 0.0
    names = np.array(["red", "green", "blue"])[labels]
    for measure in (metrics.neighborhood_hit, metrics.silhouette):
        found = measure(Y, labels)
        assert measure(Y, names) == measure(Y, list(names)) == measure(Y, labels - 1.5) == found
        assert measure(3.0 * Y + 1.0, labels) == pytest.approx(found, abs=1e-9)
        assert measure(Y, labels, n_jobs=1) == found
    one_place = np.zeros((10, 2))
    assert metrics.silhouette(one_place, [0, 1] * 5) == 0.0


@pytest.mark.parametrize("missing", [None, np.nan, "pandas"])
def test_points_without_a_label_are_left_out(missing):
    if missing == "pandas":
        missing = pytest.importorskip("pandas").NA
    Y, labels = clouds(seed=3)
    names = [["a", "b", "c"][label] for label in labels]
    unknown = np.arange(len(Y)) % 4 == 1
    marked = [missing if hidden else name for name, hidden in zip(names, unknown, strict=True)]
    kept = np.array(names)[~unknown]
    for measure in (metrics.neighborhood_hit, metrics.silhouette):
        assert measure(Y, marked) == measure(Y[~unknown], kept)
    numbers = np.where(unknown, np.nan, labels)
    assert metrics.silhouette(Y, numbers) == metrics.silhouette(Y, marked)
    found = score(Y, Y, marked)
    assert found["neighborhood_hit"] == pytest.approx(metrics.neighborhood_hit(Y, marked), abs=ROUNDING)
    some = score(Y, Y, marked, sample=30)
    assert 0 < some.errors["silhouette"] < 0.2
    # -1 is a class.
    with_noise = np.where(unknown, -1, labels)
    assert metrics.silhouette(Y, with_noise) == pytest.approx(silhouette_score(Y, with_noise), abs=ROUNDING)


def test_labels_that_say_nothing_are_refused():
    Y, labels = clouds()
    for measure in (metrics.neighborhood_hit, metrics.silhouette):
        with pytest.raises(ValueError, match="one label for each of 90 points; got shape"):
            measure(Y, labels[:-1])
        with pytest.raises(ValueError, match=r"at least two classes.*got 1 for 90 labeled points"):
            measure(Y, np.zeros(90))
        with pytest.raises(ValueError, match="got 90 for 90 labeled points"):
            measure(Y, np.arange(90))
        with pytest.raises(ValueError, match="got 0 for 0 labeled points"):
            measure(Y, [None] * 90)
        with pytest.raises(ValueError, match="Y must be finite"):
            measure(np.full((90, 2), np.nan), labels)
    with pytest.raises(ValueError, match="between 1 and 89 for 90 labeled points; got 90"):
        metrics.neighborhood_hit(Y, labels, n_neighbors=90)
    with pytest.raises(ValueError, match="at least two classes"):
        score(Y, Y, np.zeros(90))


def test_mixed_names_are_told_apart():
    Y, labels = clouds(seed=5)
    mixed = [label if label else "zero" for label in labels.tolist()]
    assert metrics.silhouette(Y, mixed) == metrics.silhouette(Y, labels)
