"""Requantizations that could not be merged, in forms that Ethos-U runs faster than a RESCALE.

Bit-identical: a TABLE of all 256 results, or a product with 1 whose output RESCALE is the old one.
Cycles per element of a lone RESCALE are 1.0 / 0.53 (U55 / U85), of a TABLE behind an operator about
0, of the product 0.75 / 0.25 (Vela 5.2).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.execute.kernels import KERNELS
from npuc.ir import DType, Graph, Op, Quant, Value, sweep
from npuc.passes.count_waste import is_lone, moves_data
from npuc.passes.uses import count_uses

#: operators that a TABLE fuses with, besides those that end in a RESCALE of their accumulator
TABLE_FUSES = ("AVG_POOL2D", "MAX_POOL2D", "CLAMP")
ONE = (1 << 30, 30)

Cheapen = Callable[[OpBuilder, Op, tuple[Value, ...]], Value]


def cheapen_rescales(graph: Graph, limits: Limits) -> Graph:
    """A lone RESCALE -> a TABLE behind an operator without other readers, else a product with 1."""
    return replace_rescales(graph, limits, as_product)


def replace_rescales(graph: Graph, limits: Limits, cheapen: Cheapen) -> Graph:
    """A lone RESCALE -> a TABLE where it fuses, else what `cheapen` makes of it."""
    uses = count_uses(graph)

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if not is_candidate(op):
            return None
        try:
            if fuses_table(op, operands[0], uses[op.operands[0]]):
                return (as_table(b, op, operands),)
            return (cheapen(b, op, operands),)
        except Unsupported:
            return None

    return sweep(graph, rewrite, OpBuilder(limits))


def is_candidate(op: Op) -> bool:
    """A RESCALE from a narrow type to a narrow type, with constants, of static shape."""
    if op.kind != "tosa.RESCALE" or not is_lone(op) or op.attrs["per_channel"]:
        return False
    if op.attrs["input_unsigned"] or op.attrs["output_unsigned"]:
        return False
    return all(v.is_const for v in op.operands[1:]) and op.results[0].type.is_static


def fuses_table(op: Op, x: Value, readers: int) -> bool:
    """Whether a TABLE in place of the RESCALE is run by the operator that computes `x`."""
    maker = x.op
    types = (op.operands[0].type.dtype, op.results[0].type.dtype)
    if types != (DType.INT8, DType.INT8) or readers != 1 or maker is None:
        return False
    if maker.kind == "tosa.RESCALE":
        return maker.operands[0].type.dtype in (DType.INT32, DType.INT48)
    if maker.kind == "tosa.TRANSPOSE":
        return moves_data(maker)
    return maker.kind.startswith("tosa.") and maker.name in TABLE_FUSES


def as_table(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> Value:
    """RESCALE of int8 as a TABLE of its results."""
    codes = np.arange(-128, 128).astype(np.int8)
    entries = KERNELS["RESCALE"](op, codes, *(v.array for v in operands[1:]))
    return b.TABLE(operands[0], b.const(entries, DType.INT8), quant=op.results[0].type.quant)  # type: ignore[no-any-return]


def as_product(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> Value:
    """RESCALE as MUL with 1; both factors go through RESCALEs by one, which Vela fuses."""
    x, _, _, zp_in, _ = operands
    wide = unit_rescale(b, x, zp_in)
    one = b.const(np.ones((1,) * x.type.rank, np.int8), DType.INT8)
    factor = unit_rescale(b, one, b.scalar(0, DType.INT8, 1))
    return requantize(b, op, operands, b.MUL(wide, factor, b.scalar(0, DType.INT8, 1)))


def unit_rescale(
    b: OpBuilder, x: Value, zero_point: Value | None = None, dtype: DType = DType.INT32,
    quant: Quant | None = None,
) -> Value:  # fmt: skip
    """`x` minus its zero point (0 where none is given) as `dtype`."""
    multiplier, shift = ONE
    zero = b.scalar(0, x.type.dtype, 1) if zero_point is None else zero_point
    return b.RESCALE(  # type: ignore[no-any-return]
        x, b.scalar(multiplier, DType.INT32, 1), b.scalar(shift, DType.INT8, 1), zero,
        b.scalar(0, dtype, 1), dtype=dtype, quant=quant,
    )  # fmt: skip


def requantize(b: OpBuilder, op: Op, operands: tuple[Value, ...], wide: Value) -> Value:
    """The RESCALE `op` on an INT32 operand without zero point."""
    _, multiplier, shift, _, zp_out = operands
    result = op.results[0].type
    return b.RESCALE(  # type: ignore[no-any-return]
        wide, multiplier, shift, b.scalar(0, DType.INT32, 1), zp_out, dtype=result.dtype,
        quant=result.quant, **op.attrs,
    )  # fmt: skip
