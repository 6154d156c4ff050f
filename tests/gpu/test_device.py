"""Arrays on the GPU: copied once, remembered, and given back."""

import numpy as np
import pytest
from numba import cuda

from manifoldry._core.device import device_kernel
from manifoldry._core.run import Run


@device_kernel("void(float32[::1], float32[::1])")
def double(values, doubled):
    i = cuda.grid(1)
    if i < len(values):
        doubled[i] = values[i] + values[i]


def test_a_loop_runs_over_all_rows(run):
    values = np.arange(300, dtype=np.float32)
    doubled = run.gpu.xp.zeros(300, dtype=np.float32)
    double.over(300, run.gpu.array(values), doubled, n_threads=64)
    np.testing.assert_array_equal(run.gpu.host(doubled), 2 * values)


def test_an_array_is_copied_once_and_remembered(run):
    values = np.arange(12.0).reshape(3, 4)
    there = run.gpu.array(values)
    if run.gpu.simulated:
        assert there is values  # the simulator has no memory of its own
    else:
        assert run.gpu.array(values) is there
        back = run.gpu.host(there * 2)
        assert run.gpu.array(back).data.ptr != there.data.ptr
        assert run.gpu.array(back) is run.gpu.array(back)
    assert run.gpu.array(values, np.float32).dtype == np.float32


def test_too_large_arrays_are_an_error_before_they_are_made(run):
    with pytest.raises(MemoryError, match=r"a table: .* MB are needed on the GPU and .* MB are available"):
        run.gpu.require("a table", 1 << 60)


def test_exhausted_memory_of_the_gpu_is_an_error_with_advice():
    run = Run(0, 1, device="cuda")
    if run.gpu.simulated:
        error = type("OutOfMemoryError", (MemoryError,), {"__module__": "cupy.cuda.memory"})
        with pytest.raises(MemoryError, match=r"memory of the GPU .* does not suffice"), run.on_gpu():
            raise error("Out of memory allocating 8 bytes")
    else:
        with pytest.raises(MemoryError, match=r"memory of the GPU .* does not suffice"), run.on_gpu():
            run.gpu.xp.empty(1 << 50, dtype=np.uint8)
