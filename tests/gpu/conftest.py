"""Tests of loops of the GPU: in numba's simulator (``NUMBA_ENABLE_CUDASIM=1``) or, by ``make test-gpu``, on a GPU."""

import os
import sys

import pytest

from manifoldry._core.device import simulated
from manifoldry._core.run import Run

if not (simulated() or os.environ.get("MANIFOLDRY_TEST_GPU") == "1"):
    collect_ignore_glob = ["test_*.py"]  # numba decides when it is imported whether it simulates


if simulated():
    sys.setswitchinterval(1e-5)  # the simulator waits for its threads in a loop, which gives up the interpreter's lock late


@pytest.fixture
def run():
    """A fit on the GPU, or in the simulator."""
    run = Run(0, 1, device="cuda")
    with run.on_gpu():
        yield run
