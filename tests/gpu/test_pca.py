"""PCA on the GPU: moments of chunks, scores and points, against scikit-learn on the CPU."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from manifoldry import PCA, load
from manifoldry._core import device
from manifoldry._numerics.gpu import principal


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(principal, "CHUNK_ENTRIES", 200)


@pytest.fixture(scope="module")
def rows():
    """Rows of falling variance about a distant mean, so that directions are unique."""
    return np.random.default_rng(0).normal(size=(120, 6)) * 0.5 ** np.arange(6) + np.arange(6)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("n_components", [2, 0.9, None, "mle"])
def test_components_scores_and_points_are_those_of_the_cpu(rows, whiten, n_components):
    settings = {"n_components": n_components, "whiten": whiten, "svd_solver": "covariance_eigh"}
    settings["svd_solver"] = "full" if n_components == "mle" else settings["svd_solver"]
    cpu, gpu = PCA(**settings).fit(rows), PCA(**settings, device="cuda").fit(rows)
    assert gpu.diagnostics_["device"].startswith("cuda")
    # Errors of eigenvectors are eps times the number of rows and the condition of the scatter, 4^5.
    limits = {"rtol": 1e-9, "atol": 1e-9}
    for name in ("components_", "mean_", "explained_variance_", "explained_variance_ratio_", "singular_values_"):
        np.testing.assert_allclose(getattr(gpu, name), getattr(cpu, name), **limits)
    assert gpu.n_components_ == cpu.n_components_
    np.testing.assert_allclose(gpu.noise_variance_, cpu.noise_variance_, **limits)
    np.testing.assert_allclose(gpu.embedding_, cpu.embedding_, **limits)
    np.testing.assert_allclose(gpu.transform(rows[:7]), cpu.transform(rows[:7]), **limits)
    np.testing.assert_allclose(gpu.inverse_transform(gpu.embedding_), cpu.inverse_transform(cpu.embedding_), **limits)
    np.testing.assert_allclose(gpu.spectrum_.values, cpu.spectrum_.values, **limits)
    np.testing.assert_allclose(gpu.spectrum_.vectors, cpu.spectrum_.vectors, **limits)
    np.testing.assert_allclose(gpu.score(rows), cpu.score(rows), rtol=1e-9)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_second_fit_gives_the_same_bits_in_the_type_of_the_rows(rows, dtype):
    one, other = (PCA(device="cuda").fit(rows.astype(dtype)) for _ in range(2))
    assert one.embedding_.dtype == one.components_.dtype == dtype
    np.testing.assert_array_equal(one.embedding_, other.embedding_)
    np.testing.assert_array_equal(one.transform(rows.astype(dtype)), one.embedding_)


def test_sparse_rows_are_fitted_on_the_cpu(rows):
    sparse = csr_array(np.where(np.abs(rows) > 1, rows, 0.0))
    expected = PCA(svd_solver="arpack").fit(sparse).embedding_
    np.testing.assert_array_equal(PCA(svd_solver="arpack", device="cuda").fit(sparse).embedding_, expected)


def test_the_device_is_a_parameter_like_others(rows):
    model = PCA(device="cuda")
    assert clone(model).get_params()["device"] == "cuda"
    assert clone(model).set_params(device="cpu").device == "cpu"
    with pytest.raises(ValueError, match=r"device must be one of 'cpu', 'cuda', 'auto'; got 'gpu'"):
        PCA(device="gpu").fit(rows)


def test_a_model_of_a_gpu_says_what_to_do_where_there_is_none(rows, tmp_path, monkeypatch):
    fitted = PCA(device="cuda").fit(rows)
    fitted.save(tmp_path / "model.mfy")
    monkeypatch.setattr(device, "missing_gpu", lambda: "CUDA finds no GPU")
    loaded = load(tmp_path / "model.mfy")
    for call in (lambda: loaded.transform(rows), lambda: loaded.inverse_transform(fitted.embedding_)):
        with pytest.raises(RuntimeError, match=r"device='cuda' needs a GPU: CUDA finds no GPU; or use device='cpu'"):
            call()
    np.testing.assert_allclose(loaded.set_params(device="cpu").transform(rows), fitted.embedding_, atol=1e-12)
    assert PCA(device="auto").fit(rows).diagnostics_["device"] == "cpu (CUDA finds no GPU)"
