"""Tell the observers in front of a softmax which values matter.

A value far below the largest of its row vanishes in the result. Masks put such values there on
purpose, up to minus infinity; without a hint they would take the whole range.
"""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from npuc.quantizer.choose_types import Types
from npuc.quantizer.fx_values import float_operands, name_of
from npuc.quantizer.groups import Groups, readers
from npuc.quantizer.observers import SOFTMAX_DEPTH
from npuc.quantizer.policy import SOFTMAX
from npuc.quantizer.specs import Hint

# An additive mask is cut off here: exp(-64) is nothing beside any other summand of a softmax.
_MASK_FLOOR = -64.0


def add_softmax_hints(gm: GraphModule, types: Types, groups: Groups, fused: set[Node]) -> None:
    """Give the groups that only feed a softmax their hints, and the masks added in front."""
    for node in gm.graph.nodes:
        if name_of(node) not in SOFTMAX or types.recipe_of(node) is None:
            continue
        x: Any = node.args[0]
        key = (x, types.operand(x, node))
        if x in fused or not readers(groups[key]) <= {node}:
            continue
        shape = tuple(x.meta["val"].shape)
        if all(isinstance(size, int) for size in shape):
            hint = Hint(depth=SOFTMAX_DEPTH, axis=int(node.args[1]), shape=shape)
            groups[key].hints.append(hint)
        if name_of(x) != "add":
            continue
        for operand in float_operands(x):
            if len(operand.users) == 1 and operand not in fused:
                groups[operand, types.operand(operand, x)].hints.append(Hint(floor=_MASK_FLOOR))
