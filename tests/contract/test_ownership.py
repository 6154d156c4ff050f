"""A fitted model is its own: it follows no later change of the data, and its pickle holds them once."""

import inspect
import pickle
from copy import deepcopy

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

import manifoldry
from helpers import AUTO, among, bent_sheet, make
from manifoldry._core.run import Run
from manifoldry.graph._search import NeighborIndex, NeighborRule

METHODS, CLUSTERINGS = (*manifoldry.list_methods(), AUTO), manifoldry.list_clusterings()
DISTANCES = [card for card in METHODS if "metric" in inspect.signature(card.cls).parameters]
SPARSE = [card for card in METHODS if card.cls().__sklearn_tags__().input_tags.sparse]


def sheet(n=30, seed=0):
    """Return a bent sheet of positive numbers, which every method takes."""
    return bent_sheet(n, seed=seed) + 2.0


def answers_after(card, model, Q, change):
    """Return what a fitted model says of new points, and of places if it leads them back, after a change."""
    if card in CLUSTERINGS:
        change()
        return [model.predict(Q)]
    places = model.embedding_[:5].copy()
    change()
    inverse = [model.inverse_transform(places)] if hasattr(model, "inverse_transform") else []
    return [model.transform(Q), *inverse]


def forms_of(card):
    """Yield the points in each form that a method may keep, and new points: few and many columns, sparse, distances."""
    for X, Q in ((sheet(), sheet(5, seed=3)), (np.tile(sheet(), 3), np.tile(sheet(5, seed=3), 3))):
        if card in SPARSE:
            S = csr_array(X)
            yield {}, S, Q, S.data
        yield {}, X, Q, X
    if card in DISTANCES:
        D, E = (cdist(rows, sheet()) for rows in (sheet(), sheet(5, seed=3)))
        yield {"metric": "precomputed"}, D, E, D


@among((*METHODS, *CLUSTERINGS))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_models_do_not_follow_later_changes_of_the_data(card):
    for settings, X, Q, memory in forms_of(card):
        model = make(card, **settings).fit(X)
        # A copy may change the memory order of a wrapped method's arrays, and so the order of BLAS's sums.
        twin = make(card, **settings).fit(X) if card.wrapped else deepcopy(model)
        before = answers_after(card, twin, Q, lambda: None)
        for was, now in zip(before, answers_after(card, model, Q, lambda memory=memory: memory.fill(0.0)), strict=True):
            assert np.array_equal(was, now), (type(X).__name__, X.shape)


@among(METHODS)
def test_models_do_not_follow_changes_of_the_returned_layout(card):
    model = make(card)
    Y = model.fit_transform(sheet())
    placed = model.transform(sheet(5, seed=3))
    Y *= 2.0
    assert np.array_equal(model.transform(sheet(5, seed=3)), placed)


def test_read_only_data_are_not_copied():
    X = sheet()
    X.flags.writeable = False
    assert make(next(card for card in METHODS if card.name == "MDS")).fit(X)._extension.distances.X is X


def test_a_pickled_search_holds_single_precision_rows_once():
    X = np.random.default_rng(0).standard_normal((2000, 20)).astype(np.float32)
    index = NeighborIndex(X, NeighborRule(5, search="exact").resolve(len(X)), Run(0))
    stored = pickle.dumps(index)
    assert len(stored) < 1.1 * X.nbytes
    for was, now in zip(index.query(X[:9], Run(0)), pickle.loads(stored).query(X[:9], Run(0)), strict=True):
        assert np.array_equal(was, now)
