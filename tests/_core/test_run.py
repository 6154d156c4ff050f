"""One fit's circumstances: threads that keep order, streams that repeat, a voice that is silent unless asked."""

import os
import threading
import time
from pathlib import Path
from queue import Empty

import numpy as np
import pytest
import threadpoolctl

from helpers import DEADLINE, in_new_process
from manifoldry._core import memory
from manifoldry._core import run as run_module
from manifoldry._core.run import Progress, Run, resolve_jobs


@pytest.mark.parametrize("n_jobs", [1, 2, 5, -1, 40])
def test_map_keeps_the_order_of_its_tasks(n_jobs):
    tasks = [(i, i % 7) for i in range(300)]
    assert Run(0, n_jobs).map(lambda a, b: a * 10 + b, tasks) == [a * 10 + b for a, b in tasks]
    assert Run(0, n_jobs).map(lambda: 1, []) == []


def test_two_jobs_work_at_the_same_time():
    meeting = threading.Barrier(2)
    threads = Run(0, 2).map(lambda _: (meeting.wait(DEADLINE), threading.get_ident())[1], [(0,), (1,)])
    assert len(set(threads)) == 2


@pytest.mark.parametrize("n_jobs", [5, 6, 16])
def test_threads_that_call_others_call_all(n_jobs):
    meeting = threading.Barrier(n_jobs)
    threads = Run(0, n_jobs).map(lambda: (meeting.wait(DEADLINE), threading.get_ident())[1], [()] * n_jobs)
    assert len(set(threads)) == n_jobs


def test_one_job_stays_in_the_calling_thread():
    assert set(Run(0, 1).map(lambda _: threading.get_ident(), [(i,) for i in range(9)])) == {threading.get_ident()}


@pytest.mark.parametrize("from_helper", [False, True])
def test_an_error_in_any_thread_reaches_the_caller(from_helper):
    meeting, caller = threading.Barrier(2), threading.get_ident()

    def work(i):
        meeting.wait(DEADLINE)
        if (threading.get_ident() != caller) == from_helper:
            raise KeyError(f"task {i}")

    with pytest.raises(KeyError, match="task"):
        Run(0, 2).map(work, [(0,), (1,)])
    assert Run(0, 2).map(abs, [(-1,), (-2,)]) == [1, 2]


def test_no_task_is_begun_after_an_error_in_the_only_thread():
    begun = []

    def work(i):
        begun.append(i)
        if i == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Run(0, 1).map(work, [(i,) for i in range(9)])
    assert begun == [0, 1, 2, 3]


def test_nested_maps_do_not_wait_for_each_other():
    # 64 helpers in a pool of 32 threads, each waiting for 63 more: a deadlock unless waiting helpers can be recalled.
    script = """
from unittest.mock import patch
from manifoldry._core import run
with patch.object(run, "_cpus", lambda: 1):
    jobs = [(j,) for j in range(64)]
    inner = lambda i: sum(run.Run(0, 64).map(lambda j: i * j, jobs))
    print(run.Run(0, 64).map(inner, jobs) == [i * 2016 for i in range(64)])
"""
    assert in_new_process(script) == "True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_gets_threads_of_its_own():
    script = """
import os
from manifoldry._core.run import Run
double = lambda run: run.map(lambda i: 2 * i, [(i,) for i in range(50)], blas=True)
before = double(Run(0, 3))
child = os.fork()
if child == 0:
    os._exit(0 if double(Run(0, 3)) == before else 7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), double(Run(0, 3)) == before)
"""
    assert in_new_process(script) == "0 True"


def blas_threads():
    return {library["filepath"]: library["num_threads"] for library in threadpoolctl.threadpool_info()
            if library["user_api"] == "blas"}  # fmt: skip


def test_blas_is_held_to_one_thread_in_a_map_that_asks_for_it():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        (held,) = Run(0, 1).map(blas_threads, [()], blas=True)
        (free,) = Run(0, 1).map(blas_threads, [()])
        assert set(held.values()) == {1}
        assert set(free.values()) == {2}
        assert blas_threads() == free


# Beginning of scripts that run with two threads of BLAS, set by nobody: what threads() returns is the setting of all
# BLAS libraries with one setting per process.
TWO_THREADS = """
import os, threading
import numpy, scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits
from manifoldry._core.run import one_blas_thread
from manifoldry._core.run import Run
def threads():
    blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return sorted({library["num_threads"] for library in blas if library["threading_layer"] != "openmp"})
def start(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread
"""
BLAS_VARIABLES = {"OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "BLIS_NUM_THREADS": "2"}


@pytest.mark.parametrize("first_out", ["first", "second"])
@pytest.mark.parametrize("main", ["first", "second", "neither"])
def test_overlapping_limits_of_blas_hold_to_the_last_and_restore_the_setting(first_out, main):
    """Two contexts in two threads, left in both orders, entered by the main thread first, second or not at all."""
    script = f"""
first_out, main = {first_out!r}, {main!r}
inside = {{name: threading.Event() for name in ("first", "second")}}
leave = {{name: threading.Event() for name in ("first", "second")}}
seen = [threads()]
def hold(name):
    if name == "second":
        inside["first"].wait()
    with one_blas_thread():
        inside[name].set()
        if name == main:
            direct()
        leave[name].wait()
def direct():
    for event in inside.values():
        event.wait()
    seen.append(threads())
    leave[first_out].set()
    if main != first_out:
        started[first_out].join()
        seen.append(threads())
        leave["second" if first_out == "first" else "first"].set()
started = {{name: start(lambda name=name: hold(name)) for name in inside if name != main}}
direct() if main == "neither" else hold(main)
if main == first_out:
    seen.append(threads())
    leave["second" if first_out == "first" else "first"].set()
for thread in started.values():
    thread.join()
print(*seen, threads())
"""
    assert in_new_process(TWO_THREADS + script, **BLAS_VARIABLES) == "[2] [1] [1] [2]"


def test_two_fits_at_once_leave_blas_its_threads():
    """The first fit is in a map on one BLAS thread when the second enters one, which ends after the first fit."""
    script = """
from manifoldry import LDLC, datasets
X = datasets.swiss_roll(120).X
first_inside, second_inside, first_done = threading.Event(), threading.Event(), threading.Event()
seen = [threads()]
def callback_of_first(progress):
    if progress.stage == "clusters":
        first_inside.set()
        second_inside.wait()
def callback_of_second(progress):
    if progress.stage == "clusters":
        second_inside.set()
        first_done.wait()
        seen.append(threads())
def fit_first():
    LDLC(n_clusters=3, n_init=2, n_jobs=1, callback=callback_of_first).fit(X)
    first_done.set()
def fit_second():
    first_inside.wait()
    LDLC(n_clusters=3, n_init=1, n_jobs=1, callback=callback_of_second).fit(X)
for fit in [start(fit_first), start(fit_second)]:
    fit.join()
print(*seen, threads())
"""
    assert in_new_process(TWO_THREADS + script, **BLAS_VARIABLES) == "[2] [1] [2]"


def test_an_exact_search_that_outlasts_the_limit_of_another_thread_leaves_blas_its_threads():
    """scikit-learn limits BLAS around its search and restores what it found, which is one thread here."""
    script = """
from sklearn.neighbors import NearestNeighbors
from manifoldry.graph._engines import Brute
X = numpy.random.default_rng(0).standard_normal((30, 20))
inside, leave = threading.Event(), threading.Event()
kneighbors = NearestNeighbors.kneighbors
def held_kneighbors(*arguments):
    with threadpool_limits(1, user_api="blas"):
        inside.set()
        leave.wait()
        return kneighbors(*arguments)
NearestNeighbors.kneighbors = held_kneighbors
with one_blas_thread():
    search = start(lambda: Brute(X, "euclidean", None).nearest(X, 5, Run(0, 1)))
    inside.wait()
leave.set()
search.join()
print(threads())
"""
    assert in_new_process(TWO_THREADS + script, **BLAS_VARIABLES) == "[2]"


def test_the_limit_of_blas_includes_a_library_loaded_while_it_is_held():
    script = """
import numpy
from threadpoolctl import threadpool_info
from manifoldry._core.run import one_blas_thread
def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
with one_blas_thread():
    before = threads()
    import scipy.linalg  # which has a BLAS of its own, where numpy and scipy come as wheels
    with one_blas_thread():
        print(len(threads()) >= len(before), set(threads()), end=" ")
print(set(threads()))
"""
    assert in_new_process(script, OMP_NUM_THREADS="2", **BLAS_VARIABLES) == "True {1} {2}"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize(("inside", "expected"), [(False, "[2] [1] [2]"), (True, "[1] [1] [2]")])
def test_a_fork_takes_only_its_own_limit_of_blas_along(inside, expected):
    """A fork while another thread holds the limit, by a thread that holds it (inside) or does not."""
    script = f"""
from contextlib import nullcontext
entered, leave = threading.Event(), threading.Event()
def hold():
    with one_blas_thread():
        entered.set()
        leave.wait()
other = start(hold)
entered.wait()
with one_blas_thread() if {inside} else nullcontext():
    child = os.fork()
    if child == 0:
        print(threads(), end=" ")
        with one_blas_thread():
            print(threads(), end=" ")
if child == 0:
    print(threads(), flush=True)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert threads() == [1]
leave.set()
other.join()
assert threads() == [2]
"""
    assert in_new_process(TWO_THREADS + script, **BLAS_VARIABLES) == expected


def test_stoppable_map_begins_nothing_once_asked_to_stop():
    told = []

    def callback(progress):
        told.append((progress.done, progress.total))
        return progress.done == 3

    run = Run(0, 1, callback=callback)
    results = run.map(lambda i: i, [(i,) for i in range(8)], stoppable=True)
    assert results == [0, 1, 2, None, None, None, None, None]
    assert told == [(1, 8), (2, 8), (3, 8)]
    assert run.stopped
    assert run.map(lambda i: i, [(5,)], stoppable=True) == [None]
    assert run.map(lambda i: i, [(5,)]) == [5]  # what must be done is done


def test_an_error_in_the_callback_ends_the_map():
    def callback(progress):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        # Tasks long enough that the helper thread cannot have done them all before the caller takes one.
        Run(0, 2, callback=callback).map(lambda _: time.sleep(1e-3), [(i,) for i in range(100)], stoppable=True)


def test_ranges_cover_every_row_once_for_any_number_of_jobs():
    for n, grain in [(0, 4), (1, 4), (12, 4), (13, 4), (5, 0), (3, 100)]:
        pieces = Run(0, 1).ranges(n, grain)
        assert pieces == Run(0, 7).ranges(n, grain)
        assert [i for lo, hi in pieces for i in range(lo, hi)] == list(range(n))
        assert all(hi - lo <= max(1, grain) for lo, hi in pieces)


def test_streams_repeat_by_seed_and_purpose_and_in_any_order():
    one, two = Run(5), Run(5)
    a, b = one.rng("a").random(8), one.rng("b").random(8)
    np.testing.assert_array_equal(two.rng("b").random(8), b)
    np.testing.assert_array_equal(two.rng("a").random(8), a)
    np.testing.assert_array_equal(one.rng("a").random(8), a)
    others = [b, Run(6).rng("a").random(8), Run(None).rng("a").random(8), Run(None).rng("a").random(8)]
    drawn = np.array([a, *others])
    # Streams that share nothing coincide in one of 8 x 10 comparisons with probability 80 / 2^53.
    assert len(np.unique(drawn)) == drawn.size


@pytest.mark.parametrize(
    "make",
    [
        lambda: 0,
        lambda: np.int32(3),
        lambda: np.uint64(2**63),
        lambda: 2**80 + 1,
        lambda: np.random.default_rng(4),
        lambda: np.random.RandomState(4),
    ],
)
def test_every_kind_of_seed_repeats(make):
    np.testing.assert_array_equal(Run(make()).rng("x").random(4), Run(make()).rng("x").random(4))


@pytest.mark.parametrize("generator", [np.random.default_rng(4), np.random.RandomState(4)])
def test_a_generator_moves_on_from_fit_to_fit(generator):
    assert (Run(generator).rng("x").random(4) != Run(generator).rng("x").random(4)).all()


def test_global_random_state_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    Run(None).rng("x").random(4)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("seed", [-1, 1.5, "7", True, [1, 2], np.float64(3)])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(ValueError, match=r"^random_state must be .*; got .*\.$"):
        Run(seed)


def test_number_of_jobs_is_read_as_in_scikit_learn(monkeypatch):
    monkeypatch.setattr(run_module, "_cpus", lambda: 8)
    asked = [None, -1, -2, -8, -9, -100, 1, 3, np.int64(20)]
    assert [resolve_jobs(n_jobs) for n_jobs in asked] == [8, 8, 7, 1, 1, 1, 1, 3, 20]


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
def test_bad_numbers_of_jobs_are_refused(n_jobs):
    with pytest.raises(ValueError, match=r"^n_jobs must be a non-zero integer or None; got .*\.$"):
        Run(0, n_jobs)


def test_seconds_are_added_by_name_also_of_nested_and_failing_stages(monkeypatch):
    clock = iter([0.0, 10.0, 11.0, 13.0, 20.0, 30.0, 34.0])
    monkeypatch.setattr(run_module.time, "perf_counter", lambda: next(clock))
    run = Run(0)  # 0
    with run.stage("outer"):  # 10
        with run.stage("inner"):  # 11 to 13
            pass
    # outer ended at 20
    with pytest.raises(OSError, match="broken"), run.stage("inner"):  # 30 to 34
        raise OSError("broken")
    assert run.seconds == {"inner": 6.0, "outer": 10.0}


def test_steps_tell_the_stage_and_stay_stopped():
    told = []

    def callback(progress):
        told.append(progress)
        return len(told) == 3

    run = Run(0, callback=callback)
    with run.stage("outer"):
        assert run.step(1, 9)
        with run.stage("inner"):
            assert run.step(2, None, "half")
        assert not run.step(3)
        assert not run.step(4)
    assert [(p.stage, p.done, p.total, p.message) for p in told] == [
        ("outer", 1, 9, ""),
        ("inner", 2, None, "half"),
        ("outer", 3, None, ""),
        ("outer", 4, None, ""),
    ]
    assert all(isinstance(p, Progress) for p in told)
    assert [p.seconds for p in told] == sorted(p.seconds for p in told)
    assert Run(0).step(1)


def test_sizes_are_kept_and_what_the_machine_lacks_is_refused(monkeypatch):
    monkeypatch.setattr(run_module, "available_memory", lambda: 3_000_000)
    run = Run(0)
    run.announce("table", 1_000_000)
    run.announce("table", 500_000)
    assert run.memory == {"table": 1_000_000}
    with pytest.raises(MemoryError, match=r"^cube: 4 MB are needed and 3 MB are available; take fewer points\.$"):
        run.announce("cube", 4_000_000, "take fewer points")
    with pytest.raises(MemoryError, match=r"3 MB are available\.$"):
        run.announce("cube", 4_000_000)


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="no list of memory on this system")
def test_physical_memory_is_what_the_system_lists():
    listed = Path("/proc/meminfo").read_text(encoding="ascii").split()
    assert memory.physical_memory() == 1024 * int(listed[listed.index("MemTotal:") + 1])


def test_large_matrices_get_the_threads_back_inside_a_context_unless_another_thread_holds_one_too():
    told = in_new_process(
        """
import threading
import threadpoolctl
from manifoldry._core.run import MAX_SERIAL_ORDER, blas_threads_for, one_blas_thread

def threads():
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}

import numpy
threadpoolctl.threadpool_limits(3, user_api="blas")
large, seen = MAX_SERIAL_ORDER + 1, []
with one_blas_thread():
    with blas_threads_for(large):
        seen.append(threads())  # 3
        with blas_threads_for(large):
            seen.append(threads())  # 3
        seen.append(threads())  # 3: the inner context leaves what it found
        with one_blas_thread():
            seen.append(threads())  # 1
    seen.append(threads())  # 1
    with blas_threads_for(large - 1):
        seen.append(threads())  # 1
    with blas_threads_for(10, 10**9):
        seen.append(threads())  # 3: a product
seen.append(threads())  # 3
with blas_threads_for(large - 1):
    seen.append(threads())  # 1
with blas_threads_for(large):
    seen.append(threads())  # 3
print([list(found) for found in seen])

inside, done = threading.Event(), threading.Event()

def hold():
    with one_blas_thread():
        inside.set()
        done.wait(50)

other = threading.Thread(target=hold)
other.start()
inside.wait(50)
with one_blas_thread(), blas_threads_for(large):
    print(threads())
done.set()
other.join()
print(threads())
"""
    )
    assert told.splitlines() == ["[[3], [3], [3], [1], [1], [1], [3], [3], [1], [3]]", "{1}", "{3}"]


def test_small_loops_of_openmp_get_one_thread_and_the_former_number_comes_back():
    told = in_new_process(
        """
import sklearn.neighbors
import threadpoolctl
from manifoldry._core.run import MAX_SERIAL_PRODUCT, openmp_threads_for

def threads():
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "openmp"}

threadpoolctl.threadpool_limits(3, user_api="openmp")
with openmp_threads_for(MAX_SERIAL_PRODUCT):
    print(threads())
print(threads())
with openmp_threads_for(MAX_SERIAL_PRODUCT + 1):
    print(threads())
"""
    )
    assert told.splitlines() == ["{1}", "{3}", "{3}"]


@pytest.mark.parametrize("verbose", [False, True])
def test_stages_speak_on_the_error_stream_only_when_asked(verbose, capsys, monkeypatch):
    monkeypatch.setattr(run_module, "available_memory", lambda: 10**12)
    run = Run(0, verbose=verbose)
    with run.stage("neighbors"):
        run.step(1, 2)
        run.announce("table", 200_000_000)
        run.announce("small table", 1000)
    spoken = capsys.readouterr()
    assert spoken.out == ""
    lines = spoken.err.splitlines()
    if not verbose:
        assert lines == []
    else:
        assert lines[:2] == ["[manifoldry] neighbors ...", "[manifoldry] table: 200 MB"]
        assert lines[2].startswith("[manifoldry] neighbors: ")
        assert len(lines) == 3


def test_a_long_stage_tells_how_far_it_is_about_once_a_second(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(run_module.time, "perf_counter", lambda: now[0])
    run = Run(0, 1, verbose=True)
    with run.stage("descent"):
        for step in range(1, 41):  # a tenth of a second each
            now[0] = 0.1 * step
            run.step(step, 40, "divergence 1.5")
    assert capsys.readouterr().err.splitlines() == [
        "[manifoldry] descent ...",
        "[manifoldry] descent: 10 of 40, about 3 s left, divergence 1.5",
        "[manifoldry] descent: 20 of 40, about 2 s left, divergence 1.5",
        "[manifoldry] descent: 30 of 40, about 1 s left, divergence 1.5",
        "[manifoldry] descent: 40 of 40, divergence 1.5",
        "[manifoldry] descent: 4.00 s",
    ]


def test_tasks_that_take_long_tell_how_far_they_are_and_short_ones_are_silent(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(run_module.time, "perf_counter", lambda: now[0])
    run = Run(0, 1, verbose=True)

    def work(seconds):
        now[0] += seconds

    with run.stage("geodesics"):
        run.map(work, [(0.75,)] * 4)
        run.map(work, [(0.25,)] * 3)
    assert capsys.readouterr().err.splitlines() == [
        "[manifoldry] geodesics ...",
        "[manifoldry] geodesics: 2 of 4, about 2 s left",
        "[manifoldry] geodesics: 4 of 4",
        "[manifoldry] geodesics: 3.75 s",
    ]


def test_progress_is_told_also_where_other_threads_do_all_tasks(monkeypatch):
    started, heard = threading.Event(), []

    class Slow(run_module.SimpleQueue):
        """A queue from which the main thread takes nothing before the others have taken all."""

        def get_nowait(self):
            if threading.current_thread() is threading.main_thread():
                started.wait(30)
            try:
                return super().get_nowait()
            except Empty:
                started.set()
                raise

    monkeypatch.setattr(run_module, "SimpleQueue", Slow)
    run = Run(0, n_jobs=2, callback=lambda progress: heard.append((progress.done, progress.total)))
    assert run.map(lambda i: i, [(0,), (1,)], stoppable=True) == [0, 1]
    assert heard == [(2, 2)]
