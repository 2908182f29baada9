"""Passes on TFLite graphs: fewer operators, the same values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from npuc.dialects.tflite import TfliteLimits, TfliteOpBuilder
from npuc.execute.tflite import run_tflite
from npuc.ir import DType, Graph, Quant, TensorType, Value
from npuc.passes.pipeline import run_passes
from npuc.serialize.tflite_flatbuffer import serialize
from npuc.targets.tflite import TFLITE_PASSES
from tests.tflite.harness import names

LIMITS = TfliteLimits()
Q, HALF = Quant(0.05, 3), Quant(0.025, -128)
rng = np.random.default_rng(7)
Emit = Callable[[TfliteOpBuilder, Value], Value]


def optimized(emit: Emit, shape: tuple[int, ...], passes: tuple[str, ...] = TFLITE_PASSES,
              steps: int = 1, quant: Quant = Q) -> Graph:  # fmt: skip
    """The graph after passes; its results are within `steps` of those before."""
    b = TfliteOpBuilder(LIMITS)
    x = b.input(TensorType(DType.INT8, shape, quant), "x")
    graph = b.finish([emit(b, x)])
    after = run_passes(graph, passes, LIMITS)
    feed = rng.integers(-128, 128, shape).astype(np.int8)
    before, now = (run_tflite(serialize(g), [feed])[0] for g in (graph, after))
    assert np.abs(before.astype(int) - now.astype(int)).max() <= steps
    return after


def conv(b: TfliteOpBuilder, x: Value, channels: int = 5, quant: Quant = Q) -> Value:
    c = x.type.ints[3]
    w = b.const(rng.integers(-50, 50, (channels, 3, 3, c)).astype(np.int8), quant=Quant(0.01, 0))
    bias = b.const(np.zeros(channels, np.int32), quant=Quant(x.type.quant.s * 0.01, 0))  # type: ignore[union-attr]
    return b.CONV_2D(x, w, bias, padding="SAME", quant=quant)  # type: ignore[no-any-return]


def linear(b: TfliteOpBuilder, x: Value, outs: int, **attrs: bool) -> Value:
    w = b.const(rng.integers(-50, 50, (outs, x.type.ints[-1])).astype(np.int8),
                quant=Quant(np.linspace(0.01, 0.02, outs), 0, 0))  # fmt: skip
    return b.FULLY_CONNECTED(x, w, quant=Q, **attrs)  # type: ignore[no-any-return]


@pytest.mark.parametrize("activation", ["RELU", "RELU6"])
def test_activations_are_fused(activation: str) -> None:
    coarse, result = Quant(0.5, 0), Quant(0.249, -128)
    graph = optimized(lambda b, x: b.tflite(activation, conv(b, x, quant=coarse), quant=result),
                      (1, 6, 6, 4), steps=2)  # fmt: skip
    assert names(graph) == ["CONV_2D"]
    assert graph.ops[-1].attrs["activation"] == activation


def test_an_activation_with_another_reader_stays() -> None:
    def emit(b: TfliteOpBuilder, x: Value) -> Value:
        y = conv(b, x)
        return b.ADD(b.RELU(y, quant=Q), y, quant=Quant(0.1, 0))  # type: ignore[no-any-return]

    assert names(optimized(emit, (1, 6, 6, 4))) == ["CONV_2D", "RELU", "ADD"]


def test_quantizes_are_merged() -> None:
    wide = Quant(0.05 / 128, 0, None, -(2**15), 2**15 - 1)

    def chain(b: TfliteOpBuilder, x: Value) -> Value:
        y = b.QUANTIZE(x, dtype=DType.INT16, quant=wide)
        return b.ABS(b.QUANTIZE(y, dtype=DType.INT8, quant=Q), quant=Q)  # type: ignore[no-any-return]

    assert names(optimized(chain, (2, 8))) == ["ABS"]

    def behind(b: TfliteOpBuilder, x: Value) -> Value:
        y = conv(b, x, quant=Quant(0.1, 0))
        return b.QUANTIZE(y, dtype=DType.INT8, quant=HALF)  # type: ignore[no-any-return]

    assert names(optimized(behind, (1, 6, 6, 4), steps=3)) == ["CONV_2D"]

    def in_front(b: TfliteOpBuilder, x: Value) -> Value:
        y = b.QUANTIZE(x, dtype=DType.INT8, quant=Quant(0.1, 3))
        return b.ADD(y, x, quant=Quant(0.2, 0))  # type: ignore[no-any-return]

    assert names(optimized(in_front, (2, 8))) == ["ADD"]


def test_a_value_that_clips_stays() -> None:
    """A range in between that is narrower than the result's is part of the model."""

    def narrow(b: TfliteOpBuilder, x: Value) -> Value:
        return b.RELU(conv(b, x, quant=Quant(0.01, 0)), quant=HALF)  # type: ignore[no-any-return]

    assert names(optimized(narrow, (1, 6, 6, 4), steps=0)) == ["CONV_2D", "RELU"]

    def behind(b: TfliteOpBuilder, x: Value) -> Value:
        return b.QUANTIZE(conv(b, x, quant=Quant(0.01, 0)), dtype=DType.INT8, quant=Q)  # type: ignore[no-any-return]

    assert names(optimized(behind, (1, 6, 6, 4), steps=0)) == ["CONV_2D", "QUANTIZE"]

    def clips(b: TfliteOpBuilder, x: Value) -> Value:
        y = b.QUANTIZE(x, dtype=DType.INT8, quant=Quant(0.01, 0))
        return b.ADD(y, x, quant=Quant(0.2, 0))  # type: ignore[no-any-return]

    assert names(optimized(clips, (2, 8), steps=0)) == ["QUANTIZE", "ADD"]


def test_reduced_axes_are_dropped_by_the_reduction() -> None:
    def emit(b: TfliteOpBuilder, x: Value) -> Value:
        return b.reshape(b.MEAN(x, axes=(1, 2), keep_dims=True, quant=Q), (1, 4))

    assert names(optimized(emit, (1, 6, 6, 4))) == ["MEAN"]


def padded_conv(
    b: TfliteOpBuilder, x: Value, pads: tuple[int, ...], stride: int, flat: bool
) -> Value:
    """A convolution 3x3 (1x3 when `flat`) without padding of its own on `x` padded by `pads`."""
    y = b.PAD(b.PAD(x, paddings=(0, 0, *pads[:4], 0, 0)), paddings=(0, 0, *pads[4:], 0, 0))
    kernel = (1, 3) if flat else (3, 3)
    if flat:
        n, h, w, c = y.type.ints
        y = b.reshape(y, (n, w, h, c))
    w = b.const(rng.integers(-50, 50, (5, *kernel, 4)).astype(np.int8), quant=Quant(0.01, 0))
    bias = b.const(np.zeros(5, np.int32), quant=Quant(Q.s * 0.01, 0))
    return b.CONV_2D(y, w, bias, stride=(1, stride) if flat else (stride,) * 2, quant=Q)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "shape, pads, stride, flat, same",
    [
        ((1, 6, 7, 4), (1, 1, 1, 1, 0, 0, 0, 0), 1, False, True),
        ((1, 6, 7, 4), (1, 0, 0, 1, 0, 1, 1, 0), 1, False, True),
        ((1, 7, 7, 4), (1, 1, 1, 1, 0, 0, 0, 0), 2, False, True),
        ((1, 6, 6, 4), (1, 1, 1, 1, 0, 0, 0, 0), 2, False, False),  # SAME pads the other end
        ((1, 6, 7, 4), (1, 1, 2, 1, 0, 0, 0, 0), 1, False, False),
        ((1, 6, 7, 4), (1, 1, 1, 1, 1, 0, 0, 0), 1, False, False),
        ((1, 9, 1, 4), (1, 1, 0, 0, 0, 0, 0, 0), 1, True, True),
        ((1, 9, 1, 4), (2, 1, 0, 0, 0, 0, 0, 0), 1, True, False),
    ],
)
def test_padding_becomes_same(
    shape: tuple[int, ...], pads: tuple[int, ...], stride: int, flat: bool, same: bool
) -> None:
    graph = optimized(lambda b, x: padded_conv(b, x, pads, stride, flat), shape, steps=0)
    found = names(graph)
    assert found.count("PAD") == (0 if same else 1)
    conv = next(op for op in graph.ops if op.name == "CONV_2D")
    assert conv.attrs["padding"] == ("SAME" if same else "VALID")


def test_transposes_inside_products() -> None:
    def emit(b: TfliteOpBuilder, x: Value) -> Value:
        return b.BATCH_MATMUL(x, b.transpose(x, (0, 2, 1)), quant=Quant(1.0, 0))  # type: ignore[no-any-return]

    graph = optimized(emit, (2, 5, 8), steps=0)
    assert names(graph) == ["BATCH_MATMUL"] and graph.ops[-1].attrs["adj_y"]


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
@pytest.mark.parametrize("shape", [(2, 5, 48), (7, 9), (1, 30)])
def test_rows_are_reduced_in_other_forms(dtype: DType, shape: tuple[int, ...]) -> None:
    low, high = dtype.range
    q = Quant(0.01, 3 if dtype is DType.INT8 else 0, None, low, high)
    own = Quant(0.004, 1 if dtype is DType.INT8 else 0, None, low, high)
    axis = (len(shape) - 1,)
    for name, quant in (("REDUCE_MAX", q), ("MEAN", own)):
        b = TfliteOpBuilder(LIMITS)
        x = b.input(TensorType(dtype, shape, q), "x")
        graph = b.finish([b.tflite(name, x, axes=axis, keep_dims=name == "MEAN", quant=quant)])
        after = run_passes(graph, ("cheapen_rows",), LIMITS)
        feed = rng.integers(low, high, shape, endpoint=True).astype(dtype.numpy)
        real = q.dequantize(feed)
        want = real.max(-1) if name == "REDUCE_MAX" else real.mean(-1, keepdims=True)
        (got,) = run_tflite(serialize(after), [feed])
        assert np.abs(got.astype(int) - quant.quantize(want)).max() <= (name == "MEAN")
        assert names(after) != names(graph) or shape[0] == 1


def test_layout_of_a_network() -> None:
    """NCHW in and out: two TRANSPOSEs at the ends, whatever stands between the convolutions."""

    def emit(b: TfliteOpBuilder, x: Value) -> Value:
        to, back = (0, 2, 3, 1), (0, 3, 1, 2)
        y = b.transpose(conv(b, b.transpose(x, to)), back)
        y = b.ADD(y, b.const(rng.integers(-9, 9, (1, 5, 1, 1)).astype(np.int8), quant=Q), quant=Q)
        y = b.CONCATENATION(y, b.SLICE(y, begin=(0, 1, 0, 0), size=(1, 3, 6, 6)), axis=1)
        y = b.PAD(y, paddings=(0, 0, 0, 0, 1, 0, 0, 2))
        y = b.MUL(y, b.SUM(y, axes=(1,), keep_dims=True, quant=Quant(0.5, 0)), quant=Quant(2.0, 0))
        return b.transpose(conv(b, b.transpose(y, to), quant=Quant(9.0, 0)), back)

    graph = optimized(emit, (1, 4, 6, 6), steps=0)
    assert names(graph).count("TRANSPOSE") == 2


def test_flatten_is_absorbed_by_weights() -> None:
    """[N, C, H, W] flattened in PyTorch's order before a linear layer: no TRANSPOSE is left."""

    def emit(b: TfliteOpBuilder, x: Value) -> Value:
        y = b.transpose(conv(b, x), (0, 3, 1, 2))
        return linear(b, b.reshape(y, (1, 5 * 6 * 6)), 7)

    assert "TRANSPOSE" not in names(optimized(emit, (1, 6, 6, 4), steps=0))


def test_unflatten_is_absorbed_by_weights() -> None:
    def emit(b: TfliteOpBuilder, x: Value) -> Value:
        y = b.reshape(linear(b, x, 5 * 6 * 6), (1, 5, 6, 6))
        return conv(b, b.transpose(y, (0, 2, 3, 1)))

    assert "TRANSPOSE" not in names(optimized(emit, (1, 8), steps=0))


def test_layout_keeps_what_depends_on_the_last_axis() -> None:
    def emit(b: TfliteOpBuilder, x: Value) -> Value:
        y = b.transpose(b.SOFTMAX(b.transpose(x, (0, 2, 1))), (0, 2, 1))
        y = b.transpose(linear(b, b.transpose(y, (0, 2, 1)), 6, keep_num_dims=True), (0, 2, 1))
        return b.ABS(y, quant=Q)  # type: ignore[no-any-return]

    optimized(emit, (2, 5, 8), steps=0)
