"""RESCALE of RESCALE -> one, across CLAMPs and data movement between them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuc.dialects.tosa import InvalidOp, Limits, OpBuilder, multiplier_and_shift
from npuc.errors import Unsupported
from npuc.execute.kernels import KERNELS
from npuc.ir import DType, Graph, Op, Quant, TensorType, Value, sweep
from npuc.passes.unary import commutes
from npuc.passes.uses import count_uses

#: element types that CLAMP takes
CLAMPED = (DType.INT8, DType.INT16)


def merge_rescales(graph: Graph, limits: Limits) -> Graph:
    """One RESCALE for two where the inner one has one reader.

    Exact where the inner one multiplies by a power of two into a type wide enough. Elsewhere two
    roundings become one: the result differs by at most one step, and only if the outer scale is
    at most 1 and its type no wider (otherwise the two stay). What the inner one's saturation cut
    off is cut off by a CLAMP, unless the outer one's own saturation does.
    """
    uses = count_uses(graph)
    readers: dict[Value, int] = {}

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        for old, new in zip(op.operands, operands, strict=True):
            readers[new] = uses[old]
        if not is_plain(op):
            return None
        path, source = _walk_up(operands[0], lambda v: readers.get(v, 1))
        inner = source.op
        if inner is None or not is_rescale(inner) or readers.get(source, 1) != 1:
            return None
        try:
            merged = merge_exactly(b, inner, op) or merge_closely(b, inner, op)
            return None if merged is None else (_replay(b, op, path, merged),)
        except (Unsupported, InvalidOp):
            return None

    return sweep(graph, rewrite, OpBuilder(limits))


def is_rescale(op: Op) -> bool:
    """A RESCALE of signed types with constant parameters."""
    if op.kind != "tosa.RESCALE" or op.attrs["input_unsigned"] or op.attrs["output_unsigned"]:
        return False
    return all(v.is_const for v in op.operands[1:])


def is_plain(op: Op) -> bool:
    """Such a RESCALE with one 32-bit multiplier."""
    return is_rescale(op) and not op.attrs["per_channel"] and bool(op.attrs["scale32"])


def _walk_up(value: Value, uses: Callable[[Value], int]) -> tuple[list[Op], Value]:
    """The CLAMPs and moves with one reader that end in `value`, last first, and their source."""
    path: list[Op] = []
    while value.op is not None and uses(value) == 1:
        if value.op.kind != "tosa.CLAMP" and not commutes(value.op):
            break
        path.append(value.op)
        value = value.op.operands[0]
    return path, value


def scale_of(op: Op) -> np.ndarray:
    """The real scale of a RESCALE, one per channel where it has several."""
    multiplier, shift = (v.array.astype(np.float64) for v in op.operands[1:3])
    return multiplier * 2.0**-shift


def zero_points(op: Op) -> tuple[int, int]:
    return int(op.operands[3].array[0]), int(op.operands[4].array[0])


def apply_rescale(op: Op, codes: np.ndarray) -> np.ndarray:
    """What a per-tensor RESCALE with constant parameters makes of `codes`."""
    return KERNELS["RESCALE"](op, codes, *(v.array for v in op.operands[1:]))  # type: ignore[no-any-return]


def merge_exactly(b: OpBuilder, inner: Op, outer: Op) -> Value | None:
    """Both as one where the inner one only multiplies by 2**k: no rounding, no saturation."""
    scale, (zp_in, zp_mid) = scale_of(inner), zero_points(inner)
    k = int(np.log2(scale[0])) if scale[0] > 0 else -1
    if scale.size > 1 or k < 0 or scale[0] != 2.0**k or zp_mid != zero_points(outer)[0]:
        return None
    lo, hi = ((code - zp_in) * 2**k + zp_mid for code in inner.operands[0].type.dtype.range)
    low, high = inner.results[0].type.dtype.range
    double = outer.attrs["rounding_mode"] == "DOUBLE_ROUND"
    shift = int(outer.operands[2].array[0]) - k
    if lo < low or hi > high or shift < 2 or (double and k > 0):
        return None
    return _emit(b, inner, outer, outer.operands[1].array, np.array([shift], np.int8), True)


def merge_closely(b: OpBuilder, inner: Op, outer: Op) -> Value | None:
    """Both as one with one rounding for two, see `merge_rescales`."""
    middle, last = inner.results[0].type.dtype, outer.results[0].type.dtype
    if zero_points(inner)[1] != zero_points(outer)[0] or last.bits > middle.bits:
        return None
    modes = {inner.attrs["rounding_mode"], outer.attrs["rounding_mode"]}
    outer_scale = float(scale_of(outer)[0])
    if len(modes) > 1 or not 0 < outer_scale <= 1 or last not in CLAMPED:
        return None
    scale32 = bool(inner.attrs["scale32"])
    if not scale32 and last is not DType.INT8:
        return None  # 15 bits of multiplier are too few for 16 bits of result
    multiplier, shift = multiplier_and_shift(scale_of(inner) * outer_scale, scale32)
    merged = _emit(b, inner, outer, multiplier, shift, scale32)
    return _cut_off(b, merged, outer, *middle.range)


def _emit(
    b: OpBuilder, inner: Op, outer: Op, multiplier: np.ndarray, shift: np.ndarray, scale32: bool
) -> Value:
    zp_out = b.const(outer.operands[4].array, outer.results[0].type.dtype)
    attrs = {**inner.attrs, "rounding_mode": outer.attrs["rounding_mode"], "scale32": scale32}
    return b.RESCALE(  # type: ignore[no-any-return]
        inner.operands[0], b.const(multiplier.astype(np.int32 if scale32 else np.int16)),
        b.const(shift.astype(np.int8)), inner.operands[3], zp_out,
        dtype=outer.results[0].type.dtype, quant=outer.results[0].type.quant, **attrs,
    )  # fmt: skip


def _cut_off(b: OpBuilder, x: Value, outer: Op, low: float, high: float) -> Value:
    """`x` limited to what `outer` makes of low..high, where its own saturation is not as tight."""
    source = outer.operands[0].type.dtype
    codes = np.clip([low, high], *source.range).astype(source.numpy)
    lo, hi = (int(c) for c in apply_rescale(outer, codes))
    first, last = x.type.dtype.range
    if lo <= first and hi >= last:
        return x
    return b.CLAMP(x, min_val=lo, max_val=hi, quant=x.type.quant)  # type: ignore[no-any-return]


def _replay(b: OpBuilder, outer: Op, path: list[Op], x: Value) -> Value:
    """The ops between the two on the merged result; bounds of CLAMPs as `outer` maps them."""
    quant: Quant | None = outer.results[0].type.quant
    for op in reversed(path):
        if op.kind == "tosa.CLAMP":
            x = _cut_off(b, x, outer, op.attrs["min_val"], op.attrs["max_val"])
            continue
        type = TensorType(x.type.dtype, op.results[0].type.shape, quant)
        (x,) = b.emit(op.kind, (x, *op.operands[1:]), op.attrs, [type], loc=op.loc)
    return x
