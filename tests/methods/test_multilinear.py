"""Multilinear PCA: PCA of one mode, nothing lost at full rank, and a captured scatter that only grows."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from manifoldry import PCA, MultilinearPCA
from manifoldry._core.run import Run
from manifoldry._core.values import Stop
from manifoldry.methods.linear._multilinear_pca import alternate_modes, mode_spectra, projected, unfolded


def tensors(n=60, shape=(5, 4, 3), seed=0):
    """Return random rows whose entries fall off along every mode."""
    scale = np.multiply.outer(np.multiply.outer(0.6 ** np.arange(5), 0.5 ** np.arange(4)), 0.8 ** np.arange(3))
    return (np.random.default_rng(seed).standard_normal((n, *shape)) * scale).reshape(n, -1)


@pytest.mark.parametrize("settings", [{}, {"shape": (64,)}, {"shape": [64], "ranks": (5,)}])
def test_one_mode_is_pca(settings):
    X = load_digits().data[:300]
    model, pca = MultilinearPCA(n_components=5, **settings).fit(X), PCA(n_components=5).fit(X)
    np.testing.assert_allclose(np.abs(model.embedding_), np.abs(pca.embedding_), atol=1e-8 * np.abs(X).max())
    assert model.diagnostics_["kept"] == pytest.approx(pca.explained_variance_ratio_.sum())


def test_full_ranks_lose_nothing():
    X = tensors()
    model = MultilinearPCA(n_components=59, shape=(5, 4, 3), ranks=(5, 4, 3)).fit(X)
    assert model.diagnostics_["captured"] == pytest.approx(1)
    full = MultilinearPCA(n_components=60, shape=(5, 4, 3), ranks=(5, 4, 3)).fit(np.concatenate([X, X + 1]))
    np.testing.assert_allclose(full.inverse_transform(full.embedding_), np.concatenate([X, X + 1]), atol=1e-10)
    np.testing.assert_allclose(full.components_ @ full.components_.T, np.eye(60), atol=1e-10)


@pytest.mark.parametrize("ranks", [(1, 1, 1), (2, 2, 1), (3, 2, 2)])
def test_captured_scatter_only_grows_and_ends_where_no_mode_improves(ranks):
    X = (tensors() - tensors().mean(axis=0)).reshape(-1, 5, 4, 3)
    start = [directions[:, :rank] for (_, directions), rank in zip(mode_spectra(X), ranks, strict=True)]
    bases, trace = alternate_modes(X, start, 500, 1e-15, Run(0))
    assert trace.stop is Stop.CONVERGED
    assert (np.diff(trace.objective) >= -1e-14).all()
    captured = (projected(X, bases) ** 2).sum()
    assert trace.objective[-1] == pytest.approx(captured / (X**2).sum(), rel=1e-9)
    rng = np.random.default_rng(1)
    for mode in range(3):
        for _ in range(20):
            near = list(bases)
            near[mode] = np.linalg.qr(bases[mode] + 0.1 * rng.standard_normal(bases[mode].shape))[0]
            assert (projected(X, near) ** 2).sum() <= captured * (1 + 1e-9)


def test_start_is_at_least_as_bad_as_its_bound():
    """What the truncated start leaves is at most the sum of what each mode leaves: de Lathauwer's bound."""
    X = (tensors() - tensors().mean(axis=0)).reshape(-1, 5, 4, 3)
    ranks = (2, 2, 2)
    spectra = mode_spectra(X)
    left = sum(scatter[rank:].sum() for (scatter, _), rank in zip(spectra, ranks, strict=True))
    start = [directions[:, :rank] for (_, directions), rank in zip(spectra, ranks, strict=True)]
    bases, _ = alternate_modes(X, start, 100, 1e-12, Run(0))
    lost = [(X**2).sum() - (projected(X, each) ** 2).sum() for each in (start, bases)]
    assert lost[1] <= lost[0] <= left


def test_matrices_of_low_mode_ranks_are_captured():
    """Images A C B' with random cores C have mode ranks 2 and 3, so that these projections lose nothing."""
    rng = np.random.default_rng(2)
    A, B = rng.standard_normal((9, 2)), rng.standard_normal((7, 3))
    X = np.einsum("ia,nab,jb->nij", A, rng.standard_normal((40, 2, 3)), B).reshape(40, -1) + 2
    model = MultilinearPCA(n_components=6, shape=(9, 7), ranks=(2, 3)).fit(X)
    np.testing.assert_allclose(model.inverse_transform(model.embedding_), X, atol=1e-9)
    assert model.diagnostics_["n_parameters"] == 9 * 2 + 7 * 3
    found, _, _ = np.linalg.svd(A, full_matrices=False)
    np.testing.assert_allclose(np.linalg.svd(found.T @ model.mode_components_[0])[1], 1, atol=1e-9)
    chosen = MultilinearPCA(n_components=6, shape=(9, 7), variance=1.0).fit(X)
    assert chosen.diagnostics_["ranks"] == (2, 3)


def test_components_are_products_and_entries_follow():
    X = tensors()
    model = MultilinearPCA(n_components=7, shape=(5, 4, 3), ranks=(3, 2, 2)).fit(X)
    U, V, W = model.mode_components_
    for component, (a, b, c) in zip(model.components_, model.core_indices_, strict=True):
        product = np.einsum("i,j,k->ijk", U[:, a], V[:, b], W[:, c]).ravel()
        np.testing.assert_allclose(np.abs(component), np.abs(product), atol=1e-12)
    assert (np.diff(model.embedding_.var(axis=0)) <= 0).all()
    kept = (model.embedding_**2).sum() / ((X - X.mean(axis=0)) ** 2).sum()
    assert model.diagnostics_["kept"] == pytest.approx(kept)
    assert kept <= model.diagnostics_["captured"]
    assert kept <= PCA(n_components=7).fit(X).explained_variance_ratio_.sum()


def test_a_rotation_of_the_modes_leaves_the_coordinates():
    X, rng = tensors(), np.random.default_rng(3)
    P, Q, R = (np.linalg.qr(rng.standard_normal((size, size)))[0] for size in (5, 4, 3))
    turned = np.einsum("nijk,ai,bj,ck->nabc", X.reshape(-1, 5, 4, 3), P, Q, R).reshape(60, -1)
    one, other = (MultilinearPCA(n_components=6, shape=(5, 4, 3), ranks=(3, 2, 2)).fit(rows) for rows in (X, turned))
    np.testing.assert_allclose(np.abs(one.embedding_), np.abs(other.embedding_), atol=1e-5)


def test_fibers():
    X = np.arange(24.0).reshape(2, 3, 4)
    assert unfolded(X, 0).shape == (8, 3)
    assert np.array_equal(unfolded(X, 0)[1], X[0, :, 1])
    assert np.array_equal(unfolded(X, 1)[1], X[0, 1])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"shape": (5, 5)}, "25 entries, and the rows of X have 60"),
        ({"shape": (0, 60)}, "each of it an integer of at least 1"),
        ({"shape": (5.5, 2)}, "each of it an integer of at least 1"),
        ({"shape": ()}, "a number for each mode"),
        ({"shape": (5, 12), "ranks": (2,)}, "ranks must have a number"),
        ({"shape": (5, 12), "ranks": (6, 2)}, "ranks must have a number"),
        ({"shape": (5, 12), "ranks": (1, 1), "n_components": 2}, "product of ranks, 1"),
    ],
)
def test_bad_shapes_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        MultilinearPCA(**settings).fit(tensors())
