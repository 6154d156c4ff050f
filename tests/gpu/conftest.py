"""Tests of loops of the GPU: in numba's simulator (``NUMBA_ENABLE_CUDASIM=1``) or, by ``make test-gpu``, on a GPU."""

import os
import sys

import numpy as np
import pytest

from manifoldry._core.device import simulated
from manifoldry._core.run import Run

if not (simulated() or os.environ.get("MANIFOLDRY_TEST_GPU") == "1"):
    collect_ignore_glob = ["test_*.py"]  # numba decides when it is imported whether it simulates


if simulated():
    from numba.cuda.simulator import kernelapi

    sys.setswitchinterval(
        1e-5
    )  # the simulator polls its threads, and would hold the interpreter's lock for 5 ms each time

    def _array(shared, shape, dtype):
        """Return the array that a line of a loop shares in its block: the same if its threads ask for it at once."""
        caller = sys._getframe(1)
        array = np.empty(shape, kernelapi.numpy_support.as_dtype(dtype) if hasattr(dtype, "bitwidth") else dtype)
        return shared._allocations.setdefault((caller.f_code.co_filename, caller.f_lineno), array)

    kernelapi.FakeCUDAShared.array = _array


@pytest.fixture
def run():
    """A fit on the GPU, or in the simulator."""
    run = Run(0, 1, device="cuda")
    with run.on_gpu():
        yield run
