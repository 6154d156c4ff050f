"""The reliability of points: its definition written as loops, and verdicts that are known beforehand."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score

from manifoldry import TSNE, metrics
from manifoldry.evaluation.metrics import reliability
from manifoldry.evaluation.reliability._points import LEAST_SCALE

ROUNDING = 1e-12
"""Sums of at most 100 terms of size 1 in two orders."""


def slow_lists(points, size):
    D = cdist(points, points)
    np.fill_diagonal(D, np.inf)
    return np.argsort(D, axis=1, kind="stable")[:, :size]


def slow_scores(X, Y, size, points=None):
    """The formula of the docstring, neighborhood by neighborhood."""
    n, near_x, near_y = len(X), slow_lists(X, size), slow_lists(Y, size)
    scores = []
    for i in range(n) if points is None else points:
        total = weight = 0.0
        for k in range(LEAST_SCALE, size + 1):
            kept = len(set(near_x[i, :k]) & set(near_y[i, :k]))
            total += ((n - 1) * kept / k - k) / (n - 1 - k) / k
            weight += 1 / k
        scores.append(total / weight)
    return np.array(scores)


def foreign(Y, labels, k=15):
    """Whether most of the k neighbors of a point in the map have another label than it."""
    near = slow_lists(Y, k)
    most = np.array([np.bincount(row).argmax() for row in labels[near]])
    return most != labels


def clusters(seed, n=600, n_clusters=6):
    """Well separated clusters in ten dimensions and a good map of them: two of the columns that made them."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(n_clusters) / n_clusters
    labels = rng.integers(n_clusters, size=n)
    flat = 12 * np.column_stack([np.cos(angle), np.sin(angle)])[labels] + rng.normal(size=(n, 2))
    return np.hstack([flat, 0.1 * rng.normal(size=(n, 8))]), flat, labels


@pytest.fixture(scope="module")
def digits():
    data = load_digits()
    Y = TSNE(random_state=0).fit_transform(data.data)
    return data.data, Y, data.target


@pytest.mark.parametrize("seed", range(3))
def test_the_score_is_the_formula(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 4))
    Y = X[:, :2] + 0.3 * rng.normal(size=(90, 2))
    found = reliability(X, Y, n_neighbors=20)
    np.testing.assert_allclose(found.score, slow_scores(X, Y, 20), rtol=0, atol=ROUNDING)


def test_a_point_that_changes_places_scores_what_the_changed_map_gives_it():
    """The null scores are those of maps in which one pair of points has really changed places."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    Y, size = X[:, :2].copy(), 20
    lists = slow_lists(X, size)
    possible = set()
    for i in range(len(X)):
        for j in lists[i, size // 2 :]:
            changed = Y.copy()
            changed[[i, j]] = Y[[j, i]]
            possible.add(round(float(slow_scores(X, changed, size, [i])[0]), 9))
    null = reliability(X, Y, n_neighbors=size).null
    assert {round(float(value), 9) for value in null} == possible  # 10,000 draws miss none of 600


def test_p_values_count_null_scores_that_are_as_high():
    X, Y, _ = clusters(0)
    found = reliability(X, Y)
    expected = [(1 + np.sum(found.null >= s)) / (1 + len(found.null)) for s in found.score]
    np.testing.assert_array_equal(found.p_value, expected)
    assert (found.trustworthy == ((found.p_value <= 0.05) & (found.score >= 0.25))).all()
    assert (found.dubious == (found.p_value > 0.5)).all()


def test_the_identity_is_trustworthy_everywhere():
    X, _, _ = clusters(1)
    found = reliability(X, X)
    np.testing.assert_allclose(found.score, 1.0, rtol=0, atol=ROUNDING)
    assert found.share_trustworthy == 1.0
    assert found.counts == {"trustworthy": 600, "undecided": 0, "dubious": 0}


@pytest.mark.parametrize("seed", range(3))
def test_a_random_map_is_hardly_ever_trustworthy(seed):
    """A place is as good as any other there, so p-values are uniform; ties make them larger.

    Scores of neighboring points are hardly dependent: 2,000 are within 4 standard deviations, 0.02, of 5 %.
    """
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(2000, 10)), rng.normal(size=(2000, 2))
    found = reliability(X, Y)
    assert found.share_trustworthy < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 2000)
    assert abs(found.dubious.mean() - 0.5) < 4 * np.sqrt(0.25 / 2000)
    assert abs(found.score.mean()) < 0.01  # no more than chance


@pytest.mark.parametrize("seed", range(3))
def test_points_moved_into_a_foreign_cluster_are_found(seed):
    X, Y, labels = clusters(seed)
    rng = np.random.default_rng(seed)
    moved = rng.choice(len(X), size=20, replace=False)
    stayed = np.setdiff1d(np.arange(len(X)), moved)
    for i in moved:
        opposite = stayed[labels[stayed] == (labels[i] + 3) % 6]
        Y[i] = Y[rng.choice(opposite)] + 0.01 * rng.normal(size=2)
    found = reliability(X, Y)
    assert roc_auc_score(np.isin(np.arange(len(X)), stayed), found.score) == 1.0
    assert found.dubious[moved].all()
    assert found.trustworthy[stayed].mean() > 0.95


def test_digits_are_mostly_trustworthy_and_those_in_foreign_clusters_stand_out(digits):
    """Floors from random starts with seeds 1 to 4, of all digits and of 1,200: areas 0.875 to 0.956, 95.7 to 96.9 %."""
    X, Y, labels = digits
    found = reliability(X, Y)
    assert found.share_trustworthy > 0.9
    wrong = foreign(Y, labels)
    assert roc_auc_score(~wrong, found.score) > 0.85
    # Those that are not trustworthy are 10 to 25 times as frequent in foreign clusters as elsewhere.
    assert (~found.trustworthy[wrong]).mean() > 5 * (~found.trustworthy[~wrong]).mean()
    # A digit in a foreign cluster whose neighbors in the data are of that class is at its right place.
    thrown = wrong & ~foreign(X, labels)
    assert thrown.sum() >= 3
    assert np.median(found.score[thrown]) < np.quantile(found.score[~wrong], 0.15)


def test_noise_is_no_better_than_noise_refitted():
    """Uniform columns permuted are uniform columns: the refitted null has the same law as the scores themselves.

    The two fits are one draw each of maps whose points depend on each other; the shares of 400 points by this much.
    """
    X = np.random.default_rng(0).uniform(size=(400, 20))
    model = TSNE(max_iter=300)
    found = reliability(X, model.fit_transform(X), estimator=model)
    assert found.refitted
    assert abs(np.mean(found.p_value <= 0.05) - 0.05) < 0.05
    assert found.share_trustworthy < 0.1
    assert abs(found.dubious.mean() - 0.5) < 0.15


def test_noise_in_many_dimensions_is_not_trustworthy():
    """Every place next door is worse, and yet next to nothing is kept."""
    X = np.random.default_rng(1).normal(size=(800, 50))
    found = reliability(X, TSNE(max_iter=300).fit_transform(X))
    assert np.mean(found.p_value <= 0.05) > 0.5
    assert found.share_trustworthy < 0.2


def test_a_refitted_null_is_the_method_on_permuted_columns():
    X, _, _ = clusters(2, n=200)

    seen = []

    class Recorded(PCA):
        def fit_transform(self, X, y=None):
            seen.append(X)
            return super().fit_transform(X, y)

    model = Recorded(n_components=2)
    found = reliability(X, PCA(2).fit_transform(X), estimator=model)
    (permuted,) = seen
    np.testing.assert_array_equal(np.sort(permuted, axis=0), np.sort(X, axis=0))
    assert not (permuted == X).all(axis=1).any()
    expected = slow_scores(permuted, PCA(2).fit_transform(permuted), 50)
    np.testing.assert_allclose(found.null, np.sort(expected), rtol=0, atol=ROUNDING)
    assert not hasattr(model, "components_")  # a clone was fitted


@pytest.mark.parametrize("unit", [1e-9, 2.0**20])
def test_units_and_rotations_change_nothing(unit):
    X, Y, _ = clusters(4)
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2)))
    ours, theirs = reliability(X, Y), reliability(unit * X, unit * Y @ turn + unit)
    np.testing.assert_allclose(ours.score, theirs.score, rtol=0, atol=ROUNDING)


def test_inputs_of_other_kinds_and_any_number_of_threads():
    X, Y, _ = clusters(5, n=300)
    Y = Y + np.random.default_rng(0).normal(size=Y.shape)
    ours = reliability(X, Y, n_neighbors=30, random_state=1)
    distances = cdist(X, X)
    for theirs in (
        reliability(csr_array(X), Y, n_neighbors=30, random_state=1),
        reliability(distances, Y, n_neighbors=30, metric="precomputed", random_state=1),
        reliability(X.tolist(), Y, n_neighbors=30, random_state=1, n_jobs=1),
    ):
        np.testing.assert_allclose(ours.p_value, theirs.p_value, rtol=0, atol=2e-4)  # equal distances may be rounded
    assert (ours.p_value != reliability(X, Y, n_neighbors=30, random_state=2).p_value).any()


def test_a_collapsed_map_and_many_duplicates():
    X, Y, _ = clusters(6)
    assert reliability(X, np.zeros((600, 2))).share_trustworthy < 0.15
    doubled = reliability(np.repeat(X, 3, axis=0), np.repeat(Y, 3, axis=0))
    assert doubled.share_trustworthy > 0.95


def test_printed_it_is_a_sentence():
    X, Y, _ = clusters(7, n=400)
    found = reliability(X, Y)
    text = repr(found)
    assert text.count("\n") == 0
    assert f"{found.counts['trustworthy']} of 400 points" in text
    assert "at a neighboring position" in text
    assert set(found.verdict) <= {"trustworthy", "undecided", "dubious"}
    assert sum(found.counts.values()) == 400


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"Y": np.zeros((5, 2))}, "one row per point"),
        ({"X": np.zeros((60, 3))}, "identical"),
        ({"X": np.full((60, 3), np.nan)}, "finite"),
        ({"n_neighbors": 30}, "below n / 2"),
        ({"n_neighbors": 2}, "n_neighbors"),
        ({"level": 0.7}, "level"),
        ({"metric": "euklidean"}, "metric"),
        ({"X": csr_array(np.eye(60)), "estimator": PCA(2)}, "dense"),
    ],
)
def test_bad_input_gets_one_sentence(change, words):
    rng = np.random.default_rng(0)
    given = {"X": rng.normal(size=(60, 3)), "Y": rng.normal(size=(60, 2))} | change
    X, Y = given.pop("X"), given.pop("Y")
    with pytest.raises(ValueError, match=words) as caught:
        metrics.reliability(X, Y, **given)
    assert "\n" not in str(caught.value)


def test_too_few_points_are_refused():
    with pytest.raises(ValueError, match="20"):
        reliability(np.random.default_rng(0).normal(size=(10, 3)), np.zeros((10, 2)))


def test_too_few_points_are_refused_for_what_was_asked():
    X = np.random.default_rng(0).normal(size=(12, 3))
    with pytest.raises(ValueError, match="At least 20 samples are needed for an evaluation of each point; got 12"):
        reliability(X, X[:, :2])
