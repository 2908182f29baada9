"""Sums of two int8 maps as a depthwise convolution on Ethos-U55: values, conditions, cycles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npuc.execute.tosa import evaluate
from npuc.ir import DType, Graph, TensorType, Value
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.cheapen_sums import cheapen_sums, weights_for
from tests.passes.random_graphs import LIMITS

U55 = replace(LIMITS, name="ethos-u55-128")
SHAPE = (1, 8, 8, 16)
#: few channels are added by a 1x1 convolution, many by a depthwise one
SHAPES = {"CONV2D": SHAPE, "DEPTHWISE_CONV2D": (1, 7, 5, 40)}


def pooled(b: TosaBuilder, name: str, shape: tuple[int, ...] = SHAPE) -> Value:
    """A map that an operator without another reader computes."""
    x = b.input(TensorType(DType.INT8, shape), name)
    return b.MAX_POOL2D(x, kernel=(1, 1), stride=(1, 1), pad=(0, 0, 0, 0))


def sum_of(
    b: TosaBuilder, x: Value, y: Value, fx: float, fy: float, zeros: tuple[int, int, int],
    op: str = "ADD",
) -> Value:  # fmt: skip
    """RESCALEs to int32, ADD or SUB, RESCALE to int8: round((x - zx) * fx + (y - zy) * fy) + z."""
    left = b.rescale(x, fx * 2.0**19, DType.INT32, in_zp=zeros[0])
    right = b.rescale(y, fy * 2.0**19, DType.INT32, in_zp=zeros[1])
    return b.rescale(getattr(b, op)(left, right), 2.0**-19, DType.INT8, out_zp=zeros[2])


def count(graph: Graph, name: str) -> int:
    return sum(op.kind == f"tosa.{name}" for op in graph.ops)


def compare(graph: Graph, seed: int) -> tuple[Graph, np.ndarray]:
    """The graph after the pass, and how far its results are from those before."""
    after = cheapen_sums(graph, U55)
    rng = np.random.default_rng(seed)
    data = [rng.integers(-128, 128, v.type.ints).astype(np.int8) for v in graph.inputs]
    (a,), (c,) = evaluate(graph, data), evaluate(after, data)
    assert a.shape == c.shape and a.dtype == c.dtype
    return after, np.abs(a.astype(np.int64) - c.astype(np.int64))


@pytest.mark.parametrize("convolution", SHAPES)
@pytest.mark.parametrize("op", ["ADD", "SUB"])
@pytest.mark.parametrize("seed", range(8))
def test_at_most_one_step(seed: int, op: str, convolution: str) -> None:
    rng = np.random.default_rng(seed)
    fx, fy = rng.uniform(0.05, 0.95, 2)
    zeros = tuple(int(v) for v in rng.integers(-128, 128, 3))
    b = TosaBuilder(U55)
    x, y = (pooled(b, name, SHAPES[convolution]) for name in "xy")
    total = sum_of(b, x, y, fx, fy, zeros, op)  # type: ignore[arg-type]
    after, difference = compare(b.finish([total]), seed)
    assert (count(after, op), count(after, convolution), count(after, "CONCAT")) == (0, 1, 1)
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.15


@pytest.mark.parametrize("scale", [0.25, 0.7712345, 1.0])
def test_equal_scales_are_exact(scale: float) -> None:
    assert weights_for(scale, scale) == (1, 1, pytest.approx(scale))
    b = TosaBuilder(U55)
    y = sum_of(b, pooled(b, "x"), pooled(b, "y"), scale, scale, (3, -7, 11))
    after, difference = compare(b.finish([y]), 5)
    assert count(after, "CONV2D") == 1 and not difference.any()


def test_a_map_with_another_reader_is_copied() -> None:
    b = TosaBuilder(U55)
    x = pooled(b, "x")
    near = b.rescale(b.AVG_POOL2D(
        x, b.zero_point(x, 0), b.zero_point(x, 0), kernel=(1, 1), stride=(1, 1), pad=(0, 0, 0, 0),
        acc_type=DType.INT32,
    ), 1.0, DType.INT8)  # fmt: skip
    pool = b.MAX_POOL2D(near, kernel=(1, 1), stride=(1, 1), pad=(0, 0, 0, 0))
    graph = b.finish([sum_of(b, x, pool, 0.5, 0.5, (0, 0, 0))])
    after, difference = compare(graph, 1)
    assert count(after, "DEPTHWISE_CONV2D") == 1 == count(after, "CONV2D")
    assert not difference.any()
    larger = cheapen_sums(graph, replace(U55, name="ethos-u55-256"))
    assert count(larger, "CONV2D") == 0  # there the copy costs more than it saves


def test_stays_where_it_does_not_pay() -> None:
    for shape in ((1, 2, 2, 64), (2, 8, 8, 4)):  # few positions; a batch
        b = TosaBuilder(U55)
        y = sum_of(b, pooled(b, "x", shape), pooled(b, "y", shape), 0.4, 0.6, (0, 0, 0))
        assert count(cheapen_sums(b.finish([y]), U55), "ADD") == 1
    b = TosaBuilder(U55)
    x, y = (b.input(TensorType(DType.INT8, SHAPE), name) for name in "xy")
    graph = b.finish([sum_of(b, x, y, 0.4, 0.6, (0, 0, 0))])
    assert count(cheapen_sums(graph, U55), "ADD") == 1  # both would have to be copied
    b = TosaBuilder(U55)
    x, y = pooled(b, "x"), pooled(b, "y", (1, 1, 1, 16))
    graph = b.finish([sum_of(b, x, y, 0.4, 0.6, (0, 0, 0))])
    assert count(cheapen_sums(graph, U55), "ADD") == 1  # one repeats along the other


def test_every_quotient_has_precise_weights() -> None:
    rng = np.random.default_rng(0)
    for fx, fy in np.exp(rng.uniform(-5, 0, (200, 2))):
        p, q, m = weights_for(float(fx), float(fy))  # type: ignore[misc]
        assert max(abs(p * m - fx), abs(q * m - fy)) * 128 <= 1 / 4


def test_vela_takes_it_and_it_is_faster() -> None:
    pytest.importorskip("ethosu.regor")
    import npuc
    from npuc.serialize.tosa_flatbuffer import serialize
    from npuc.targets.vela import compile_vela

    limits = npuc.Target.named("ethos-u55-128").limits
    b = TosaBuilder(limits, ("ethos-u55", "ethos-u"))
    x = b.input(TensorType(DType.INT8, (1, 28, 28, 16)), "x")
    graph = b.finish([sum_of(b, convolved(b, x, 1), convolved(b, x, 2), 0.5, 0.9, (1, 2, 3))])
    cycles = [
        compile_vela(serialize(g, (1, 0)), "ethos-u55-128").perf["total_cycles"]
        for g in (graph, cheapen_sums(graph, limits))
    ]
    assert cycles[1] < cycles[0] - 28 * 28 * 24


def convolved(b: TosaBuilder, x: Value, seed: int) -> Value:
    """A 1x1 convolution to 24 channels."""
    kernel = np.random.default_rng(seed).integers(-127, 128, (24, 1, 1, 16)).astype(np.int8)
    zero = b.scalar(0, DType.INT8, 1)
    bias = b.const(np.zeros(24, np.int32))
    return b.rescale(
        b.CONV2D(x, b.const(kernel), bias, zero, zero, acc_type=DType.INT32), 0.01, DType.INT8
    )
