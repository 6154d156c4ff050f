"""The GPU of a fit: which one, the arrays that stay on it between stages, and the decorator of its compiled loops.

A stage takes and returns arrays of the host, like the same stage on the CPU. `Device.array` copies an array to the GPU
once, and `Device.host` copies a result back and remembers the pair; so a later stage of the same fit gets the array
that is already there. Nothing of CuPy or numba's CUDA target is imported before a GPU is asked for.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any

import numpy as np

from manifoldry._core.run import Run
from manifoldry._core.values import Array

DEVICES = ("cpu", "cuda", "auto")
INSTALL = 'pip install "manifoldry[gpu]"'
FREE_SHARE = 0.9  # of the free memory of a GPU that a stage plans with: the rest is lost between blocks
RESIDENT_SHARE = 0.5  # of the available memory that all rows may take to be copied once for all passes over them
THREADS = 128  # threads of a block unless a loop needs another number
PAGE_BYTES = 4096  # of the smallest unit of memory that the system hands out
MIN_TOUCHED_BYTES = 2**24  # of a result for which it pays to ask for memory with several threads


_stream: ContextVar[Any] = ContextVar("stream", default=0)
"""The stream of the loops that are started: that of `Device.repeat`, otherwise the default."""


class Device:
    """One GPU during one fit. In numba's simulator (``NUMBA_ENABLE_CUDASIM=1``) arrays are numpy's.

    ``xp`` is the module of arrays, CuPy or numpy, and ``name`` that of the GPU.
    """

    def __init__(self) -> None:
        self.simulated = simulated()
        self.xp: Any = np if self.simulated else importlib.import_module("cupy")
        self._resident: dict[tuple[Any, ...], tuple[Array, Any]] = {}

    @cached_property
    def name(self) -> str:
        """The name of the GPU."""
        if self.simulated:
            return "simulator"
        runtime = self.xp.cuda.runtime
        return str(runtime.getDeviceProperties(runtime.getDevice())["name"].decode())

    def array(self, values: Any, dtype: Any = None) -> Any:
        """Return contiguous values on the GPU, copied at most once in a fit; the host's array must not change."""
        if isinstance(values, np.ndarray) and not self.simulated:
            _, found = self._resident.get(_key(values), (None, None))
            if found is None:
                found = self.xp.asarray(np.ascontiguousarray(values))
                self.remember(values, found)
            values = found
        return self.xp.ascontiguousarray(values, dtype=dtype)

    def rows(self, values: Array, lo: int, hi: int) -> Any:
        """Return some rows on the GPU: a part of all if these are there or take up to half of the free memory."""
        if _key(values) in self._resident or values.nbytes <= RESIDENT_SHARE * self.free_bytes:
            return self.array(values)[lo:hi]
        return self.xp.asarray(np.ascontiguousarray(values[lo:hi]))

    def host(self, array: Any) -> Any:
        """Return an array of the GPU on the host; `array` of the result is the array on the GPU."""
        if isinstance(array, np.ndarray):
            return array
        large = array.nbytes >= MIN_TOUCHED_BYTES
        values = array.get(out=touched_rows(array.shape, array.dtype, Run(0)) if large else None)
        self.remember(values, array)
        return values

    def download(self, array: Any, values: Array) -> None:
        """Copy an array of the GPU into ``values`` of the host, such as some rows of a result."""
        if self.simulated:
            values[...] = array
        else:
            array.get(out=values)

    def remember(self, values: Array, array: Any) -> None:
        """Note that ``array`` on the GPU holds the host's ``values``."""
        self._resident[_key(values)] = values, array

    def forget(self, values: Array) -> None:
        """Give back the memory of an array that no later stage needs."""
        self._resident.pop(_key(values), None)

    def close(self) -> None:
        """Give back all memory that is not in use."""
        self._resident.clear()
        if not self.simulated:
            self.xp.get_default_memory_pool().free_all_blocks()

    def repeat(self, work: Callable[[], None], times: int, recorded: Any = None) -> Any:
        """Do the same work several times, and return its record for more repetitions with the same arguments.

        To start a loop takes the host longer than many loops take the GPU. So the work is recorded the second time, as
        a graph, which the GPU repeats by itself. It must not wait for the host.
        """
        if self.simulated:
            for _ in range(times):
                work()
            return None
        from numba import cuda

        token = _stream.set(cuda.external_stream(self._graph_stream.ptr))
        try:
            with self._graph_stream:
                if recorded is None and times > 0:
                    work()
                    times -= 1
                if recorded is None and times > 0:
                    self._graph_stream.begin_capture(self.xp.cuda.runtime.streamCaptureModeRelaxed)
                    work()
                    recorded = self._graph_stream.end_capture()
                for _ in range(times):
                    recorded.launch(self._graph_stream)
        finally:
            _stream.reset(token)
        return recorded

    @cached_property
    def _graph_stream(self) -> Any:
        """A stream that waits for the default one, which waits for it: that cannot record."""
        return self.xp.cuda.Stream()

    @property
    def free_bytes(self) -> int:
        """Bytes that a stage may plan with."""
        if self.simulated:
            return 1 << 30
        pool = self.xp.get_default_memory_pool()
        free, _ = self.xp.cuda.runtime.memGetInfo()
        return int(FREE_SHARE * (free + pool.free_bytes()))

    def require(self, what: str, n_bytes: int, instead: str = "fit a sample of the rows, or use device='cpu'") -> None:
        """Raise MemoryError if the GPU has too little memory left for arrays that are about to be made."""
        if n_bytes > self.free_bytes:
            raise MemoryError(
                f"{what}: {n_bytes / 1e6:,.0f} MB are needed on the GPU and {self.free_bytes / 1e6:,.0f} MB are "
                f"available ({self.name}): {instead}."
            )

    @contextmanager
    def used(self, given: Any = None, rows: Any = None) -> Iterator[None]:
        """Report exhausted memory of the GPU as a MemoryError with advice, and give back the memory at the end.

        If the input ``given`` is on the GPU and equals the checked ``rows``, it is the copy of these.
        """
        given = given.detach() if hasattr(given, "detach") else given  # of a tensor, the part without gradients
        try:
            if isinstance(rows, np.ndarray) and not self.simulated and hasattr(given, "__cuda_array_interface__"):
                array = self.xp.asarray(given)
                if array.shape == rows.shape and array.dtype == rows.dtype:
                    self.remember(rows, self.xp.ascontiguousarray(array))
            yield
        except MemoryError as error:
            if type(error).__module__.startswith("cupy"):
                raise MemoryError(
                    f"The memory of the GPU ({self.name}) does not suffice ({error}): fit a sample of the rows, use "
                    "device='cpu', or end other programs that use this GPU."
                ) from None
            raise
        finally:
            self.close()


def touched_rows(shape: tuple[int, ...], dtype: Any, run: Run) -> Array:
    """Return an array of the host whose memory several threads have touched.

    The system hands out memory at the first touch, which for one thread is slower than the copy from the GPU.
    """
    rows = np.empty(shape, dtype=dtype)
    flat, step = rows.reshape(-1), PAGE_BYTES // rows.itemsize

    def touch(lo: int, hi: int) -> None:
        flat[lo:hi:step] = 0

    run.map(touch, run.shares(flat.size, PAGE_BYTES * step))
    return rows


def _key(values: Array) -> tuple[Any, ...]:
    return values.__array_interface__["data"][0], values.shape, values.strides, values.dtype.str


def simulated() -> bool:
    """Return whether numba simulates a GPU by threads of the interpreter, as in tests."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


def missing_gpu() -> str:
    """Return why no GPU can be used, and what to do; empty if one can."""
    if simulated():
        return ""
    for module in ("cupy", "numba_cuda"):
        try:
            importlib.import_module(module)
        except ImportError as error:
            return f"{module} cannot be imported ({error}): {INSTALL}"
    cupy: Any = importlib.import_module("cupy")
    try:
        if cupy.cuda.runtime.getDeviceCount() > 0:
            return ""
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CUDA reports an error ({error}): check the driver with nvidia-smi"
    return "CUDA finds no GPU: check the driver with nvidia-smi, and the environment variable CUDA_VISIBLE_DEVICES"


def find_device(name: str) -> tuple[Device | None, str]:
    """Return the GPU for "cuda" or "auto", None for the CPU, and how diagnostics describe it.

    "cuda" raises an error if no GPU can be used; "auto" then takes the CPU.
    """
    if name == "cpu":
        return None, "cpu"
    reason = missing_gpu()
    if not reason:
        device = Device()
        return device, f"cuda ({device.name})"
    if name == "cuda":
        raise RuntimeError(f"device='cuda' needs a GPU: {reason}; or use device='cpu' or 'auto'.")
    return None, f"cpu ({reason})"


class DeviceKernel:
    """A loop of the GPU: compiled for its signature at the first call, and cached on disk if possible."""

    def __init__(self, function: Callable[..., None], signature: str | Sequence[str], options: dict[str, Any]) -> None:
        self.function, self.signature, self.options = function, signature, options
        self.__doc__, self.__name__ = function.__doc__, function.__name__

    @cached_property
    def compiled(self) -> Any:
        """The loop of numba's CUDA target."""
        from numba import config, cuda

        config.CUDA_LOW_OCCUPANCY_WARNINGS = False  # loops over few points are short
        try:
            return cuda.jit(self.signature, cache=True, **self.options)(self.function)
        except RuntimeError as error:  # neither the installation nor the user's folder can be written to
            if "cannot cache" not in str(error):
                raise
            return cuda.jit(self.signature, **self.options)(self.function)

    def __call__(self, n_blocks: int, n_threads: int, *arguments: Any) -> None:
        """Start the loop on blocks of threads; arrays are CuPy's, or views made once for many calls."""
        self.compiled[int(n_blocks), int(n_threads), _stream.get()](*map(view, arguments))

    def over(self, n_rows: int, *arguments: Any, n_threads: int = THREADS) -> None:
        """Start the loop with a thread per row."""
        self(-(-n_rows // n_threads), n_threads, *arguments)


def device_kernel(signature: str | Sequence[str], **options: Any) -> Callable[[Callable[..., None]], DeviceKernel]:
    """Declare a loop of the GPU for a signature. It may call compiled functions of the CPU: one source for both."""
    return lambda function: DeviceKernel(function, signature, options)


def on_device(function: Any) -> Any:
    """Return a compiled function of the CPU for loops of the GPU; the arrays of the simulator need that in Python."""
    import numba as nb

    return function.py_func if simulated() else nb.njit(function.py_func)


def view(array: Any) -> Any:
    """Return an array as numba takes it without a conversion, for arguments of many calls; others unchanged."""
    if type(array).__module__.startswith("cupy"):
        from numba import cuda

        return cuda.as_cuda_array(array, sync=False)  # both use the default stream
    return array
