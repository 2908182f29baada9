"""What integer graphs of networks do not contain: constants twice and chains of RESCALEs."""

from __future__ import annotations

from collections import Counter

import pytest

from npuc.ir import DType, Graph, Op
from npuc.serialize.read_tosa import read_tosa
from tests.models.networks import NETWORKS, compiled

pytestmark = pytest.mark.slow

NARROW = (DType.INT8, DType.INT16)
MOVES = ("tosa.RESHAPE", "tosa.TRANSPOSE", "tosa.SLICE", "tosa.CLAMP")
#: a 16-bit value read by several 8-bit tables, each for a part of its range: no INT16 TABLE here
PARTS_OF_A_RANGE = {("voice_activity", "tosa-1.0+int"): 3}


def chains(graph: Graph) -> list[Op]:
    """The RESCALEs of what a RESCALE made of an accumulator, but those that widen it again.

    The first gives a value of the model its 8 or 16 bits, rounded and cut off. To widen it for a
    sum is no second requantization: TOSA adds INT32 only, and it is exact or finer than the value.
    """
    found = []
    for op in graph.walk():
        if op.kind != "tosa.RESCALE" or op.result.type.dtype not in NARROW:
            continue
        source = op.operands[0].op
        while source is not None and source.kind in MOVES:
            source = source.operands[0].op
        if source is not None and source.kind == "tosa.RESCALE":
            found.append(op)
    return found


@pytest.mark.parametrize("target", ["tosa-1.0+int", "ethos-u55-128", "ethos-u85-256", "vgf"])
@pytest.mark.parametrize("name", NETWORKS)
def test_integer_graph(name: str, target: str) -> None:
    c = compiled(name, target, True, check=False)
    if not target.startswith("ethos"):
        assert len(chains(c.graph)) == PARTS_OF_A_RANGE.get((name, target), 0)
    written = read_tosa(c.output.tosa)
    constants = [op.result for op in written.walk() if op.kind == "const"]
    count = Counter((v.type.dtype, v.type.shape, v.array.tobytes()) for v in constants)
    assert [(key[:2], n) for key, n in count.items() if n > 1] == []
