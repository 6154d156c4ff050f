"""What is wrapped from scikit-learn is scikit-learn's, and leaves what our methods leave."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import multivariate_normal
from sklearn import decomposition, random_projection

import manifoldry
from manifoldry import (
    NMF,
    PCA,
    ClassicalMDS,
    FactorAnalysis,
    FastICA,
    GaussianRandomProjection,
    IncrementalPCA,
    SparsePCA,
    SparseRandomProjection,
)
from manifoldry.methods._base._wrapped import SPECTRUM_ROWS

CARDS = [card for card in manifoldry.list_methods() if card.wrapped]


def cloud(n=60, columns=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, columns)) * np.geomspace(3.0, 0.5, columns) + 1.0


def theirs(card):
    return getattr(decomposition, card.name, None) or getattr(random_projection, card.name)


def test_all_that_were_meant_are_there():
    assert {card.name for card in CARDS} == {
        "PCA",
        "IncrementalPCA",
        "SparsePCA",
        "FactorAnalysis",
        "FastICA",
        "NMF",
        "GaussianRandomProjection",
        "SparseRandomProjection",
    }


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_same_parameters_same_methods_same_numbers(card):
    X, Q = np.abs(cloud()), np.abs(cloud(9, seed=1))
    # Our seed is 0 by default, scikit-learn's is None.
    parameters = card.test_params | {name: 0 for name in card.cls().get_params() if name == "random_state"}
    ours, other = card.cls(**parameters).fit(X), theirs(card)(**parameters).fit(X)
    public = {name for name in dir(other) if not name.startswith(("_", "set_"))}
    assert public <= set(dir(ours))
    assert ours.get_params() == {**other.get_params(), **card.cls._own_parameters}
    assert np.array_equal(ours.transform(Q), other.transform(Q))
    assert np.array_equal(card.cls(**parameters).fit_transform(X), ours.embedding_)
    np.testing.assert_allclose(ours.embedding_, theirs(card)(**parameters).fit_transform(X), atol=1e-12)


@pytest.mark.parametrize("whiten", [False, True])
def test_spectrum_of_pca_is_that_of_the_gram_matrix(whiten):
    X = cloud()
    model = PCA(n_components=3, whiten=whiten).fit(X)
    centered = X - X.mean(axis=0)
    gram = centered @ centered.T
    values, vectors = np.linalg.eigh(gram)
    spectrum = model.spectrum_
    np.testing.assert_allclose(spectrum.values, values[::-1][:3], rtol=1e-12)
    np.testing.assert_allclose(np.abs((spectrum.vectors * vectors[:, ::-1][:, :3]).sum(axis=0)), 1.0, rtol=1e-12)
    np.testing.assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(3), atol=1e-12)
    assert (spectrum.residuals < 1e-12 * values[-1]).all()


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
def test_residuals_of_pca_are_those_of_all_blocks_of_rows(convert):
    """Of few power iterations, so that they are far above rounding."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2 * SPECTRUM_ROWS + 100, 30)) + 5.0
    solver = {"svd_solver": "randomized", "iterated_power": 0, "n_oversamples": 1} if convert is np.asarray else {}
    spectrum = PCA(3, random_state=0, **solver).fit(convert(X)).spectrum_
    centered = X - X.mean(axis=0)
    defects = centered @ (centered.T @ spectrum.vectors) - spectrum.values * spectrum.vectors
    np.testing.assert_allclose(np.linalg.norm(spectrum.vectors, axis=0), 1.0, rtol=1e-12)
    expected = np.linalg.norm(defects, axis=0)
    np.testing.assert_allclose(spectrum.residuals, expected, rtol=1e-9, atol=1e-11 * spectrum.values[0])
    assert not solver or (expected > 1e-3 * spectrum.values[0]).all()


def test_pca_three_ways():
    """Variance, squared error and singular values: eigenvalues of the covariance, what is left out, scores U S."""
    X = cloud()
    model = PCA(n_components=2).fit(X)
    centered = X - X.mean(axis=0)
    variances = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    np.testing.assert_allclose(np.cov(model.embedding_.T), np.diag(variances[:2]), atol=1e-12 * variances[0])
    left = X - model.inverse_transform(model.embedding_)
    np.testing.assert_allclose((left**2).sum() / (len(X) - 1), variances[2:].sum(), rtol=1e-12)
    U, S, _ = np.linalg.svd(centered, full_matrices=False)
    np.testing.assert_allclose(np.abs(model.embedding_), np.abs(U[:, :2] * S[:2]), atol=1e-12 * S[0])
    np.testing.assert_allclose(
        np.abs(model.embedding_), np.abs(ClassicalMDS(n_components=2).fit_transform(X)), atol=1e-9 * S[0]
    )


def test_score_of_pca_is_the_likelihood_of_probabilistic_pca():
    X, Q, d = cloud(), cloud(12, seed=2), 2
    model = PCA(n_components=d).fit(X)
    values, vectors = np.linalg.eigh(np.cov(X.T))
    values, vectors = values[::-1], vectors[:, ::-1]
    noise = values[d:].mean()
    W = vectors[:, :d] * np.sqrt(values[:d] - noise)
    density = multivariate_normal(X.mean(axis=0), W @ W.T + noise * np.eye(X.shape[1]))
    # Both invert a covariance with condition below 100.
    np.testing.assert_allclose(model.score_samples(Q), density.logpdf(Q), rtol=1e-11)
    np.testing.assert_allclose(model.score(Q), density.logpdf(Q).mean(), rtol=1e-11)


def test_incremental_pca_of_one_batch_is_pca_and_residuals_tell_what_batches_cost():
    X = cloud(200)
    whole = PCA(n_components=2).fit(X).spectrum_
    one = IncrementalPCA(n_components=2, batch_size=200).fit(X).spectrum_
    np.testing.assert_allclose(one.values, whole.values, rtol=1e-12)
    assert (one.residuals < 1e-11 * whole.values[0]).all()
    many = IncrementalPCA(n_components=2, batch_size=20).fit(X).spectrum_
    assert (many.residuals > 1e-6 * whole.values[0]).all()
    # Cutting each batch to two components can only lose variance.
    assert many.values.sum() < whole.values.sum()


def test_batches_handed_over_one_by_one_leave_no_rows_behind():
    X = cloud(100)
    model = IncrementalPCA(n_components=2).fit(X)
    model.partial_fit(X[:50])
    assert not hasattr(model, "embedding_")
    assert not hasattr(model, "spectrum_")
    assert model.transform(X[:3]).shape == (3, 2)


def test_sparse_rows_give_the_spectrum_of_dense_rows():
    X = cloud(80, columns=8)
    X[X < 1.0] = 0.0
    sparse, dense = (
        PCA(n_components=2, svd_solver="arpack", random_state=0).fit(form(X)) for form in (csr_array, np.asarray)
    )
    np.testing.assert_allclose(sparse.spectrum_.values, dense.spectrum_.values, rtol=1e-10)
    assert (sparse.spectrum_.residuals < 1e-9 * dense.spectrum_.values[0]).all()
    np.testing.assert_allclose(np.abs(sparse.embedding_), np.abs(dense.embedding_), atol=1e-8)


def test_suggestion_finds_the_planted_rank():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 10)) + 1e-3 * rng.standard_normal((200, 10))
    found = PCA().fit(X).suggest_n_components()
    assert int(found) == 3
    assert "variance" in found.why


@pytest.mark.filterwarnings("ignore:Maximum number of iterations")
def test_nmf_goes_on_from_a_given_start():
    """From the exact factors the iteration does not move away."""
    rng = np.random.default_rng(4)
    W, H = rng.uniform(0.5, 1, (30, 2)), rng.uniform(0.5, 1, (2, 6))
    model = NMF(n_components=2, init="custom", tol=1e-10, max_iter=50).fit(W @ H, W=W.copy(), H=H.copy())
    np.testing.assert_allclose(model.embedding_ @ model.components_, W @ H, atol=1e-10)
    np.testing.assert_allclose(model.embedding_, W, atol=1e-8)
    with pytest.raises(ValueError, match="Negative values"):
        NMF(n_components=2).fit(-W @ H)


def test_sparse_pca_keeps_the_axis_of_a_single_row():
    pandas = pytest.importorskip("pandas")
    X = cloud()
    model = SparsePCA(n_components=3, random_state=0).fit(X)
    assert model.transform(X[:1]).shape == (1, 3)
    np.testing.assert_allclose(model.transform(X[:1]), model.transform(X[:2])[:1], rtol=1e-12)
    frame = pandas.DataFrame(X, columns=list("abcde"))
    named = SparsePCA(n_components=3, random_state=0).set_output(transform="pandas").fit(frame)
    assert named.transform(frame.iloc[:1]).shape == (1, 3)
    assert isinstance(named.embedding_, np.ndarray)


@pytest.mark.parametrize(
    ("model", "X", "message"),
    [
        (NMF(), cloud(100) - 5.0, r"NMF: \d+ of the entries are below 0\. NMF needs entries of at least 0; use PCA"),
        (GaussianRandomProjection("auto"), cloud(100), r"needs 3,947 components, but X has 5 columns: raise eps"),
        (SparseRandomProjection("auto"), cloud(100), r"needs 3,947 components, but X has 5 columns: raise eps"),
    ],
)
def test_what_scikit_learn_refuses_is_refused_with_what_to_do(model, X, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X)


WRAPPED = [PCA, IncrementalPCA, SparsePCA, FactorAnalysis, FastICA, NMF, GaussianRandomProjection]


@pytest.mark.parametrize("method", WRAPPED)
def test_truth_values_and_arrays_are_no_numbers(method):
    """Every parameter of numbers or words refuses them, as those of our own methods do."""
    X = np.abs(np.random.default_rng(14).normal(size=(40, 5)))
    refused = 0
    for name, admitted in method._parameter_constraints.items():
        words = {one for one in admitted if isinstance(one, str)}
        if words & {"boolean", "verbose", "array-like"} or np.ndarray in admitted or name == "whiten":
            continue
        for value, sentence in ((True, "truth value"), (np.array([1.0, 2.0]), "an array")):
            with pytest.raises(
                ValueError, match=rf"^{name} must not be {'a ' if value is True else ''}{sentence}; got"
            ):
                method(**{"n_components": 2, name: value}).fit(X)
            refused += 1
    assert refused >= 2
    assert method(n_components=2).fit(X).embedding_.shape == (40, 2)
