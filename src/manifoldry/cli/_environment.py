"""Versions, BLAS, processor, memory, GPU and cache of compiled code, for records of runs and bug reports."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from manifoldry import __version__

RECORDED_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
"""Packages whose versions can change the last bits of a fit."""

OTHER_PACKAGES = (
    "llvmlite", "threadpoolctl", "click", "rich", "matplotlib", "pillow", "pyarrow", "pandas", "anndata", "dask",
    "distributed", "anywidget", "cupy-cuda13x", "numba-cuda",
)  # fmt: skip
"""Packages that are needed indirectly, or by an extra."""


def versions() -> dict[str, str]:
    """Return the versions of this library, of Python and of the numerical packages."""
    packages = {name: metadata.version(name) for name in RECORDED_PACKAGES}
    return {"manifoldry": __version__, "python": platform.python_version(), **packages}


def environment() -> dict[str, Any]:
    """Return what an issue report needs: versions, system, processor, memory, BLAS, GPU and cache of compiled code."""
    import scipy.linalg  # noqa: F401  loads its BLAS, which may not be that of numpy
    from threadpoolctl import threadpool_info

    from manifoldry._core.device import missing_gpu
    from manifoldry._core.memory import available_memory, physical_memory
    from manifoldry._core.run import resolve_jobs
    from manifoldry._numerics.kernels.kmeans import assign_and_sum

    libraries = {found["filepath"]: found for found in threadpool_info()}.values()
    fields = ("user_api", "internal_api", "version", "num_threads", "threading_layer", "architecture")
    missing = missing_gpu()
    return {
        "versions": {**versions(), **{name: _version(name) for name in OTHER_PACKAGES}},
        "system": platform.platform(),
        "python": f"{sys.implementation.name} {sys.version.split()[0]}, {platform.architecture()[0]}",
        "cpu": cpu_name(),
        "cores": {"machine": os.cpu_count(), "usable": resolve_jobs(None)},
        "memory_bytes": {"machine": physical_memory(), "available": available_memory()},
        "blas": [{name: found[name] for name in fields if name in found} for found in libraries],
        "gpu": f"none: {missing}" if missing else _gpu_name(),
        "compiled_code": assign_and_sum.stats.cache_path,
        "variables": {name: value for name, value in sorted(os.environ.items()) if _matters(name)},
    }


def cpu_name() -> str:
    """Return the model of the processor, as the system names it."""
    try:
        listed = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # macOS, Windows
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in listed if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _gpu_name() -> str:
    from manifoldry._core.device import Device

    return Device().name


def _matters(name: str) -> bool:
    """Return whether an environment variable changes threads, the cache, or how this library behaves."""
    return name.endswith("_NUM_THREADS") or name.startswith(("MANIFOLDRY_", "NUMBA_")) or name == "CUDA_VISIBLE_DEVICES"
