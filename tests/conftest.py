"""Fixtures that several modules of tests use."""

import gc
import os
import threading
from types import SimpleNamespace

import pytest

from browser import ARGUMENTS, MISSING, Pages, find_chromium
from helpers import DEADLINE
from manifoldry._core.run import Run
from manifoldry._core.run import one_blas_thread as blas_limit
from manifoldry._numerics.geometry import neighborhoods

os.environ.setdefault("MPLBACKEND", "agg")  # plots need no display

SMALL_TASK = 16
"""Rows per task. A grid's bands of rows, of 6 or more, must stay wider than what a point touches."""


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is loaded and collected stays: a search for garbage, a fifth of a second each, need not visit it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items):
    """The longest test begins first, so that no process is left alone with it."""
    items.sort(key=lambda item: item.path.name != "test_attack.py")


@pytest.fixture(autouse=True, scope="session")
def _no_wait_for_the_disk():
    """Files of tests need not survive a loss of power; to make sure of each takes 10 ms."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture
def one_blas_thread():
    """Hold LAPACK to one thread: its threads wait long for each other on a busy machine."""
    with blas_limit():
        yield


@pytest.fixture
def small_tasks(monkeypatch):
    """Cut the work on few points into tasks, and let two threads begin together; ``shared`` counts such maps."""
    ranges, run_map, seen = Run.ranges, Run.map, SimpleNamespace(shared=0)

    def map_together(self, work, tasks, **how):
        if min(self.n_jobs, len(tasks)) < 2:
            return run_map(self, work, tasks, **how)
        meeting, met = threading.Barrier(2), set()

        def begin(*task):
            if threading.get_ident() not in met:
                met.add(threading.get_ident())
                meeting.wait(DEADLINE)
            return work(*task)

        seen.shared += 1
        return run_map(self, begin, tasks, **how)

    monkeypatch.setattr(neighborhoods, "MAX_STACKED", SMALL_TASK * 10 * 10)
    monkeypatch.setattr(Run, "ranges", lambda self, n, grain: ranges(self, n, min(grain, SMALL_TASK)))
    monkeypatch.setattr(Run, "map", map_together)
    return seen


@pytest.fixture(scope="session")
def chromium():
    """One browser for all tests of a process; without one they fail, unless they were left out on purpose."""
    if os.environ.get("MANIFOLDRY_NO_BROWSER") == "1":
        pytest.skip("MANIFOLDRY_NO_BROWSER=1")
    path = find_chromium()
    if path is None:
        pytest.fail(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def pages(chromium):
    """Open pages by ``pages.open(path)``; console errors and failed requests fail the test."""
    opened = Pages(chromium)
    yield opened
    opened.close()
