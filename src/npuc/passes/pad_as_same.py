"""PAD in front of a TFLite convolution -> SAME, where SAME pads alike."""

from __future__ import annotations

from collections.abc import Sequence

from npuc.dialects.tflite import TfliteLimits, TfliteOpBuilder, same_padding
from npuc.ir import Graph, Op, Value, sweep

#: they pad with the zero point, as PAD does
CONVOLUTIONS = ("tflite.CONV_2D", "tflite.DEPTHWISE_CONV_2D")


def pad_as_same(graph: Graph, limits: TfliteLimits) -> Graph:
    """VALID CONV_2D(PAD(x)) -> SAME CONV_2D(x), also with a RESHAPE between that only moves axes of
    size 1; PAD(PAD(x)) -> PAD(x)."""

    def rewrite(
        b: TfliteOpBuilder, op: Op, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        if op.kind == "tflite.PAD":
            return _joined(b, op, operands[0])
        if op.kind not in CONVOLUTIONS or op.attrs["padding"] != "VALID":
            return None
        amounts = _amounts(operands[0])
        if amounts is None or not _is_same(op, operands, amounts):
            return None
        x = b.reshape(_maker(operands[0]).operands[0], _without(operands[0], amounts))
        attrs = {**op.attrs, "padding": "SAME"}
        return b.emit(op.kind, (x, *operands[1:]), attrs, [op.results[0].type], loc=op.loc)

    return sweep(graph, rewrite, limits.op_builder())


def _joined(b: TfliteOpBuilder, op: Op, x: Value) -> tuple[Value, ...] | None:
    """One PAD for two."""
    if x.op is None or x.op.kind != "tflite.PAD":
        return None
    paddings = tuple(
        p + q for p, q in zip(op.attrs["paddings"], x.op.attrs["paddings"], strict=True)
    )
    return (b.PAD(x.op.operands[0], paddings=paddings),)


def _maker(x: Value) -> Op:
    """The operator that makes `x`, or what a RESHAPE that makes it reads."""
    assert x.op is not None
    if x.op.kind == "tflite.RESHAPE" and x.op.operands[0].op is not None:
        return x.op.operands[0].op
    return x.op


def _amounts(x: Value) -> list[tuple[int, int]] | None:
    """(before, after) per axis of `x`, when that is padded; None when it is not."""
    pad = _maker(x) if x.op is not None else None
    if pad is None or pad.kind != "tflite.PAD":
        return None
    sizes, entries = pad.results[0].type.ints, pad.attrs["paddings"]
    pairs = [(p, q, n) for p, q, n in zip(entries[::2], entries[1::2], sizes, strict=True) if n > 1]
    if [n for *_, n in pairs] != [n for n in x.type.ints if n > 1]:
        return None
    rest = iter(pairs)
    return [next(rest)[:2] if n > 1 else (0, 0) for n in x.type.ints]


def _without(x: Value, amounts: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(n - p - q for n, (p, q) in zip(x.type.ints, amounts, strict=True))


def _is_same(op: Op, operands: Sequence[Value], amounts: Sequence[tuple[int, int]]) -> bool:
    """Whether SAME on the input without its padding has the same windows."""
    if any(amounts[0]) or any(amounts[3]):
        return False
    sizes = _without(operands[0], amounts)
    for i in range(2):
        size, stride = sizes[1 + i], op.attrs["stride"][i]
        kernel, dilation = operands[1].type.ints[1 + i], op.attrs["dilation"][i]
        before, _ = same_padding(size, kernel, stride, dilation)
        if before != amounts[1 + i][0] or -(-size // stride) != op.results[0].type.ints[1 + i]:
            return False
    return True
