"""Stages of fits on a GPU: they take and return arrays of the host, like those on the CPU, and leave copies there."""

from __future__ import annotations

from typing import Any

import numpy as np

from manifoldry._core.device import Device
from manifoldry._core.run import Run
from manifoldry._core.values import Array

PAGE_BYTES = 4096  # of the smallest unit of memory that the system hands out


def device_of(run: Run) -> Device:
    """Return the GPU of a run that has one."""
    assert run.gpu is not None
    return run.gpu


def host_rows(shape: tuple[int, ...], dtype: Any, run: Run) -> Array:
    """Return an array of the host whose memory several threads have touched.

    The system hands out memory at the first touch, which for one thread is slower than the copy from the GPU.
    """
    rows = np.empty(shape, dtype=dtype)
    flat, step = rows.reshape(-1), PAGE_BYTES // rows.itemsize

    def touch(lo: int, hi: int) -> None:
        flat[lo:hi:step] = 0

    run.map(touch, run.shares(flat.size, PAGE_BYTES * step))
    return rows
