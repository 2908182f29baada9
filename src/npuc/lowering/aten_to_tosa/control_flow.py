"""Branches and loops: COND_IF and WHILE_LOOP (TFLite: IF, WHILE), or the same values without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npuc.ir import Graph, Value
from npuc.lowering.lower import carried_origins, lower_ops
from npuc.lowering.registry import find_rule, lowers
from npuc.lowering.tosa_builder import TosaBuilder

#: dialect -> its branch and its loop
KINDS = {"tosa": ("tosa.COND_IF", "tosa.WHILE_LOOP"), "tflite": ("tflite.IF", "tflite.WHILE")}
REFUSED = "an op in it is not on the target"


@lowers("aten.cond")
def cond(b: TosaBuilder, condition: Value, *inputs: Value) -> list[Value]:
    """cond -> COND_IF; without EXT-CONTROLFLOW both branches run and SELECT takes one's results.

    Branches have no side effects, so the values are the same; the time is that of both.
    """
    assert b.op is not None
    types = b.out
    if b.limits.has_control_flow:
        operands = [b.reshape(condition, ()), *inputs]
        return list(b.emit(KINDS[b.dialect][0], operands, {}, types, _regions(b)))
    results = [_inline(b, region, inputs) for region in b.op.regions]
    b.require(None not in results, REFUSED)
    select = find_rule("aten.where", b.families, b.dialect)
    assert select is not None
    chosen = []
    for x, y, type in zip(*results, types, strict=True):  # type: ignore[arg-type]
        b.out = (type,)
        chosen.append(x if x is y else select(b, condition, x, y))
    return chosen


@lowers("aten.while_loop")
def while_loop(b: TosaBuilder, *carried: Value, trips: int | None) -> list[Value]:
    """while_loop -> WHILE_LOOP; without EXT-CONTROLFLOW the body `trips` times, if known."""
    assert b.op is not None
    types = b.out
    if b.limits.has_control_flow:
        return list(b.emit(KINDS[b.dialect][1], carried, {}, types, _regions(b)))
    b.require(
        trips is not None,
        f"{b.limits.name} has no control flow, and how often this loop runs depends on its input",
        "use a loop with a fixed number of steps, or a target with control flow (+cf, ethos-u85)",
    )
    values: Sequence[Value] | None = carried
    for _ in range(trips or 0):
        values = _inline(b, b.op.regions[1], values)
        b.require(values is not None, REFUSED)
    assert values is not None
    return list(values)


def _inline(b: TosaBuilder, region: Graph, inputs: Any) -> list[Value] | None:
    """The results of a region, its ops lowered in place; None when one of them is refused."""
    op, path, loc = b.op, b.path, b.loc
    b.path = f"{path}{region.name}."
    new = dict(zip(region.inputs, inputs, strict=True))
    taken = lower_ops(b, region, new)
    b.inner_origins.update(carried_origins(region, new, b.path))
    b.op, b.path, b.loc = op, path, loc
    return [new[v] for v in region.outputs] if taken else None


def _regions(b: TosaBuilder) -> list[Graph]:
    """The lowered regions of the op; Unsupported when one of their ops is refused."""
    assert b.op is not None
    regions = [_region(b, region) for region in b.op.regions]
    b.require(None not in regions, REFUSED)
    return regions  # type: ignore[return-value]


def _region(b: TosaBuilder, region: Graph) -> Graph | None:
    inner = type(b)(b.limits, b.families)
    inner.verdicts, inner.path = b.verdicts, f"{b.path}{region.name}."
    new = {v: inner.take_input(v.type, v.name) for v in region.inputs}
    if not lower_ops(inner, region, new):
        return None
    origins = {**inner.inner_origins, **carried_origins(region, new, inner.path)}
    return inner.finish([new[v] for v in region.outputs], region.name, origins)
