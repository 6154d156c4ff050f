"""What memory is left: by files as Linux writes them, by the limits of a process, by what macOS says."""

import sys
from pathlib import Path

import pytest

from helpers import in_new_process
from manifoldry._core import memory
from manifoldry._core.memory import available_memory, pages_left

MB = 1_000_000
LINUX = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads what Linux tells")


@pytest.fixture
def machine(tmp_path):
    """Return a function that writes files below a root, and the root; 8,000 kB are available to begin with."""

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="ascii")
        return tmp_path

    write({"proc/meminfo": "MemTotal:  16000 kB\nMemFree:  1000 kB\nMemAvailable:    8000 kB\nBuffers: 10 kB\n"})
    return write


def test_the_system_counts_what_it_can_free(machine):
    assert available_memory(machine({})) == 8000 * 1024


def test_a_container_leaves_its_limit_less_its_usage_without_the_page_cache(machine):
    root = machine(
        {
            "proc/self/cgroup": "0::/pod/work\n",
            "sys/fs/cgroup/pod/work/memory.max": f"{6 * MB}\n",
            "sys/fs/cgroup/pod/work/memory.current": f"{5 * MB}\n",
            "sys/fs/cgroup/pod/work/memory.stat": f"anon {MB}\ninactive_file {2 * MB}\nactive_file {MB}\n"
            f"slab_reclaimable {MB // 2}\nfile_mapped 77\n",
        }
    )
    assert available_memory(root) == 6 * MB - 5 * MB + 3 * MB + MB // 2


def test_the_groups_around_a_group_count_too(machine):
    root = machine(
        {
            "proc/self/cgroup": "0::/pod/work\n",
            "sys/fs/cgroup/pod/work/memory.max": "max\n",
            "sys/fs/cgroup/pod/work/memory.current": f"{MB}\n",
            "sys/fs/cgroup/pod/memory.max": f"{4 * MB}\n",
            "sys/fs/cgroup/pod/memory.current": f"{3 * MB}\n",
        }
    )
    assert available_memory(root) == MB
    machine({"sys/fs/cgroup/pod/work/memory.max": f"{MB + 5}\n"})
    assert available_memory(root) == 5
    machine({"sys/fs/cgroup/pod/memory.current": f"{5 * MB}\n"})
    assert available_memory(root) == 0  # more is used than allowed: nothing is left, not less than that


def test_the_groups_of_the_first_version_are_read_too(machine):
    root = machine(
        {
            "proc/self/cgroup": "7:cpu,cpuacct:/a\n5:memory:/docker/x\n1:name=systemd:/b\n",
            "sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": f"{7 * MB}\n",
            "sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes": f"{5 * MB}\n",
            "sys/fs/cgroup/memory/docker/x/memory.stat": f"inactive_file 1\ntotal_inactive_file {MB}\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{50 * MB}\n",
        }
    )
    assert available_memory(root) == 3 * MB


def test_the_group_of_a_container_that_sees_the_path_of_its_host_is_at_the_top(machine):
    root = machine(
        {
            "proc/self/cgroup": "0::/kubepods/burstable/pod1\n",
            "sys/fs/cgroup/memory.max": f"{2 * MB}\n",
            "sys/fs/cgroup/memory.current": f"{MB}\n",
        }
    )
    assert available_memory(root) == MB


def test_without_any_files_it_is_the_memory_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "physical_memory", lambda: 123)
    monkeypatch.setattr(memory.sys, "platform", "linux")
    assert available_memory(tmp_path) == 123


@LINUX
def test_a_limit_of_the_process_counts_less_what_it_has_taken():
    told = in_new_process(
        """
import resource
import numpy as np
from manifoldry._core.memory import available_memory
from manifoldry._core.run import Run

GB = 2**30
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + GB, resource.RLIM_INFINITY))
left = available_memory()
assert GB - 2**26 <= left <= GB, left
block = np.ones(2**26)  # half a GB
assert available_memory() <= left - block.nbytes
Run(0).announce("small", GB // 4)
try:
    Run(0).announce("cube", GB, "take fewer points")
except MemoryError as error:
    print(error)
"""
    )
    assert told.startswith("cube: 1,074 MB are needed and ")
    assert told.rstrip().endswith(" MB are available; take fewer points.")


@LINUX
def test_here_it_is_no_more_than_the_machine_has():
    assert 0 < available_memory() <= memory.physical_memory()


def test_what_macos_says():
    told = """Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                               10000.
Pages active:                            300000.
Pages inactive:                           20000.
Pages speculative:                         3000.
Pages wired down:                        100000.
Pages purgeable:                           4000.
"Translation faults":                 123456789.
"""
    assert pages_left(told) == 16384 * 33000
    assert pages_left("vm_stat: no such thing") == 0


@pytest.mark.skipif(sys.platform != "darwin", reason="asks macOS")
def test_macos_answers():
    assert 0 < available_memory() <= memory.physical_memory()


@pytest.mark.skipif(sys.platform != "win32", reason="asks Windows")
def test_windows_answers():
    assert 0 < available_memory() < sys.maxsize
