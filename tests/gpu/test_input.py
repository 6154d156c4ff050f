"""Input on the GPU: results are where the input is, and equal those of the same rows on the host."""

import sys
from types import ModuleType

import numpy as np
import pytest

from manifoldry import IPA, PCA, TSNE, UMAP
from manifoldry._core.device import simulated

MODELS = {
    "IPA": lambda: IPA(n_patches=2, n_jobs=1, device="cuda"),
    "PCA": lambda: PCA(device="cuda"),
    "TSNE": lambda: TSNE(max_iter=20, perplexity=5, n_jobs=1),
    "UMAP": lambda: UMAP(n_epochs=5, n_neighbors=5, n_jobs=1),
}


class Remote:
    """Stands in for an array of CuPy where there is no GPU: its numbers must be fetched."""

    __module__ = "cupy"

    def __init__(self, values):
        self.values = np.array(values)
        self.shape, self.dtype, self.ndim = self.values.shape, self.values.dtype, self.values.ndim
        self.__cuda_array_interface__ = {"shape": self.shape, "version": 3}

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def get(self):
        return self.values.copy()


@pytest.fixture
def cupy(monkeypatch):
    """CuPy, or a module in its place with arrays that numpy cannot read."""
    if not simulated():
        return pytest.importorskip("cupy")
    module = ModuleType("cupy")
    module.asarray, module.ndarray = Remote, Remote
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)


@pytest.mark.parametrize("name", MODELS)
def test_results_are_where_the_input_is(name, rows, cupy):
    here, there = MODELS[name]().fit(rows), MODELS[name]()
    remote = cupy.asarray(rows)
    expected = [(here.embedding_, there.fit_transform(remote)), (here.transform(rows), there.transform(remote))]
    if hasattr(here, "inverse_transform"):
        Y = here.embedding_
        expected.append((here.inverse_transform(Y), there.inverse_transform(cupy.asarray(Y))))
    for on_host, on_gpu in expected:
        assert isinstance(on_gpu, cupy.ndarray)
        np.testing.assert_array_equal(on_gpu.get(), on_host)
    assert isinstance(there.embedding_, np.ndarray)
    np.testing.assert_array_equal(remote.get(), rows)


class Tensor:
    """Stands in for a tensor of PyTorch on a GPU that records gradients."""

    __module__ = "torch"
    device = type("device", (), {"type": "cuda"})

    def __init__(self, values, remote=True):
        self.values, self.remote = np.array(values), remote
        self.shape, self.dtype, self.ndim = self.values.shape, self.values.dtype, self.values.ndim

    def detach(self):
        return self

    def cpu(self):
        return Tensor(self.values, remote=False)

    def numpy(self):
        if self.remote:
            raise TypeError("A tensor on a GPU has no numpy array.")
        return self.values.copy()


@pytest.fixture
def torch(monkeypatch):
    """PyTorch, or a module in its place."""
    if not simulated():
        return pytest.importorskip("torch")
    module = ModuleType("torch")
    module.as_tensor, module.Tensor = (lambda values, device: Tensor(values)), Tensor  # noqa: ARG005
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.mark.parametrize("name", MODELS)
def test_tensors_of_pytorch_come_back_on_their_device(name, rows, torch):
    tensor = Tensor(rows) if simulated() else torch.as_tensor(rows, device="cuda").requires_grad_()
    result = MODELS[name]().fit_transform(tensor)
    assert isinstance(result, torch.Tensor)
    assert result.device.type == "cuda"
    np.testing.assert_array_equal(result.cpu().numpy(), MODELS[name]().fit_transform(rows))
