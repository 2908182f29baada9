"""Branches and loops: COND_IF and WHILE_LOOP, or the same values without control flow."""

from __future__ import annotations

from collections.abc import Sequence

from npuc.ir import Graph, Value
from npuc.lowering.lower import carried_origins, lower_ops
from npuc.lowering.registry import find_rule, lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.cond")
def cond(b: TosaBuilder, condition: Value, *inputs: Value) -> list[Value]:
    """cond -> COND_IF; without EXT-CONTROLFLOW both branches run and SELECT takes the results of one.

    Branches have no side effects, so the values are the same; the time is that of both.
    """
    assert b.op is not None
    yes, no = b.op.regions
    if b.limits.has_control_flow:
        types = b.out
        regions = [_region(b, yes), _region(b, no)]
        operands = [b.reshape(condition, ()), *inputs]
        return list(b.emit("tosa.COND_IF", operands, {}, types, regions))
    types = b.out
    pairs = zip(_inline(b, yes, inputs), _inline(b, no, inputs), types, strict=True)
    select = find_rule("aten.where", b.families, b.dialect)
    assert select is not None
    chosen = []
    for x, y, type in pairs:
        b.out = (type,)
        chosen.append(x if x is y else select(b, condition, x, y))
    return chosen


@lowers("aten.while_loop")
def while_loop(b: TosaBuilder, *carried: Value, trips: int | None) -> list[Value]:
    """while_loop -> WHILE_LOOP; without EXT-CONTROLFLOW the body `trips` times, where that is known."""
    assert b.op is not None
    test, body = b.op.regions
    if b.limits.has_control_flow:
        types = b.out
        regions = [_region(b, test), _region(b, body)]
        return list(b.emit("tosa.WHILE_LOOP", carried, {}, types, regions))
    b.require(
        trips is not None,
        f"{b.limits.name} has no control flow, and how often this loop runs depends on its input",
        "use a loop with a fixed number of steps, or a target with control flow (+cf, ethos-u85)",
    )
    values: Sequence[Value] = carried
    for _ in range(trips or 0):
        values = _inline(b, body, values)
    return list(values)


def _inline(b: TosaBuilder, region: Graph, inputs: Sequence[Value]) -> list[Value]:
    """The results of a region, its ops lowered in place; Unsupported when one of them is refused."""
    op, path, loc = b.op, b.path, b.loc
    b.path = f"{path}{region.name}."
    new = dict(zip(region.inputs, inputs, strict=True))
    taken = lower_ops(b, region, new)
    b.inner_origins.update(carried_origins(region, new, b.path))
    b.op, b.path, b.loc = op, path, loc
    b.require(taken, "an op in it is not on the target")
    return [new[v] for v in region.outputs]


def _region(b: TosaBuilder, region: Graph) -> Graph:
    """The lowered region; Unsupported when one of its ops is refused."""
    inner = TosaBuilder(b.limits, b.families)
    inner.verdicts, inner.path = b.verdicts, f"{b.path}{region.name}."
    new = {v: inner.take_input(v.type, v.name) for v in region.inputs}
    b.require(lower_ops(inner, region, new), "an op in it is not on the target")
    origins = {**inner.inner_origins, **carried_origins(region, new, inner.path)}
    return inner.finish([new[v] for v in region.outputs], region.name, origins)
