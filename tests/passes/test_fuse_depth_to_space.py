"""A pixel shuffle behind a convolution becomes convolutions whose channels lie as the pixels do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from npuc.ir import DType, Quant, TensorType
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.fuse_depth_to_space import fuse_depth_to_space
from tests.lowering.harness import TOSA_FP, U55, U85, ops, run, vela

R = np.random.default_rng(0)


def shuffled(limits, r: int, channels: int, clamp: bool = False, second_reader: bool = False):
    """conv 3x3, RESCALE per channel, and nn.PixelShuffle written with one TRANSPOSE of rank 6."""
    b = TosaBuilder(limits)
    x = b.input(TensorType(DType.INT8, (1, 6, 5, 8), Quant(0.1, 3)), "x")
    depth = channels * r * r
    weights = b.const(R.integers(-127, 128, (depth, 3, 3, 8)).astype(np.int8))
    bias = b.const(R.integers(-999, 999, depth).astype(np.int32))
    zero = b.const(np.zeros(1, np.int8))
    y = b.CONV2D(x, weights, bias, b.zero_point(x), zero, pad=(1, 1, 1, 1), acc_type=DType.INT32)
    y = b.rescale(y, R.uniform(1e-3, 5e-3, depth), DType.INT8, out_zp=-7, quant=Quant(0.2, -7))
    y = b.CLAMP(y, min_val=-50, max_val=60, quant=y.type.quant) if clamp else y
    z = b.transpose(b.reshape(y, (1, 6, 5, channels, r, r)), (0, 1, 4, 2, 5, 3))
    z = b.reshape(z, (1, 6 * r, 5 * r, channels))
    return b.finish([z, b.transpose(y, (0, 3, 1, 2))] if second_reader else [z])


@pytest.mark.parametrize("limits", [U55, U85], ids=lambda t: t.name)
@pytest.mark.parametrize("r, channels, clamp", [(2, 4, False), (3, 2, True), (4, 16, False)])
def test_the_transpositions_vanish_and_every_element_stays(r, channels, clamp, limits) -> None:
    graph = shuffled(limits, r, channels, clamp)
    fused = fuse_depth_to_space(graph, limits)
    assert ops(fused).count("CONV2D") == r and "TRANSPOSE" not in ops(fused)
    assert [v.type for v in fused.outputs] == [v.type for v in graph.outputs]
    x = R.integers(-128, 128, (1, 6, 5, 8)).astype(np.int8)
    np.testing.assert_array_equal(run(graph, [x])[0], run(fused, [x])[0])
    before, after = (vela(g, limits.name).perf["total_cycles"] for g in (graph, fused))
    assert after < before


@pytest.mark.parametrize("limits", [U55, U85, TOSA_FP], ids=lambda t: t.name)
def test_an_image_that_is_given_as_planes(limits) -> None:
    """One TRANSPOSE is left, that of the output; floats need no RESCALE behind the convolution."""
    b = TosaBuilder(limits)
    dtype, wide = (DType.INT8, DType.INT32) if limits is not TOSA_FP else (DType.FP32, DType.FP32)
    x = b.input(TensorType(dtype, (1, 6, 5, 8)), "x")
    weights = b.const(R.integers(-127, 128, (12, 3, 3, 8)), dtype)
    zero, bias = b.const(np.zeros(1), dtype), b.const(R.integers(-99, 99, 12), wide)
    y = b.CONV2D(x, weights, bias, zero, zero, pad=(1, 1, 1, 1), acc_type=wide)
    y = y if limits is TOSA_FP else b.rescale(y, 0.001, DType.INT8)
    z = b.transpose(b.reshape(y, (1, 6, 5, 3, 2, 2)), (0, 3, 1, 4, 2, 5))
    graph = b.finish([b.reshape(z, (1, 3, 12, 10))])
    fused = fuse_depth_to_space(graph, limits)
    assert (ops(fused).count("CONV2D"), ops(fused).count("TRANSPOSE")) == (2, 1)
    data = R.integers(-128, 128, (1, 6, 5, 8)).astype(dtype.numpy)
    np.testing.assert_array_equal(run(graph, [data])[0], run(fused, [data])[0])


def test_other_moves_and_other_readers_stay() -> None:
    graph = shuffled(U55, 2, 4, second_reader=True)
    assert ops(fuse_depth_to_space(graph, U55)) == ops(graph)
    b = TosaBuilder(U55)
    x = b.input(TensorType(DType.INT8, (1, 4, 4, 8)), "x")
    zero, bias = b.const(np.zeros(1, np.int8)), b.const(np.zeros(8, np.int32))
    y = b.CONV2D(x, b.const(np.ones((8, 1, 1, 8), np.int8)), bias, zero, zero, acc_type=DType.INT32)
    z = b.transpose(b.rescale(y, 0.1, DType.INT8), (0, 3, 1, 2))
    graph = b.finish([z])
    assert ops(fuse_depth_to_space(graph, U55)) == ops(graph)


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_a_network_with_pixel_shuffle_has_no_transposition(target) -> None:
    import npuc

    conv = torch.nn.Conv2d
    model = torch.nn.Sequential(
        conv(8, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.PixelShuffle(2),
        conv(4, 4, 3, padding=1),
    ).eval()
    x = torch.randn(1, 8, 10, 12)
    c = npuc.compile(
        model, (x,), target=target, quantization="int8", calibration=[(x,)],
        io_layout="channels_last", progress=False,
    )  # fmt: skip
    assert "TRANSPOSE" not in ops(c.graph)
