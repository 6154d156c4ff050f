"""Supervised and semi-supervised fits: what targets do to six methods, by answers known on paper."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, diags_array
from scipy.spatial.distance import cdist
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from manifoldry import IPA, LLE, LPP, MVU, Isomap, LaplacianEigenmaps, chunked_data
from manifoldry.methods.unfolding import _ipa as ipa

pytestmark = pytest.mark.filterwarnings("ignore::manifoldry._core.warnings.EmbeddingWarning")

METHODS = [
    Isomap(n_neighbors=6),
    LLE(n_neighbors=6),
    LaplacianEigenmaps(n_neighbors=6),
    LPP(n_neighbors=6),
    IPA(n_patches=4, n_init=1),
    MVU(n_neighbors=4, constraints="at most", max_rank=2, tol=1e-1),
]
EVERY = pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)


def points(n=45, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 4)) * [3, 2, 1, 0.5], np.arange(n) % 3


def fitted(method, X, y=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return type(method)(**{**method.get_params(), **parameters}).fit(X, y)


def with_classes(X, y, p):
    """Return the points with their class as an axis of their own, different ones p apart."""
    return np.column_stack([X, p / np.sqrt(2) * (y[:, None] == np.unique(y))])


@EVERY
def test_weight_0_and_targets_that_tell_nothing_leave_every_bit(method):
    X, y = points()
    alone = fitted(method, X).embedding_
    assert np.array_equal(fitted(method, X, y, target_weight=0.0).embedding_, alone)
    for nothing in (np.ones(45), np.full(45, -1), np.full(45, np.nan), np.array([None] * 45), np.where(y == 1, 7, -1)):
        assert np.array_equal(fitted(method, X, nothing, target_weight=0.5).embedding_, alone)
    assert not np.array_equal(fitted(method, X, y, target_weight=0.5).embedding_, alone)


@EVERY
def test_names_of_classes_and_of_the_unknown_do_not_matter(method):
    X, y = points()
    told = fitted(method, X, np.where(y == 2, -1, y), target_weight=0.4).embedding_
    for names in (["b", "a", None], [5, 2, -1], [0.0, 1.0, np.nan], ["b", 3, np.nan], ["b", "a", pd.NA]):
        renamed = np.array(names, dtype=None if set(map(type, names)) <= {int, float} else object)[y]
        model = fitted(method, X, renamed, target_weight=0.4)
        assert np.array_equal(model.embedding_, told)
        assert model.diagnostics_["known_targets"] == 30


@pytest.mark.parametrize("method", [METHODS[0], METHODS[2], METHODS[5]], ids=["Isomap", "LaplacianEigenmaps", "MVU"])
def test_a_class_is_one_more_coordinate(method):
    X, y = points()
    told = fitted(method, X, y, target_weight=0.4)
    rows = with_classes(X, y, told.diagnostics_["target_distance"])
    plain = fitted(method, rows)
    assert plain.diagnostics_["components"] == 1
    assert np.allclose(told.graph_.to_sparse().toarray(), plain.graph_.to_sparse().toarray(), rtol=1e-12)
    tol = 1e-6 if isinstance(method, MVU) else 1e-8
    assert np.allclose(cdist(told.embedding_, told.embedding_), cdist(plain.embedding_, plain.embedding_), atol=tol)


@pytest.mark.parametrize("method", [METHODS[1], METHODS[3]], ids=["LLE", "LPP"])
def test_neighbors_are_those_with_the_class_as_a_coordinate(method):
    X, y = points()
    told = fitted(method, X, y, target_weight=0.4)
    plain = fitted(method, with_classes(X, y, told.diagnostics_["target_distance"]))
    assert np.allclose(told.graph_.to_sparse().toarray(), plain.graph_.to_sparse().toarray(), rtol=1e-12)


def test_numbers_are_one_more_coordinate():
    X, _ = points()
    t = np.random.default_rng(1).standard_normal(45)
    told = fitted(METHODS[0], X, t, target_weight=0.4, target_metric="numeric")
    p = told.diagnostics_["target_distance"]
    plain = fitted(METHODS[0], np.column_stack([X, p * t / np.sqrt(2 * t.var())]))
    assert np.allclose(cdist(told.embedding_, told.embedding_), cdist(plain.embedding_, plain.embedding_), atol=1e-8)
    again = fitted(METHODS[0], X, 1000 * t + 5, target_weight=0.4, target_metric="numeric")
    assert np.allclose(again.embedding_, told.embedding_, atol=1e-8)


def test_lengths_of_five_points_by_hand():
    # Of the 20 listed distances eight are 1, six 2, four 3, two 4: the median is 2, and w = 1/2 makes p = 2.
    X, y = np.arange(5.0)[:, None], np.array(["a", "a", "b", "b", "b"])
    told = fitted(METHODS[0], X, y, n_components=1, n_neighbors=4, target_weight=0.5)
    expected = np.sqrt(
        [
            [0, 1, 8, 13, 20],
            [1, 0, 5, 8, 13],
            [8, 5, 0, 1, 4],
            [13, 8, 1, 0, 1],
            [20, 13, 4, 1, 0],
        ]
    )
    assert told.diagnostics_["target_distance"] == 2
    assert np.allclose(told.graph_.to_sparse().toarray(), expected)


def test_between_two_known_ends_a_path_has_shares_of_both():
    # Shares fall from 1 to 0 in quarters: two neighbors differ by (1/16 + 1/16) / 2, and h = 1, w = 1/2 make p = 1.
    path = diags_array(np.ones(4), offsets=1, shape=(5, 5))
    y = np.array([0, -1, -1, -1, 1])
    told = fitted(
        METHODS[0],
        csr_array(path + path.T),
        y,
        n_components=1,
        n_neighbors="auto",
        metric="precomputed",
        target_weight=0.5,
    )
    assert told.diagnostics_["known_targets"] == 2
    assert np.allclose(told.graph_.lengths, np.sqrt(1 + 1 / 16))


def test_two_classes_on_one_line_become_two_lines():
    X, y = np.repeat(np.arange(10.0), 2)[:, None] * [[1.0, 0.0]], np.tile([0, 1], 10)
    told = fitted(METHODS[0], X, y, n_neighbors=19, target_weight=0.5)
    p = told.diagnostics_["target_distance"]
    along, across = told.embedding_.T
    if np.ptp(along) < np.ptp(across):
        along, across = across, along
    assert np.allclose(np.abs(along), np.abs(X[:, 0] - 4.5))
    assert np.allclose(across * np.sign(across[0]), np.where(y == 0, p / 2, -p / 2))


@EVERY
def test_weight_1_joins_no_classes_and_new_points_need_none(method):
    X, y = points(90)
    apart = {} if isinstance(method, IPA) else {"disconnected": "apart"}
    told = fitted(method, X, y, target_weight=1.0, **apart)
    graph = told.graph_
    assert (y[graph.rows()] == y[graph.indices]).all()
    assert told.diagnostics_["components"] >= 3
    assert np.isfinite(told.transform(X[:5] + 0.01)).all()


@EVERY
def test_a_pipeline_learns_overlapping_classes_and_predicts_without_them(method):
    X, y = points(90, seed=3)
    X = X + 2.0 * (y[:, None] == np.arange(4))
    told = type(method)(**{**method.get_params(), "target_weight": 0.6})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = make_pipeline(told, KNeighborsClassifier(5)).fit(X[:60], y[:60]).predict(X[60:])
    assert predicted.shape == (30,)
    assert set(predicted) <= {0, 1, 2}


def test_known_labels_part_classes_and_unknown_points_follow():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = rng.standard_normal((120, 3)) + 1.5 * y[:, None]
    some = np.where(rng.random(120) < 0.3, y, -1)
    hidden = some == -1

    def separation(Y, rows):
        means = [Y[rows & (y == c)].mean(axis=0) for c in (0, 1)]
        return np.linalg.norm(means[0] - means[1]) / Y[rows].std()

    alone = fitted(METHODS[0], X).embedding_
    told = fitted(METHODS[0], X, some, target_weight=0.8).embedding_
    assert separation(told, ~hidden) > 1.1 * separation(alone, ~hidden)
    assert separation(told, hidden) > 1.1 * separation(alone, hidden)


def test_bridges_between_classes_are_lengthened_too():
    X, y = np.r_[np.arange(6.0), np.arange(20.0, 26.0)][:, None], np.repeat([0, 1], 6)
    told = fitted(METHODS[0], X, y, n_components=1, n_neighbors=2, target_weight=0.75)
    # h = 1 and p = 3: the bridge from 5 to 20 is sqrt(15^2 + 3^2) long.
    assert told.diagnostics_["target_distance"] == 3
    assert np.allclose(told.diagnostics_["bridges"], [[5, 6, np.sqrt(234)]])
    assert np.isclose(told.graph_.to_sparse()[5, 6], np.sqrt(234))


def test_given_distances_are_as_good_as_rows():
    X, y = points()
    told = fitted(METHODS[0], X, np.where(y == 2, -1, y), target_weight=0.4)
    given = fitted(METHODS[0], cdist(X, X), np.where(y == 2, -1, y), target_weight=0.4, metric="precomputed")
    assert np.allclose(given.embedding_, told.embedding_, atol=1e-9)


def test_given_affinities_between_classes_are_weakened():
    X, y = points()
    W = np.exp(-(cdist(X, X) ** 2) / 4)
    model = LaplacianEigenmaps(metric="affinity")
    told = fitted(model, W, y, target_weight=0.5).embedding_
    by_hand = fitted(model, np.where(y[:, None] == y, W, W * np.exp(-1.0))).embedding_
    assert np.allclose(told, by_hand, atol=1e-9)


@pytest.mark.parametrize("common", [False, True])
def test_distances_kept_with_classes_are_certified(common):
    X, y = points(24)
    told = fitted(
        METHODS[5], X, y, constraints="equal", max_rank=None, target_weight=0.5, common_neighbors=common, tol=1e-4
    )
    assert told.certificate_.optimal
    assert told.error_certificate_.optimal
    V = told.spectrum_.vectors * np.sqrt(told.spectrum_.values)  # in all dimensions used
    graph = told.graph_
    p = told.diagnostics_["target_distance"]
    wanted = cdist(X, X) ** 2 + p**2 * (y[:, None] != y)
    kept = np.square(V[graph.rows()] - V[graph.indices]).sum(axis=1)
    assert np.allclose(kept / wanted[graph.rows(), graph.indices], 1, atol=1.05e-2)  # slack 1e-2


def test_blocks_take_the_targets_of_their_sample(monkeypatch):
    monkeypatch.setattr(ipa, "MAX_SAMPLE", 100)
    X, y = points(300)
    model = IPA(n_patches=2, n_init=1)
    whole = fitted(model, X, y, target_weight=1.0)
    streamed = fitted(model, chunked_data(X), y, target_weight=1.0)
    assert len(streamed.sampled_rows_) == 100
    assert np.allclose(streamed.embedding_, whole.embedding_[streamed.sampled_rows_], atol=1e-9)
    labels = y[streamed.sampled_rows_]
    assert (labels[streamed.graph_.rows()] == labels[streamed.graph_.indices]).all()


@EVERY
@pytest.mark.parametrize(
    ("y", "parameters", "sentence"),
    [
        (np.zeros(44), {}, "one class for each of the 45 points"),
        (np.zeros((45, 2)), {}, "one class for each of the 45 points"),
        (np.array(["a", "b", "c"] * 15), {"target_metric": "numeric"}, "must be numbers"),
        (np.arange(45.0), {"target_metric": "numeric", "target_weight": 1.0}, "below 1"),
        (np.arange(44.0), {"target_metric": "numeric"}, "one row for each of the 45 points"),
    ],
)
def test_bad_targets_are_refused_before_any_work(method, y, parameters, sentence, monkeypatch):
    monkeypatch.setattr("manifoldry.graph._search.NeighborIndex.graph", None)  # a search would raise a TypeError
    with pytest.raises(ValueError, match=sentence):
        fitted(method, points()[0], y, **{"target_weight": 0.5, **parameters})


def test_measurements_taken_for_classes_are_warned_of():
    X, y = points()
    with pytest.warns(UserWarning, match="45 different numbers.*target_metric='numeric'"):
        LPP(n_neighbors=6, target_weight=0.5).fit(X, X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LPP(n_neighbors=6, target_weight=0.5).fit(X, y.astype(float))
        LPP(n_neighbors=6, target_weight=0.5, target_metric="numeric").fit(X, X[:, 0])
