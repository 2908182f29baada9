"""torch.cond and while_loop as ops with regions; where constants decide, as what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from npuc.errors import Unsupported
from npuc.ir import Graph, Value, pack

if TYPE_CHECKING:
    from npuc.frontend.import_fx import Importer

#: a loop that runs more often stays a loop, even if constants tell how often
MOST_TRIPS = 256


def import_control_flow(outer: Importer, node: str, name: str, args: list[Any]) -> Any:
    """The results of the higher-order op `name` of the FX node `node`. Raises Unsupported."""
    if name == "cond":
        return _cond(outer, node, *args)
    if name == "while_loop":
        return _while_loop(outer, node, *args)
    raise Unsupported("no target has this control flow; torch.cond and while_loop are known")


def _cond(
    outer: Importer, node: str, condition: Any, yes: GraphModule, no: GraphModule, inputs: Any = ()
) -> Any:
    if isinstance(condition, (bool, torch.Tensor)):
        return tuple(outer.inlined(yes if bool(condition) else no, inputs))
    if not isinstance(condition, Value):
        raise Unsupported("the condition is a size that is known only at run time")
    regions = [
        _region(outer, yes, inputs, f"{node}_then"),
        _region(outer, no, inputs, f"{node}_else"),
    ]
    types = [v.type for v in regions[0].outputs]
    operands, attrs = pack((condition, *(v for v in inputs if isinstance(v, Value))), {})
    return tuple(outer.builder.emit("aten.cond", operands, attrs, types, regions))


def _while_loop(
    outer: Importer, node: str, test: GraphModule, body: GraphModule, carried: Any, extra: Any = ()
) -> Any:
    """Values that stay the same in the loop are carried too, constants move into the body."""
    values = [outer.value(v) for v in carried]
    kept = [v for v in extra if isinstance(v, Value)]
    inputs = [*values, *extra]
    regions = [
        _region(outer, test, inputs, f"{node}_condition"),
        _region(outer, body, inputs, f"{node}_body", pass_on=len(kept)),
    ]
    trips = _trips(outer, test, body, list(carried), list(extra))
    operands, attrs = pack((*values, *kept), {"trips": trips})
    types = [v.type for v in operands]
    results = outer.builder.emit("aten.while_loop", operands, attrs, types, regions)
    return tuple(results[: len(values)])


def _region(
    outer: Importer, gm: GraphModule, inputs: Sequence[Any], name: str, pass_on: int = 0
) -> Graph:
    """A branch or body; its inputs are those of `inputs` that are values, of which it also returns
    the last `pass_on`."""
    inner = type(outer)(outer.sizes)
    outputs = inner.called(gm, inputs)
    if pass_on:
        outputs += inner.builder.inputs[-pass_on:]
    return inner.finish(outputs, name)


def _trips(
    outer: Importer, test: GraphModule, body: GraphModule, carried: list[Any], extra: list[Any]
) -> int | None:
    """How often a loop runs, where its condition depends on constants only."""
    for count in range(MOST_TRIPS + 1):
        goes_on = type(outer)(outer.sizes).called(test, [*carried, *extra])[0]
        if isinstance(goes_on, Value):
            return None
        if not bool(goes_on):
            return count
        carried = type(outer)(outer.sizes).called(body, [*carried, *extra])
    return None
