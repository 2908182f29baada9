"""PAD in front of a convolution or pool -> the operator's own padding.

Vela 5.2 miscompiles a PAD by 0 in front of a convolution with another zero point, and copies
the tensor for every PAD that it does not fuse: none of them reaches it.
"""

from __future__ import annotations

import numpy as np

from npuc.dialects.tosa import InvalidOp, Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import Graph, Op, Value, sweep
from npuc.passes.unary import is_rename
from npuc.passes.value_range import value_range

#: operator -> position of the zero point that pads its input (None: pads with the smallest value)
PADDED = {"CONV2D": 3, "DEPTHWISE_CONV2D": 3, "CONV3D": 3, "MAX_POOL2D": None}


def fold_padding(graph: Graph, limits: Limits) -> Graph:
    """CONV(PAD(x)) -> CONV(x) with larger `pad`, MAX_POOL2D likewise.

    A convolution pads with its zero point, so the PAD's constant has to be that. MAX_POOL2D ignores
    its padding, so the constant must not exceed any element. AVG_POOL2D divides by the number of
    real elements: its PAD stays.
    """

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if not op.kind.startswith("tosa.") or op.name not in PADDED:
            return None
        pad = find_pad(operands[0])
        if pad is None or not _same_padding(op, operands, pad):
            return None
        amounts = amounts_behind(pad, operands[0])
        if amounts is None or any(amounts[:2]) or any(amounts[-2:]):
            return None
        own = tuple([a + p for a, p in zip(op.attrs["pad"], amounts[2:-2], strict=True)])
        attrs = {**op.attrs, "pad": own}
        try:
            moved = (_unpadded(b, pad, operands[0], amounts), *operands[1:])
            return (b.tosa(op.name, *moved, dtype=op.results[0].type.dtype,
                           quant=op.results[0].type.quant, **attrs),)  # fmt: skip
        except (Unsupported, InvalidOp):  # more padding than the operator takes
            return None

    return sweep(graph, rewrite, OpBuilder(limits))


def find_pad(x: Value) -> Op | None:
    """The PAD that makes `x`, perhaps with a RESHAPE behind it that moves axes of size 1."""
    pad = x.op
    if pad is not None and is_rename(pad):
        pad = pad.operands[0].op
    return pad if pad is not None and pad.kind == "tosa.PAD" and pad.operands[1].is_const else None


def amounts_behind(pad: Op, x: Value) -> list[int] | None:
    """(before, after) per axis of `x`, which is the PAD's result or a RESHAPE of it."""
    result, entries = pad.results[0], [int(n) for n in pad.operands[1].array]
    if x is result:
        return entries
    pairs = list(zip(entries[::2], entries[1::2], strict=True))
    hard = iter([p for p, d in zip(pairs, result.type.shape, strict=True) if d != 1])
    return [n for d in x.type.shape for n in (next(hard) if d != 1 else (0, 0))]


def _unpadded(b: OpBuilder, pad: Op, x: Value, amounts: list[int]) -> Value:
    """The PAD's operand in the form of `x`."""
    if x is pad.results[0]:
        return pad.operands[0]
    before, after = amounts[::2], amounts[1::2]
    shape = [d - p - q for d, p, q in zip(x.type.ints, before, after, strict=True)]
    return b.reshape(pad.operands[0], shape)


def _same_padding(op: Op, operands: tuple[Value, ...], pad: Op) -> bool:
    """Whether the operator's own padding computes what the PAD's constant does."""
    constant = pad.operands[2]
    if not constant.is_const:
        return False
    zero_point = PADDED[op.name]
    if zero_point is not None:
        padding = operands[zero_point]
        return padding.is_const and bool(np.all(constant.array == padding.array))
    return bool(constant.array.reshape(-1)[0] <= value_range(pad.operands[0])[0])
