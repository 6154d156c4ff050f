"""How much memory is left to take: for the machine, for the container, and for the process."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

RECLAIMABLE = ("inactive_file", "active_file", "slab_reclaimable")
"""Parts of a control group's usage that the kernel gives up when memory is asked for: copies of what is on disk."""


def available_memory(root: Path = Path("/")) -> int:
    """Bytes that can still be taken: the least that the system, its control groups and the limits of the process leave.

    A very large number where nothing is told. ``root`` is where ``/proc`` and ``/sys`` lie.
    """
    return max(0, min([_free(root), *_left_by_groups(root), *_left_by_limits(root)]))


def physical_memory() -> int:
    """Bytes of memory in this machine; a very large number where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def _free(root: Path) -> int:
    """Bytes that the system can give without swapping; all of the machine's where it does not tell."""
    listed = re.search(r"^MemAvailable:\s*(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    if listed is not None:
        return 1024 * int(listed[1])
    if sys.platform == "darwin":
        return _free_by_vm_stat() or physical_memory()
    if sys.platform == "win32":
        return _free_on_windows() or physical_memory()
    return physical_memory()


def _free_by_vm_stat() -> int:
    try:
        told = subprocess.run(["vm_stat"], capture_output=True, text=True, timeout=5, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    return pages_left(told)


def pages_left(told: str) -> int:
    """Return the bytes that are free or can be freed at once, by what macOS's ``vm_stat`` says; 0 for other text."""
    size = re.search(r"page size of (\d+) bytes", told)
    pages = re.findall(r"^Pages (?:free|inactive|speculative):\s+(\d+)", told, re.MULTILINE)
    return int(size[1]) * sum(map(int, pages)) if size is not None else 0


def _free_on_windows() -> int:
    """Bytes of physical memory that Windows can give, not more than what it lets the process commit."""
    if sys.platform != "win32":
        return 0
    # MEMORYSTATUSEX: its length and the load, then total and available bytes of memory, page file and addresses.
    status = (ctypes.c_uint64 * 8)()
    status[0] = ctypes.sizeof(status)
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return 0
    return min(status[2], status[4], status[6])


def _left_by_groups(root: Path) -> Iterator[int]:
    """Yield the bytes that the control groups of the process, and those around them, leave to it."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield from _left_below(root / "sys/fs/cgroup", path, "memory.max", "memory.current", "")
        elif "memory" in controllers.split(","):
            names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"
            yield from _left_below(root / "sys/fs/cgroup/memory", path, *names)


def _left_below(top: Path, path: str, limit: str, usage: str, prefix: str) -> Iterator[int]:
    """Yield limit less usage, page cache not counted, of a group and all above it as far as they can be seen.

    Inside a container the path may be that of the host, where nothing is mounted; the container's group is the top.
    """
    group = top / path.strip("/")
    for folder in (group, *group.parents):
        if not folder.is_relative_to(top):
            break
        bound, used = _text(folder / limit).strip(), _text(folder / usage).strip()
        if bound.isdigit() and used.isdigit():
            parts = dict(line.split(" ", 1) for line in _text(folder / "memory.stat").splitlines() if " " in line)
            yield int(bound) - int(used) + sum(int(parts.get(prefix + name, 0)) for name in RECLAIMABLE)


def _left_by_limits(root: Path) -> Iterator[int]:
    """Yield the bytes that ``ulimit -v`` and ``ulimit -d`` leave to the process."""
    try:
        import resource
    except ImportError:  # Windows
        return
    pages = [int(count) for count in _text(root / "proc/self/statm").split()] or [0] * 7
    for name, used in (("RLIMIT_AS", pages[0]), ("RLIMIT_DATA", pages[5])):
        limit = resource.getrlimit(getattr(resource, name))[0]
        if limit != resource.RLIM_INFINITY:
            yield limit - used * resource.getpagesize()


def _text(path: Path) -> str:
    """Return what a file says; nothing where there is no such file."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
