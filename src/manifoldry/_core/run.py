"""The context of one fit: seed, threads, progress, seconds and memory, in one object."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import numpy as np

from manifoldry._core.memory import available_memory
from manifoldry._core.threads import one_blas_thread
from manifoldry._core.warnings import warn

SECONDS_BETWEEN_LINES = 1.0
"""Minimum time between two lines of ``verbose`` about the same stage."""

T = TypeVar("T")


@dataclass(frozen=True)
class Progress:
    """What a callback receives: the stage, its progress, and seconds since the fit began."""

    stage: str
    done: int
    total: int | None
    seconds: float
    message: str = ""


Callback = Callable[[Progress], Any]
"""Called with a `Progress`; returning true asks the fit to stop as soon as it has a usable result."""


class Run:
    """Seed, threads and progress of one fit.

    Parameters
    ----------
    seed : None, int, numpy Generator or RandomState
        Source of all randomness; None for fresh entropy.
    n_jobs : int, optional
        Threads of the library's own kernels: None or -1 for all, -2 for all but one. The results do not
        depend on it. (BLAS keeps its own setting for large matrices; see threadpoolctl.)
    verbose : bool
        Write to the standard error stream when a stage begins, its progress about every second, and its duration.
    callback : callable, optional
        Receives a `Progress` at every step; returning true stops the fit early.

    Attributes
    ----------
    stopped : bool
        Whether the callback or Ctrl-C has asked to stop.
    interrupted : bool
        Whether it was Ctrl-C.
    """

    def __init__(
        self, seed: Any = None, n_jobs: int | None = None, verbose: bool | int = False, callback: Callback | None = None
    ) -> None:
        self.n_jobs = resolve_jobs(n_jobs)
        self.verbose = bool(verbose)
        self.callback = callback
        self.seconds: dict[str, float] = {}
        self.memory: dict[str, int] = {}
        self.stopped = False
        self.interrupted = False
        self._stoppable = False
        self._entropy = _entropy(seed)
        self._began = self._spoke = time.perf_counter()
        self._stage = ""

    @property
    def seed(self) -> int:
        """The number from which all random streams follow; another run with it repeats them."""
        return self._entropy

    def rng(self, purpose: str) -> np.random.Generator:
        """Return the random stream of one named purpose; the same seed and purpose give the same numbers."""
        return np.random.default_rng([self._entropy, zlib.crc32(purpose.encode())])

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage under its name and report it; stages may nest, seconds are added per name."""
        outer, self._stage = self._stage, name
        start = self._spoke = time.perf_counter()
        if self.verbose:
            _speak(f"{name} ...")
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
            self._stage = outer
            if self.verbose:
                _speak(f"{name}: {spent:.2f} s")

    def step(self, done: int, total: int | None = None, message: str = "") -> bool:
        """Report a step of the current stage; return False once the callback or Ctrl-C has asked to stop."""
        if self.verbose:
            self._speak_at_times(done, total, message)
        self._tell(done, total, message)
        return not self.stopped

    def _tell(self, done: int, total: int | None, message: str) -> None:
        if self.callback is None:
            return
        elapsed = time.perf_counter() - self._began
        try:
            if self.callback(Progress(self._stage, done, total, elapsed, message)):
                self.stopped = True
        except KeyboardInterrupt:
            self._interrupt()

    def _speak_at_times(self, done: int, total: int | None, message: str) -> None:
        now = time.perf_counter()
        if now - self._spoke >= SECONDS_BETWEEN_LINES:
            self._spoke = now
            share = f"{done:,}" if total is None else f"{done:,} of {total:,}"
            _speak(f"{self._stage}: {share}" + (f", {message}" if message else ""))

    @contextmanager
    def stoppable(self) -> Iterator[None]:
        """Let Ctrl-C ask the fit to stop and keep its current result; a second Ctrl-C raises.

        Outside this context Ctrl-C raises KeyboardInterrupt as usual. It reaches only the main thread of a program, and
        a handler that the program has installed is left unchanged.
        """
        outer, before, self._stoppable = self._stoppable, self.interrupted, True
        usual = signal.default_int_handler
        ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is usual
        if ours:
            signal.signal(signal.SIGINT, lambda *_: self._interrupt())
        try:
            yield
        finally:
            if ours:
                signal.signal(signal.SIGINT, usual)
            self._stoppable = outer
        if self.interrupted and not before:
            warn(f"Interrupted in the stage '{self._stage}': the result is the one reached so far.")

    def _interrupt(self) -> None:
        if self.interrupted or not self._stoppable:
            raise KeyboardInterrupt
        self.interrupted = self.stopped = True

    def announce(self, what: str, n_bytes: int, instead: str = "") -> None:
        """Announce the size of a large array before it is allocated; raise MemoryError if it is not available."""
        self.memory[what] = max(self.memory.get(what, 0), int(n_bytes))
        text = f"{what}: {n_bytes / 1e6:,.0f} MB"
        available = available_memory()
        if n_bytes > available:
            raise MemoryError(
                f"{text} are needed and {available / 1e6:,.0f} MB are available" + (f"; {instead}." if instead else ".")
            )
        if self.verbose and n_bytes > 1e8:
            _speak(text)
        self._tell(0, None, text)

    def map(
        self, work: Callable[..., T], tasks: Sequence[Any], *, blas: bool = False, stoppable: bool = False
    ) -> list[T]:
        """Call ``work(*task)`` for each task on up to ``n_jobs`` threads; return results in the order of tasks.

        Each task must own what it writes, so the result does not depend on the number of threads. With ``blas=True``
        the tasks call BLAS, which is limited to one thread for any ``n_jobs``. With ``stoppable=True`` progress is
        reported (from the calling thread) and no task is started once the callback has asked to stop.
        """
        results: list[Any] = [None] * len(tasks)
        began = time.perf_counter()
        reported = False
        queue: SimpleQueue[int] = SimpleQueue()
        for i in range(len(tasks)):
            queue.put(i)

        def drain(report: bool = False) -> None:
            nonlocal reported
            with one_blas_thread() if blas else nullcontext():
                while not (stoppable and self.stopped):
                    try:
                        i = queue.get_nowait()
                    except Empty:
                        return
                    results[i] = work(*tasks[i])
                    if report:
                        reported = True
                        self._task_done(len(tasks) - queue.qsize(), len(tasks), stoppable, began)

        helpers: list[Future[None]] = [_pool().submit(drain) for _ in range(min(self.n_jobs, len(tasks)) - 1)]
        try:
            drain(report=True)
        finally:
            _clear(queue)  # not empty only after an error here: the helpers must not start further tasks
            # A helper still waiting for a thread has nothing left to do, and its thread may be waiting for us.
            errors = [helper.exception() for helper in helpers if not helper.cancel()]
        for error in errors:
            if error is not None:
                raise error
        if stoppable and tasks and not reported and not self.stopped:  # the helpers were faster than the calling thread
            self.step(len(tasks), len(tasks))
        return results

    def _task_done(self, done: int, total: int, as_step: bool, began: float) -> None:
        """Report a task of `map`: as a step, or only as a line of ``verbose`` if the map takes long."""
        if as_step:
            self.step(done, total)
        elif self.verbose and time.perf_counter() - began >= SECONDS_BETWEEN_LINES:
            self._speak_at_times(done, total, "")

    def ranges(self, n: int, grain: int) -> list[tuple[int, int]]:
        """Split ``range(n)`` into ranges of ``grain`` rows, independent of ``n_jobs``."""
        grain = max(1, grain)
        return [(lo, min(lo + grain, n)) for lo in range(0, n, grain)]


def _clear(queue: SimpleQueue[int]) -> None:
    """Empty a queue from which other threads read, too."""
    while not queue.empty():
        with suppress(Empty):
            queue.get_nowait()


def _speak(text: str) -> None:
    sys.stderr.write(f"[manifoldry] {text}\n")
    sys.stderr.flush()


def resolve_jobs(n_jobs: int | None) -> int:
    """Return the number of threads for a scikit-learn style ``n_jobs``."""
    cpus = _cpus()
    if n_jobs is None:
        return cpus
    if not isinstance(n_jobs, (int, np.integer)) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a non-zero integer or None; got {n_jobs!r}.")
    return int(n_jobs) if n_jobs > 0 else max(1, cpus + 1 + int(n_jobs))


@cache
def _cpus() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1


_shared: list[ThreadPoolExecutor] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_shared.clear)  # a fork copies the executor but not its threads


def _pool() -> ThreadPoolExecutor:
    """Return the thread pool of the process, created at first use."""
    if not _shared:
        _shared.append(ThreadPoolExecutor(max(32, _cpus()), thread_name_prefix="manifoldry"))
    return _shared[0]


def _entropy(seed: Any) -> int:
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        if seed < 0:
            raise ValueError(f"random_state must be non-negative; got {seed}.")
        return int(seed)
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**32))
    if isinstance(seed, np.random.RandomState):
        return int(seed.randint(2**31 - 1))
    raise ValueError(f"random_state must be None, an integer, a numpy Generator or a RandomState; got {seed!r}.")
