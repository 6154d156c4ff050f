"""The decorator of compiled loops: machine code is cached on disk if possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numba as nb

from manifoldry._core.warnings import warn


def kernel(signature: str | Sequence[str], **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for a signature, without the interpreter's lock.

    numba writes the machine code next to the source, or into the user's cache folder. If neither is writable, as in a
    read-only container without a home directory, or if the disk is full, the function is compiled in every process.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return nb.njit(signature, nogil=True, cache=True, **options)(function)
        except (RuntimeError, OSError) as error:
            if isinstance(error, RuntimeError) and "cannot cache" not in str(error):
                raise
            _report_missing_cache()
            return nb.njit(signature, nogil=True, **options)(function)

    return compiled


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
