"""Threads that share the blocks of many phases: the result of one thread, whoever comes, late or not at all."""

import os
from pathlib import Path

import numpy as np
import pytest

from helpers import in_new_process
from manifoldry._core.kernel import kernel
from manifoldry._core.run import Run
from manifoldry._core.team import DONE, TICKETS, draw, finish, new_tickets, ready

N_SWEEPS, N_BLOCKS = 300, 8


@kernel(f"void({TICKETS}, float64[:, ::1], int64, int64, int64)")
def smooth(tickets, layouts, n_sweeps, n_blocks, failing):
    """Replace all entries by means of three, in turn from one layout to the other; one block may fail."""
    n = layouts.shape[1]
    while True:
        number = draw(tickets)
        sweep, block = number // n_blocks, number % n_blocks
        if sweep >= n_sweeps or not ready(tickets, sweep * n_blocks):
            return
        if number == failing:
            raise ZeroDivisionError
        old, new = layouts[sweep % 2], layouts[(sweep + 1) % 2]
        for i in range(block * n // n_blocks, (block + 1) * n // n_blocks):
            new[i] = (old[i] + old[(7 * i + 1) % n] + old[(13 * i + 5) % n]) / 3
        finish(tickets)


def layouts(n=1000):
    return np.vstack([np.random.default_rng(0).normal(size=n), np.zeros(n)])


def expected():
    old = layouts()[0]
    i = np.arange(len(old))
    for _ in range(N_SWEEPS):
        old = (old + old[(7 * i + 1) % len(old)] + old[(13 * i + 5) % len(old)]) / 3
    return old


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 7, 16])
def test_every_phase_sees_all_of_the_one_before(n_jobs):
    Y = layouts()
    Run(0, n_jobs).team(smooth, Y, N_SWEEPS, N_BLOCKS, -1)
    np.testing.assert_array_equal(Y[N_SWEEPS % 2], expected())


def test_two_threads_that_begin_together(small_tasks):
    Y = layouts()
    Run(0, 2).team(smooth, Y, N_SWEEPS, N_BLOCKS, -1)
    np.testing.assert_array_equal(Y[N_SWEEPS % 2], expected())
    assert small_tasks.shared == 1


def test_a_thread_that_holds_no_block_is_not_waited_for():
    tickets, Y = new_tickets(), layouts()
    smooth(tickets, Y, N_SWEEPS, N_BLOCKS, -1)
    assert tickets[DONE] == N_SWEEPS * N_BLOCKS
    smooth(tickets, Y, N_SWEEPS, N_BLOCKS, -1)  # late
    np.testing.assert_array_equal(Y[N_SWEEPS % 2], expected())


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_an_error_in_a_block_frees_all_threads_and_reaches_the_caller(n_jobs):
    with pytest.raises(ZeroDivisionError):
        Run(0, n_jobs).team(smooth, layouts(), N_SWEEPS, N_BLOCKS, 1234)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_teams_within_tasks_and_in_a_forked_child():
    script = """
import os
import numpy as np
from manifoldry._core.run import Run
from test_team import N_BLOCKS, N_SWEEPS, expected, layouts, smooth
def run(*_):
    Y = layouts()
    Run(0, 4).team(smooth, Y, N_SWEEPS, N_BLOCKS, -1)
    return bool((Y[N_SWEEPS % 2] == expected()).all())
inside = all(Run(0, 40).map(run, [(i,) for i in range(80)]))
child = os.fork()
if child == 0:
    os._exit(0 if run() else 7)
print(inside, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    folder = Path(__file__).parent
    paths = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(folder.parent)!r}]"
    assert in_new_process(paths + script) == "True 0"
