"""The look at every result: what makes a layout useless is said, and a good layout is left in peace."""

import pickle
import warnings
from copy import deepcopy
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import manifoldry
from helpers import problems
from manifoldry import PCA, Isomap, LaplacianEigenmaps, datasets, list_methods, metrics
from manifoldry._core.run import Run
from manifoldry._core.values import Embedding
from manifoldry._numerics.geometry.dimension import IntrinsicDimension, intrinsic_dimension
from manifoldry.graph._pairwise import distance_rows
from manifoldry.methods._base import Embedder, estimator
from manifoldry.methods._base._checks import MIN_GROWTH, _Comparison, _Rows

RNG = np.random.default_rng(0)
CLOUD = RNG.normal(size=(400, 6)) * [4, 3, 2, 1, 1, 1]


@estimator
class Given(Embedder):
    """Lays the points out where it was told to."""

    layout: Any = field(default=None)
    metric: str = "euclidean"

    def _embed(self, X, run):  # noqa: ARG002
        return Embedding(np.array(self.layout, dtype=float))


@estimator
class GivenByNeighbors(Given):
    """The same with neighbors that could be more."""

    n_neighbors: int = 5


def look_at(layout, X=CLOUD, **parameters):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = Given(layout=layout, **parameters).fit(X)
    messages = [str(w.message) for w in caught]
    advice = model.diagnostics_["advice"]
    assert len(messages) == bool(advice)
    assert all(sentence in repr(model) for sentence in advice)
    if advice:
        others = f' ({len(advice) - 1} more finding{"s" if len(advice) > 2 else ""} in diagnostics_["advice"])'
        assert messages[0].startswith(f"Given: {advice[0]}{others if len(advice) > 1 else ''} [see https://")
    return " ".join(advice)


def test_principal_components_are_left_in_peace():
    assert look_at(CLOUD[:, :2]) == ""


def test_a_layout_at_random_is_called_so():
    advice = look_at(RNG.normal(size=(400, 2)))
    assert "than at random" in advice
    assert "less well than by PCA" in advice


@pytest.mark.parametrize("width", [2, 9])  # neighbors by a tree, and by distances
@pytest.mark.parametrize("unit", [1.0, 1e-200])
def test_the_scores_are_those_of_all_distances(width, unit):
    X = np.random.default_rng(1).normal(size=(120, 12))
    Y = X[:, :width] * unit
    rows = _Rows(distance_rows(X), [Y], 12, Run(0, 1), keep=False)
    means = [rows.trust(m)[0].mean() for m in (50, 120)]
    whole = metrics.continuity(X, Y / unit, n_neighbors=12), metrics.trustworthiness(X, Y / unit, n_neighbors=12)
    figures = rows.figures(120)
    assert (figures["continuity"], figures["trustworthiness"], means[1]) == pytest.approx((*whole, whole[1]), rel=1e-14)
    assert means[0] == pytest.approx(rows.trust(120)[0][:50].mean(), rel=1e-14)


@pytest.mark.parametrize("lost", [-0.1, 0.0, 0.015])
@pytest.mark.parametrize("error", [0.001, 0.01, 0.1])
def test_as_many_more_points_are_compared_as_would_find_a_loss_harmless(lost, error):
    """The error falls with the root of their number."""
    undecided = _Comparison(0.9, lost, error)
    more = _Comparison(0.9, lost, error / np.sqrt(undecided.growth))
    assert undecided.growth >= MIN_GROWTH
    assert more.harmless
    assert _Comparison(0.9, 0.02, error).growth == _Comparison(0.5, lost, error).growth == np.inf


def test_worse_than_principal_components():
    advice = look_at(CLOUD[:, 2:4])
    assert "less well than by PCA" in advice
    assert "than at random" not in advice


def test_distances_are_compared_with_chance_alone():
    D = np.linalg.norm(CLOUD[:, None] - CLOUD, axis=2)
    assert look_at(CLOUD[:, 2:4], D, metric="precomputed") == ""
    assert "than at random" in look_at(RNG.normal(size=(400, 2)), D, metric="precomputed")


@pytest.mark.parametrize("metric", ["cosine", "manhattan"])
def test_the_metric_of_the_method_counts(metric):
    assert look_at(CLOUD[:, :2], metric=metric) == ""
    assert "less well than by PCA" in look_at(CLOUD[:, 3:5], metric=metric)


def test_two_dots_are_called_so():
    dots = np.sign(CLOUD[:, :1]) * [1.0, 1.0] + 1e-5 * CLOUD[:, :2]
    assert "100% of the points lie in 2 spots of the plot, a hundredth of its width each" in look_at(dots)


def test_identical_rows_may_coincide():
    X = CLOUD[RNG.integers(0, 3, size=400)]
    assert "spots" not in look_at(X[:, :2], X)


def test_outliers_that_rule_an_axis_are_named():
    layout = CLOUD[:, :2].copy()
    layout[[17, 203], 1] = 1e4, -1e4
    advice = look_at(layout)
    assert "axis 2" in advice
    assert "17" in advice
    assert "203" in advice


def test_neighbors_are_advised_only_where_there_are_some():
    """A linear map has no graph whose neighbors could be raised."""
    X = CLOUD.copy()
    X[:3] *= 1e3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        linear, graph = (
            model.fit(X).diagnostics_["advice"] for model in (PCA(n_components=2), GivenByNeighbors(layout=X[:, :2]))
        )
    assert any("of the variance of ax" in sentence for sentence in linear)
    assert "cannot be seen" in " ".join(linear)
    assert "neighbors" not in " ".join(linear)
    assert "n_neighbors" in " ".join(graph)


def test_a_constant_axis_is_said():
    assert "Axis 2 of the layout is constant" in look_at(np.c_[CLOUD[:, 0], np.zeros(400)])


def test_few_points_are_left_in_peace():
    assert look_at(np.zeros((29, 2)), CLOUD[:29]) == ""


@pytest.mark.parametrize("card", list_methods(), ids=lambda card: card.name)
def test_every_method_answers(card):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = card.cls(**card.test_params).fit(np.abs(CLOUD[:80]))
    advice = model.diagnostics_["advice"]
    assert isinstance(advice, tuple)
    assert all(isinstance(sentence, str) and sentence.endswith(".") for sentence in advice)


@pytest.mark.parametrize("name", ["IPA", "Isomap", "LTSA", "TesseraMap", "HessianEigenmaps", "TSNE", "UMAP"])
def test_an_unrolled_sheet_is_left_in_peace(name):
    card = next(card for card in list_methods() if card.name == name)
    assert problems(card.cls().fit(datasets.swiss_roll(1000).X)) == ()


def test_pieces_left_out_are_not_looked_at():
    X = np.r_[CLOUD, 1000 + CLOUD[:40]]
    model = next(card for card in list_methods() if card.name == "Isomap").cls(disconnected="largest").fit(X)
    assert np.isnan(model.embedding_[400:]).all()
    (sentence,) = model.diagnostics_["advice"]
    assert "40 points outside the largest have no coordinates" in sentence


@pytest.mark.parametrize("method", [PCA(), Isomap(), LaplacianEigenmaps()])
@pytest.mark.parametrize("n", [300, 2500])
def test_what_no_finding_needs_is_measured_when_it_is_read(method, n, tmp_path):
    """It is the same whether it is read at once, after the rows have changed, or from a copy or a file."""
    X = datasets.s_curve(n, random_state=2).X
    expected = intrinsic_dimension(X)
    rows = X.copy()
    model = clone(method).fit(rows)
    assert isinstance(vars(model)["diagnostics_"]["dimension"], partial)
    model.save(tmp_path / "model.mfy")
    copies = [manifoldry.load(tmp_path / "model.mfy"), pickle.loads(pickle.dumps(clone(method).fit(rows)))]
    rows[:] = 0.0
    for fitted in (model, *copies, deepcopy(clone(method).fit(X))):
        assert fitted.diagnostics_["dimension"] == expected
        assert type(fitted.diagnostics_) is dict
        assert not any(callable(entry) for entry in fitted.diagnostics_.values())
    assert not hasattr(clone(method), "diagnostics_")


def test_wide_rows_are_measured_at_once():
    """A sample of them would take memory until it is measured."""
    X = np.random.default_rng(0).normal(size=(300, 4000))
    assert isinstance(vars(PCA().fit(X))["diagnostics_"]["dimension"], IntrinsicDimension)
