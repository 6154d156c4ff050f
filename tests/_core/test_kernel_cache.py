"""Kernels give the same results fresh and from the cache, and compile where nothing can be cached."""

import importlib
import pkgutil
import warnings

import pytest
from numba.core import caching
from numba.core.dispatcher import Dispatcher

import manifoldry
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


def _names(code):
    inner = (constant for constant in code.co_consts if hasattr(constant, "co_names"))
    return {*code.co_names, *code.co_freevars}.union(*map(_names, inner))


def _called(loop):
    function = loop.py_func
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    values = {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
    called = (values.get(name) for name in _names(function.__code__))
    return [other for other in called if isinstance(other, Dispatcher) and other is not loop]


def _reorders_sums(loop):
    return bool(loop.targetoptions.get("fastmath")) or any(map(_reorders_sums, _called(loop)))


def test_sums_that_the_compiler_may_reorder_are_compiled_into_each_caller():
    """A function of its own would exist twice, optimized differently: alone and in the code of its caller.

    Both copies have one name, and the first one loaded runs. That is another one in the process that compiles than in
    processes that load the cache.
    """
    names = [module.name for module in pkgutil.walk_packages(manifoldry.__path__, "manifoldry.")]
    modules = [importlib.import_module(name) for name in names if "kernels" in name and ".gpu" not in name]
    loops = [loop for module in modules for loop in vars(module).values() if isinstance(loop, Dispatcher)]
    called = {id(other): other for loop in loops for other in _called(loop) if _reorders_sums(other)}
    assert len(called) > 20
    options = {other.py_func.__name__: other.targetoptions for other in called.values()}
    separate = [name for name, o in options.items() if not o.get("forceinline") and o.get("inline") != "always"]
    assert separate == []
