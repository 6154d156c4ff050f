"""Complex Fourier transforms of many lines at once: every operation acts on the same entry of `LANES` lines.

Entry k of a line has its real parts at ``data[2 k LANES]`` and its imaginary parts `LANES` later. Transforms leave
their frequencies in the order of `plan`, and inverse transforms begin with it: a convolution needs no other one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numba.core.cgutils import ir
from numba.extending import intrinsic

from manifoldry._core.values import IntArray

LANES = 16  # lines at once: a vector register of AVX-512, two of AVX2, four of NEON
RADICES = (5, 3, 4, 2)
_flags = ("contract", "nsz", "reassoc")
_vector, _int32, _int64 = ir.VectorType(ir.FloatType(), LANES), ir.IntType(32), ir.IntType(64)


class Axis(NamedTuple):
    """The transform along one axis: its factors, roots of unity for its steps, and the turns of a half-shifted one."""

    radices: Any
    twiddles: Any
    turns: Any


AXIS = nb.types.NamedTuple([nb.int64[::1], nb.float32[::1], nb.float32[:, ::1]], Axis)


def plan(n: int) -> tuple[Axis, IntArray]:
    """Return the transform of ``n`` entries, a product of 2, 3 and 5, and the frequencies in their order."""
    radices: list[int] = []
    for radix in RADICES:
        while n % (int(np.prod(radices)) * radix) == 0:
            radices.append(radix)
    twiddles, frequencies, length = [], np.zeros(n, dtype=np.int64), n
    for radix in radices:
        rest = length // radix
        frequencies += n // length * (np.arange(n) // rest % radix)
        twiddles.append(np.exp(-2j * np.pi / length * np.outer(np.arange(rest), np.arange(1, radix))).reshape(-1))
        length = rest
    turns = np.exp(-0.5j * np.pi / n * np.arange(n))
    pairs = [array.astype(np.complex64).view(np.float32) for array in (np.concatenate(twiddles), turns)]
    return Axis(np.array(radices), pairs[0], pairs[1].reshape(n, 2)), frequencies


class _Waves:
    """A vector of complex numbers in generated code."""

    def __init__(self, builder: Any, real: Any, imag: Any) -> None:
        self.builder, self.real, self.imag = builder, real, imag

    def __add__(self, other: _Waves) -> _Waves:
        add = self.builder.fadd
        return _Waves(self.builder, add(self.real, other.real, flags=_flags), add(self.imag, other.imag, flags=_flags))

    def __sub__(self, other: _Waves) -> _Waves:
        sub = self.builder.fsub
        return _Waves(self.builder, sub(self.real, other.real, flags=_flags), sub(self.imag, other.imag, flags=_flags))

    def __mul__(self, factor: float) -> _Waves:
        mul, constant = self.builder.fmul, ir.Constant(_vector, [factor] * LANES)
        return _Waves(self.builder, mul(self.real, constant, flags=_flags), mul(self.imag, constant, flags=_flags))

    def turned(self, sign: int) -> _Waves:
        """Return this times i, or -i."""
        negative = self.builder.fneg(self.imag if sign > 0 else self.real)
        return _Waves(self.builder, *((negative, self.real) if sign > 0 else (self.imag, negative)))

    def times(self, other: _Waves) -> _Waves:
        def product(a: Any, b: Any) -> Any:
            return self.builder.fmul(a, b, flags=_flags)

        real = self.builder.fsub(product(self.real, other.real), product(self.imag, other.imag), flags=_flags)
        imag = self.builder.fadd(product(self.real, other.imag), product(self.imag, other.real), flags=_flags)
        return _Waves(self.builder, real, imag)


def _short_transform(x: list[_Waves], sign: int) -> list[_Waves]:
    """Return the transform of two to five numbers, with exponents of this sign."""
    if len(x) == 2:
        return [x[0] + x[1], x[0] - x[1]]
    if len(x) == 3:
        both, turn = x[1] + x[2], (x[1] - x[2]).turned(sign) * float(np.sqrt(3) / 2)
        middle = x[0] - both * 0.5
        return [x[0] + both, middle + turn, middle - turn]
    if len(x) == 4:
        even, odd, turn = x[0] + x[2], x[1] + x[3], (x[1] - x[3]).turned(sign)
        return [even + odd, x[0] - x[2] + turn, even - odd, x[0] - x[2] - turn]
    cos1, cos2, sin1, sin2 = (float(f(t * np.pi / 5)) for f in (np.cos, np.sin) for t in (2, 4))
    near, far = x[1] + x[4], x[2] + x[3]
    turn, twist = (x[1] - x[4]).turned(sign), (x[2] - x[3]).turned(sign)
    a, b = x[0] + near * cos1 + far * cos2, x[0] + near * cos2 + far * cos1
    c, d = turn * sin1 + twist * sin2, turn * sin2 - twist * sin1
    return [x[0] + near + far, a + c, b + d, b - d, a - c]


def _step(radix: int, inverse: bool) -> Any:
    """Return a compiled step ``(data, at, stride, twiddles, first)``: entries at, at + stride, ... of all lanes."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lines, table = (context.make_array(signature.args[k])(context, builder, args[k]).data for k in (0, 3))
        at, stride, first = args[1], args[2], args[4]

        def place(q: int, part: int) -> Any:
            entry = builder.add(at, builder.mul(stride, _int64(q)))
            offset = builder.add(builder.mul(entry, _int64(2 * LANES)), _int64(part * LANES))
            return builder.bitcast(builder.gep(lines, [offset]), _vector.as_pointer())

        def same(offset: int) -> Any:
            value = builder.load(builder.gep(table, [builder.add(first, _int64(offset))]))
            one = builder.insert_element(ir.Constant(_vector, ir.Undefined), value, _int32(0))
            return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(_int32, LANES), [0] * LANES))

        def twisted(x: list[_Waves]) -> list[_Waves]:
            roots = [_Waves(builder, same(2 * q), same(2 * q + 1)) for q in range(radix - 1)]
            if inverse:
                roots = [_Waves(builder, root.real, builder.fneg(root.imag)) for root in roots]
            return [x[0], *(wave.times(root) for wave, root in zip(x[1:], roots, strict=True))]

        x = [_Waves(builder, *(builder.load(place(q, part), align=4) for part in (0, 1))) for q in range(radix)]
        x = _short_transform(twisted(x), 1) if inverse else twisted(_short_transform(x, -1))
        for q, wave in enumerate(x):
            builder.store(wave.real, place(q, 0), align=4)
            builder.store(wave.imag, place(q, 1), align=4)
        return context.get_dummy_value()

    @intrinsic
    def step(typing_context, data, at, stride, twiddles, first):  # type: ignore[no-untyped-def]  # noqa: ARG001
        return nb.void(data, nb.int64, nb.int64, twiddles, nb.int64), code

    return step


def _stage(inverse: bool) -> Any:
    """Return a compiled loop over the steps of one radix, whose entries are ``stride`` apart."""
    step2, step3, step4, step5 = (_step(radix, inverse) for radix in (2, 3, 4, 5))

    @nb.njit
    def stage(data, radix, stride, twiddles, first):  # type: ignore[no-untyped-def]
        for start in range(0, len(data) // (2 * LANES), radix * stride):
            for j in range(stride):
                k = first + 2 * j * (radix - 1)
                if radix == 4:
                    step4(data, start + j, stride, twiddles, k)
                elif radix == 2:
                    step2(data, start + j, stride, twiddles, k)
                elif radix == 3:
                    step3(data, start + j, stride, twiddles, k)
                else:
                    step5(data, start + j, stride, twiddles, k)

    return stage


_ahead, _back = _stage(False), _stage(True)


@nb.njit
def transform_lines(data, axis):  # type: ignore[no-untyped-def]
    """Replace `LANES` lines by their Fourier transforms, in the order of `plan`."""
    stride, first = len(data) // (2 * LANES), 0
    for radix in axis.radices:
        stride //= radix
        _ahead(data, radix, stride, axis.twiddles, first)
        first += 2 * stride * (radix - 1)


@nb.njit
def transform_back(data, axis):  # type: ignore[no-untyped-def]
    """Undo `transform_lines`, times the number of entries: its stages in reverse."""
    stride, first = 1, len(axis.twiddles)
    for radix in axis.radices[::-1]:
        first -= 2 * stride * (radix - 1)
        _back(data, radix, stride, axis.twiddles, first)
        stride *= radix
