"""Estimators after a fit: what the method said, what is proven, and how clear its axes are."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.decomposition
import sklearn.manifold

import manifoldry
from manifoldry import datasets, diagnose
from manifoldry._core.run import Run
from manifoldry._core.values import Spectrum, Stop
from manifoldry.evaluation.diagnosis._fitted import FittedModel, axes


@pytest.fixture(autouse=True)
def silence():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_all_advice_of_a_fit_is_among_the_problems():
    model = manifoldry.Isomap().fit(datasets.swiss_roll(300, random_state=1).X)
    assert "short circuits" in " ".join(model.diagnostics_["advice"])
    found = diagnose(model)
    assert len(found.problems) == len(model.diagnostics_["advice"])
    told = " ".join(f"{finding.sentence} {finding.advice}" for finding in found.problems)
    for sentence in model.diagnostics_["advice"]:
        assert all(word.strip(".:;") in told for word in sentence.split())


def test_a_certificate_is_told_in_its_own_words():
    model = manifoldry.IPA().fit(datasets.s_curve(500).X)
    found = diagnose(model)["certificate"]
    assert found.sentence == model.certificate_.sentence
    assert found.severity == ("fine" if model.certificate_.optimal else "note")
    assert sum(finding.sentence == model.certificate_.sentence for finding in diagnose(model)) == 1


def test_axes_of_equal_eigenvalues_are_told():
    some = np.random.default_rng(0).uniform(size=(100, 2))
    turned = [some, some @ np.array([[0, 1], [-1, 0]])]
    cross = np.vstack([*turned, *(-rows for rows in turned)])  # its covariance is a multiple of the identity
    assert "Axes 1 and 2" in diagnose(manifoldry.PCA(n_components=2).fit(cross))["axes"].sentence
    assert diagnose(manifoldry.PCA(n_components=2).fit(cross * [3, 1]))["axes"].severity == "fine"


@pytest.mark.parametrize(("order", "values"), [("largest", [9.0, 2.0, 1.9]), ("smallest", [0.1, 1.9, 2.0])])
def test_a_last_axis_that_is_like_the_first_one_left_out_is_told(order, values):
    model = SimpleNamespace(spectrum_=Spectrum(np.array(values), np.eye(5, 3), np.zeros(3), order))
    two, one = (axes(FittedModel(model, np.zeros((5, p)), None, Run(0))) for p in (2, 1))
    assert (two.severity, two.value) == ("note", pytest.approx(2.0 / 1.9))
    assert one.severity == "fine"


def test_components_convergence_and_the_dimension_are_told():
    rng = np.random.default_rng(0)
    apart = np.vstack([rng.normal(size=(60, 5)), rng.normal(size=(60, 5)) + 100.0])
    model = manifoldry.Isomap(n_neighbors=8).fit(apart)
    found = diagnose(model)
    assert found["components"].value == 2
    assert "1 bridge" in found["components"].sentence
    assert found["dimension"].severity == "note"
    assert "without 60 points" in diagnose(model.set_params(disconnected="largest").fit(apart))["components"].sentence
    hasty = manifoldry.MDS(max_iter=2, n_components=2).fit(rng.normal(size=(60, 5)))
    assert hasty.trace_.stop is Stop.LIMIT
    assert diagnose(hasty)["convergence"].severity == "note"
    assert diagnose(manifoldry.MDS().fit(rng.normal(size=(60, 2))))["convergence"].severity == "fine"


def test_a_number_of_epochs_is_no_limit_that_was_reached():
    X = np.random.default_rng(0).normal(size=(40, 3))
    for name in ("ParametricUMAP", "UMAP"):
        model = getattr(manifoldry, name)(n_neighbors=5, n_epochs=12).fit(X)
        assert not any("max_iter" in found.sentence for found in diagnose(model))


def test_with_the_data_its_findings_and_the_figures_follow():
    X = datasets.sphere(500).X
    model = manifoldry.LaplacianEigenmaps(n_neighbors=9).fit(X)
    found = diagnose(model, X)
    assert found["shape"].severity == "problem"
    assert "9 neighbors" in found["short circuits"].sentence
    trust = manifoldry.metrics.score(X, model.embedding_)["trustworthiness"]
    assert found["quality"].value == pytest.approx(trust, abs=0.05)


def test_a_method_hears_only_of_what_matters_to_it():
    X = datasets.swiss_roll(300, random_state=1).X
    assert "short circuits" in diagnose(manifoldry.LLE().fit(X), X)
    assert "short circuits" not in diagnose(manifoldry.TSNE(perplexity=20).fit(X), X)
    assert "hubs" not in diagnose(manifoldry.PCA(n_components=2).fit(X), X)


def test_estimators_of_other_libraries_are_looked_at_too():
    X = datasets.load("digits").X[:500]
    found = diagnose(sklearn.decomposition.PCA(2).fit(X), X)
    assert found["quality"].value < 0.9
    components = diagnose(sklearn.manifold.Isomap(n_neighbors=7).fit(X), X)["components"]
    assert components.sentence.startswith("The graph of 7 neighbors")


def test_bad_estimators_and_tables_are_refused():
    X = datasets.s_curve(100).X
    with pytest.raises(ValueError, match="Isomap has no embedding_ to diagnose: fit it first"):
        diagnose(manifoldry.Isomap())
    with pytest.raises(ValueError, match="KMeans is a clustering and has no embedding_ to diagnose: read its diag"):
        diagnose(manifoldry.KMeans(n_clusters=2).fit(X), X)
    with pytest.raises(ValueError, match="pass its data as X"):
        diagnose(sklearn.decomposition.PCA(2).fit(X))
    with pytest.raises(ValueError, match="X must be what PCA was fitted to, 100 rows; got 50"):
        diagnose(manifoldry.PCA().fit(X), X[:50])
    broken = X.copy()
    broken[0] = np.nan
    with pytest.raises(ValueError, match="missing entries"):
        diagnose(manifoldry.PCA().fit(X), broken)


def test_a_search_is_named_with_what_it_chose():
    chosen = manifoldry.AutoEmbedding(methods=["PCA"]).fit(np.random.default_rng(0).normal(size=(60, 4)))
    assert str(diagnose(chosen)).startswith("Diagnosis of AutoEmbedding (PCA), 60 points")
