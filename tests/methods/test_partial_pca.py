"""Principal components by merged moments are those of all rows; the bound is that of the sums."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn import decomposition
from sklearn.exceptions import NotFittedError

import manifoldry
from manifoldry import PCA
from manifoldry._core.warnings import EmbeddingWarning

EPS = np.finfo(float).eps


def correlated(n=400, p=7, offset=0.0):
    rng = np.random.default_rng(5)
    return rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + offset


def by_batches(X, cuts, **parameters):
    model = PCA(**parameters)
    for batch in np.split(X, cuts):
        model.partial_fit(batch)
    return model


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("cuts", [(), (399,), (10, 11, 12, 200), tuple(range(10, 400, 10))], ids=len)
def test_merged_scatter_is_that_of_all_rows_within_the_bound_of_its_sums(cuts, offset):
    """Entries differ by (n + 4 b) eps sqrt(S_ii S_jj), sums of n products and b merges, and by what means are off."""
    X = correlated(offset=offset)
    moments = by_batches(X, cuts, n_components=3)._moments
    exact = X.astype(np.longdouble)
    exact = exact - exact.mean(axis=0)
    scatter = exact.T @ exact
    about = len(X) * (len(X) * EPS * np.abs(X).max()) ** 2  # of a mean that is off, in the square
    sizes = np.sqrt(np.outer(np.diag(scatter), np.diag(scatter)))
    # A merge adds products of mean differences, each difference good to eps of the offset.
    apart = (len(cuts) + 1) * EPS * np.abs(X).max() * np.sqrt(len(X)) * np.sqrt(sizes.max())
    bound = (len(X) + 4 * len(cuts) + 4) * EPS * sizes + about + apart
    assert (np.abs(moments.scatter - scatter) <= bound).all()
    assert moments.count == len(X)


def test_components_are_those_of_the_fit_and_of_scikit_learn():
    X = correlated()
    grown = by_batches(X, (50, 51, 300), n_components=3)
    for whole in (PCA(n_components=3).fit(X), decomposition.PCA(n_components=3).fit(X)):
        for name in ("mean_", "components_", "explained_variance_", "explained_variance_ratio_", "singular_values_"):
            expected = getattr(whole, name)
            np.testing.assert_allclose(getattr(grown, name), expected, atol=1e-12 * max(1, np.abs(expected).max()))
        np.testing.assert_allclose(grown.noise_variance_, whole.noise_variance_, rtol=1e-11)
        np.testing.assert_allclose(grown.transform(X), whole.transform(X), atol=1e-11)
        np.testing.assert_allclose(grown.score(X), whole.score(X), rtol=1e-11)
        assert (grown.n_samples_, grown.n_components_) == (whole.n_samples_, whole.n_components_)


@pytest.mark.parametrize("asked", [None, 0.9, "mle"])
def test_the_number_of_components_is_that_of_all_rows(asked):
    X = correlated()
    grown, whole = by_batches(X, (100, 101), n_components=asked), PCA(n_components=asked).fit(X)
    assert grown.n_components_ == whole.n_components_
    np.testing.assert_allclose(grown.components_, whole.components_, atol=1e-11)


def test_rows_are_gone_and_so_is_what_is_known_of_them():
    X = correlated()
    grown = by_batches(X, (200,), n_components=2)
    assert not any(hasattr(grown, name) for name in ("embedding_", "spectrum_", "diagnostics_"))
    grown.fit(X[:50])
    assert grown.embedding_.shape == (50, 2)
    assert not hasattr(grown, "_moments")


@pytest.mark.parametrize("name", ["PCA", "IncrementalPCA"])
def test_no_dimension_is_measured_of_rows_that_are_gone(name):
    model = getattr(manifoldry, name)(n_components=2).partial_fit(correlated())
    with pytest.raises(ValueError, match=r"partial_fit keeps no rows to measure a dimension from: read explained"):
        model.suggest_n_components()
    with pytest.raises(NotFittedError):
        getattr(manifoldry, name)().suggest_n_components()


def test_after_a_fit_the_batches_begin_anew_and_that_is_told():
    X = correlated()
    with pytest.warns(EmbeddingWarning, match="kept no moments of its 300 rows"):
        model = PCA(n_components=2).fit(X[:300]).partial_fit(X[300:])
    assert model.n_samples_ == 100
    np.testing.assert_allclose(model.mean_, X[300:].mean(axis=0), atol=1e-12)


def test_sparse_rows_single_precision_and_files(tmp_path):
    X = correlated()
    whole = PCA(n_components=2).fit(X)
    sparse = PCA(n_components=2).partial_fit(csr_array(X[:150])).partial_fit(csr_array(X[150:]))
    np.testing.assert_allclose(sparse.components_, whole.components_, atol=1e-11)
    single = PCA(n_components=2).partial_fit(X[:150].astype(np.float32))
    assert single.components_.dtype == np.float32
    assert single.partial_fit(X[150:]).components_.dtype == np.float64
    half = PCA(n_components=2).partial_fit(X[:150])
    half.save(tmp_path / "half")
    for copied in (manifoldry.load(tmp_path / "half"), pickle.loads(pickle.dumps(half))):
        np.testing.assert_allclose(copied.partial_fit(X[150:]).components_, whole.components_, atol=1e-11)


def test_what_does_not_fit_is_refused_in_a_sentence():
    X = correlated()
    model = PCA(n_components=3).partial_fit(X[:20])
    bad = X[20:].copy()
    bad[0, 0] = np.nan
    for batch, words in ((bad, "NaN"), (X[20:, :3], "3 features"), (manifoldry.chunked_data([X]), "rows in memory")):
        with pytest.raises(ValueError, match=words):
            model.partial_fit(batch)
    with pytest.raises(ValueError, match="n_components=3"):
        model.set_params(n_components=2).partial_fit(X[20:])
    with pytest.raises(ValueError, match="between 1 and 2"):
        PCA(n_components=3).partial_fit(X[:2])
