"""What every `partial_fit` honors: it is a fit to all rows so far, it refuses in a sentence, it survives a file."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

import manifoldry
from helpers import bent_sheet
from manifoldry import IPA, LLE, Isomap, NeighborGraph, datasets

GRAPH_METHODS = (Isomap(n_neighbors=6), LLE(n_neighbors=6))
ALL_METHODS = (*GRAPH_METHODS, IPA(n_neighbors=6))


def rows():
    return bent_sheet(90)


def by_name(model):
    return type(model).__name__


each_graph_method = pytest.mark.parametrize("model", GRAPH_METHODS, ids=by_name)
each_method = pytest.mark.parametrize("model", ALL_METHODS, ids=by_name)


def fresh(model, **parameters):
    return type(model)(**{**model.get_params(), **parameters})


def gap_bound(model):
    """Bound of the difference of two solutions: residuals of 1e-12 of the norm on each side, over the gap of values."""
    values = np.linalg.norm(model.spectrum_.values)
    return 1e-12 * max(values, 1.0) / min(model.spectrum_.gaps.min(), model.spectrum_.values.min())


@each_graph_method
@pytest.mark.parametrize("cuts", [(60,), (40, 41, 70), (10, 20)], ids=str)
def test_growing_equals_fitting_all_rows(model, cuts):
    X, grown = rows(), fresh(model)
    for batch in np.split(X, cuts):
        grown.partial_fit(batch)
    whole = fresh(grown).fit(X)
    np.testing.assert_array_equal(grown.graph_.indices, whole.graph_.indices)
    np.testing.assert_array_equal(grown.graph_.lengths, whole.graph_.lengths)
    size = np.abs(whole.embedding_).max()
    np.testing.assert_allclose(grown.embedding_, whole.embedding_, atol=max(gap_bound(whole), 1e-9) * size)
    np.testing.assert_allclose(
        grown.spectrum_.values, whole.spectrum_.values, atol=1e-11 * max(whole.spectrum_.values.max(), 1.0)
    )
    np.testing.assert_allclose(grown.transform(X[:5]), whole.transform(X[:5]), atol=1e-6 * size)
    assert grown.diagnostics_["components"] == whole.diagnostics_["components"]


@each_graph_method
def test_rows_come_after_a_plain_fit_too(model):
    X = rows()
    grown, whole = fresh(model).fit(X[:60]).partial_fit(X[60:]), fresh(model).fit(X)
    assert grown.embedding_.shape == (90, 2)
    np.testing.assert_allclose(np.abs(grown.embedding_), np.abs(whole.embedding_), atol=1e-6)


@each_method
def test_a_fit_forgets_what_partial_fit_kept(model):
    X = rows()
    grown = fresh(model).partial_fit(X[:50]).partial_fit(X[50:])
    assert hasattr(grown, "_growth")
    grown.fit(X[:70])
    assert not hasattr(grown, "_growth")
    np.testing.assert_array_equal(grown.embedding_, fresh(model).fit(X[:70]).embedding_)


@each_graph_method
def test_rows_and_model_before_are_not_changed(model):
    X = rows()
    batches = X[:60].copy(), X[60:].copy()
    grown = fresh(model).partial_fit(batches[0])
    before = pickle.dumps(grown.__dict__["_growth"].neighbors)
    copied = pickle.loads(pickle.dumps(grown))
    grown.partial_fit(batches[1])
    np.testing.assert_array_equal(batches[0], X[:60])
    np.testing.assert_array_equal(batches[1], X[60:])
    assert pickle.dumps(copied._growth.neighbors) == before


@each_graph_method
def test_changed_parameters_are_those_of_all_rows(model):
    X = rows()
    grown = fresh(model).partial_fit(X[:60])
    grown.set_params(n_neighbors=9).partial_fit(X[60:])
    whole = fresh(model, n_neighbors=9).fit(X)
    np.testing.assert_array_equal(grown.graph_.lengths, whole.graph_.lengths)
    np.testing.assert_allclose(grown.embedding_, whole.embedding_, atol=1e-6)


@each_method
def test_any_number_of_threads_gives_the_same_bits(model):
    X = rows()
    one, two = (fresh(model, n_jobs=jobs).partial_fit(X[:60]).partial_fit(X[60:]) for jobs in (1, 2))
    np.testing.assert_array_equal(one.embedding_, two.embedding_)


@each_method
def test_files_and_pickles_go_on_growing(model, tmp_path):
    X = rows()
    grown = fresh(model).partial_fit(X[:60])
    grown.save(tmp_path / "model")
    copies = [manifoldry.load(tmp_path / "model"), pickle.loads(pickle.dumps(grown))]
    expected = grown.partial_fit(X[60:]).embedding_
    for copied in copies:
        np.testing.assert_array_equal(copied.partial_fit(X[60:]).embedding_, expected)


@each_graph_method
@pytest.mark.parametrize("policy", ["bridge", "apart", "largest"])
def test_pieces_that_grow_together(model, policy):
    """Two far clusters, then the rows between them: pieces at first, one sheet in the end, as a fit says each time."""
    rng = np.random.default_rng(0)
    middle = np.column_stack([np.linspace(0, 12, 40), rng.uniform(0, 1, 40), np.zeros(40)])
    ends = np.concatenate([rng.uniform(0, 1, (30, 3)) * [1, 1, 0], rng.uniform(0, 1, (30, 3)) * [1, 1, 0] + [12, 0, 0]])
    X = np.concatenate([ends, middle])
    grown = fresh(model, n_neighbors=8, disconnected=policy)
    for lo, hi in ((0, 50), (50, 60), (60, 100)):
        grown.partial_fit(X[lo:hi])
        whole = fresh(model, n_neighbors=8, disconnected=policy).fit(X[:hi])
        np.testing.assert_array_equal(grown.graph_.lengths, whole.graph_.lengths)
        np.testing.assert_allclose(grown.embedding_, whole.embedding_, atol=1e-6 * np.nanmax(np.abs(whole.embedding_)))


@each_graph_method
def test_sparse_rows_and_single_precision(model):
    X = rows()
    whole = fresh(model).fit(X)
    sparse = fresh(model).partial_fit(csr_array(X[:60])).partial_fit(csr_array(X[60:]))
    np.testing.assert_allclose(sparse.embedding_, whole.embedding_, atol=1e-6)
    single = fresh(model).partial_fit(X[:60].astype(np.float32)).partial_fit(X[60:].astype(np.float32))
    assert single.embedding_.dtype == np.float32


@each_method
def test_bad_rows_are_refused_in_a_sentence_and_change_nothing(model):
    X = rows()
    grown = fresh(model).partial_fit(X[:60])
    expected = grown.embedding_.copy()
    bad = X[60:].copy()
    bad[3, 1] = np.nan
    for batch, words in (
        (bad, "NaN or infinity"),
        (X[60:, :2], "2 features"),
        (manifoldry.row_blocks([X[60:]]), "rows in memory"),
        (NeighborGraph.from_sparse(csr_array(np.ones((5, 5)))), "rows of features"),
    ):
        with pytest.raises(ValueError, match=words):
            grown.partial_fit(batch)
    np.testing.assert_array_equal(grown.embedding_, expected)
    if hasattr(model, "metric"):
        with pytest.raises(ValueError, match="rows of features"):
            fresh(model, metric="precomputed").partial_fit(np.abs(X @ X.T))
    with pytest.raises(ValueError, match="takes no targets"):
        fresh(model, target_weight=0.5).partial_fit(X, X[:, 0] > 0)
    sampled = fresh(model).fit(manifoldry.row_blocks([X[:60], X[60:]]))
    with pytest.raises(ValueError, match="holds a sample"):
        sampled.partial_fit(X[:5])


def test_partial_fit_is_where_mathematics_gives_it():
    able = {card.name for card in manifoldry.list_methods() if hasattr(card.cls, "partial_fit") and not card.wrapped}
    assert able == {by_name(model) for model in ALL_METHODS}


def test_a_roll_that_grows_stays_flat():
    """Rows in the order of arc length: the sheet is longer after each batch, and as flat as that of a fit."""
    roll = datasets.swiss_roll(600, random_state=1)
    order = np.argsort(roll.truth[:, 0], kind="stable")
    model, widths = Isomap(n_neighbors=8), []
    for batch in np.array_split(order, 4):
        model.partial_fit(roll.X[batch])
        widths.append(np.ptp(model.embedding_[:, 0]))
    assert (np.diff(widths) > 0).all()
    assert manifoldry.metrics.procrustes(model.embedding_, roll.truth[order]).error < 0.02
