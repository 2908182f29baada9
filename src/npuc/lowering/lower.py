"""Lowers a graph of aten ops by running each op's rule; an op is supported if and only if its rule runs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from npuc.dialects.tosa import Limits
from npuc.errors import Reason, Unsupported
from npuc.ir import DType, Graph, Loc, Op, TensorType, Value
from npuc.lowering.registry import call_rule, find_rule
from npuc.lowering.tosa_builder import TosaBuilder

#: element types of PyTorch that the target represents by another one
CARRIED_BY = {DType.INT64: DType.INT32, DType.FP64: DType.FP32}


@dataclass(frozen=True)
class Verdict:
    """What became of one op of the model: on the target, or the reason why not."""

    name: str
    kind: str
    loc: Loc
    reason: Reason | None = None

    @property
    def on_target(self) -> bool:
        return self.reason is None


@dataclass
class Lowered:
    """The lowered graph (meaningless when an op was refused) and a verdict per op of the model."""

    graph: Graph
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def reasons(self) -> list[Reason]:
        return [v.reason for v in self.verdicts if v.reason is not None]


def carried_type(type: TensorType, int64: bool = False) -> TensorType:
    """The type that carries a value of the model's type on the target."""
    if type.dtype is DType.INT64 and int64:
        return type
    return type.with_(dtype=CARRIED_BY.get(type.dtype, type.dtype))


def lower(graph: Graph, limits: Limits, families: tuple[str, ...] = ()) -> Lowered:
    """Lower every op of `graph` to TOSA.

    A refused op is recorded and replaced by values without a producer, so that the verdicts of
    all ops are known. Any exception other than Unsupported is a fault of a rule and propagates.
    """
    builder = TosaBuilder(limits, families)
    int64 = "EXT-INT64" in limits.extensions
    new: dict[Value, Value] = {}
    for v in graph.inputs:
        new[v] = builder.input(carried_type(v.type, int64), v.name)
    verdicts: list[Verdict] = []
    for op in graph.ops:
        builder.loc = op.loc
        reason = None
        try:
            results = lower_op(builder, op, tuple(new[v] for v in op.operands), int64)
        except Unsupported as refusal:
            reason = located(refusal, op)
            results = tuple(Value(carried_type(r.type, int64)) for r in op.results)
        for old, value in zip(op.results, results):
            new[old] = value
            value.name = value.name or old.name
        if op.kind != "const" or reason is not None:
            verdicts.append(Verdict(op.results[0].name if op.results else "", op.kind, op.loc, reason))
    origins = {n: (new[v], p) for n, (v, p) in graph.origins.items() if v in new}
    lowered = builder.finish([new[v] for v in graph.outputs], graph.name, origins)
    return Lowered(lowered, verdicts)


def lower_op(
    builder: TosaBuilder, op: Op, operands: tuple[Value, ...], int64: bool = False
) -> tuple[Value, ...]:
    """Results of one op's rule, verified against the types that the model says."""
    if op.kind == "const":
        return (_constant(builder, op, int64),)
    rule = find_rule(op.kind, builder.families)
    if rule is None:
        raise Unsupported("no lowering rule")
    expected = tuple(carried_type(r.type, int64) for r in op.results)
    results = call_rule(rule, builder, op, operands, expected)
    for value, type in zip(results, expected):
        if value.type != type:
            raise TypeError(f"rule of {op.kind} at {op.loc} gives {value.type}, not {type}")
    if len(results) != len(expected):
        raise TypeError(f"rule of {op.kind} gives {len(results)} results, not {len(expected)}")
    return results


def _constant(builder: TosaBuilder, op: Op, int64: bool) -> Value:
    value, type = op.results[0], carried_type(op.results[0].type, int64)
    if type.dtype is value.type.dtype:
        return builder.const(value.array, type.dtype, type.quant, value.name)
    if type.dtype is DType.INT32 and value.array.size:
        lo, hi = int(value.array.min()), int(value.array.max())
        builder.require(
            -(2**31) <= lo and hi < 2**31, f"int64 constant with values {lo}..{hi} exceeds int32"
        )
    with np.errstate(over="ignore"):
        return builder.const(value.array.astype(type.dtype.numpy), type.dtype, type.quant, value.name)


def located(refusal: Unsupported, op: Op) -> Reason:
    """The first reason of `refusal` with the op's name and place filled in."""
    reason = refusal.reasons[0]
    why = reason.why or reason.op
    return Reason(reason.op if reason.why and reason.op else op.kind, str(op.loc), why, reason.hint)
