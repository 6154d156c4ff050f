"""Which device a fit uses where there is no GPU, and that every loop of the GPU compiles."""

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

from manifoldry import UMAP
from manifoldry._core import device
from manifoldry._core.device import DeviceKernel, find_device
from manifoldry._core.run import Run
from test_house import MODULES, SOURCE

LOOPS = [path for path in MODULES if "gpu" in path.relative_to(SOURCE).as_posix() and "kernels" in path.parent.name]
"""Modules of loops of the GPU."""
CAPABILITY = (8, 0)  # compute capability of an A100


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(device, "missing_gpu", lambda: "CUDA finds no GPU: check the driver")


def test_the_cpu_needs_no_search():
    assert find_device("cpu") == (None, "cpu")
    assert Run(0, 1).gpu is None


@pytest.mark.usefixtures("no_gpu")
def test_auto_takes_the_cpu_and_says_why():
    X = np.random.default_rng(0).normal(size=(60, 4))
    model = UMAP(device="auto", n_epochs=5).fit(X)
    assert model.diagnostics_["device"] == "cpu (CUDA finds no GPU: check the driver)"
    expected = UMAP(n_epochs=5).fit(X)
    assert expected.diagnostics_["device"] == "cpu"
    np.testing.assert_array_equal(model.embedding_, expected.embedding_)


@pytest.mark.usefixtures("no_gpu")
def test_cuda_without_a_gpu_is_an_error_that_says_what_to_do():
    with pytest.raises(RuntimeError, match=r"device='cuda' needs a GPU: CUDA finds no GPU.*device='cpu' or 'auto'"):
        UMAP(device="cuda").fit(np.eye(5))


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    def fail(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", fail)
    assert device.missing_gpu() == f"cupy cannot be imported (No module named 'cupy'): {device.INSTALL}"


@pytest.mark.parametrize("path", LOOPS, ids=lambda path: path.stem)
def test_every_loop_of_the_gpu_compiles_for_a_card_without_a_driver(path, monkeypatch):
    from numba import cuda
    from numba.cuda import dispatcher

    monkeypatch.setattr(dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=CAPABILITY))
    name = ".".join(("manifoldry", *path.relative_to(SOURCE).with_suffix("").parts))
    loops = [each for each in vars(importlib.import_module(name)).values() if isinstance(each, DeviceKernel)]
    assert loops or path.stem == "__init__"
    for loop in loops:
        signatures = [loop.signature] if isinstance(loop.signature, str) else loop.signature
        for signature in signatures:
            code, _ = cuda.compile(loop.function, signature, device=False, abi="numba", cc=CAPABILITY, **loop.options)
            assert ".entry" in code
