"""Normalization of quantized values over rows whose length is known only at run time."""

from __future__ import annotations

from math import ceil, log2, sqrt

from npuc.ir import DType, Value
from npuc.ir.symbolic import largest, smallest
from npuc.lowering.aten_to_tosa.fixed_point import (
    inverse_sqrt,
    multiply,
    number,
    precise_inverse_sqrt,
)
from npuc.lowering.aten_to_tosa.integer_sums import SUM_BITS, Rows, Sum, sum_rows
from npuc.lowering.aten_to_tosa.open_sizes import divided
from npuc.lowering.tosa_builder import TosaBuilder

#: steps of a code's part, of a type's values
FINE = {DType.INT8: 128.0, DType.INT16: 1.0}


def open_variance(
    b: TosaBuilder, x: Value, rows: Rows, free: int, center: bool = True
) -> tuple[Value, Value, float]:
    """(x - mean, sum of its squares over `free`, scale) as INT32.

    A code is FINE steps of the first; one step of the second is worth scale / FINE**2 squared codes.
    """
    fine, dtype, quant = FINE[x.type.dtype], x.type.dtype, x.type.quant
    assert quant is not None
    count = rows.count(x.type.ints)
    codes = b.rescale(x, fine, DType.INT32, in_zp=quant.zp)
    reach = 2.0**dtype.bits * fine
    if center:
        total = sum_rows(
            b, Sum(b.rescale(x, 1.0, DType.INT32, in_zp=quant.zp), 2.0**dtype.bits), rows
        )
        mean, bits = divided(b, total.value, count, 2.0 ** (dtype.bits - total.shift))
        codes = b.SUB(codes, b.rescale(mean, fine * 2.0 ** (total.shift - bits), DType.INT32))
    square = reach**2 / (4 if center and dtype is DType.INT8 else 1)
    first = max(ceil(2 * log2(reach) - SUM_BITS), 0)
    squares = Sum(multiply(b, codes, codes, first), reach**2 * 2.0**-first, first)
    squares = sum_rows(b, squares, rows)
    fewest = smallest(count) / smallest(free)  # where count / free is largest
    most = square * 2.0**-squares.shift * fewest
    variance, bits = divided(b, squares.value, free, most)
    return codes, variance, 2.0 ** (squares.shift - bits)


def open_normalize(
    b: TosaBuilder, x: Value, rows: Rows, eps: float, center: bool, precise: bool
) -> tuple[Value, float]:
    """(x - mean) / sqrt(var + eps) of the quantized `x`: an INT32 and what its step is worth."""
    quant, count = x.type.quant, rows.count(x.type.ints)
    assert quant is not None
    left, variance, scale = open_variance(b, x, rows, count, center)
    tiny = eps / quant.s**2 * FINE[x.type.dtype] ** 2 / scale
    less = max(ceil(log2(max(tiny, 1.0)) - 28), 0)
    if less:
        variance, scale = b.rescale(variance, 2.0**-less, DType.INT32), scale * 2.0**less
    v = b.ADD(variance, number(b, variance, max(round(tiny * 2.0**-less), 1)))
    root = precise_inverse_sqrt(b, v) if precise else inverse_sqrt(b, v)  # 2**29 / sqrt(v)
    # left * root is z * 2**29 / sqrt(scale), and |z| at most sqrt(count)
    unit = 2.0**-29 / sqrt(scale)
    cut = max(ceil(log2(sqrt(largest(count)) / unit) - 29), 0)
    return multiply(b, left, root, cut), unit * 2.0**cut
