"""Stages of fits on a GPU: they take and return arrays of the host, like those on the CPU, and leave copies there."""

from __future__ import annotations

from manifoldry._core.device import Device
from manifoldry._core.run import Run


def device_of(run: Run) -> Device:
    """Return the GPU of a run that has one."""
    assert run.gpu is not None
    return run.gpu
