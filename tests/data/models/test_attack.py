"""No array of a model file, whatever its shape, type and values, ends the process or is read beyond its end."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.decomposition import TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

import manifoldry
from helpers import AUTO, bent_sheet, distances_by_differences, make
from manifoldry import KNeighborsTransformer
from manifoldry._numerics import repulsion
from manifoldry.data._models import save_model
from manifoldry.graph import _search as search

pytest.importorskip("resource", reason="limits the memory of a process, as POSIX can")
from model_attack import counted, outcomes

CARDS = (*manifoldry.list_methods(), AUTO, *manifoldry.list_clusterings())
BY_NAME = {card.name: card for card in CARDS}
N_ROWS, N_NEW = 40, 5


def suited(card, X):
    return np.abs(X) if card.cls().__sklearn_tags__().input_tags.positive_only else X


def every_card():
    """Yield (name, fitted model, new points) of all methods and clusterings."""
    for card in CARDS:
        yield card.name, make(card).fit(suited(card, bent_sheet(N_ROWS))), suited(card, bent_sheet(N_NEW, seed=4))


def searches(monkeypatch):
    """Yield a model for each search engine: approximate ones, of wide rows too, by several metrics."""
    rng = np.random.default_rng(0)
    for engine, columns, parameters in (
        ("nn_descent", 12, {"search": "approximate"}),
        ("nn_descent", 200, {"search": "approximate", "metric": "cosine"}),
        ("brute", 12, {"metric": "minkowski", "metric_params": {"p": 3}}),
        ("kd_tree", 3, {"metric": "mahalanobis"}),
        ("brute", 10, {"metric": "seuclidean"}),
    ):
        monkeypatch.setattr(search, "MIN_DESCENT_ROWS", 100 if engine == "nn_descent" else 10_000)
        X = rng.random((300, 3)) @ rng.standard_normal((3, columns)) + 0.01 * rng.random((300, columns))
        model = KNeighborsTransformer(n_neighbors=6, **parameters).fit(X)
        assert model.diagnostics_["search"] == engine
        yield f"{engine} {columns}", model, X[::60] + 0.001
    monkeypatch.setattr(search, "MIN_DESCENT_ROWS", 100)
    X = rng.random((300, 3)) @ rng.standard_normal((3, 12))
    for model in (
        manifoldry.UMAP(n_neighbors=5, n_epochs=3, search="approximate"),
        manifoldry.Isomap(n_neighbors=6, search="approximate"),
    ):
        yield f"{type(model).__name__} nn_descent", model.fit(X), X[::60] + 0.001
    monkeypatch.undo()


def layouts(monkeypatch):
    """Yield layouts whose repulsion is summed by mesh and tree."""
    monkeypatch.setattr(repulsion, "MAX_POINTS_EXACT", {2: 10, 3: 10})
    for n_components, kind in ((2, "FFTPotential"), (3, "BarnesHutPotential")):
        model = manifoldry.TSNE(n_components=n_components, max_iter=20, perplexity=6).fit(bent_sheet(60))
        assert type(model._extension.potential).__name__ == kind
        yield kind, model, bent_sheet(N_NEW, seed=4)
    monkeypatch.undo()


def given_pairs():
    """Yield models of distances, graphs and other metrics."""
    X, Q = bent_sheet(N_ROWS), bent_sheet(N_NEW, seed=4)
    D, E = distances_by_differences(X), np.sqrt(((Q[:, None] - X) ** 2).sum(axis=2))
    for name in ("ClassicalMDS", "Isomap", "LandmarkIsomap", "LLE", "LaplacianEigenmaps", "TSNE", "UMAP", "MDS", "MVU"):
        yield f"{name} precomputed", make(BY_NAME[name], metric="precomputed").fit(D), E
    for name in ("Isomap", "LandmarkIsomap"):
        graph, edges = np.where(D < 0.9, D, 0.0), np.where(E < 0.9, E, 0.0)
        yield f"sparse {name} graph", make(BY_NAME[name], metric="precomputed").fit(csr_array(graph)), edges
    for name in ("Isomap", "LPP", "KernelLPP", "LLE"):
        yield f"{name} mahalanobis", make(BY_NAME[name], metric="mahalanobis").fit(X), Q
    yield "Isomap radius", manifoldry.Isomap(n_neighbors=None, radius=0.9).fit(X), Q


def components():
    """Yield models of several connected components, and of a connected graph made of them."""
    X = np.vstack([bent_sheet(30), bent_sheet(30, seed=1) + 50, np.full((1, 4), 200.0)])
    for name in ("Isomap", "LandmarkIsomap", "LLE", "LaplacianEigenmaps", "IPA", "TesseraMap"):
        for policy in ("apart", "bridge"):
            try:
                model = make(BY_NAME[name], disconnected=policy).fit(X)
            except ValueError:  # not all have all policies
                continue
            yield f"{name} {policy}", model, X[::15] + 0.01


def other_states():
    """Yield models of sparse rows, of batches, pipelines and random states."""
    X, Q = bent_sheet(N_ROWS), bent_sheet(N_NEW, seed=4)
    thin = np.where(np.abs(X) < 0.2, 0.0, X)
    for name in ("Isomap", "LLE", "KernelPCA", "PCA", "UMAP", "LPP", "ClassicalMDS"):
        yield f"sparse {name}", make(BY_NAME[name]).fit(csr_array(thin)), Q
    for name in ("IPA", "IncrementalPCA"):
        yield (
            f"{name} grown",
            make(BY_NAME[name]).partial_fit(X).partial_fit(bent_sheet(10, seed=2)),
            bent_sheet(10, seed=4),
        )
    for steps in (
        [SimpleImputer(add_indicator=True), StandardScaler(), manifoldry.PCA()],
        [SimpleImputer(), RobustScaler(), MinMaxScaler(), TruncatedSVD(2), manifoldry.KMeans(n_clusters=2)],
    ):
        yield f"pipeline {type(steps[1]).__name__}", make_pipeline(*steps).fit(np.where(X > 1.5, np.nan, X)), Q
    for seed in (np.random.RandomState(0), np.random.default_rng(0), np.random.Generator(np.random.Philox(1))):
        bits = "legacy" if isinstance(seed, np.random.RandomState) else type(seed.bit_generator).__name__
        yield f"random {bits}", manifoldry.UMAP(n_neighbors=5, n_epochs=2, random_state=seed).fit(X), Q
    yield "TSNE exact 3", manifoldry.TSNE(n_components=3, max_iter=3, perplexity=4).fit(X), Q


def saved(folder, victims):
    """Save models and their new points; return how many."""
    count = 0
    for name, model, Q in victims:
        save_model(model, folder / f"{name.replace(' ', '-')}.mfy")
        np.save(folder / f"{name.replace(' ', '-')}.npy", Q)
        count += 1
    return count


def assert_harmless(folder, **how):
    """Attack all files of a folder: each case is an error with a clear message, or gives a result."""
    cases = outcomes(folder, **how)
    harm = [case for case in cases if case[1] not in ("refused", "refused in use", "used")]
    assert harm == [], counted(cases)
    return counted(cases)


def all_victims(monkeypatch):
    """Yield all models above."""
    yield from every_card()
    yield from searches(monkeypatch)
    yield from layouts(monkeypatch)
    yield from given_pairs()
    yield from components()
    yield from other_states()


@pytest.mark.filterwarnings("ignore")
def test_some_changes_of_the_arrays_of_every_model_are_not_read_beyond_their_end(tmp_path, monkeypatch):
    assert saved(tmp_path, all_victims(monkeypatch)) >= len(CARDS) + 50
    counts = assert_harmless(tmp_path, some=True)
    assert min(counts["refused"], counts["used"]) > 1000


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore")
def test_all_changes_of_the_arrays_of_every_model_are_not_read_beyond_their_end(tmp_path, monkeypatch):
    assert saved(tmp_path, all_victims(monkeypatch)) >= len(CARDS) + 50
    counts = assert_harmless(tmp_path)
    assert min(counts["refused"], counts["used"]) > 10_000
