"""One step of a Chebyshev iteration for eight right-hand sides at once."""

from __future__ import annotations

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.cgutils import ir
from numba.extending import intrinsic

from manifoldry._core.kernel import kernel

N_COLUMNS_AT_ONCE = 8  # right-hand sides: as many as there are single-precision numbers in a vector register
ROW_BYTES = 4 * N_COLUMNS_AT_ONCE

_block = "float32[:, ::1]"
_matrix = "int64[::1], uint32[::1], float32[::1]"


@intrinsic
def _subtract_entries(_typing, total, indices, data, block, first, last):  # type: ignore[no-untyped-def]
    """Subtract from a row of eight numbers the rows ``indices[first:last]`` of a block times ``data[first:last]``.

    Arrays are given by their addresses. numba itself does not unite eight sums into one of vectors, which takes a third
    of the time; the order of the operations and their rounding are those of single numbers.
    """

    def generate(_context, builder, _signature, values):  # type: ignore[no-untyped-def]
        lanes = ir.VectorType(ir.FloatType(), N_COLUMNS_AT_ONCE)
        kinds = (lanes, ir.IntType(32), ir.FloatType(), lanes)
        target, index, entry, rows = (
            builder.inttoptr(value, kind.as_pointer()) for value, kind in zip(values, kinds, strict=False)
        )
        total = cgutils.alloca_once_value(builder, builder.load(target, align=4))
        with cgutils.for_range_slice(builder, *values[4:], ir.Constant(ir.IntType(64), 1)) as (e, _):
            row = builder.zext(builder.load(builder.gep(index, [e])), ir.IntType(64))
            number = builder.insert_element(
                ir.Constant(lanes, ir.Undefined), builder.load(builder.gep(entry, [e])), ir.Constant(ir.IntType(32), 0)
            )
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), N_COLUMNS_AT_ONCE), [0] * N_COLUMNS_AT_ONCE)
            factor = builder.shuffle_vector(number, number, everywhere)
            term = builder.fmul(factor, builder.load(builder.gep(rows, [row]), align=4))
            builder.store(builder.fsub(builder.load(total), term), total)
        builder.store(builder.load(total), target, align=4)
        return _context.get_dummy_value()

    return types.void(total, indices, data, block, first, last), generate


@kernel(f"void({_matrix}, {_block}, {_block}, {_block}, {_block}, {_block}, float32, float32, int64, int64)")
def chebyshev_rows(  # type: ignore[no-untyped-def]
    indptr, indices, data, image, right, now, change, after, keep, gain, lo, hi
):
    """Rows ``lo`` to ``hi`` of ``change = keep * change + gain * (right - A image)`` and ``after = now + change``."""
    addresses = indices.ctypes.data, data.ctypes.data, image.ctypes.data
    for i in range(lo, hi):
        for lane in range(N_COLUMNS_AT_ONCE):
            after[i, lane] = right[i, lane]
        _subtract_entries(after.ctypes.data + ROW_BYTES * i, *addresses, indptr[i], indptr[i + 1])
        for lane in range(N_COLUMNS_AT_ONCE):
            change[i, lane] = keep * change[i, lane] + gain * after[i, lane]
            after[i, lane] = now[i, lane] + change[i, lane]


@kernel(f"void({_matrix}, {_block}, {_block}, int64, int64)")
def product_rows(indptr, indices, data, block, image, lo, hi):  # type: ignore[no-untyped-def]
    """Rows ``lo`` to ``hi`` of ``image = A block``."""
    addresses = indices.ctypes.data, data.ctypes.data, block.ctypes.data
    for i in range(lo, hi):
        for lane in range(N_COLUMNS_AT_ONCE):
            image[i, lane] = np.float32(0.0)
        _subtract_entries(image.ctypes.data + ROW_BYTES * i, *addresses, indptr[i], indptr[i + 1])
        for lane in range(N_COLUMNS_AT_ONCE):
            image[i, lane] = -image[i, lane]
