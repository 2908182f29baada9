"""Tell the observers in front of saturating functions where the functions stop to change, and
those behind functions with poles that there is one.

The logits of a detector reach from -20 to 3, but the sigmoid behind them cannot tell -7 from -20:
eight bits that cover only what it can tell apart are three times finer.
"""

from __future__ import annotations

import math

from torch.fx import GraphModule, Node

from npuc.quantizer.choose_types import Types
from npuc.quantizer.fx_values import name_of
from npuc.quantizer.groups import Group, Groups, readers
from npuc.quantizer.specs import Hint

# Function -> the ends, for operands of 8 and of 16 bits, beyond which its result is within about a
# quarter of a step (of 16 bits: one step) of its limit there; the step is that of a range of one
# where the function has no range.
_BOTH: dict[str, tuple[float, float]] = {
    "sigmoid": (7.0, 12.0),
    "hardsigmoid": (3.0, 3.0),
    "tanh": (3.5, 6.0),
    "erf": (2.2, 3.0),
}
_LOWER: dict[str, tuple[float, float]] = {
    "silu": (9.0, 14.0),
    "mish": (9.0, 14.0),
    "softplus": (7.0, 11.0),
    "gelu": (3.5, 5.0),
    "elu": (7.0, 11.0),
    "celu": (7.0, 11.0),
    "hardswish": (3.0, 3.0),
}
SATURATES: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    **{name: ((-a, a), (-b, b)) for name, (a, b) in _BOTH.items()},
    **{name: ((-a, math.inf), (-b, math.inf)) for name, (a, b) in _LOWER.items()},
}

POLES = frozenset(["log", "log2", "log10", "log1p", "reciprocal", "rsqrt", "logit", "atanh"])


def add_saturation_hints(gm: GraphModule, types: Types, groups: Groups, fused: set[Node]) -> None:
    """Give hints to the groups of values that only saturating functions read, and to the results
    of functions with poles."""
    found: dict[int, tuple[Group, bool, list[Node]]] = {}
    for node in gm.graph.nodes:
        if name_of(node) in POLES and node in types.made:
            groups[node, types.made[node]].hints.append(Hint(headroom=False))
        if name_of(node) not in SATURATES or types.recipe_of(node) is None:
            continue
        x = node.args[0]
        if x in fused:
            continue
        type_name = types.operand(x, node)
        group = groups[x, type_name]
        found.setdefault(id(group), (group, type_name == "int16", []))[2].append(node)
    for group, is_wide, functions in found.values():
        if readers(group) <= set(functions):
            ends = [SATURATES[name_of(function)][is_wide] for function in functions]
            widest = min(e[0] for e in ends), max(e[1] for e in ends)
            group.hints.append(Hint(saturates=widest))
