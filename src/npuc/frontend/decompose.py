"""Replace single ops of an FX graph by their expansion, locally and in place.

An op is expanded by our own formula where PyTorch's would quantize or run badly (attention,
recurrent layers), else by PyTorch's decomposition of that op, traced on the fake values of its
operands only. The program is never traced as a whole and no weight is copied.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from npuc.errors import Unsupported
from npuc.frontend import expand_attention, expand_recurrent, expand_small, expand_steps
from npuc.frontend.functionalize import make_functional
from npuc.frontend.guards import no_guesses
from npuc.frontend.placed import placed
from npuc.frontend.size_nodes import compute_sizes
from npuc.frontend.source_location import loc_of
from npuc.frontend.splice import Splice, fake_mode_of, fetch, kind_of, replace
from npuc.frontend.symbolic import Sizes

Formula = Callable[..., Any]

# Our own expansions: kind -> function of (splice, *arguments of the ATen schema).
FORMULAS: dict[str, Formula] = {
    **expand_attention.FORMULAS,
    **expand_recurrent.FORMULAS,
    **expand_small.FORMULAS,
    **expand_steps.FORMULAS,
}

# Ops that only hand their operand on; the traces of PyTorch's decompositions contain them.
_IDENTITIES = ("aten.detach", "aten.alias", "aten.lift_fresh")


def expand(gm: GraphModule, known: Callable[[str], bool], sizes: Sizes | None = None) -> list[str]:
    """Expand in place every op whose kind is not known, until only known kinds remain.

    Args:
        gm: an FX graph of ATen ops with meta["val"] (torch.export; q/dq nodes may lack it).
            Sub-graphs of control flow are expanded too.
        known: tells whether the op of a kind ("aten.conv2d", "aten.add.Tensor") stays.
        sizes: what the program's symbolic sizes are.

    Returns the kinds that were expanded, in the order of the graph. Ops that nothing expands
    stay as they are: whoever needs a rule for them says so.
    """
    done: list[str] = []
    for child in gm.children():
        if isinstance(child, GraphModule):
            done += expand(child, known, sizes)
    mode = fake_mode_of(gm)
    todo: list[tuple[Node, frozenset[str]]] = [
        (node, frozenset()) for node in reversed(gm.graph.nodes)
    ]
    while todo:
        node, within = todo.pop()
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        kind = kind_of(node.target)
        # `within` stops decompositions that lead back to the op they came from.
        if kind in within or known(kind) or _is_quantization(kind):
            continue
        try:
            with no_guesses(mode, sizes):
                new = _expand_node(gm, node, kind, mode)
        except Unsupported as error:
            raise placed(error, kind, loc_of(node.meta, node.name, kind)) from None
        if new is None:
            continue
        done.append(kind)
        todo += [(made, within | {kind}) for made in reversed(new)]
    if done:
        compute_sizes(gm)
        gm.recompile()
    return done


def _is_quantization(kind: str) -> bool:
    return kind.startswith(("quantized_decomposed.", "torchao."))


def _expand_node(gm: GraphModule, node: Node, kind: str, mode: FakeTensorMode) -> list[Node] | None:
    """Expand one node; the new nodes, or None when there is no expansion."""
    splice = Splice(gm, node, mode)
    formula = FORMULAS.get(kind)
    if formula is not None:
        args, kwargs = _schema_arguments(node)
        results = formula(splice, *args, **kwargs)
    else:
        results = _by_torch(splice, node)
    if results is None:
        return None
    replace(node, results)
    return _erase_dead(gm, splice.new)


def _erase_dead(gm: GraphModule, nodes: list[Node]) -> list[Node]:
    """Erase what nobody reads (results of PyTorch's formulas that the program does not use)."""
    for node in reversed(nodes):
        if not node.users and not node.is_impure():
            gm.graph.erase_node(node)
    return [node for node in nodes if not node._erased]


def _schema_arguments(node: Node) -> tuple[list[Any], dict[str, Any]]:
    """All arguments of a node as the schema declares them, defaults filled in."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for index, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if index < len(node.args):
            args.append(node.args[index])
        elif argument.kwarg_only:
            kwargs[argument.name] = node.kwargs.get(argument.name, argument.default_value)
        else:
            args.append(node.kwargs.get(argument.name, argument.default_value))
    return args, kwargs


class _Declined(Exception):
    """PyTorch's decomposition is not meant for these arguments."""


def _by_torch(splice: Splice, node: Node) -> Any:
    """Expand a node by PyTorch's own decomposition of its op; None when there is none."""
    decomposition = _torch_decomposition(node.target)
    if decomposition is None:
        return None
    leaves, spec = tree_flatten((node.args, node.kwargs))
    operands = [leaf for leaf in leaves if isinstance(leaf, Node)]

    def call(*values: Any) -> Any:
        given = iter(values)
        filled = [next(given) if isinstance(leaf, Node) else leaf for leaf in leaves]
        args, kwargs = tree_unflatten(filled, spec)
        results = decomposition(*args, **kwargs)
        if results is NotImplemented:
            raise _Declined
        return results

    values = [splice.value(operand) for operand in operands]
    # pre_dispatch keeps the composite ops (linear, matmul, softmax) of the expansion whole; an
    # expansion written in C++ is seen only below it.
    for pre_dispatch in (True, False):
        try:
            with splice.mode, torch.no_grad():
                traced = make_fx(call, pre_dispatch=pre_dispatch)(*values)
        except _Declined:
            return None
        if not _is_same_op(_calls(traced), node.target):
            write = make_functional(traced)
            if write is not None:
                raise Unsupported(
                    f"PyTorch's expansion of it writes in place ({kind_of(write.target)})"
                )
            return _paste(splice, traced, operands)
    return None


def _torch_decomposition(op: Any) -> Callable[..., Any] | None:
    table = torch._decomp.decomposition_table
    if op in table:
        return table[op]
    return op.decompose if op._can_decompose() else None


def _is_same_op(calls: list[Any], op: Any) -> bool:
    """Whether a trace is only the op itself, perhaps under its name in `prims`."""
    if len(calls) != 1:
        return False
    return calls[0] == op or kind_of(calls[0]) == f"prims.{kind_of(op).split('.')[1]}"


def _calls(traced: GraphModule) -> list[Any]:
    return [
        node.target
        for node in traced.graph.nodes
        if node.op == "call_function" and kind_of(node.target) not in _IDENTITIES
    ]


def _paste(splice: Splice, traced: GraphModule, operands: list[Node]) -> Any:
    """Copy a traced graph in front of the spliced node; its results as nodes of our graph."""
    ours: dict[Node, Any] = {}
    given = iter(operands)
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            ours[node] = next(given)
        elif node.op == "get_attr":
            ours[node] = splice.constant(fetch(traced, str(node.target)), "constant")
        elif node.op == "output":
            return torch.fx.map_arg(node.args[0], ours.__getitem__)
        elif isinstance(node.target, type):  # a named tuple of results
            ours[node] = tuple(torch.fx.map_arg(node.args, ours.__getitem__))
        elif node.target is operator.getitem and isinstance(ours[node.args[0]], tuple):
            ours[node] = ours[node.args[0]][node.args[1]]
        elif kind_of(node.target) in _IDENTITIES:
            ours[node] = ours[node.args[0]]
        else:
            with splice.gm.graph.inserting_before(splice.node):
                made = splice.gm.graph.node_copy(node, ours.__getitem__)
            made.meta = dict(splice.origin)
            if "val" in node.meta:
                made.meta["val"] = node.meta["val"]
            splice.value(made)
            splice.new.append(made)
            ours[node] = made
    raise AssertionError("a traced graph ends with its output")
