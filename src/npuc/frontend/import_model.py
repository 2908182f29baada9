"""Program -> canonical graph of aten ops with quantized types: the frontend from start to end."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any

from npuc.ir import Graph

if TYPE_CHECKING:
    from npuc.frontend.program import Program


def import_model(program: Program, known_kinds: Set[str], keep_boundary: bool = False) -> Graph:
    """The program as a graph whose ops are of `known_kinds` as far as expansions reach.

    known_kinds: the kinds for which the target has a lowering rule. keep_boundary: inputs and
    outputs stay of the program's types (see `fold_qdq`). `program.graph_module` is
    changed in place (ops without a rule expanded, batch norms folded), so that it stays the
    reference that names the same values. Raises Unsupported.
    """
    from npuc.frontend.canonicalize import canonicalize
    from npuc.frontend.fold_qdq import fold_qdq
    from npuc.frontend.import_fx import import_fx

    # Beside torch's millions of objects one collection takes longer than the whole import.
    gc.freeze()
    try:
        prepare(program, known_kinds)
        graph = canonicalize(import_fx(program))
        return fold_qdq(graph, keep_boundary, program.state_pairs)
    finally:
        gc.unfreeze()


def prepare(program: Program, known_kinds: Set[str]) -> None:
    """Expand the ops without a rule and fold batch norms, in place in `program.graph_module`."""
    from npuc.frontend.canonicalize import spelled_kinds
    from npuc.frontend.decompose import expand
    from npuc.frontend.fold_batch_norm import fold_batch_norm

    known = spelled_kinds(frozenset(known_kinds))
    for gm in _graphs(program.graph_module):
        fold_batch_norm(gm)
        norms = {"aten.batch_norm", "aten.native_batch_norm"}
        statistics = any(_takes_batch_statistics(node) for node in gm.graph.nodes)
        expand(gm, (known - norms if statistics else known).__contains__, program.sizes)


def _graphs(gm: Any) -> Iterator[Any]:
    """A graph behind those of its branches and loops."""
    from torch.fx import GraphModule

    for child in gm.children():
        if isinstance(child, GraphModule):
            yield from _graphs(child)
    yield gm


def _takes_batch_statistics(node: Any) -> bool:
    """Whether a node is a batch norm without running statistics: it is arithmetic, not a layer."""
    from npuc.frontend.splice import kind_of

    return kind_of(node.target) == "aten.batch_norm" and bool(node.args[5])
