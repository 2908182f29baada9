"""Lowers a graph of aten ops by running each op's rule: what runs is what is supported."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npuc.errors import Reason, Unsupported
from npuc.ir import NOWHERE, DType, Graph, Loc, Op, Value, pause_collection
from npuc.lowering.registry import call_rule, find_rule
from npuc.lowering.rule_builder import RuleBuilder


@dataclass(frozen=True)
class Verdict:
    """What became of one op of the model: on the target, or the reason why not."""

    name: str
    kind: str
    loc: Loc
    reason: Reason | None = None

    @classmethod
    def on(cls, reason: Reason) -> Verdict:
        """The verdict on an op that was refused before there was a graph."""
        found = re.fullmatch(r"(.*):(\d+)(?: \((.*)\))?", reason.where)
        file, line, module = found.groups() if found else ("", "0", "")
        return cls(reason.name, reason.op, Loc(file, int(line), module or "", reason.name), reason)

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


def lower(graph: Graph, limits: Any, families: tuple[str, ...] = ()) -> Lowered:
    """Lower every op of `graph` to the dialect of `limits`.

    A refused op is recorded and replaced by values without a producer, so that the verdicts of
    all ops are known. Any exception other than Unsupported is a fault of a rule and propagates.
    """
    builder = builder_for(limits, families)
    new = {v: builder.take_input(v.type, v.name) for v in graph.inputs}
    builder.verdicts += [_empty_input(v) for v in graph.inputs if 0 in v.type.shape]
    with pause_collection():
        lower_ops(builder, graph, new)
    outputs = [builder.give_output(new[v], v.type) for v in graph.outputs]
    origins = {**builder.inner_origins, **carried_origins(graph, new)}
    return Lowered(builder.finish(outputs, graph.name, origins), builder.verdicts)


def _empty_input(x: Value) -> Verdict:
    why = f"its shape {x.type.shape} has no elements, and no target takes tensors without elements"
    return Verdict(
        x.name, "input", NOWHERE, Reason(f"input {x.name}", "", why, "leave it out", x.name)
    )


def lower_ops(builder: RuleBuilder, graph: Graph, new: dict[Value, Value]) -> bool:
    """Lower the ops of `graph` (or of a region) with `builder`; whether all of them are taken.

    `new` maps the model's values to lowered ones, the inputs beforehand. Verdicts go to the builder.
    """
    taken = True
    for op in graph.ops:
        builder.loc = op.loc
        reason = None
        try:
            results = lower_op(builder, op, tuple(new[v] for v in op.operands))
        except Unsupported as refusal:
            taken, reason = False, located(refusal, op, builder)
            results = tuple(Value(builder.carried_type(r.type)) for r in op.results)
        for old, value in zip(op.results, results, strict=False):
            new[old] = value
            value.name = value.name or old.name
        if op.kind != "const" or reason is not None:
            name = op.results[0].name if op.results else ""
            builder.verdicts.append(Verdict(builder.path + name, op.kind, op.loc, reason))
    return taken


def carried_origins(graph: Graph, new: dict[Value, Value], path: str = "") -> dict[str, Any]:
    """The origins of `graph` with the lowered values, `path` in front of their names."""
    return {path + n: (new[v], p) for n, (v, p) in graph.origins.items() if v in new}


def builder_for(limits: Any, families: tuple[str, ...]) -> RuleBuilder:
    """The builder that rules of the dialect of `limits` emit with."""
    if limits.dialect == "tflite":
        from npuc.lowering.tflite_builder import TfliteBuilder

        return TfliteBuilder(limits, families)
    from npuc.lowering.tosa_builder import TosaBuilder

    return TosaBuilder(limits, families)


#: why kinds of ops have no rule
NO_RULE = {
    r"aten\.(rand|bernoulli|normal|multinomial|poisson|exponential|uniform)": Reason(
        "", "", "no target draws random numbers", "make them an input of the model"
    ),
    r"aten\.(masked_select|nonzero)": Reason(
        "", "", "how many elements a mask picks is known only at run time",
        "keep them all: torch.where(mask, x, 0), or x * mask",
    ),
}  # fmt: skip


def _no_rule(op: Op) -> Reason | str:
    reasons = (reason for pattern, reason in NO_RULE.items() if re.match(pattern, op.kind))
    part = f" for {op.kind}, which it is made of" if op.loc.op not in ("", op.kind) else ""
    return next(reasons, f"no lowering rule{part}")


def lower_op(builder: RuleBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...]:
    """Results of one op's rule, verified against the types that the model says."""
    if op.kind == "const":
        return (_constant(builder, op),)
    rule = find_rule(op.kind, builder.families, builder.dialect)
    if rule is None:
        raise Unsupported(_no_rule(op))
    builder.admit([v.type for v in (*op.operands, *op.results)])
    expected = tuple(builder.carried_type(r.type) for r in op.results)
    results = call_rule(rule, builder, op, operands, expected)
    for value, type in zip(results, expected, strict=False):
        if value.type != type:
            raise TypeError(f"rule of {op.kind} at {op.loc} gives {value.type}, not {type}")
    if len(results) != len(expected):
        raise TypeError(f"rule of {op.kind} gives {len(results)} results, not {len(expected)}")
    return results


def _constant(builder: RuleBuilder, op: Op) -> Value:
    value, type = op.results[0], builder.carried_type(op.results[0].type)
    array = builder.carried_data(value.array, value.type)
    if type.dtype is DType.INT32 and array.dtype == np.int64 and array.size:
        lo, hi = int(array.min()), int(array.max())
        builder.require(
            lo >= -(2**31) and hi < 2**31, f"int64 constant with values {lo}..{hi} exceeds int32"
        )
    with np.errstate(over="ignore"):
        array = array.astype(type.dtype.numpy, copy=False)
    return builder.const(array, type.dtype, type.quant, value.name)


def located(refusal: Unsupported, op: Op, builder: RuleBuilder) -> Reason:
    """The first reason of `refusal` with the user's op, its place and name filled in."""
    reason = refusal.reasons[0]
    why = reason.why or reason.op
    kind = reason.op if reason.why and reason.op else op.loc.op or op.kind
    hint = reason.hint or _hint(op, why, builder.limits)
    return Reason(kind, str(op.loc), why, hint, builder.path + op.loc.name)


def _hint(op: Op, why: str, limits: Any) -> str:
    """What makes an op possible where no rule knows more than that."""
    if "INT8 only, not for INT16" in why:
        return f'quantize it to 8 bits: recipe.ops["{op.loc.op or op.kind}"] = "int8"'
    is_float = any(v.type.dtype.is_float for v in (*op.operands, *op.results))
    if is_float and not limits.floats and find_rule(op.kind, (), limits.dialect) is not None:
        return 'quantize it; quantization="int8" quantizes all'
    return ""
