"""`partial_fit` of IPA: bad rows are errors that change nothing, and it survives a file."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

import manifoldry
from helpers import bent_sheet
from manifoldry import IPA, NeighborGraph


def rows():
    return bent_sheet(90)


def model(**parameters):
    return IPA(n_neighbors=6, **parameters)


def test_a_fit_forgets_what_partial_fit_kept():
    X = rows()
    updated = model().partial_fit(X[:50]).partial_fit(X[50:])
    assert hasattr(updated, "_growth")
    updated.fit(X[:70])
    assert not hasattr(updated, "_growth")
    np.testing.assert_array_equal(updated.embedding_, model().fit(X[:70]).embedding_)


def test_any_number_of_threads_gives_bit_identical_results():
    X = rows()
    one, two = (model(n_jobs=jobs).partial_fit(X[:60]).partial_fit(X[60:]) for jobs in (1, 2))
    np.testing.assert_array_equal(one.embedding_, two.embedding_)


def test_files_and_pickles_can_be_updated(tmp_path):
    X = rows()
    updated = model().partial_fit(X[:60])
    updated.save(tmp_path / "model")
    copies = [manifoldry.load(tmp_path / "model"), pickle.loads(pickle.dumps(updated))]
    expected = updated.partial_fit(X[60:]).embedding_
    for copied in copies:
        np.testing.assert_array_equal(copied.partial_fit(X[60:]).embedding_, expected)


def test_bad_rows_are_errors_that_change_nothing():
    X = rows()
    updated = model().partial_fit(X[:60])
    expected = updated.embedding_.copy()
    bad = X[60:].copy()
    bad[3, 1] = np.nan
    for batch, words in (
        (bad, "NaN or infinity"),
        (X[60:, :2], "2 features"),
        (manifoldry.chunked_data([X[60:]]), "rows in memory"),
        (NeighborGraph.from_sparse(csr_array(np.ones((5, 5)))), "rows of features"),
    ):
        with pytest.raises(ValueError, match=words):
            updated.partial_fit(batch)
    np.testing.assert_array_equal(updated.embedding_, expected)
    with pytest.raises(ValueError, match="takes no targets"):
        model(target_weight=0.5).partial_fit(X, X[:, 0] > 0)
    sampled = model().fit(manifoldry.chunked_data([X[:60], X[60:]]))
    with pytest.raises(ValueError, match="holds a sample"):
        sampled.partial_fit(X[:5])


def test_only_methods_that_gain_from_it_have_it():
    updatable = {
        card.name for card in manifoldry.list_methods() if hasattr(card.cls, "partial_fit") and not card.wrapped
    }
    assert updatable == {"IPA"}
