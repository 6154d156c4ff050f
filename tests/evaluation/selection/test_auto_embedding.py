"""AutoEmbedding beyond the contract: what it keeps of the comparison, labels, large sets."""

import pickle

import numpy as np
import pytest

from helpers import bent_sheet
from manifoldry import AutoEmbedding, EmbeddingWarning, metrics
from manifoldry._core.registry import METHODS
from manifoldry.data.datasets import swiss_roll
from manifoldry.evaluation.selection import _compare as flow


def test_it_is_the_best_of_the_comparison():
    roll = swiss_roll(400)
    model = AutoEmbedding(purpose="keep distances", methods=["Isomap", "LTSA"]).fit(roll.X)
    best = model.comparison_.best
    assert model.best_estimator_ is best.estimator
    assert np.array_equal(model.embedding_, best.embedding)
    assert model.diagnostics_["method"] == best.name
    assert set(best.reasons) <= set(model.diagnostics_["reasons"])
    assert metrics.procrustes(model.embedding_, roll.truth, kind="similarity").error < 0.03
    new = swiss_roll(20, random_state=1)
    assert np.array_equal(model.transform(new.X), best.estimator.transform(new.X))
    back = model.inverse_transform(model.embedding_)
    assert np.array_equal(back, best.estimator.inverse_transform(model.embedding_))


def test_it_is_no_method_of_the_table():
    assert "AutoEmbedding" not in METHODS
    with pytest.raises(ValueError, match="methods must name methods"):
        AutoEmbedding(methods=[AutoEmbedding()]).fit(bent_sheet(40))


def test_the_defaults_have_no_clock():
    assert AutoEmbedding().budget is None


@pytest.mark.filterwarnings("ignore")
def test_targets_are_labels_where_the_purpose_has_a_use_for_them():
    X = bent_sheet(90)
    labels = (X[:, 2] > np.median(X[:, 2])).astype(int)
    settings = {"methods": ["LPP"]}
    model = AutoEmbedding(purpose="features for a classifier", **settings).fit(X, labels)
    assert "accuracy" in model.comparison_.best.score
    with pytest.raises(ValueError, match="pass labels"):
        AutoEmbedding(purpose="features for a classifier", **settings).fit(X)
    plain = AutoEmbedding(purpose="keep neighbors", **settings)
    assert np.array_equal(plain.fit(X).embedding_, plain.fit(X, labels).embedding_)
    assert "neighborhood_hit" in AutoEmbedding(purpose="see clusters", **settings).fit(X, labels).comparison_.best.score


def test_a_path_has_one_dimension():
    with pytest.raises(ValueError, match="n_components=1"):
        AutoEmbedding(purpose="order along a path").fit(bent_sheet(40))
    model = AutoEmbedding(purpose="order along a path", n_components=1, methods=["Isomap"]).fit(bent_sheet(40))
    assert model.embedding_.shape == (40, 1)


def test_many_points(monkeypatch):
    monkeypatch.setattr(flow, "MAX_RANKED_ROWS", 200)
    monkeypatch.setattr(flow, "N_RANKED_ROWS", 150)
    X = swiss_roll(300).X
    model = AutoEmbedding(purpose="keep distances", methods=["Isomap"]).fit(X)
    assert model.embedding_.shape == (300, 2)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.transform(X[:5]), model.transform(X[:5]))


def test_advice_is_that_of_the_layout():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 30))
    X[:3] *= 1e3
    with pytest.warns(EmbeddingWarning, match="AutoEmbedding"):
        AutoEmbedding(purpose="keep distances", methods=["MDS"]).fit(X)
