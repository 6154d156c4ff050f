"""Principal components of chunked data: those of all rows, bit-identical in every form."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn import decomposition

import manifoldry
from manifoldry import PCA, GaussianRandomProjection, IncrementalPCA, chunked_data
from manifoldry._core import chunks as chunk_rows
from manifoldry._core.run import Run
from manifoldry.methods._base._chunks import ChunkSupport
from manifoldry.methods.linear import _pca
from manifoldry.methods.linear._pca import merged_moments, row_moments

da = pytest.importorskip("dask.array")

EPS = np.finfo(float).eps
N, P, SAMPLE, BLOCK = 3000, 7, 400, 256
FITTED = ("components_", "mean_", "explained_variance_", "explained_variance_ratio_", "singular_values_", "embedding_")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make a few thousand rows more than a sample, in several blocks."""
    for method in (PCA, IncrementalPCA, GaussianRandomProjection):
        monkeypatch.setattr(method, "_chunk_support", ChunkSupport("whole", SAMPLE))
    monkeypatch.setattr(chunk_rows, "MAX_CHUNK_ROWS", BLOCK)


@pytest.fixture(name="X")
def rows():
    """Variances 1/2 apart, turned, far from the origin."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((P, P)))[0]
    return rng.standard_normal((N, P)) * 2.0 ** -np.arange(P) @ turn + 30.0


def forms(X):
    cuts = np.sort(np.random.default_rng(1).choice(X.shape[0], 6, replace=False))
    return [
        chunked_data(X),
        chunked_data(lambda: iter([X[lo:hi] for lo, hi in zip([0, *cuts], [*cuts, None], strict=True)])),
        da.from_array(X, chunks=(777, 2)),
        da.from_array(X, chunks=(50, P)),
    ]


def rounding(X):
    r"""Return how far the entries of a scatter can be off, relative to its largest eigenvalue.

    A sum of m products is off by at most m eps times the sum of their sizes: in a block of b rows, and once more at
    each of log2(n / b) merges. Summed over the p^2 entries, whose sizes have the Frobenius norm of at most the trace:
    |E|_2 <= (b + 4 log2(n / b)) eps tr(S), and the rounding of the means, eps |mean| in each centered entry, adds
    2 sqrt(n) eps |mean| sqrt(v) to a root of the values.
    """
    centered = X - X.mean(axis=0)
    values = np.linalg.svd(centered, compute_uv=False) ** 2
    levels = np.log2(N / BLOCK) + 1
    share = (BLOCK + 4 * levels) * EPS * values.sum() / values[0]
    return share + 2 * np.sqrt(len(X)) * EPS * np.linalg.norm(X.mean(axis=0)) / np.sqrt(values[0]), values


@pytest.mark.parametrize(
    "parameters", [{"n_components": 3}, {"n_components": 0.9}, {"n_components": "mle"}, {"n_components": None}]
)
@pytest.mark.parametrize("whiten", [False, True])
def test_all_rows_give_the_components_of_memory(X, parameters, whiten):
    whole = decomposition.PCA(svd_solver="full", whiten=whiten, **parameters).fit(X)
    fits = [PCA(whiten=whiten, **parameters).fit(blocks) for blocks in forms(X)]
    for fit in fits[1:]:
        for name in FITTED:
            np.testing.assert_array_equal(getattr(fit, name), getattr(fits[0], name), err_msg=name)
    fit = fits[0]
    share, values = rounding(X)
    assert (fit.n_components_, fit.n_samples_) == (whole.n_components_, N)
    # Eigenvalues are off by the norm of the error at most (Weyl), vectors by that over the gap (Davis and Kahan).
    atol = 2 * share * values[0]
    np.testing.assert_allclose(fit.explained_variance_ * (N - 1), whole.explained_variance_ * (N - 1), atol=atol)
    np.testing.assert_allclose(fit.singular_values_, whole.singular_values_, atol=atol / np.sqrt(values[-1]))
    np.testing.assert_allclose(fit.explained_variance_ratio_, whole.explained_variance_ratio_, atol=2 * P * share)
    np.testing.assert_allclose(fit.noise_variance_, whole.noise_variance_, atol=atol / (N - 1))
    gaps = np.abs(np.diff(values)).min()
    np.testing.assert_allclose(fit.components_, whole.components_, atol=2 * atol / gaps)
    np.testing.assert_allclose(fit.mean_, whole.mean_, rtol=2 * N * EPS)
    places = np.concatenate(list(fit.transform(chunked_data(X))))
    scale = 1 / np.sqrt(whole.explained_variance_[-1]) if whiten else 1.0
    reach = np.abs(X).sum(axis=1).max() * scale
    np.testing.assert_allclose(places, whole.transform(X), atol=(2 * atol / gaps + atol / values[-1]) * reach)
    np.testing.assert_allclose(places[fit.sampled_rows_], fit.embedding_, rtol=0, atol=8 * P * EPS * reach)


def test_what_a_fit_leaves_is_of_all_rows(X):
    fit, whole = PCA(n_components=3).fit(chunked_data(X)), PCA(n_components=3, svd_solver="full").fit(X)
    share, values = rounding(X)
    np.testing.assert_allclose(fit.spectrum_.values, whole.spectrum_.values, atol=2 * share * values[0])
    vectors = fit.spectrum_.vectors - whole.spectrum_.vectors[fit.sampled_rows_]
    # Entries of unit vectors: turned by share / gap, which moves the part of size |x| / root of the value.
    assert np.abs(vectors).max() < 1e3 * share
    assert (fit.spectrum_.residuals <= 10 * P * EPS * values[0] * np.sqrt(values[0] / values[2])).all()
    np.testing.assert_allclose(fit.diagnostics_["left_over"][:P], 1 - np.cumsum(values) / values.sum(), atol=1e-12)
    assert fit.diagnostics_["fitted_to"].startswith(f"all {N:,} rows")
    assert "figures" in fit.diagnostics_
    assert np.isfinite(fit.score(X))


def test_single_precision_adds_up_in_double(X):
    single = X.astype(np.float32)
    fit = PCA(n_components=3).fit(chunked_data(single))
    whole = decomposition.PCA(n_components=3, svd_solver="full").fit(single.astype(float))
    assert fit.components_.dtype == fit.embedding_.dtype == np.float32
    # The components are rounded to single precision, and nothing else.
    np.testing.assert_allclose(fit.components_, whole.components_, atol=2 * np.finfo(np.float32).eps)
    np.testing.assert_allclose(fit.explained_variance_, whole.explained_variance_, rtol=2 * np.finfo(np.float32).eps)


def test_sparse_rows(X):
    dense, sparse = (PCA(n_components=3).fit(chunked_data(source)) for source in (X, csr_array(X)))
    np.testing.assert_array_equal(sparse.components_, dense.components_)


def test_panels_make_the_whole_scatter(monkeypatch, X):
    monkeypatch.setattr(_pca, "PANEL_COLUMNS", 3)
    found = row_moments(X, 0, Run(0, 2))
    centered = X - X.mean(axis=0)
    bound = N * EPS * np.square(centered).sum()
    np.testing.assert_allclose(found.scatter, centered.T @ centered, rtol=0, atol=bound)
    np.testing.assert_array_equal(found.scatter, found.scatter.T)


def test_moments_of_parts_are_those_of_all(X):
    parts = [row_moments(part, 0, Run(0, 1)) for part in np.split(X, [1, 900])]
    total = merged_moments(merged_moments(parts[0], parts[1]), parts[2])
    whole = row_moments(X, 0, Run(0, 1))
    assert total.count == N
    np.testing.assert_allclose(total.mean, whole.mean, rtol=N * EPS)
    np.testing.assert_allclose(total.scatter, whole.scatter, rtol=0, atol=2 * N * EPS * np.trace(whole.scatter))


def test_more_columns_than_memory_are_refused(monkeypatch):
    monkeypatch.setattr(manifoldry._core.run, "available_memory", lambda: 1_000_000)
    X = np.random.default_rng(0).standard_normal((500, 300))
    with pytest.raises(MemoryError, match=r"scatter of all columns: .* MB are needed .*; fit IncrementalPCA"):
        PCA(n_components=2).fit(chunked_data(X))


def test_parameters_are_checked_before_the_pass(X):
    for wrong in (P + 1, -1, 1.5, "most"):
        with pytest.raises(ValueError, match="n_components"):
            PCA(n_components=wrong).fit(chunked_data(X))


@pytest.mark.parametrize(("n", "batch_size"), [(N, 100), (N, None), (2 * 256 + 2, 64), (2 * 300 + 1, 300)])
def test_batches_are_those_of_memory(X, n, batch_size):
    X = X[:n]
    whole = decomposition.IncrementalPCA(3, batch_size=batch_size).fit(X)
    fits = [IncrementalPCA(3, batch_size=batch_size).fit(blocks) for blocks in forms(X)]
    for fit in fits[1:]:
        for name in FITTED:
            np.testing.assert_array_equal(getattr(fit, name), getattr(fits[0], name), err_msg=name)
    fit = fits[0]
    assert (fit.n_samples_seen_, fit.batch_size_) == (n, whole.batch_size_)
    # The same products of the same batches; threads of BLAS may add up in another order.
    for name in ("components_", "mean_", "singular_values_", "var_"):
        expected = getattr(whole, name)
        np.testing.assert_allclose(getattr(fit, name), expected, rtol=0, atol=1e3 * EPS * np.abs(expected).max())
    np.testing.assert_allclose(fit.embedding_, whole.transform(X)[fit.sampled_rows_], atol=1e-10)


def test_a_random_projection_depends_on_the_number_of_rows():
    X = np.random.default_rng(0).standard_normal((1000, 400))
    fit, whole = (GaussianRandomProjection("auto", eps=0.6).fit(source) for source in (chunked_data(X), X))
    few = GaussianRandomProjection("auto", eps=0.6).fit(X[:SAMPLE])
    np.testing.assert_array_equal(fit.components_, whole.components_)
    assert len(few.components_) < len(fit.components_)
    assert fit.n_components == "auto"
    with pytest.raises(ValueError, match="but X has 400 columns: raise eps"):
        GaussianRandomProjection("auto", eps=0.1).fit(chunked_data(X))
