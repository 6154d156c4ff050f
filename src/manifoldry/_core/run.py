"""The context of one fit: seed, threads, progress, seconds and memory; and the threads of BLAS and OpenMP."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from manifoldry._core.memory import available_memory
from manifoldry._core.warnings import warn

if TYPE_CHECKING:
    from manifoldry._core.device import Device

SECONDS_BETWEEN_LINES = 1.0  # minimum time between two lines of verbose about the same stage
MAX_SECONDS = 1800.0
"""Predicted seconds of one core from which a fit is started only if a callback can end it or ``verbose`` shows it."""
N_CALLED = 4  # threads that each thread of a map calls: the caller soon works itself, and short tasks call few
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

    All randomness comes from ``seed``: a number, a generator, or None for fresh entropy. ``n_jobs`` are the threads of
    the library's own kernels, None or -1 for all, -2 for all but one; results do not depend on it. ``stopped`` says
    whether the callback or Ctrl-C (``interrupted``) has asked to stop. ``gpu`` is the GPU on which stages run that have
    loops for it, None for the CPU, and ``device`` its description.
    """

    gpu: Device | None = None
    device: str = "cpu"

    def __init__(
        self,
        seed: Any = None,
        n_jobs: int | None = None,
        verbose: bool | int = False,
        callback: Callback | None = None,
        *,
        device: str = "cpu",
    ) -> None:
        if device != "cpu":
            from manifoldry._core.device import find_device

            self.gpu, self.device = find_device(device)
        self.n_jobs = resolve_jobs(n_jobs)
        self.verbose = bool(verbose)
        self.callback = callback
        self.seconds: dict[str, float] = {}
        self.memory: dict[str, int] = {}
        self.stopped = self.interrupted = self._stoppable = False
        self._entropy = _entropy(seed)
        self._began = self._spoke = self._stage_began = time.perf_counter()
        self._stage = ""

    def on_gpu(self, given: Any = None, rows: Any = None) -> AbstractContextManager[None]:
        """Use the GPU, if there is one, for the checked ``rows`` of the input ``given``: see `Device.used`."""
        return nullcontext() if self.gpu is None else self.gpu.used(given, rows)

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
        outer = self._stage, self._stage_began
        start = self._spoke = time.perf_counter()
        self._stage, self._stage_began = name, start
        if self.verbose:
            _speak(f"{name} ...")
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
            self._stage, self._stage_began = outer
            if self.verbose:
                _speak(f"{name}: {spent:.2f} s")

    def step(self, done: int, total: int | None = None, message: str = "") -> bool:
        """Report a step of the current stage; return False once the callback or Ctrl-C has asked to stop."""
        if self.verbose:
            self._speak_at_times(done, total, message, self._stage_began)
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

    def _speak_at_times(self, done: int, total: int | None, message: str, began: float) -> None:
        now = time.perf_counter()
        if now - self._spoke >= SECONDS_BETWEEN_LINES:
            self._spoke = now
            share = f"{done:,}" if total is None else f"{done:,} of {total:,}"
            left = (
                f", about {duration((now - began) * (total - done) / done)} left" if total and 0 < done < total else ""
            )
            _speak(f"{self._stage}: {share}{left}" + (f", {message}" if message else ""))

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

    def announce(self, what: str, n_bytes: int, instead: str = "", available: int | None = None) -> None:
        """Announce the size of a large array; raise MemoryError if it is not ``available`` (asked for by default)."""
        self.memory[what] = max(self.memory.get(what, 0), int(n_bytes))
        text = f"{what}: {n_bytes / 1e6:,.0f} MB"
        available = available_memory() if available is None else available
        if n_bytes > available:
            raise MemoryError(
                f"{text} are needed and {available / 1e6:,.0f} MB are available" + (f"; {instead}." if instead else ".")
            )
        if self.verbose and n_bytes > 1e8:
            _speak(text)
        self._tell(0, None, text)

    def announce_time(self, what: str, seconds: float, instead: str) -> None:
        """Announce a long time before the work begins; raise ValueError without a callback or ``verbose``."""
        if seconds <= MAX_SECONDS:
            return
        text = f"{what} would take about {duration(seconds)}"
        if self.callback is None and not self.verbose:
            raise ValueError(
                f"{text}: {instead}, or fit a sample of the rows. verbose=True also allows the fit and shows its "
                "progress; so does a callback, which can end an iteration with the result reached: "
                "callback=lambda progress: progress.seconds > 3600."
            )
        if self.verbose:
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
        if len(tasks) == 1 and not stoppable:
            with one_blas_thread() if blas else nullcontext():
                return [work(*tasks[0])]
        results: list[Any] = [None] * len(tasks)
        began, reported = time.perf_counter(), False
        queue: SimpleQueue[int] = SimpleQueue()
        for i in range(len(tasks)):
            queue.put(i)
        helpers: list[Future[None]] = []
        others = iter(range(min(self.n_jobs, len(tasks)) - 1))

        def drain(same: Callable[..., None], report: bool = False) -> None:  # a reference to itself would keep results
            nonlocal reported
            for _ in islice(others, N_CALLED if queue.qsize() else 0):
                helpers.append(_pool().submit(same, same))
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

        try:
            drain(drain, report=True)
        finally:
            _clear(queue)  # only after an error here: the helpers must not start further tasks
            # A helper still waiting for a thread has nothing left to do, and its thread may be waiting for us.
            errors = [helper.exception() for helper in helpers if not helper.cancel()]
        for error in filter(None, errors):
            raise error
        if stoppable and tasks and not reported and not self.stopped:  # the helpers were faster than the calling thread
            self.step(len(tasks), len(tasks))
        return results

    def team(self, loop: Callable[..., None], *args: Any) -> None:
        """Call the compiled ``loop(tickets, *args)`` on up to ``n_jobs`` threads, which share its blocks by tickets.

        See `manifoldry._core.team`. Between two calls of `step` a loop may run many iterations, each of several phases.
        """
        from manifoldry._core.team import FAILED, new_tickets

        tickets = new_tickets()

        def enter() -> None:
            try:
                loop(tickets, *args)
            except BaseException:
                tickets[FAILED] = 1  # the others must not wait for a block that will never be done
                raise

        self.map(enter, [()] * self.n_jobs)

    def _task_done(self, done: int, total: int, as_step: bool, began: float) -> None:
        """Report a task of `map`: as a step, or only as a line of ``verbose`` if the map takes long."""
        if as_step:
            self.step(done, total)
        elif self.verbose and time.perf_counter() - began >= SECONDS_BETWEEN_LINES:
            self._speak_at_times(done, total, "", began)

    def ranges(self, n: int, grain: int) -> list[tuple[int, int]]:
        """Split ``range(n)`` into ranges of ``grain`` rows, independent of ``n_jobs``."""
        grain = max(1, grain)
        return [(lo, min(lo + grain, n)) for lo in range(0, n, grain)]

    def shares(self, n: int, grain: int) -> list[tuple[int, int]]:
        """Split ``range(n)`` into few ranges of at least ``grain`` rows, for loops whose rows own their results.

        Any split gives them the same result. Every task costs turns at the interpreter's lock, for which many threads
        queue, so there are four per thread: enough to even out a thread that is held up.
        """
        return self.ranges(n, max(grain, -(-n // (4 * self.n_jobs))))


def _clear(queue: SimpleQueue[int]) -> None:
    while not queue.empty():
        with suppress(Empty):
            queue.get_nowait()


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes or hours, to two digits."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5970 else f"{float(f'{seconds / 3600:.2g}'):,g} hours"


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


# Threads of BLAS and OpenMP: one for small work, where several would only wait for each other.

MAX_SERIAL_ORDER = 4000
"""Largest order of a matrix that is factored by one thread. The threads of a factorization wait for each other at every
block of columns: on two busy cores a Cholesky factor of order 1,000 takes one thread 0.07 s and two 4.5 s."""
MAX_SERIAL_PRODUCT = 2_000_000_000
"""Maximum number of multiplications of a product for one thread, a tenth of a second: its threads hardly wait."""


def blas_threads_for(order: int, depth: int | None = None) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for small matrices, and give it all its threads for large ones.

    The matrix of an ``order`` is factored; with a ``depth``, the inner dimension, it is the result of a product.
    """
    small = order <= MAX_SERIAL_ORDER if depth is None else order**2 * depth <= MAX_SERIAL_PRODUCT
    return one_blas_thread() if small else _blas_limit.lifted()


class _SharedBlasLimit:
    """Limits every BLAS with one setting per process to one thread; contexts of several threads may overlap.

    The first context saves and lowers the numbers of threads, the last one restores them.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._held: Counter[int] = Counter()
        self._former: dict[str, tuple[Any, int]] = {}
        self._lifted = False

    def enter(self, libraries: Sequence[Any]) -> None:
        """Limit the libraries that are not limited yet: all, or those loaded since."""
        with self.lock:
            for library in libraries:
                new = library.filepath not in self._former
                if new:
                    self._former[library.filepath] = library, library.get_num_threads()
                if new or self._lifted:
                    _set_threads(library, 1)
            self._held[threading.get_ident()] += 1

    def leave(self) -> None:
        """Restore the former numbers if this was the last context."""
        with self.lock:
            self._held[threading.get_ident()] -= 1
            self._restore_if_free()

    @contextmanager
    def lifted(self) -> Iterator[None]:
        """Restore the former numbers temporarily, unless another thread has a context, too."""
        with self.lock:
            alone = list(+self._held) == [threading.get_ident()] and not self._lifted
            if alone:
                self._lifted = True
                for library, threads in self._former.values():
                    _set_threads(library, threads)
        try:
            yield
        finally:
            with self.lock:
                if alone:
                    self._lifted = False
                    for library, _ in self._former.values():
                        _set_threads(library, 1)

    def after_fork(self) -> None:
        """In the child, drop the contexts of threads that a fork does not copy; release the fork's lock."""
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
        before=_blas_limit.lock.acquire, after_in_parent=_blas_limit.lock.release, after_in_child=_blas_limit.after_fork
    )


@contextmanager
def one_blas_thread(openmp: bool = True) -> Iterator[None]:
    """Limit BLAS to one thread; contexts of several threads may overlap, and the last one restores the setting.

    Also needed around code that limits BLAS itself, such as scikit-learn's k-means and exact neighbor search: it would
    restore the single thread that another thread's context had set. ``openmp`` also limits a BLAS with OpenMP threads,
    whose number belongs to the calling thread; False if OpenMP loops run inside, which would get one thread, too.
    """
    shared, own = _blas_libraries(len(sys.modules))
    with _one_thread_of(own if openmp else []):
        _blas_limit.enter(shared)
        try:
            yield
        finally:
            _blas_limit.leave()


def openmp_threads_for(multiplications: int) -> AbstractContextManager[None]:
    """Limit OpenMP loops in other packages to one thread if their work is at most `MAX_SERIAL_PRODUCT`.

    The number belongs to the calling thread. Neighbors of 600 digits by scikit-learn, on two busy cores: 0.45 s with
    two threads, 0.014 s with one.
    """
    small = multiplications <= MAX_SERIAL_PRODUCT
    return _one_thread_of(_openmp_libraries(len(sys.modules)) if small else [])


@contextmanager
def _one_thread_of(libraries: Sequence[Any]) -> Iterator[None]:
    """Limit libraries whose number of threads belongs to the calling thread."""
    former = [(library, library.get_num_threads()) for library in libraries]
    for library, _ in former:
        library.set_num_threads(1)
    try:
        yield
    finally:
        for library, threads in former:
            library.set_num_threads(threads)


@lru_cache(maxsize=1)
def _openmp_libraries(n_modules: int) -> list[Any]:  # noqa: ARG001
    """Return the OpenMP libraries; ``n_modules`` refreshes the cache after new imports."""
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="openmp").lib_controllers)


@lru_cache(maxsize=1)
def _blas_libraries(n_modules: int) -> tuple[list[Any], list[Any]]:  # noqa: ARG001
    """Return the BLAS libraries with one number of threads per process, and those with one per calling thread.

    ``n_modules`` refreshes the cache (3 ms) after new imports.
    """
    from threadpoolctl import ThreadpoolController

    blas = ThreadpoolController().select(user_api="blas")
    own = blas.select(internal_api="openblas").select(threading_layer="openmp").lib_controllers
    return [library for library in blas.lib_controllers if library not in own], own


def _set_threads(library: Any, threads: int) -> None:
    # Since 3.8, threadpoolctl allows only one thread at a time to set OpenBLAS and silently ignores the others.
    release = getattr(library, "clear_controlling_thread", None)
    if release is not None:
        release(force=True)
    library.set_num_threads(threads)
    if release is not None:
        release()
