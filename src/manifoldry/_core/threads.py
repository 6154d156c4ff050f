"""Threads of BLAS and OpenMP: one for small work, where several would only wait for each other."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any

MAX_SERIAL_ORDER = 4000
"""Largest order of a matrix that is factored by one thread. The threads of a factorization wait for each other at every
block of columns, on a busy machine for a time slice each. Seconds, one thread and two, on two cores with a dozen other
processes: Cholesky of order 200 0.0003 and 0.6, 1,000 0.07 and 4.5, 2,000 0.4 and 11, 3,000 1.5 and 3 to 15; all
eigenvectors at 1,000 0.8 and 15 to 22, 2,000 6 and 24 to 40. On an idle machine one thread takes a second for the
Cholesky factor of this order, and two can save half of it."""

MAX_SERIAL_PRODUCT = 2_000_000_000
"""Maximum number of multiplications of a matrix product for one thread: a tenth of a second. The threads of a product
wait for each other only once or twice, so large products are not slowed down on a busy machine."""


def blas_threads_for(order: int, depth: int | None = None) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for small matrices, and give it all its threads for large ones.

    Parameters
    ----------
    order : int
        Order of the matrix that is factored, or rows and columns of the product.
    depth : int, optional
        Inner dimension of the product; None for a factorization.
    """
    small = order <= MAX_SERIAL_ORDER if depth is None else order**2 * depth <= MAX_SERIAL_PRODUCT
    return one_blas_thread() if small else _all_blas_threads()


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
                if library.filepath not in self._former:
                    self._former[library.filepath] = library, library.get_num_threads()
                    _set_threads(library, 1)
                elif self._lifted:
                    _set_threads(library, 1)
            self._held[threading.get_ident()] += 1

    def leave(self) -> None:
        """Restore the former numbers if this was the last context."""
        with self.lock:
            self._held[threading.get_ident()] -= 1
            self._restore_if_free()

    def lift(self) -> bool:
        """Restore the former numbers temporarily if all contexts belong to this thread; return whether they do."""
        with self.lock:
            alone = list(+self._held) == [threading.get_ident()] and not self._lifted
            if alone:
                self._lifted = True
                for library, threads in self._former.values():
                    _set_threads(library, threads)
            return alone

    def lower(self) -> None:
        """Undo `lift`."""
        with self.lock:
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
    restore the single thread that another thread's context had set.

    Parameters
    ----------
    openmp : bool
        Also limit a BLAS with OpenMP threads, whose number belongs to the calling thread. False if OpenMP loops run
        inside: they would get one thread, too.
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


@contextmanager
def _all_blas_threads() -> Iterator[None]:
    """Give BLAS its threads again inside `one_blas_thread`, unless another thread limits it."""
    lifted = _blas_limit.lift()
    try:
        yield
    finally:
        if lifted:
            _blas_limit.lower()


@contextmanager
def openmp_threads_for(multiplications: int) -> Iterator[None]:
    """Limit OpenMP loops in other packages to one thread if their work is at most `MAX_SERIAL_PRODUCT`.

    The number belongs to the calling thread. Neighbors of 600 digits by scikit-learn, on two cores with a dozen other
    processes: 0.45 s with two threads, 0.014 s with one.
    """
    small = multiplications <= MAX_SERIAL_PRODUCT
    former = [(library, library.get_num_threads()) for library in _openmp_libraries(len(sys.modules)) if small]
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
