"""Every method suggests a dimension, with a reason, and it is one of the data: whatever was asked for."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manifoldry import datasets
from manifoldry._core.registry import list_methods
from manifoldry._numerics.elbow import Suggestion

CARDS = {card.name: card for card in list_methods()}
ASKED = {
    "PrincipalCurve": (1,),
    "PrincipalSurface": (1, 3),
    "NonlinearFactorAnalysis": (1, 3),
    "FastICA": (2, 4),
}
"""Else 1, 2 and 4: a curve has one dimension, a sheet and polynomial factors have at most three, and FastICA runs into
NaN with one of digits."""
LINEAR = {"ClassicalMDS", "PCA", "IncrementalPCA"}
"""They judge flat dimensions, of which a roll needs three."""
FEW = {"EAT": 40, "MVU": 40, "ColoredMVU": 40, "MVE": 40, "SPE": 40, "FastMVU": 60, "LandmarkMVU": 40, "TesseraMap": 80}
"""Methods of which more points would take long."""
SETTINGS = {
    "NonmetricMDS": {"max_iter": 10},
    "RobustPCA": {"max_iter": 5},
    "PrincipalSurface": {"n_knots": 9, "init": "pca", "max_iter": 1},
    "NonlinearFactorAnalysis": {"n_init": 1, "n_nodes": 2, "max_iter": 1},
    "SparsePCA": {"max_iter": 2},
    "SNE": {"max_iter": 10},
    "SymmetricSNE": {"max_iter": 10},
    "UMAP": {"n_epochs": 5},
    "Autoencoder": {"max_iter": 3},
    "ParametricTSNE": {"n_epochs": 2, "fine_tuning": 1.0},
    "ParametricUMAP": {"n_epochs": 2, "fine_tuning": 1.0},
    "MVE": {"max_iter": 1},
    "SPE": {"max_iter": 1},
}
"""Shorter than the defaults: what is measured does not wait for the end."""


def suggestion(name, X, n_components, few=None):
    card = CARDS[name]
    seed = {"random_state": 0} if "random_state" in card.cls().get_params() else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = card.cls(n_components=n_components, **seed, **SETTINGS.get(name, {}))
        found = model.fit(X[:few]).suggest_n_components()
    assert isinstance(found, Suggestion)
    assert type(found.n_components) is int
    assert found.n_components == int(found) >= 1
    assert len(found.why) > 20
    assert found.why.endswith(".")
    return int(found)


@pytest.fixture(scope="module")
def digits():
    return load_digits().data[:200]


@pytest.mark.parametrize("name", CARDS)
def test_what_was_asked_does_not_change_the_answer(name, digits):
    found = {suggestion(name, digits, n_components, FEW.get(name)) for n_components in ASKED.get(name, (1, 2, 4))}
    assert len(found) == 1
    # Local estimates lie between 5 and 12; 95% of the variance need 29; few far distances need as little as 2.
    assert 2 <= found.pop() <= 30


@pytest.mark.parametrize("name", sorted((set(CARDS) - set(FEW) - {"KernelPCA"}) | {"TesseraMap"}))
def test_a_roll_has_two_dimensions(name):
    X = datasets.swiss_roll(700, random_state=4).X
    X = X - X.min(axis=0)  # for NMF
    assert suggestion(name, X, 1) == (3 if name in LINEAR else 2)


def test_distances_inner_products_and_graphs_are_measured_too():
    from manifoldry import LLE, MDS, UMAP, ClassicalMDS, Isomap

    X = datasets.swiss_roll(600, random_state=1).X
    D = np.linalg.norm(X[:, None] - X, axis=2)
    centered = X - X.mean(axis=0)
    rows = LLE().fit(X).diagnostics_["dimension"]
    # The same distances, but for the rounding of products.
    for model in (MDS(metric="precomputed", max_iter=2).fit(D), ClassicalMDS(metric="gram").fit(centered @ centered.T)):
        assert model.diagnostics_["dimension"].value == pytest.approx(rows.value, rel=1e-9)
    assert int(UMAP(metric="precomputed", n_epochs=2).fit(D).suggest_n_components()) == 2
    # Ten neighbors instead of twenty, both ways: within the error of 15 points in a hundred.
    graph = Isomap().fit(X).graph_
    assert Isomap().fit(graph).diagnostics_["dimension"].value == pytest.approx(rows.value, rel=0.2)


def test_squared_distances_do_not_halve_the_dimension():
    from manifoldry import TSNE

    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 4))
    X /= np.linalg.norm(X, axis=1, keepdims=True)  # a sphere of three dimensions
    values = [
        TSNE(metric=metric, max_iter=5).fit(X).diagnostics_["dimension"].value for metric in ("euclidean", "cosine")
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    assert round(values[0]) == 3


def test_the_unit_does_not_matter(digits):
    model = CARDS["PCA"].cls(n_components=2)
    one, other = (model.fit(digits * unit).suggest_n_components() for unit in (1.0, 2.0**30))
    assert one == other
