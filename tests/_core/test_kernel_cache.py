"""Kernels compile where nothing can be cached, as in a read-only container without a home directory."""

import warnings

import pytest
from numba.core import caching

from manifoldry._core import kernel as module


@pytest.fixture
def no_cache(monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    module._report_missing_cache.cache_clear()
    yield
    module._report_missing_cache.cache_clear()


def add_one(x):
    return x + 1.0


def test_without_a_folder_for_the_cache_kernels_work_and_this_is_reported_once(no_cache):
    with pytest.warns(UserWarning, match="Set the environment variable NUMBA_CACHE_DIR to a writable folder"):
        assert module.kernel("float64(float64)")(add_one)(1.0) == 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert module.kernel("float64(float64)")(add_one)(2.0) == 3.0


def test_a_full_disk_does_not_stop_a_kernel(no_cache, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.dispatcher.Dispatcher.enable_caching", full)
    with pytest.warns(UserWarning, match="cannot be cached"):
        assert module.kernel("float64(float64)")(add_one)(1.0) == 2.0


def test_other_errors_of_the_compiler_are_raised(monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("the compiler is broken")

    monkeypatch.setattr("numba.core.dispatcher.Dispatcher.enable_caching", broken)
    with pytest.raises(RuntimeError, match="the compiler is broken"):
        module.kernel("float64(float64)")(add_one)
