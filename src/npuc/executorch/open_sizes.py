"""Nodes of a program with sizes known only at run time, for targets that take fixed sizes."""

from __future__ import annotations

import torch
import torch.utils._pytree as pytree
from torch.fx import GraphModule, Node

from npuc.errors import Reason
from npuc.frontend.fx_targets import aten_op
from npuc.frontend.name_sizes import symbols_of
from npuc.frontend.source_location import loc_of
from npuc.frontend.splice import kind_of
from npuc.frontend.symbolic import Sizes
from npuc.ir.size_terms import symbols_of as symbols_in
from npuc.ir.symbolic import describe


def open_sizes(gm: GraphModule, target: str) -> dict[Node, Reason]:
    """A reason, with the symbols and their bounds, for each node that reads or gives open sizes."""
    sizes = Sizes(symbols_of(gm, {}))
    found = {}
    for node in gm.graph.nodes:
        near = [node, *node.all_input_nodes] if node.op == "call_function" else []
        dims = [sizes.dim(size) for n in near for size in _sizes(n.meta.get("val"))]
        symbols = dict.fromkeys(symbol for dim in dims for symbol in symbols_in(dim))
        if symbols:
            kind = kind_of(aten_op(node.target))
            named = " and ".join(map(describe, symbols)) + (" is" if len(symbols) == 1 else " are")
            why = f"{named} known only at run time, and {target} takes fixed sizes"
            place = str(loc_of(node.meta, node.name, kind))
            found[node] = Reason(kind, place, why, "export it for fixed sizes", node.name)
    return found


def _sizes(value: object) -> list[torch.SymInt]:
    leaves = pytree.tree_leaves(value)
    return [
        size
        for leaf in leaves
        for size in (leaf.shape if isinstance(leaf, torch.Tensor) else [leaf])
        if isinstance(size, torch.SymInt)
    ]
