"""TILEs that sink behind unary operators, vanish in broadcasting ones, or become convolutions."""

from __future__ import annotations

import numpy as np
import pytest

from npuc.ir import DType, Quant, TensorType
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.cheapen_tiles import cheapen_tiles
from npuc.passes.sink_tiles import sink_tiles
from tests.lowering.harness import TOSA_ALL, U55, U85, ops, run, vela

Q = Quant(0.1, 3)


def same_numbers(before, after) -> None:
    rng = np.random.default_rng(0)
    feeds = []
    for v in before.inputs:
        low, high = (-100, 100) if v.type.dtype.is_integer else (0, 1)
        feeds.append(rng.integers(low, high, v.type.ints).astype(v.type.dtype.numpy))
    for a, b in zip(run(before, feeds), run(after, feeds), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [v.type for v in before.outputs] == [v.type for v in after.outputs]


def test_tile_vanishes_where_the_reader_broadcasts() -> None:
    b = TosaBuilder(TOSA_ALL)
    x = b.input(TensorType(DType.INT8, (1, 4, 1, 1), Q), "x")
    y = b.input(TensorType(DType.INT8, (1, 4, 8, 8), Q), "y")
    wide = b.to_int32(b.TILE(x, (1, 1, 8, 8), quant=Q))
    graph = b.finish([b.ADD(wide, b.to_int32(y))])
    after = sink_tiles(graph, TOSA_ALL)
    assert ops(graph).count("TILE") == 1 and ops(after).count("TILE") == 0
    same_numbers(graph, after)


def test_tile_stays_where_both_operands_would_broadcast() -> None:
    b = TosaBuilder(TOSA_ALL)
    x = b.input(TensorType(DType.FP32, (1, 4, 1)), "x")
    y = b.input(TensorType(DType.FP32, (3, 1, 5)), "y")
    z = b.ADD(b.TILE(x, (3, 1, 5)), b.TILE(y, (1, 4, 1)))
    graph = b.finish([z])
    after = sink_tiles(graph, TOSA_ALL)
    assert ops(after).count("TILE") == 1
    same_numbers(graph, after)


def test_tile_of_several_elements_is_no_broadcast_but_sinks() -> None:
    b = TosaBuilder(TOSA_ALL)
    x = b.input(TensorType(DType.FP32, (2, 3)), "x")
    tiled = b.TILE(x, (2, 1))
    graph = b.finish([b.ADD(tiled, b.input(TensorType(DType.FP32, (4, 3)), "y")), b.ABS(tiled)])
    after = sink_tiles(graph, TOSA_ALL)
    assert ops(after).count("TILE") == 2
    (absolute,) = [op for op in after.ops if op.name == "ABS"]
    assert absolute.results[0].type.shape == (2, 3)
    same_numbers(graph, after)


@pytest.mark.parametrize("limits", [U55, U85], ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16], ids=str)
@pytest.mark.parametrize(
    "shape, multiples",
    [
        ((1, 1, 1, 64), (1, 8, 8, 1)),
        ((1, 16, 16, 1), (1, 1, 1, 32)),
        ((2, 3, 64), (3, 9, 1)),
        ((2, 1, 1, 32), (2, 4, 4, 1)),
    ],
    ids=str,
)
def test_tile_as_a_convolution_is_exact_and_faster(shape, multiples, dtype, limits) -> None:
    b = TosaBuilder(limits)
    quant = Q if dtype is DType.INT8 else Quant(0.1, 0, None, -(2**15), 2**15 - 1)
    x = b.input(TensorType(dtype, shape, quant), "x")
    graph = b.finish([b.TILE(x, multiples, quant=quant)])
    after = cheapen_tiles(graph, limits)
    assert "CONV2D" in ops(after)
    same_numbers(graph, after)
    before, now = (vela(g, limits.name).perf["total_cycles"] for g in (graph, after))
    assert now < before


def test_tiles_that_are_small_or_int32_stay() -> None:
    b = TosaBuilder(U55)
    x = b.input(TensorType(DType.INT32, (1, 1, 64)), "x")
    y = b.input(TensorType(DType.INT8, (1, 1, 4)), "y")
    graph = b.finish([b.TILE(x, (1, 32, 1)), b.TILE(y, (1, 4, 1))])
    assert ops(cheapen_tiles(graph, U55)) == ["TILE", "TILE"]
