"""The findings of a fit: one warning at most, of the most important; every kind is found, and the rest recorded."""

import warnings
from dataclasses import field
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers import among, make
from manifoldry import (
    LPP,
    NMF,
    PCA,
    AffinityPropagation,
    AutoEmbedding,
    DisconnectedWarning,
    EmbeddingWarning,
    FactorAnalysis,
    FastICA,
    Isomap,
    KMeans,
    SpectralClustering,
    list_clusterings,
    list_methods,
)
from manifoldry._core.values import Certificate, Embedding
from manifoldry._core.warnings import remark, warn
from manifoldry.methods._base import Embedder, estimator
from manifoldry.methods._base._checks import problems

RNG = np.random.default_rng(3)
CLOUD = RNG.normal(size=(60, 5)) * [4, 3, 2, 1, 1]


def nasty_inputs():
    """Return inputs each of which has a defect that several steps of a fit notice."""
    unscaled, outliers = CLOUD.copy(), CLOUD.copy()
    unscaled[:, 2] *= 1000
    outliers[:2] *= 1000
    return {
        "unscaled": unscaled,
        "disconnected": np.r_[CLOUD[:30], 1000 + CLOUD[30:]],
        "duplicates": np.repeat(CLOUD[:20], 3, axis=0),
        "outliers": outliers,
        "short": CLOUD[:12],
    }


def caught_in(model, X, y=None):
    """Return the warnings of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [each for each in caught if issubclass(each.category, UserWarning)]


@among((*list_methods(), *list_clusterings()))
def test_a_fit_warns_at_most_once_and_of_its_first_finding(card):
    warned = 0
    for name, X in nasty_inputs().items():
        model = make(card)
        try:
            caught = caught_in(model, np.abs(X))
        except ValueError:  # too few rows for the method, say
            continue
        assert len(caught) <= 1, (name, [str(each.message) for each in caught])
        found = problems(model)
        assert bool(caught) == bool(found), (name, found)
        assert all(issubclass(each.category, EmbeddingWarning) for each in caught)
        assert not caught or str(caught[0].message).startswith(f"{card.name}: {found[0]}")
        assert set(model.diagnostics_["remarks"]) <= set(model.diagnostics_["advice"])
        assert not set(model.diagnostics_["remarks"]) & set(found)
        warned += len(caught)
    assert warned or card.name in ("FactorAnalysis", "NonlinearFactorAnalysis", "ProjectionPursuit", "FastICA")


UNSCALED = pd.DataFrame(nasty_inputs()["unscaled"], columns=["a", "b", "gram", "d", "e"])
SENTENCE = "Column 'gram' holds 100.0% of the squared distances between rows, and the other 4 columns hardly count"


@pytest.mark.parametrize("model", [PCA(n_components=2), Isomap(), KMeans(n_clusters=2), LPP()])
def test_columns_in_different_units_come_first_and_hide_what_follows(model):
    before = UNSCALED.copy()
    (only,) = caught_in(model, UNSCALED)
    assert f"{SENTENCE}: scale the columns, as in make_pipeline(StandardScaler(), {type(model).__name__}())" in str(
        only.message
    )
    assert len(problems(model)) == 1
    assert model.diagnostics_["dominating_columns"]["columns"] == (2,)
    pd.testing.assert_frame_equal(UNSCALED, before)


@pytest.mark.parametrize("method", [PCA, Isomap, KMeans])
def test_scaled_columns_are_left_in_peace(method):
    pipeline = make_pipeline(StandardScaler(), method())
    assert "dominating_columns" not in pipeline.fit(UNSCALED)[-1].diagnostics_


def test_methods_that_ignore_units_do_not_speak_of_them():
    for model in (FactorAnalysis(n_components=2), FastICA(n_components=None)):
        caught_in(model, UNSCALED)
        assert "dominating_columns" not in model.diagnostics_
    caught_in(part := FastICA(n_components=2), UNSCALED)  # the first components depend on units
    assert "dominating_columns" in part.diagnostics_
    D = np.abs(CLOUD[:, None] - CLOUD).sum(axis=2)
    caught_in(by_distances := Isomap(metric="precomputed"), D * 1000)
    assert "dominating_columns" not in by_distances.diagnostics_


def test_a_choice_among_methods_says_it_once():
    (only,) = caught_in(AutoEmbedding(methods=("PCA", "Isomap"), purpose="keep distances"), UNSCALED)
    assert SENTENCE in str(only.message)


@estimator
class Told(Embedder):
    """Says what it was told to, by all ways there are."""

    advice: Any = field(default=())
    remarks: Any = field(default=())
    surface: Any = field(default=())
    steps: Any = field(default=())
    certificate: Any = field(default=None)

    def _embed(self, X, run):  # noqa: ARG002
        for step in self.steps:
            step()
        notes = {"advice": self.advice, "remarks": self.remarks, "surface_advice": self.surface}
        return Embedding(X[:, :2], notes=notes, certificate=self.certificate)


def test_causes_come_before_consequences_and_remarks_last():
    loose = Certificate(1.0, -np.inf, 2, "the claim", 1e-3)
    model = Told(
        advice=("Of the method.",),
        remarks=("A remark.",),
        steps=(
            lambda: warn("Of the graph.", DisconnectedWarning),
            lambda: warn("Of a step."),
            lambda: remark("Another."),
        ),
        certificate=loose,
    )
    (only,) = caught_in(model, CLOUD)
    assert str(only.message).startswith('Told: Of a step. (5 more findings in diagnostics_["advice"]) [see https://')
    said = model.diagnostics_["advice"]
    assert said == ("Of a step.", "Of the method.", "Of the graph.", loose.sentence, "A remark.", "Another.")
    assert problems(model) == said[:4]
    assert model.diagnostics_["remarks"] == said[4:]


def test_the_category_is_that_of_the_finding():
    (only,) = caught_in(Told(steps=(lambda: warn("Of the graph.", DisconnectedWarning),)), CLOUD)
    assert only.category is DisconnectedWarning
    assert caught_in(Told(remarks=("A remark.",)), CLOUD) == []


def test_a_fit_that_fails_still_issues_what_it_had_warned_of():
    def fail():
        raise ValueError("Of no use.")

    with pytest.raises(ValueError, match="Of no use"), pytest.warns(EmbeddingWarning, match="Before"):
        Told(steps=(lambda: warn("Before."), fail)).fit(CLOUD)


def test_unfolding_is_advised_only_where_the_data_may_be_a_surface():
    flat = RNG.uniform(size=(300, 2)) @ RNG.normal(size=(2, 5))
    assert problems(Told(surface=("Folded.",)).fit(flat)) == ("Folded.",)
    round_cloud = RNG.normal(size=(300, 5))
    assert Told(surface=("Folded.",)).fit(round_cloud).diagnostics_["remarks"] == ("Folded.",)


def test_components_are_worth_a_warning_where_they_are_large():
    near = RNG.normal(size=(200, 3))
    few, many = (np.r_[near, 1000 + RNG.normal(size=(n, 3))] for n in (8, 20))
    assert (
        problems(Isomap(n_neighbors=5).fit(few)) == () or "connected" not in problems(Isomap(n_neighbors=5).fit(few))[0]
    )
    assert "4% of the points are outside the largest" in " ".join(
        Isomap(n_neighbors=5).fit(few).diagnostics_["remarks"]
    )
    assert "9% of the points are outside the largest" in problems(Isomap(n_neighbors=5).fit(many))[0]
    assert "connected" not in " ".join(problems(LPP(n_neighbors=5).fit(many)))  # a linear map is defined all the same
    assert (
        "20 points outside the largest have no coordinates"
        in problems(LPP(n_neighbors=5, disconnected="largest").fit(many))[0]
    )


def test_iterations_that_do_not_converge():
    X = np.abs(CLOUD)
    for model in (NMF(n_components=2, max_iter=2), AffinityPropagation(max_iter=20)):
        (only,) = caught_in(model, X)
        assert issubclass(only.category, ConvergenceWarning)
        assert "max_iter" in problems(model)[-1]
    assert not any("max_iter" in each for each in problems(NMF(n_components=2, max_iter=5000).fit(X)))


def test_what_clusterings_say_is_warned_of_and_shown():
    model = SpectralClustering(n_clusters="auto")
    (only,) = caught_in(model, RNG.normal(size=(150, 3)))
    assert "All points are left in one cluster" in str(only.message)
    assert "All points are left in one cluster" in repr(model)


def test_long_lists_of_findings_are_cut_in_the_representation():
    model = Told(advice=tuple(f"Finding {i}." for i in range(9)))
    assert '\n  # 5 more in diagnostics_["advice"].' in repr(model.fit(CLOUD))
    assert "# Finding 4." not in repr(model)
