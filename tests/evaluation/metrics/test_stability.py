"""Refits of made methods whose stability is known, and measures against loops."""

import numpy as np
import pytest
from scipy.sparse import random_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA, TruncatedSVD

from manifoldry import TSNE, UMAP, Isomap
from manifoldry._core.run import Run
from manifoldry.evaluation._input import n_common
from manifoldry.evaluation.metrics import stability
from manifoldry.evaluation.reliability._stability import Variations, _best_jaccard

EPS = np.finfo(float).eps


class Made(TransformerMixin, BaseEstimator):
    """A picture made of the data by a known rule and the seed."""

    def __init__(self, rule="turn", random_state=0):
        self.rule = rule
        self.random_state = random_state

    def fit(self, X, y=None):  # noqa: ARG002
        return self

    def transform(self, X):
        rng = np.random.default_rng(self.random_state)
        Y = np.asarray(X)[:, :2]
        if self.rule == "turn":
            return rng.uniform(0.1, 10) * Y @ np.linalg.qr(rng.normal(size=(2, 2)))[0] + rng.normal(size=2)
        if self.rule == "shuffle":  # clusters, told by the third column, move as wholes
            places = 50.0 * rng.permutation(4)
            return Y + np.stack([places[np.asarray(X)[:, 2].astype(int)], np.zeros(len(Y))], axis=1)
        return rng.normal(size=Y.shape)


@pytest.fixture(scope="module")
def heaps():
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(size=(200, 2)), np.arange(200) % 4])


@pytest.mark.parametrize("method", [PCA(2), Isomap(n_neighbors=8)], ids=["pca", "isomap"])
def test_a_deterministic_method_has_no_spread_at_all_over_seeds(method):
    X = np.random.default_rng(0).normal(size=(80, 5))
    found = stability(method, X, vary="seed", n_refits=5)
    assert (found.spread == 0).all()
    assert (found.neighbors_kept == 1).all()
    assert (found.survival == 1).all()
    assert found.kinds["seed"].n_refits == 2
    assert "deterministic" in repr(found)


def test_turned_mirrored_and_scaled_pictures_are_the_same(heaps):
    found = stability(Made("turn"), heaps, vary="seed", n_refits=4)
    # Pictures of numbers up to 30 are turned twice: some hundred roundings of the largest, over an extent of 1.4.
    assert found.spread.max() < 1000 * EPS * 30
    assert (found.neighbors_kept == 1).all()
    assert found.kinds["seed"].n_refits == 4


def test_clusters_that_move_as_wholes_do_not_count_against_their_points(heaps):
    found = stability(Made("shuffle"), heaps, vary="seed", n_refits=6)
    assert (found.neighbors_kept == 1).all()
    assert len(found.survival) == 4
    assert (found.survival == 1).all()
    assert found.verdicts == ("stable",) * 4
    assert np.median(found.spread) > 0.1


def test_chance_keeps_as_many_neighbors_as_chance_does(heaps):
    found = stability(Made("chance"), heaps, vary="seed", n_refits=10, n_neighbors=15, clusters=heaps[:, 2])
    # The overlap of two random lists is hypergeometric: its variance is below that of a binomial, 15 p (1 - p), and
    # 200 x 10 of them, of which neighbors share lists, are worth at least 200 independent ones.
    p = 15 / 199
    assert found.neighbors_kept.mean() == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / 15 / 200))
    assert found.verdicts == ("dissolved",) * 4
    # A picture of random places laid on another keeps its size, so that the spread is about that of random places.
    assert np.sqrt(np.mean(found.spread**2)) > 0.7


def test_overlaps_and_jaccard_are_those_of_loops():
    rng = np.random.default_rng(0)
    before, after = (np.array([rng.permutation(30)[:6] for _ in range(20)]) for _ in range(2))
    expected = [len(set(a) & set(b)) / 6 for a, b in zip(before, after, strict=True)]
    assert n_common(before, after) / before.shape[1] == pytest.approx(expected, rel=4 * EPS)
    labels, found = rng.integers(0, 4, size=50), rng.integers(0, 3, size=50)
    sets = [{*np.flatnonzero(found == d)} for d in range(3)]
    for c, value in enumerate(_best_jaccard(labels, found, 5)[:4]):
        own = {*np.flatnonzero(labels == c)}
        assert value == pytest.approx(max(len(own & other) / len(own | other) for other in sets), rel=4 * EPS)
    assert np.isnan(_best_jaccard(labels, found, 5)[4])
    assert (_best_jaccard(labels, np.full(50, -1), 4) == 0).all()


def test_subsamples_compare_the_points_in_common(heaps):
    found = stability(Made("turn"), heaps, vary="subsample", n_refits=3, clusters=heaps[:, 2])
    left_out = np.isnan(found.spread)
    assert (left_out == np.isnan(found.neighbors_kept)).all()
    # Drawn without repeats, 80 % each time: a point is in none of three with probability 0.008.
    assert left_out.mean() < 0.008 + 5 * np.sqrt(0.008 / 200)
    assert np.nanmax(found.spread) < 1000 * EPS * 30
    assert np.nanmin(found.neighbors_kept) == 1


def test_all_kinds_of_a_neighbor_embedding_and_the_same_seed_gives_the_same(heaps):
    X = 20.0 * np.eye(4)[heaps[:, 2].astype(int)][:120] + np.random.default_rng(1).normal(size=(120, 4))
    method = UMAP(n_epochs=50)
    first, again = (stability(method, X, n_refits=2, random_state=5, n_jobs=jobs) for jobs in (1, 2))
    assert list(first.kinds) == ["seed", "subsample", "settings"]
    assert first.verdicts == ("stable",) * 4
    for kind, refits in first.kinds.items():
        assert np.array_equal(refits.spread, again.kinds[kind].spread, equal_nan=True)
        assert (refits.survival == again.kinds[kind].survival).all()
    assert (first.survival == np.min([refits.survival for refits in first.kinds.values()], axis=0)).all()
    assert "n_neighbors 8 to 30 instead of auto" in repr(first)
    assert "Of 4 clusters 4 stable" in repr(first)


@pytest.mark.parametrize(
    ("method", "n", "expected"),
    [
        (TSNE(perplexity=10), 100, ("perplexity", [5.0, 10.0, 20.0])),
        (TSNE(), 1000, ("perplexity", [15.0, 30.0, 60.0])),
        (TSNE(perplexity=30), 61, ("perplexity", [10.0, 20.0])),
        (UMAP(n_neighbors=4), 100, ("n_neighbors", [2, 4, 8])),
        (Isomap(), 100, ("n_neighbors", [5, 10, 20])),
        (PCA(2), 100, ("", [])),
    ],
    ids=["given", "auto", "few", "umap", "isomap", "none"],
)
def test_settings_go_from_half_to_double(method, n, expected):
    name, values = Variations(method, np.zeros((n, 2)), 3, Run(0)).grid
    assert name == expected[0]
    assert values == pytest.approx(expected[1])


def test_given_settings_are_tried_and_missing_ones_are_said():
    X = np.random.default_rng(0).normal(size=(60, 4))
    found = stability(PCA(2), X, vary="settings", settings={"whiten": [True, False]})
    assert found.kinds["settings"].n_refits == 2
    assert "PCA has neither perplexity nor n_neighbors" in repr(stability(PCA(2), X, n_refits=2))
    with pytest.raises(ValueError, match=r"neither perplexity nor n_neighbors.*settings="):
        stability(PCA(2), X, vary="settings")
    with pytest.raises(ValueError, match="values of a parameter"):
        stability(PCA(2), X, settings={"perplexity": [3]})
    with pytest.raises(ValueError, match="one parameter"):
        stability(PCA(2), X, settings={})


def test_sparse_rows_are_refitted():
    X = random_array((60, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    found = stability(TruncatedSVD(2, random_state=0), X, vary=("seed", "subsample"), n_refits=2)
    assert found.embedding.shape == (60, 2)
    assert np.nanmin(found.neighbors_kept) > 0.3


def test_the_picture_of_a_fitted_estimator_is_the_one_shown(heaps):
    model = TSNE(perplexity=10, max_iter=100, init="random", random_state=3).fit(heaps[:80])
    assert (stability(model, heaps[:80], vary="seed", n_refits=2).embedding == model.embedding_).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((50, 3))}, "identical"),
        ({"X": np.full((50, 3), np.nan)}, "NaN"),
        ({"X": np.random.default_rng(0).random((5, 3))}, "At least 10 samples"),
        ({"estimator": TSNE}, "fit_transform and get_params"),
        ({"estimator": TSNE(metric="precomputed")}, "fit it on the rows"),
        ({"vary": "bootstrap"}, "vary must be one of"),
        ({"vary": ()}, "vary must be one of"),
        ({"n_refits": 1}, "n_refits must be at least 2"),
        ({"n_neighbors": 45}, "n_neighbors must be between 1 and 39"),
        ({"clusters": [0, 1]}, "one label for each of the 50 points"),
    ],
)
def test_bad_input_is_refused_before_any_refit(change, message):
    given = {"estimator": PCA(2), "X": np.random.default_rng(0).random((50, 3)), **change}
    with pytest.raises(ValueError, match=message):
        stability(given.pop("estimator"), given.pop("X"), **given)


def test_a_picture_of_rows_in_single_precision_does_not_hide_that_seeds_change_nothing():
    X = np.random.default_rng(0).normal(size=(80, 5)).astype(np.float32)
    found = stability(TSNE(perplexity=10).fit(X), X, vary="seed", n_refits=5)
    assert found.kinds["seed"].n_refits == 2
    assert "deterministic" in repr(found)


def test_a_dissolved_cluster_is_not_called_false():
    square = np.random.default_rng(0).uniform(size=(150, 2))
    found = stability(TSNE(perplexity=5), square, vary="subsample", n_refits=3)
    assert "dissolved" in found.verdicts
    assert found.sentences[-1].endswith("null_comparison decides whether a gap is in the data.")


def test_few_points_are_compared_by_fewer_neighbors_unless_asked():
    X = np.random.default_rng(0).normal(size=(20, 3))
    ours, same = (stability(PCA(2), X, n_refits=2, n_neighbors=k) for k in ("auto", 7))  # 16 rows a subsample
    assert np.array_equal(ours.neighbors_kept, same.neighbors_kept)
