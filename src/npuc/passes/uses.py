"""How often each value of a graph is read."""

from __future__ import annotations

from collections import Counter

from npuc.ir import Graph, Value


def count_uses(graph: Graph) -> Counter[Value]:
    """Reads per value: operand slots, outputs, and those of regions."""
    uses = Counter(graph.outputs)
    for op in graph.walk():
        uses.update(op.operands)
        for region in op.regions:
            uses.update(region.outputs)
    return uses
