"""How much memory is available: to the machine, to the container, and to the process."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

RECLAIMABLE = ("inactive_file", "active_file", "slab_reclaimable")
"""Parts of a control group's usage that the kernel frees on demand: copies of what is on disk."""
MAX_LIMIT = 2**62  # larger limits of a control group stand for none


def available_memory(root: str | Path = "") -> int:
    """Return the available bytes: the minimum over the system, its control groups and the limits of the process.

    A very large number if nothing is known. ``root`` contains ``/proc`` and ``/sys``.
    """
    return max(0, min([_free(root), *_left_by_groups(root), *_left_by_limits(root)]))


def physical_memory() -> int:
    """Return the bytes of memory in this machine; a very large number if they are unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def _free(root: str | Path) -> int:
    """Return the bytes that are available without swapping; the memory of the machine if they are unknown."""
    listed = re.search(r"^MemAvailable:\s*(\d+) kB", _text(f"{root}/proc/meminfo"), re.MULTILINE)
    if listed is not None:
        return 1024 * int(listed[1])
    if sys.platform == "darwin":
        return _free_by_vm_stat() or physical_memory()
    if sys.platform == "win32":
        return _free_on_windows() or physical_memory()
    return physical_memory()


def _free_by_vm_stat() -> int:
    try:
        output = subprocess.run(["vm_stat"], capture_output=True, text=True, timeout=5, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    return pages_left(output)


def pages_left(output: str) -> int:
    """Return the free and immediately reclaimable bytes in the output of macOS's ``vm_stat``; 0 for other text."""
    size = re.search(r"page size of (\d+) bytes", output)
    pages = re.findall(r"^Pages (?:free|inactive|speculative):\s+(\d+)", output, re.MULTILINE)
    return int(size[1]) * sum(map(int, pages)) if size is not None else 0


def _free_on_windows() -> int:
    """Return the bytes of physical memory available on Windows, at most what the process may commit."""
    if sys.platform != "win32":
        return 0
    # MEMORYSTATUSEX: its length and the load, then total and available bytes of memory, page file and addresses.
    status = (ctypes.c_uint64 * 8)()
    status[0] = ctypes.sizeof(status)
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return 0
    return min(status[2], status[4], status[6])


def _left_by_groups(root: str | Path) -> Iterator[int]:
    """Yield the bytes that the control groups of the process, and their parents, leave to it."""
    for line in _text(f"{root}/proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield from _left_below(f"{root}/sys/fs/cgroup", path, "memory.max", "memory.current", "")
        elif "memory" in controllers.split(","):
            names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
            yield from _left_below(f"{root}/sys/fs/cgroup/memory", path, *names)


def _left_below(top: str, path: str, limit: str, usage: str, prefix: str) -> Iterator[int]:
    """Yield limit minus usage, without page cache, of a group and all visible groups above it.

    Inside a container the path may be that of the host, where nothing is mounted; the container's group is the top.
    """
    names = [name for name in path.split("/") if name]
    for depth in range(len(names), -1, -1):
        folder = "/".join([top, *names[:depth]])
        bound = _text(f"{folder}/{limit}").strip()
        if not bound.isdigit() or int(bound) > MAX_LIMIT:
            continue
        used = _text(f"{folder}/{usage}").strip()
        if used.isdigit():
            parts = dict(line.split(" ", 1) for line in _text(f"{folder}/memory.stat").splitlines() if " " in line)
            yield int(bound) - int(used) + sum(int(parts.get(prefix + name, 0)) for name in RECLAIMABLE)


def _left_by_limits(root: str | Path) -> Iterator[int]:
    """Yield the bytes that ``ulimit -v`` and ``ulimit -d`` leave to the process."""
    try:
        import resource
    except ImportError:  # Windows
        return
    pages = [int(count) for count in _text(f"{root}/proc/self/statm").split()] or [0] * 7
    for name, used in (("RLIMIT_AS", pages[0]), ("RLIMIT_DATA", pages[5])):
        limit = resource.getrlimit(getattr(resource, name))[0]
        if limit != resource.RLIM_INFINITY:
            yield limit - used * resource.getpagesize()


def _text(path: str) -> str:
    """Return the text of a file, empty if it does not exist."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
