"""What a CONCAT has to copy on Ethos-U goes through an operator that is faster than a copy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npuc import Target
from npuc.execute.tosa import evaluate
from npuc.ir import DType, Graph, TensorType, Value
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.cheapen_concats import cheapen_concats
from tests.passes.random_graphs import LIMITS

U55, U85 = replace(LIMITS, name="ethos-u55-128"), replace(LIMITS, name="ethos-u85-256")
SHAPE = (1, 12, 12, 16)


def skip(b: TosaBuilder, shape: tuple[int, ...] = SHAPE, dtype: DType = DType.INT8) -> Value:
    """A map beside what is computed from it, on the last axis."""
    x = b.CLAMP(b.input(TensorType(dtype, shape), "x"), min_val=-100, max_val=100)
    return b.CONCAT(b.CLAMP(x, min_val=0, max_val=50), x, axis=len(shape) - 1)


def graph_of(*args: object) -> Graph:
    b = TosaBuilder(LIMITS)
    return b.finish([skip(b, *args)])  # type: ignore[arg-type]


def count(graph: Graph, name: str) -> int:
    return sum(op.kind == f"tosa.{name}" for op in graph.ops)


def same(before: Graph, after: Graph) -> None:
    codes = np.random.default_rng(0).integers(-128, 128, before.inputs[0].type.ints)
    data = [codes.astype(before.inputs[0].type.dtype.numpy)]
    for a, c in zip(evaluate(before, data), evaluate(after, data), strict=True):
        np.testing.assert_array_equal(a, c)


def test_one_operator_per_copy() -> None:
    for limits, name in ((U55, "DEPTHWISE_CONV2D"), (U85, "MUL")):
        before = graph_of()
        after = cheapen_concats(before, limits)
        assert (count(after, name), count(after, "CONCAT")) == (1, 1)
        same(before, after)


def test_other_types_and_ranks() -> None:
    for args in (((4, 512), DType.INT8), (SHAPE, DType.INT16)):
        before = graph_of(*args)
        assert count(cheapen_concats(before, U85), "MUL") == 1
        same(before, cheapen_concats(before, U85))
        assert count(cheapen_concats(before, U55), "DEPTHWISE_CONV2D") == 0


def test_an_input_is_copied_too() -> None:
    b = TosaBuilder(LIMITS)
    x, y = (b.input(TensorType(DType.INT8, SHAPE), name) for name in "xy")
    graph = b.finish([b.CONCAT(x, b.CLAMP(y, min_val=0, max_val=9), axis=3)])
    assert count(cheapen_concats(graph, U85), "MUL") == 1


def test_what_stays() -> None:
    assert count(cheapen_concats(graph_of((1, 4, 4, 16)), U85), "MUL") == 0  # small
    assert count(cheapen_concats(graph_of(), replace(U55, name="ethos-u55-32")), "CONCAT") == 1
    b = TosaBuilder(LIMITS)
    x = b.CLAMP(b.input(TensorType(DType.INT8, SHAPE), "x"), min_val=-100, max_val=100)
    y = b.CLAMP(x, min_val=0, max_val=9)
    two = b.finish([b.CONCAT(y, x, axis=3), b.CONCAT(x, y, axis=1)])
    assert count(cheapen_concats(two, U85), "MUL") == 0  # equal copies would be one value again
    b = TosaBuilder(LIMITS)
    x, y = (b.CLAMP(b.input(TensorType(DType.INT8, SHAPE), n), min_val=0, max_val=9) for n in "xy")
    assert count(cheapen_concats(b.finish([b.CONCAT(x, y, axis=3)]), U85), "MUL") == 0  # free


@pytest.mark.parametrize("chip", ["ethos-u55-128", "ethos-u55-256", "ethos-u85-256"])
def test_vela_counts_fewer_cycles(chip: str) -> None:
    pytest.importorskip("ethosu.regor")
    from npuc.serialize.tosa_flatbuffer import serialize
    from npuc.targets.vela import compile_vela

    before = graph_of((1, 48, 48, 32))
    cycles = [
        compile_vela(serialize(g, (1, 0)), chip).perf["total_cycles"]
        for g in (before, cheapen_concats(before, Target.named(chip).limits))
    ]
    assert cycles[1] < 0.95 * cycles[0]
