"""Clusters of pictures against structureless data: islands of a square are artifacts, digits are not."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from manifoldry import TSNE, UMAP, Isomap
from manifoldry.evaluation.metrics import null_comparison

MIN_GAP, LEVEL, MIN_STEP = 2.5, 0.05, 2.5


class Columns(TransformerMixin, BaseEstimator):
    """The first two columns: a picture that adds nothing to the data."""

    def fit(self, X, y=None):  # noqa: ARG002
        return self

    def transform(self, X):
        return np.array(X)[:, :2]


@pytest.fixture(scope="module")
def heaps():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 4)) + 25.0 * np.eye(4)[np.arange(200) % 4]


@pytest.mark.parametrize("method", [TSNE(perplexity=5), UMAP(n_neighbors=5)], ids=["tsne", "umap"])
@pytest.mark.parametrize("seed", [20, 21])
def test_islands_of_a_uniform_square_are_not_real(method, seed):
    square = np.random.default_rng(seed).random((400, 2))
    found = null_comparison(method, square, random_state=seed)
    assert found.n_clusters >= 5  # there are islands to be taken in by
    assert len(found.real) == 0
    assert len(found.artifacts) > 0.75 * found.n_clusters
    assert "do not trust" in found.sentence
    assert "gap: how many times less it leaks" in str(found)


def test_copies_of_rows_make_no_cluster_real():
    square = np.repeat(np.random.default_rng(25).random((100, 2)), 4, axis=0)
    found = null_comparison(TSNE(perplexity=10), square)
    assert found.n_clusters >= 5
    assert len(found.real) == 0


def test_a_roll_is_one_surface():
    rng = np.random.default_rng(22)
    turn = 1.5 * np.pi * (1 + 2 * rng.random(400))
    roll = np.stack([turn * np.cos(turn), 21 * rng.random(400), turn * np.sin(turn)], axis=1)
    found = null_comparison(TSNE(perplexity=5), roll)
    assert found.n_clusters >= 5
    assert len(found.real) == 0


def test_most_clusters_of_digits_are_real():
    rows = np.random.default_rng(23).permutation(1797)[:600]
    found = null_comparison(TSNE(random_state=23), load_digits().data[rows], random_state=23)
    assert found.n_clusters >= 7
    assert len(found.real) > 0.5 * found.n_clusters
    assert len(found.artifacts) <= 1


def test_heaps_far_apart_are_real_in_any_method_with_fit_transform(heaps):
    for method in (PCA(3), Columns(), Isomap(n_neighbors=60)):
        found = null_comparison(method, heaps, clusters=np.arange(200) % 4)
        assert found.verdicts == ("real",) * 4
        assert (found.leaving == 0).all()


def test_p_values_gaps_and_verdicts_are_those_of_the_definitions():
    X = np.random.default_rng(3).random((300, 2))
    X[:60, 0] += 0.2 + 0.3 * (np.arange(60) % 2)
    found = null_comparison(Columns(), X, random_state=4)
    assert set(found.null_leakage) == {"gaussian", "uniform"}
    for i, leak in enumerate(found.leakage):
        p = max((1 + sum(null <= leak)) / (1 + len(null)) for null in found.null_leakage.values())
        assert found.p_values[i] == pytest.approx(p)
        quantiles = [np.exp(np.mean(np.log(v)) - 1.645 * np.std(np.log(v))) for v in found.null_leakage.values()]
        assert found.gaps[i] == pytest.approx(min(quantiles) / leak)
        real = p <= LEVEL and found.gaps[i] >= MIN_GAP
        assert found.verdicts[i] == ("artifact" if p > LEVEL else "real" if real else "undecided")
    assert all(len(null) >= 20 for null in found.null_leakage.values())
    assert found.sizes.sum() == 300


def test_threads_and_unit_change_nothing():
    X = np.random.default_rng(5).normal(size=(150, 3))
    first = null_comparison(PCA(2), X, random_state=1, n_jobs=1)
    other = null_comparison(PCA(2), 2.0**30 * X, random_state=1, n_jobs=2)
    assert first.labels.tolist() == other.labels.tolist()
    assert first.p_values.tolist() == other.p_values.tolist()
    assert first.verdicts == other.verdicts


def test_the_picture_of_a_fitted_estimator_is_judged_as_it_is(heaps):
    model = TSNE(perplexity=10, max_iter=300).fit(heaps)
    found = null_comparison(model, heaps, n_nulls=1)
    assert (found.embedding == model.embedding_).all()
    assert str(found).splitlines()[0].split() == [
        "cluster",
        "points",
        "leaving",
        "leakage",
        "p",
        "gap",
        "step",
        "verdict",
    ]
    assert str(found).endswith(found.sentence)
    assert repr(found) == found.sentence


def test_a_picture_without_clusters_is_said_to_have_none():
    X = np.random.default_rng(0).random((29, 2))
    found = null_comparison(Columns(), np.vstack([X, X[:1] + 0.5]), n_nulls=1, clusters=np.zeros(30))
    assert found.n_clusters == 0
    assert (found.labels == -1).all()
    assert found.verdicts == ()
    assert found.sentence.startswith("The picture shows no clusters.")
    assert repr(found) == found.sentence


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((50, 3))}, "identical"),
        ({"X": np.full((50, 3), np.nan)}, "NaN"),
        ({"X": np.random.default_rng(0).random((10, 3))}, "At least 30 samples"),
        ({"X": csr_array(np.eye(50))}, "TruncatedSVD"),
        ({"estimator": TSNE}, "fit_transform and get_params"),
        ({"estimator": "tsne"}, "fit_transform and get_params"),
        ({"estimator": TSNE(metric="precomputed")}, "fit it on the rows"),
        ({"clusters": [0, 1]}, "one label for each of the 50 points"),
        ({"clusters": np.full(50, -1)}, "no cluster to evaluate"),
        ({"n_nulls": 0}, "n_nulls must be at least 1"),
    ],
)
def test_bad_input_is_refused_before_any_fit(change, message):
    given = {"estimator": PCA(2), "X": np.random.default_rng(0).random((50, 3)), **change}
    with pytest.raises(ValueError, match=message):
        null_comparison(given.pop("estimator"), given.pop("X"), **given)


def tree(rng):
    """Return points along five arms that meet, in ten dimensions, with noise."""
    arms = rng.normal(size=(5, 10))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    return 10 * rng.random((450, 1)) * arms[rng.integers(5, size=450)] + 0.1 * rng.normal(size=(450, 10))


def walk(rng):
    return np.cumsum(rng.normal(size=(500, 10)), axis=0)


@pytest.mark.parametrize("draw", [tree, walk])
def test_segments_of_connected_curves_are_not_real(draw):
    found = null_comparison(TSNE(), draw(np.random.default_rng(1)), random_state=1)
    # A segment separates few pairs of neighbors wherever it is cut off: by the pairs alone it would be real.
    few = (found.p_values <= LEVEL) & (found.gaps >= MIN_GAP)
    assert few.any()
    assert len(found.real) == 0
    assert (found.steps[few] < MIN_STEP).all()
    assert np.isnan(found.steps[~few]).all()


def test_two_gaussians_four_standard_deviations_apart_are_real():
    X = np.random.default_rng(2).normal(size=(400, 10))
    X[::2, 0] += 4.0
    found = null_comparison(TSNE(), X, random_state=2)
    real = found.labels[:, None] == found.real
    assert real.sum() > 350
    # Each is one Gaussian, but for the 2.3 % of the points on the far side of the middle.
    sides = [np.bincount(np.arange(400)[mine] % 2, minlength=2) for mine in real.T]
    assert {int(side.argmax()) for side in sides} == {0, 1}
    assert all(side.min() < 0.05 * side.sum() for side in sides)
    assert np.isnan(found.steps).all()  # clouds, not curves


def test_curves_with_a_gap_between_them_are_real():
    turn = np.pi * np.random.default_rng(3).random((2, 150, 1))
    arcs = np.concatenate([np.cos(turn), np.sin(turn)], axis=2)
    moons = np.concatenate([arcs[0], [1.0, 0.5] - arcs[1]])
    found = null_comparison(Columns(), moons, clusters=np.repeat([0, 1], 150))
    assert found.verdicts == ("real", "real")
    assert (found.steps >= MIN_STEP).all()
    assert f"{found.steps[0]:.2f}" in str(found)
