"""The decorator of compiled loops: machine code is cached on disk if possible."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba as nb
from numba.core.caching import NullCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.sigutils import normalize_signature

from manifoldry._core.warnings import warn


def kernel(signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function at its first call, for the signature declared (or the one of several that fits the call).

    It releases the interpreter's lock. numba writes the machine code next to the source, or into the user's cache
    folder. If neither is writable, as in a read-only container without a home directory, or if the disk is full, the
    function is compiled in every process.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            dispatcher = nb.njit(nogil=True, cache=True, **options)(function)
        except (RuntimeError, OSError) as error:
            if isinstance(error, RuntimeError) and "cannot cache" not in str(error):
                raise
            _report_missing_cache()
            dispatcher = nb.njit(nogil=True, **options)(function)
        dispatcher.compile = _declared(dispatcher, signature if isinstance(signature, list) else [signature])
        return dispatcher

    return compiled


def _declared(dispatcher: Any, signatures: list[Any]) -> Callable[[Any], Any]:
    """Return a function that compiles for the declared signature to which types of arguments convert.

    A module of loops would take seconds if all were compiled when it is imported, and a fit runs few of them.
    """
    compile_now = dispatcher.compile

    def fits(types: Any, declared: Any) -> bool:
        convert = dispatcher.typingctx.can_convert
        return len(types) == len(declared) and all(
            convert(*pair) is not None for pair in zip(types, declared, strict=True)
        )

    def compile_declared(types: Any) -> Any:
        with global_compiler_lock:
            declared = [normalize_signature(signature)[0] for signature in signatures]
            number = [fits(types, arguments) for arguments in declared].index(True)
            if declared[number] not in dispatcher.overloads:
                try:
                    compile_now(signatures[number])
                except OSError:
                    _report_missing_cache()
                    dispatcher._cache = NullCache()
                    compile_now(signatures[number])
                if len(dispatcher.overloads) == len(signatures):
                    dispatcher.disable_compile()  # from here on arguments are converted without asking again
            return dispatcher.overloads[declared[number]].entry_point

    return compile_declared


@cache
def _report_missing_cache() -> None:
    """Warn once per process."""
    warn(
        "Compiled code cannot be cached, because neither the installation nor the user's cache folder can be written "
        "to. It is compiled again in every process, which takes a few seconds. Set the environment variable "
        "NUMBA_CACHE_DIR to a writable folder to avoid this.",
        UserWarning,
        now=True,
    )


part = nb.njit(nogil=True)
"""The decorator of a part of compiled loops, which is stored with each of them: loading it takes no time of its own."""
