"""What people from scikit-learn, umap-learn and openTSNE reach for: attributes and parameters, by their meaning."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist, pdist
from sklearn.manifold import Isomap as TheirIsomap

from manifoldry import MDS, TSNE, UMAP, ClassicalMDS, Isomap, NonmetricMDS, datasets, metrics
from manifoldry._core.run import Run
from manifoldry.graph._operations import distinct_rows

X = np.random.default_rng(1).normal(size=(90, 4))


def test_isomap_has_scikit_learns_distances_and_error():
    ours, theirs = Isomap(n_neighbors=8).fit(X), TheirIsomap(n_neighbors=8).fit(X)
    np.testing.assert_allclose(ours.dist_matrix_, theirs.dist_matrix_, rtol=1e-12)
    np.testing.assert_allclose(ours.reconstruction_error(), theirs.reconstruction_error(), rtol=1e-9)
    assert not hasattr(Isomap(), "dist_matrix_")
    assert "dist_matrix_" not in vars(ours)


def test_isomap_of_pieces_has_no_error_between_them():
    apart = Isomap(n_neighbors=4, disconnected="apart").fit(np.concatenate([X, X + 100]))
    assert np.isinf(apart.dist_matrix_[0, 90])
    with pytest.raises(ValueError, match="graph is disconnected"):
        apart.reconstruction_error()


@pytest.mark.parametrize("weighted", [False, True])
def test_stress_is_the_sum_over_pairs_and_stress_1_is_kruskals(weighted):
    weights = np.ones((90, 90)) if not weighted else 1 / (1 + cdist(X, X))
    model = MDS(weights=weights if weighted else None).fit(X)
    d, delta, w = pdist(model.embedding_), pdist(X), weights[np.triu_indices(90, 1)]
    stress = (w * (d - delta) ** 2).sum()
    assert model.stress_ == pytest.approx(stress, rel=1e-9)
    assert model.diagnostics_["stress_1"] == pytest.approx(np.sqrt(stress / (w * d**2).sum()), rel=1e-9)
    assert model.diagnostics_["normalized_stress"] == pytest.approx(np.sqrt(stress / (w * delta**2).sum()), rel=1e-9)
    np.testing.assert_allclose(model.dissimilarity_matrix_, cdist(X, X), rtol=1e-12)


def test_a_given_dissimilarity_matrix_is_not_kept():
    model = NonmetricMDS(metric="precomputed", max_iter=20).fit(cdist(X, X))
    assert model.stress_ == model.diagnostics_["stress"]
    with pytest.raises(AttributeError, match="the matrix passed to fit"):
        _ = model.dissimilarity_matrix_


@pytest.mark.parametrize("model", [ClassicalMDS(), MDS(max_iter=30), NonmetricMDS(max_iter=30)])
def test_a_scaling_of_sparse_rows_places_dense_and_sparse_ones_alike(model):
    rows = np.where(np.abs(X) > 0.5, X, 0.0)
    model.fit(csr_array(rows))
    placed = model.transform(rows[:10])
    np.testing.assert_array_equal(placed, model.transform(csr_array(rows[:10])))
    np.testing.assert_allclose(placed, type(model)(**model.get_params()).fit(rows).transform(rows[:10]), atol=1e-5)


# t-SNE


def test_given_affinities_are_laid_out_as_those_of_rows():
    how = {"max_iter": 120, "init": "spectral", "random_state": 0}
    rows = TSNE(perplexity=10, **how).fit(X)
    P = rows.affinity_matrix_
    for given in (P, 7.0 * P.toarray(), csr_array(P + csr_array(np.eye(90)))):
        model = TSNE(metric="affinity", **how).fit(given)
        np.testing.assert_allclose(model.affinity_matrix_.toarray(), P.toarray(), atol=1e-16)
        assert model.kl_divergence_ == pytest.approx(rows.kl_divergence_, rel=1e-3)
        assert not hasattr(model, "transform")
        assert not hasattr(model, "graph_")
    assert rows.learning_rate_ == 45
    assert TSNE(perplexity=10, max_iter=10, learning_rate=3).fit(X).learning_rate_ == 3
    with pytest.raises(ValueError, match="Affinities must be the same both ways"):
        TSNE(metric="affinity").fit(np.triu(P.toarray()))


# UMAP


def test_a_and_b_are_the_kernels_own():
    fitted = UMAP(n_epochs=20).fit(X)
    same = UMAP(n_epochs=20, a=fitted.a_, b=fitted.b_, min_dist=0.9).fit(X)
    np.testing.assert_array_equal(same.embedding_, fitted.embedding_)
    assert (UMAP(n_epochs=1, a=2.0, b=0.5).fit(X).a_, UMAP(n_epochs=1, a=2, b=0.5).fit(X).b_) == (2.0, 0.5)
    with pytest.raises(ValueError, match=r"give both or none; got a=1\.0 and b=None"):
        UMAP(a=1.0).fit(X)


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_unique_embeds_equal_rows_once(kind):
    order = np.random.default_rng(2).permutation(np.repeat(np.arange(40), 3))
    copies = X[order]
    first, inverse = distinct_rows(kind(copies))
    np.testing.assert_array_equal(copies[first][inverse], copies)
    model = UMAP(n_neighbors=6, n_epochs=30, unique=True).fit(kind(copies), order)
    alone = UMAP(n_neighbors=6, n_epochs=30).fit(kind(copies[first]), order[first])
    np.testing.assert_array_equal(model.embedding_, alone.embedding_[inverse])
    assert model.graph_.n_points == 40
    np.testing.assert_array_equal(model.transform(kind(copies[:5])), model.embedding_[:5])


def test_targets_may_have_their_own_number_of_neighbors():
    y = X[:, 0]
    how = {"n_neighbors": 10, "n_epochs": 5, "target_metric": "numeric"}
    same, more = UMAP(target_n_neighbors=10, **how).fit(X, y), UMAP(target_n_neighbors=40, **how).fit(X, y)
    np.testing.assert_array_equal(same.embedding_, UMAP(**how).fit(X, y).embedding_)
    assert more.affinity_matrix_.nnz > same.affinity_matrix_.nnz


# Quality of embeddings of sparse rows


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_quality_of_sparse_rows_is_that_of_dense_ones(metric):
    rows = np.where(np.abs(X) > 0.6, X, 0.0) + 0.1 * (np.arange(4) == 2)
    Y, sparse = rows[:, :2], csr_array(rows)
    for measure in (metrics.trustworthiness, metrics.continuity, metrics.q_nx):
        dense = measure(rows, Y, n_neighbors=7, metric=metric)
        assert measure(sparse, Y, n_neighbors=7, metric=metric) == pytest.approx(dense, rel=1e-9)
    assert metrics.score(sparse, Y, n_neighbors=7) == pytest.approx(metrics.score(rows, Y, n_neighbors=7), rel=1e-9)
    with pytest.raises(ValueError, match="needs all pairwise distances; got a sparse matrix"):
        metrics.q_nx(csr_array(cdist(rows, rows)), Y, metric="precomputed")


def test_wide_rows_need_no_matrix_of_columns_by_columns(monkeypatch):
    """Of the 40 strong directions among 2,500 none is lost, and no eigenproblem has the size of the columns."""
    from manifoldry.graph import _approximate as approximate

    rng = np.random.default_rng(5)
    rows = rng.normal(size=(300, 40)) @ rng.normal(size=(40, 2500)) + 0.01 * rng.normal(size=(300, 2500))
    centered = rows - rows.mean(axis=0)
    monkeypatch.setattr("scipy.linalg.eigh", None)
    basis = approximate.projection_basis(centered, 60, Run(0, 1))
    np.testing.assert_allclose(basis.T @ basis, np.eye(60), atol=1e-10)
    kept = ((centered @ basis) ** 2).sum() / (centered**2).sum()
    best = (np.linalg.svd(centered, compute_uv=False)[:60] ** 2).sum() / (centered**2).sum()
    assert best - 1e-4 < kept <= best + 1e-12
    assert approximate.projection_rows(10_000, 100_000, 10_000) == 1000


def test_attributes_computed_on_demand_leave_no_trace_in_a_pickle():
    import pickle

    model = Isomap(n_neighbors=8).fit(datasets.swiss_roll(200, random_state=0).X)
    before = len(pickle.dumps(model))
    _ = model.dist_matrix_
    assert len(pickle.dumps(model)) == before
