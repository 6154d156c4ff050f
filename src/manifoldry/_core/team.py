"""Tickets by which threads share the blocks of many short phases inside one compiled call.

An iterative loop enters compiled code once per thread for many iterations (`Run.team`). Every phase of an iteration is
cut into fixed blocks, which are numbered through all phases. A thread draws the next number, waits until all blocks of
earlier phases are done, and runs its block::

    while True:
        number = draw(tickets)
        phase, block = divmod(number, n_blocks)
        if phase >= n_phases or not ready(tickets, phase * n_blocks):
            return
        ...  # the rows of the block, which own what they write
        finish(tickets)

No thread waits for one that holds no block. So the calling thread alone suffices, helpers may come late, and a busy
machine delays one block instead of a share of all rows. The result does not depend on which thread ran a block.
"""

from __future__ import annotations

import sys
from typing import Any

import numba as nb
import numpy as np
from numba.core import cgutils
from numba.extending import intrinsic

DRAWN, DONE, FAILED = 0, 8, 16
"""Entries of the tickets, each in a cache line of its own: blocks drawn, blocks done, and whether a thread failed."""
N_SPINS = 200  # looks at the counter, some microseconds, before a waiting thread offers its core to others
N_OFFERS = 100  # offers, some tens of microseconds, before it sleeps: it would take time from those that work
TICKETS = "int64[::1]"

_offer_core = nb.types.ExternalFunction(
    "SwitchToThread" if sys.platform == "win32" else "sched_yield", nb.types.int32()
)
# A sleep of 50 microseconds; on Windows none is that short.
_sleep = _offer_core if sys.platform == "win32" else nb.types.ExternalFunction("usleep", nb.types.int32(nb.uint32))
_SLEEP = () if sys.platform == "win32" else (50,)


def new_tickets() -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return tickets of which none is drawn."""
    return np.zeros(24, dtype=np.int64)


def _entry(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return cgutils.gep_inbounds(builder, data, index)


@intrinsic
def _add(typing_context, array, index, value):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Add to an entry in one step that threads cannot interleave, and return the former value."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        place = _entry(context, builder, signature.args[0], args[0], args[1])
        return builder.atomic_rmw("add", place, args[2], "seq_cst")

    return nb.int64(array, nb.int64, nb.int64), code


@intrinsic
def _look(typing_context, array, index):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Return an entry that another thread may be changing; what that thread wrote before is visible, too."""

    def code(context, builder, signature, args):  # type: ignore[no-untyped-def]
        place = _entry(context, builder, signature.args[0], args[0], args[1])
        return builder.load_atomic(place, "seq_cst", 8)

    return nb.int64(array, nb.int64), code


@nb.njit(inline="always")
def draw(tickets):  # type: ignore[no-untyped-def]
    """Return the number of the next block; numbers from the number of all blocks on say that none is left."""
    return _add(tickets, DRAWN, 1)


@nb.njit(inline="always")
def finish(tickets):  # type: ignore[no-untyped-def]
    """Say that the block drawn last by this thread is done."""
    _add(tickets, DONE, 1)


@nb.njit
def ready(tickets, n_before):  # type: ignore[no-untyped-def]
    """Wait until the blocks before number ``n_before`` are done; return False if one of them failed."""
    spins = 0
    while _look(tickets, DONE) < n_before:
        if _look(tickets, FAILED) != 0:
            return False
        spins += 1
        if spins > N_SPINS + N_OFFERS:
            _sleep(*_SLEEP)
        elif spins > N_SPINS:
            _offer_core()
    return True
