"""One fit's circumstances: seed, threads, progress, seconds and memory, in one object."""

from __future__ import annotations

import os
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, lru_cache
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


@dataclass(frozen=True)
class Progress:
    """What a callback is told: the stage, how far it is, and seconds since the fit began."""

    stage: str
    done: int
    total: int | None
    seconds: float
    message: str = ""


Callback = Callable[[Progress], Any]
"""Called with a `Progress`; a true answer asks the fit to stop as soon as it has a usable result."""


class Run:
    """Seed, threads and progress of one fit.

    Parameters
    ----------
    seed : None, int, numpy Generator or RandomState
        Source of all randomness; None takes fresh entropy.
    n_jobs : int, optional
        Threads of the library's own kernels: None or -1 for all, -2 for all but one. The results do not
        depend on it. (BLAS keeps its own setting; see threadpoolctl.)
    verbose : bool
        Write one line per finished stage to the standard error stream.
    callback : callable, optional
        Receives a `Progress` at every step; returning true stops the fit early.
    """

    def __init__(
        self,
        seed: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        callback: Callback | None = None,
    ) -> None:
        self.n_jobs = resolve_jobs(n_jobs)
        self.verbose = bool(verbose)
        self.callback = callback
        self.seconds: dict[str, float] = {}
        self.memory: dict[str, int] = {}
        self.stopped = False
        self._entropy = _entropy(seed)
        self._began = time.perf_counter()
        self._stage = ""

    def rng(self, purpose: str) -> np.random.Generator:
        """Return the random stream of one named purpose; the same seed and purpose give the same numbers."""
        return np.random.default_rng([self._entropy, zlib.crc32(purpose.encode())])

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage under its name and report it; stages may nest, seconds are added per name."""
        outer, self._stage = self._stage, name
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
            self._stage = outer
            if self.verbose:
                sys.stderr.write(f"[manifoldry] {name}: {spent:.2f} s\n")

    def step(self, done: int, total: int | None = None, message: str = "") -> bool:
        """Report a step of the current stage; False once the callback has asked to stop."""
        if self.callback is not None:
            elapsed = time.perf_counter() - self._began
            if self.callback(Progress(self._stage, done, total, elapsed, message)):
                self.stopped = True
        return not self.stopped

    def announce(self, what: str, n_bytes: int, instead: str = "") -> None:
        """Tell the size of a large array before it is taken; refuse what the machine does not have."""
        self.memory[what] = max(self.memory.get(what, 0), int(n_bytes))
        text = f"{what}: {n_bytes / 1e6:,.0f} MB"
        if n_bytes > physical_memory():
            raise MemoryError(
                f"{text} are needed and the machine has {physical_memory() / 1e6:,.0f} MB"
                + (f"; {instead}." if instead else ".")
            )
        if self.verbose and n_bytes > 1e8:
            sys.stderr.write(f"[manifoldry] {text}\n")
        self.step(0, None, text)

    def map(
        self, work: Callable[..., T], tasks: Sequence[Any], *, blas: bool = False, stoppable: bool = False
    ) -> list[T]:
        """Call ``work(*task)`` for each task on up to ``n_jobs`` threads; results in the order of tasks.

        Each task must own what it writes, so the result cannot depend on the number of threads. With
        ``blas=True`` the tasks call BLAS, which is then held to one thread whatever ``n_jobs`` is. With
        ``stoppable=True`` progress is reported (from the calling thread) and no task is begun once the
        callback has asked to stop.
        """
        results: list[Any] = [None] * len(tasks)
        queue: SimpleQueue[int] = SimpleQueue()
        for i in range(len(tasks)):
            queue.put(i)

        def drain(report: bool = False) -> None:
            with one_blas_thread() if blas else nullcontext():
                while not (stoppable and self.stopped):
                    try:
                        i = queue.get_nowait()
                    except Empty:
                        return
                    results[i] = work(*tasks[i])
                    if report:
                        self.step(len(tasks) - queue.qsize(), len(tasks))

        helpers: list[Future[None]] = [_pool().submit(drain) for _ in range(min(self.n_jobs, len(tasks)) - 1)]
        try:
            drain(report=stoppable)
        finally:
            while not queue.empty():  # only after an error here: leave the helpers nothing to begin
                try:
                    queue.get_nowait()
                except Empty:
                    break
            # A helper still waiting for a thread has nothing left to do, and its thread may be waiting for us.
            errors = [helper.exception() for helper in helpers if not helper.cancel()]
        for error in errors:
            if error is not None:
                raise error
        return results

    def ranges(self, n: int, grain: int) -> list[tuple[int, int]]:
        """Cut ``range(n)`` into pieces of ``grain`` rows: a cut that does not depend on ``n_jobs``."""
        grain = max(1, grain)
        return [(lo, min(lo + grain, n)) for lo in range(0, n, grain)]


def resolve_jobs(n_jobs: int | None) -> int:
    """Return the number of threads meant by a scikit-learn style ``n_jobs``."""
    cpus = _cpus()
    if n_jobs is None:
        return cpus
    if not isinstance(n_jobs, (int, np.integer)) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a non-zero integer or None; got {n_jobs!r}.")
    return int(n_jobs) if n_jobs > 0 else max(1, cpus + 1 + int(n_jobs))


def physical_memory() -> int:
    """Bytes of memory in this machine; a very large number where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


@cache
def _cpus() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1


_shared: list[ThreadPoolExecutor] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_shared.clear)  # a fork takes the executor but not its threads


def _pool() -> ThreadPoolExecutor:
    """Return the one pool of the process, made at first use."""
    if not _shared:
        _shared.append(ThreadPoolExecutor(max(32, _cpus()), thread_name_prefix="manifoldry"))
    return _shared[0]


class _SharedBlasLimit:
    """One thread for every BLAS with one setting per process; contexts of several threads may overlap.

    The first context to be entered saves and lowers the numbers of threads, the last to be left restores them.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._held: Counter[int] = Counter()
        self._former: dict[str, tuple[Any, int]] = {}

    def enter(self, libraries: Sequence[Any]) -> None:
        """Lower what is not lowered yet: everything, or a library that was loaded since."""
        with self.lock:
            for library in libraries:
                if library.filepath not in self._former:
                    self._former[library.filepath] = library, library.get_num_threads()
                    _set_threads(library, 1)
            self._held[threading.get_ident()] += 1

    def leave(self) -> None:
        """Restore the former numbers if this was the last context."""
        with self.lock:
            self._held[threading.get_ident()] -= 1
            self._restore_if_free()

    def after_fork(self) -> None:
        """Forget, in the child, the contexts of threads that a fork does not take along; release the fork's lock."""
        self._held = Counter({threading.get_ident(): self._held[threading.get_ident()]})
        self._restore_if_free()
        self.lock.release()

    def _restore_if_free(self) -> None:
        self._held = +self._held
        if not self._held:
            for library, threads in self._former.values():
                _set_threads(library, threads)
            self._former.clear()


_blas_limit = _SharedBlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_blas_limit.lock.acquire,
        after_in_parent=_blas_limit.lock.release,
        after_in_child=_blas_limit.after_fork,
    )


@contextmanager
def one_blas_thread(openmp: bool = True) -> Iterator[None]:
    """Hold BLAS to one thread; contexts of several threads may overlap, and the last to be left restores the setting.

    Also to be held around what limits BLAS by itself, as scikit-learn's k-means and exact neighbor search do: its limit
    would restore the single thread that it found in a context of another thread.

    Parameters
    ----------
    openmp : bool
        Limit a BLAS with the threads of OpenMP, too, whose number belongs to the calling thread. False where loops of
        OpenMP run inside: they would get one thread as well.
    """
    shared, own = _blas_libraries(len(sys.modules))
    former = [(library, library.get_num_threads()) for library in own if openmp]
    for library, _ in former:
        library.set_num_threads(1)
    _blas_limit.enter(shared)
    try:
        yield
    finally:
        _blas_limit.leave()
        for library, threads in former:
            library.set_num_threads(threads)


@lru_cache(maxsize=1)
def _blas_libraries(n_modules: int) -> tuple[list[Any], list[Any]]:  # noqa: ARG001
    """Return the BLAS libraries with one number of threads per process, and those with one per calling thread.

    They are looked up anew (3 ms) once a module more may have brought another.
    """
    from threadpoolctl import ThreadpoolController

    blas = ThreadpoolController().select(user_api="blas")
    own = blas.select(internal_api="openblas").select(threading_layer="openmp").lib_controllers
    return [library for library in blas.lib_controllers if library not in own], own


def _set_threads(library: Any, threads: int) -> None:
    # From 3.8 on, threadpoolctl lets a single thread at a time set OpenBLAS and silently ignores the others.
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(threads)
    if release is not None:
        release()


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
