"""Removes QUANTIZEs of TFLite graphs: what they do can be done by the op before or behind them."""

from __future__ import annotations

from npuc.dialects.tflite import DEFINITIONS, TfliteLimits, TfliteOpBuilder, same_parameters
from npuc.ir import Graph, Op, Quant, TensorType, Value, sweep
from npuc.passes.uses import count_uses

#: operators whose quantized operands may have any parameters
ANY_OPERANDS = frozenset(
    {"ADD", "SUB", "MUL", "BATCH_MATMUL", "MEAN", "SUM", "QUANTIZE", "EQUAL", "NOT_EQUAL", "LESS",
     "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "ABS", "RELU", "RELU6", "LEAKY_RELU", "LOGISTIC",
     "TANH", "SOFTMAX", "EXP", "LOG", "RSQRT", "GELU", "ELU", "HARD_SWISH"}
)  # fmt: skip
#: operators that can give any parameters
ANY_RESULT = frozenset(
    {"ADD", "SUB", "MUL", "BATCH_MATMUL", "MEAN", "SUM", "QUANTIZE", "CONV_2D", "DEPTHWISE_CONV_2D",
     "FULLY_CONNECTED", "TRANSPOSE_CONV", "RELU", "RELU6", "LEAKY_RELU", "ABS"}
)  # fmt: skip


def merge_quantizes(graph: Graph, limits: TfliteLimits) -> Graph:
    """QUANTIZE(QUANTIZE(x)) -> one or none; QUANTIZE(CONV_2D(x)) -> CONV_2D(x) with its parameters;
    ADD(QUANTIZE(x), y) -> ADD(x, y). Never where a QUANTIZE clips, or rounds what is read finer."""
    uses = count_uses(graph)
    readers: dict[Value, int] = {}

    def rewrite(
        b: TfliteOpBuilder, op: Op, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        for old, new in zip(op.operands, operands, strict=True):
            readers[new] = uses[old]
        if not op.kind.startswith("tflite.") or op.name not in ANY_OPERANDS:
            return None
        found = _sources(op, operands, limits)
        if op.name == "QUANTIZE":
            return _quantize(b, op, found[0], readers.get(found[0], 2), limits)
        if found == operands:
            return None
        types = [r.type for r in op.results]
        return b.emit(op.kind, found, op.attrs, types, loc=op.loc)

    return sweep(graph, rewrite, limits.op_builder())


def _sources(op: Op, operands: tuple[Value, ...], limits: TfliteLimits) -> tuple[Value, ...]:
    """The operands without their QUANTIZEs where the op takes them."""
    found = tuple([_before(v, op) for v in operands])
    refused = limits.reason(op.name, found, op.attrs, [r.type for r in op.results])
    return operands if refused is not None else found


def _before(value: Value, reader: Op) -> Value:
    """The operand of a QUANTIZE that changes neither the element type nor clips; in front of
    another QUANTIZE one that rounds no coarser than that does."""
    op = value.op
    if op is None or op.kind != "tflite.QUANTIZE":
        return value
    source = op.operands[0]
    if reader.name == "QUANTIZE":
        free = not _rounds(source.type, value.type, reader.results[0].type)
        return source if free and holds(value.type, source.type) and _has(source, reader) else value
    same = source.type.dtype is value.type.dtype
    return source if same and holds(value.type, source.type) else value


def _rounds(source: TensorType, between: TensorType, result: TensorType) -> bool:
    """Whether `between` has steps larger than those on both sides of it: 16 bits, 8, and 16."""
    steps = [type.quant.s for type in (source, between, result) if type.quant is not None]
    return len(steps) == 3 and steps[1] > max(steps[0], steps[2])


def _has(source: Value, reader: Op) -> bool:
    """Whether LiteRT quantizes from this type to the reader's."""
    signature = ((source.type.dtype,), reader.results[0].type.dtype)
    return signature in DEFINITIONS["QUANTIZE"].signatures


def holds(outer: TensorType, inner: TensorType) -> bool:
    """Whether every value of `inner` (to half a step of `outer`) can be said by `outer`."""
    a, c = outer.quant, inner.quant
    if a is None or c is None or a.per_channel or c.per_channel:
        return False
    low, high = ends(a)
    smallest, largest = ends(c)
    return low <= smallest + a.s / 2 and high >= largest - a.s / 2


def ends(quant: Quant) -> tuple[float, float]:
    """The smallest and largest value."""
    return (quant.qmin - quant.zp) * quant.s, (quant.qmax - quant.zp) * quant.s


def _quantize(
    b: TfliteOpBuilder, op: Op, x: Value, readers: int, limits: TfliteLimits
) -> tuple[Value, ...]:
    """QUANTIZE of `x`: nothing, part of what made it (where `x` clips no more than the result), or
    itself."""
    out = op.results[0].type
    if x.type.dtype is out.dtype and same_parameters(x.type.quant, out.quant):
        return (x,)
    maker = x.op
    joins = maker is not None and maker.kind[7:] in ANY_RESULT and readers == 1
    if joins and maker is not None and x.type.dtype is out.dtype and holds(x.type, out):
        refused = limits.reason(maker.name, maker.operands, maker.attrs, [out])
        if refused is None and maker.attrs.get("activation", "NONE") == "NONE":
            return b.emit(maker.kind, maker.operands, maker.attrs, [out], loc=maker.loc)
    return b.emit(op.kind, (x,), op.attrs, [out], loc=op.loc)
