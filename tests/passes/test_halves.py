"""Reductions in halves and planes of an image on Ethos-U: the same bits, fewer cycles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from npuc.execute.tosa import evaluate
from npuc.ir import DType, Graph, TensorType, Value
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.halve_maxima import halve_maxima
from npuc.passes.halve_sums import halve_sums
from npuc.passes.interleave_planes import interleave_planes
from npuc.passes.pipeline import Pass
from tests.passes.random_graphs import LIMITS

U55, U85 = replace(LIMITS, name="ethos-u55-128"), replace(LIMITS, name="ethos-u85-256")
Make = Callable[[TosaBuilder, Value], Value]


def graph_of(make: Make, shape: tuple[int, ...], dtype: DType = DType.INT8) -> Graph:
    b = TosaBuilder(LIMITS)
    return b.finish([make(b, b.input(TensorType(dtype, shape), "x"))])


def count(graph: Graph, name: str) -> int:
    return sum(op.kind == f"tosa.{name}" for op in graph.ops)


def same(before: Graph, after: Graph) -> None:
    """The results are equal, on random codes and on the extreme ones."""
    (x,) = before.inputs
    low, high = (int(end) for end in x.type.dtype.range)
    rng = np.random.default_rng(0)
    for data in (
        rng.integers(low, high + 1, x.type.ints), np.full(x.type.ints, low),
        np.full(x.type.ints, high),
    ):  # fmt: skip
        codes = [data.astype(x.type.dtype.numpy)]
        np.testing.assert_array_equal(evaluate(before, codes)[0], evaluate(after, codes)[0])


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize("name", ["REDUCE_MAX", "REDUCE_MIN"])
@pytest.mark.parametrize("shape", [(1, 40, 33), (2, 3, 64, 197), (48, 256), (1, 1000)])
def test_maxima(shape: tuple[int, ...], name: str, dtype: DType) -> None:
    axis = len(shape) - 1
    before = graph_of(lambda b, x: b.tosa(name, x, axis=axis), shape, dtype)
    pairwise = name.replace("REDUCE_MAX", "MAXIMUM").replace("REDUCE_MIN", "MINIMUM")
    for limits, longest in ((U55, 32), (U85, 100)):
        after = halve_maxima(before, limits)
        (last,) = (op for op in after.ops if op.kind == f"tosa.{name}")
        assert last.operands[0].type.ints[-1] <= longest
        assert count(after, pairwise) >= 1
        same(before, after)


def test_maxima_that_stay() -> None:
    for shape, axis in (((1, 40, 16), 2), ((1, 1, 63), 2), ((1, 64, 64), 1), ((1, 4, 64), 2)):
        before = graph_of(lambda b, x, a=axis: b.REDUCE_MAX(x, axis=a), shape)  # type: ignore[misc]
        assert count(halve_maxima(before, U85), "MAXIMUM") == 0


@pytest.mark.parametrize("zero", [0, -128, 127, 5])
@pytest.mark.parametrize(
    "shape, axis", [((1, 49, 64), 1), ((1, 125, 16), 1), ((1, 8, 8, 16), 2), ((300, 8), 0)]
)
def test_sums(shape: tuple[int, ...], axis: int, zero: int) -> None:
    def make(b: TosaBuilder, x: Value) -> Value:
        return b.REDUCE_SUM(b.rescale(x, 1.0, DType.INT32, in_zp=zero), axis=axis)

    before = graph_of(make, shape)
    after = halve_sums(before, U85)
    assert count(after, "REDUCE_SUM") == 0
    same(before, after)


def test_sums_that_stay() -> None:
    def make(axis: int, scale: float) -> Make:
        return lambda b, x: b.REDUCE_SUM(b.rescale(x, scale, DType.INT32), axis=axis)

    for shape, axis, scale in (((1, 49, 64), 2, 1.0), ((1, 49, 64), 1, 2.0), ((1, 49, 4), 1, 1.0)):
        assert count(halve_sums(graph_of(make(axis, scale), shape), U85), "REDUCE_SUM") == 1


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
def test_planes(dtype: DType) -> None:
    before = graph_of(lambda b, x: b.TRANSPOSE(x, perms=(0, 2, 1)), (1, 3, 1024), dtype)
    after = interleave_planes(before, U85)
    assert (count(after, "TRANSPOSE"), count(after, "MUL"), count(after, "CONCAT")) == (0, 3, 1)
    same(before, after)


def test_planes_that_stay() -> None:
    for shape in ((1, 17, 1024), (2, 3, 1024), (1, 3, 64)):
        before = graph_of(lambda b, x: b.TRANSPOSE(x, perms=(0, 2, 1)), shape)
        assert count(interleave_planes(before, U85), "TRANSPOSE") == 1
    computed = graph_of(
        lambda b, x: b.TRANSPOSE(b.CLAMP(x, min_val=0, max_val=5), perms=(0, 2, 1)), (1, 3, 1024)
    )
    assert count(interleave_planes(computed, U85), "TRANSPOSE") == 1  # it is free behind an op


@pytest.mark.parametrize("chip, run, make, shape, less", [
    ("ethos-u85-256", halve_maxima, "max", (1, 64, 256), 0.7),
    ("ethos-u55-128", halve_maxima, "max", (1, 64, 256), 0.9),
    ("ethos-u85-256", halve_sums, "sum", (1, 49, 256), 0.4),
    ("ethos-u85-256", interleave_planes, "planes", (1, 3, 4096), 0.2),
])  # fmt: skip
def test_vela_counts_fewer_cycles(
    chip: str, run: Pass, make: str, shape: tuple[int, ...], less: float
) -> None:
    pytest.importorskip("ethosu.regor")
    import npuc
    from npuc.passes.cheapen_reductions import cheapen_reductions
    from npuc.serialize.tosa_flatbuffer import serialize
    from npuc.targets.vela import compile_vela

    def body(b: TosaBuilder, x: Value) -> Value:
        if make == "max":
            rows = b.CLAMP(x, min_val=-100, max_val=100)
            largest = b.REDUCE_MAX(rows, axis=2)
            less = b.SUB(b.rescale(rows, 1.0, DType.INT32), b.rescale(largest, 1.0, DType.INT32))
            return b.rescale(less, 1.0, DType.INT8)
        if make == "sum":
            return b.rescale(b.REDUCE_SUM(b.rescale(x, 1.0, DType.INT32), axis=1), 0.1, DType.INT8)
        return b.CLAMP(b.TRANSPOSE(x, perms=(0, 2, 1)), min_val=-100, max_val=100)

    limits = npuc.Target.named(chip).limits
    before = graph_of(body, shape)
    cycles = [
        compile_vela(serialize(cheapen_reductions(g, limits), (1, 0)), chip).perf["total_cycles"]
        for g in (before, run(before, limits))
    ]
    assert cycles[1] < less * cycles[0]
