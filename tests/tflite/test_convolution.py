"""Convolutions of every kind on LiteRT: float, int8, int16, int4 weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from npuc.dialects.tflite import TfliteLimits
from tests.lowering.harness import constant, given, int16, quant_for, weight_quant
from tests.tflite.harness import check_tflite, names, refuses_tflite

rng = np.random.default_rng(0)

#: input, weight, stride, padding (before, after per dim), dilation, transposed, output padding, groups
CASES: dict[str, tuple[Any, ...]] = {
    "plain": ((2, 3, 9, 8), (5, 3, 3, 3), (1, 1), (0, 0, 0, 0), (1, 1), False, (0, 0), 1),
    "same": ((1, 3, 9, 8), (5, 3, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), False, (0, 0), 1),
    "same odd stride": ((1, 3, 9, 9), (5, 3, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1), False, (0, 0), 1),
    "even stride": ((1, 3, 8, 8), (5, 3, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1), False, (0, 0), 1),
    "cut end": ((1, 3, 10, 9), (4, 3, 3, 2), (3, 2), (0, 0, 0, 0), (1, 1), False, (0, 0), 1),
    "dilated": ((1, 3, 12, 12), (4, 3, 3, 3), (1, 1), (2, 2, 2, 2), (2, 2), False, (0, 0), 1),
    "asymmetric": ((1, 3, 8, 8), (4, 3, 4, 4), (1, 1), (1, 2, 0, 3), (1, 1), False, (0, 0), 1),
    "depthwise": ((1, 6, 8, 8), (6, 1, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), False, (0, 0), 6),
    "multiplier": ((1, 4, 8, 8), (12, 1, 3, 3), (2, 2), (0, 1, 0, 1), (1, 1), False, (0, 0), 4),
    "grouped": ((1, 8, 6, 6), (4, 4, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), False, (0, 0), 2),
    "column": ((1, 3, 16, 1), (5, 3, 5, 1), (2, 1), (2, 1, 0, 0), (1, 1), False, (0, 0), 1),
    "one dim": ((2, 3, 16), (5, 3, 5), (2,), (2, 2), (1,), False, (0,), 1),
    "one dim depthwise": ((1, 4, 16), (4, 1, 3), (1,), (2, 0), (1,), False, (0,), 4),
    "three dims": ((1, 3, 5, 6, 7), (4, 3, 3, 3, 3), (1, 2, 1), (1, 1, 1, 1, 0, 0), (1, 1, 1), False, (0, 0, 0), 1),
    "three dims grouped": ((1, 4, 6, 5, 5), (4, 2, 2, 3, 3), (2, 1, 1), (0, 0, 1, 1, 1, 1), (1, 1, 1), False, (0, 0, 0), 2),
    "three dims dilated": ((1, 2, 7, 5, 5), (4, 2, 3, 3, 3), (1, 1, 1), (2, 2, 1, 1, 1, 1), (2, 1, 1), False, (0, 0, 0), 1),
    "transposed": ((1, 4, 5, 6), (4, 3, 3, 3), (2, 2), (0, 0, 0, 0), (1, 1), True, (0, 0), 1),
    "transposed same": ((1, 4, 5, 6), (4, 3, 4, 4), (2, 2), (1, 1, 1, 1), (1, 1), True, (0, 0), 1),
    "transposed padded": ((1, 4, 5, 6), (4, 3, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1), True, (1, 1), 1),
    "transposed stride 1": ((1, 4, 5, 6), (4, 3, 3, 3), (1, 1), (2, 2, 1, 1), (1, 1), True, (0, 0), 1),
    "transposed grouped": ((1, 4, 5, 5), (4, 3, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1), True, (0, 0), 2),
    "transposed dilated": ((1, 2, 5, 5), (2, 3, 3, 3), (2, 1), (1, 1, 1, 1), (2, 2), True, (0, 0), 1),
    "transposed one dim": ((1, 4, 9), (4, 3, 4), (3,), (1, 1), (1,), True, (2,), 1),
    "transposed three dims": ((1, 2, 3, 4, 3), (2, 3, 3, 2, 3), (2, 2, 1), (1, 1, 0, 0, 1, 1), (1, 1, 1), True, (1, 0, 0), 1),
}  # fmt: skip


def convolve(x: Any, w: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
             output_padding: Any, groups: int) -> Any:  # fmt: skip
    """PyTorch's convolution with padding before and after each dimension."""
    if transposed:
        assert padding[::2] == padding[1::2]
        return torch.ops.aten.convolution(
            x, w, bias, stride, padding[::2], dilation, True, output_padding, groups
        )
    reach = [p for i in reversed(range(len(stride))) for p in padding[2 * i : 2 * i + 2]]
    x = torch.nn.functional.pad(x, reach)
    zeros = [0] * len(stride)
    return torch.ops.aten.convolution(x, w, bias, stride, zeros, dilation, False, zeros, groups)


def arrays(case: tuple[Any, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = rng.normal(0, 1, case[0]).astype(np.float32)
    w = rng.normal(0, 0.3, case[1]).astype(np.float32)
    channels = case[1][1] * case[7] if case[5] else case[1][0]
    return x, w, rng.normal(0, 1, channels).astype(np.float32)


def rest(case: tuple[Any, ...]) -> tuple[Any, ...]:
    return case[2:]


@pytest.mark.parametrize("name", CASES)
def test_float(name: str) -> None:
    case = CASES[name]
    x, w, bias = arrays(case)
    args = (given(x), constant(w), constant(bias), *rest(case))
    graph = check_tflite("aten.convolution", args, convolve)
    if name in ("same", "same odd stride", "depthwise", "transposed same"):
        assert not {"PAD", "SLICE"} & set(names(graph)), names(graph)


@pytest.mark.parametrize("name", CASES)
def test_int8(name: str) -> None:
    run_quantized(name, 8)


@pytest.mark.parametrize("name", CASES)
def test_int16(name: str) -> None:
    run_quantized(name, 16)


def run_quantized(name: str, bits: int, weight_bits: int = 8) -> Any:
    case = CASES[name]
    x, w, bias = arrays(case)
    out = convolve(*map(torch.from_numpy, (x, w, bias)), *rest(case)).numpy()
    qx = quant_for(x, bits)
    axis = 1 if case[5] else 0
    qw = weight_quant(w, axis, weight_bits)
    step = qx.s * (np.tile(qw.scale, case[7]) if case[5] else qw.scale)
    from npuc.ir import DType, Quant

    qb = Quant(step, 0, 0, -(2**31), 2**31 - 1)
    dtype = DType.INT4 if weight_bits == 4 else None
    args = (given(x, qx), constant(w, qw, dtype), constant(bias, qb), *rest(case))
    return check_tflite(
        "aten.convolution", args, convolve, out_quant=quant_for(out, bits),
        steps=1 if bits == 8 else 3,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["same", "dilated", "one dim", "grouped"])
def test_int4_weights(name: str) -> None:
    graph = run_quantized(name, 8, 4)
    assert "INT4" in {v.type.dtype.name for op in graph.ops for v in op.operands}


def test_no_bias() -> None:
    case = CASES["same"]
    x, w, _ = arrays(case)
    check_tflite("aten.convolution", (given(x), constant(w), None, *rest(case)), convolve)


def test_asymmetric_weight_per_tensor() -> None:
    from npuc.ir import Quant

    case = CASES["plain"]
    x, w, bias = arrays(case)
    out = convolve(*map(torch.from_numpy, (x, w, bias)), *rest(case)).numpy()
    qw = Quant((w.max() - w.min()) / 255, -10, None, -128, 127)
    args = (given(x, quant_for(x)), constant(w, qw), constant(bias), *rest(case))
    check_tflite("aten.convolution", args, convolve, out_quant=quant_for(out), steps=3)


def test_large_bias_of_a_tiny_channel() -> None:
    from npuc.ir import Quant

    case = CASES["plain"]
    x, w, bias = arrays(case)
    w[2] *= 1e-8
    bias[2] = 30.0
    qx, qw = quant_for(x), weight_quant(w, 0)
    qw = Quant(np.where(np.arange(5) == 2, np.abs(w[2]).max() / 127, qw.scale), 0, 0, -127, 127)
    out = convolve(*map(torch.from_numpy, (x, w, bias)), *rest(case)).numpy()
    args = (given(x, qx), constant(w, qw), constant(bias), *rest(case))
    check_tflite("aten.convolution", args, convolve, out_quant=quant_for(out))


@pytest.mark.parametrize("shape, kernel, stride, pad", [
    ((1, 3, 16, 24), (4, 4), (4, 4), (0, 0, 0, 0)), ((2, 3, 17, 21), (5, 7), (4, 5), (1, 2, 3, 0)),
    ((1, 2, 9, 32), (3, 8), (2, 4), (1, 1, 2, 2)), ((1, 1, 64, 1), (17, 1), (4, 1), (3, 3, 0, 0)),
])  # fmt: skip
def test_strides_folded_into_channels(shape: Any, kernel: Any, stride: Any, pad: Any) -> None:
    limits = TfliteLimits(max_stride=3)
    case = (shape, (5, shape[1], *kernel), stride, pad, (1, 1), False, (0, 0), 1)
    x, w, bias = arrays(case)
    out = convolve(*map(torch.from_numpy, (x, w, bias)), *rest(case)).numpy()
    args = (given(x, quant_for(x)), constant(w, weight_quant(w)), constant(bias), *rest(case))
    graph = check_tflite(
        "aten.convolution", args, convolve, out_quant=quant_for(out), limits=limits
    )
    (conv,) = [op for op in graph.ops if op.name == "CONV_2D"]
    assert max(conv.attrs["stride"]) <= 3


@pytest.mark.parametrize("pad, stride, folds", [
    ((1, 1, 1, 1), 2, True), ((0, 1, 0, 1), 2, True), ((2, 2, 2, 2), 2, True),
    ((3, 3, 3, 3), 2, True), ((1, 1, 1, 1), 3, False), ((1, 1, 1, 1), 1, False),
])  # fmt: skip
@pytest.mark.parametrize("kernel", [3, 5])
def test_few_channels_take_the_stride_of_the_width(
    pad: Any, stride: int, folds: bool, kernel: int
) -> None:
    limits = TfliteLimits(channels_at_once=8)
    shape = (1, 3, 11, 16)
    case = (shape, (5, 3, kernel, kernel), (stride, stride), pad, (1, 1), False, (0, 0), 1)
    x, w, bias = arrays(case)
    out = convolve(*map(torch.from_numpy, (x, w, bias)), *rest(case)).numpy()
    args = (given(x, quant_for(x)), constant(w, weight_quant(w)), constant(bias), *rest(case))
    graph = check_tflite(
        "aten.convolution", args, convolve, out_quant=quant_for(out), limits=limits
    )
    (conv,) = [op for op in graph.ops if op.name == "CONV_2D"]
    assert (conv.attrs["stride"] == (stride, 1)) == (folds or stride == 1)
    assert not folds or conv.operands[0].type.ints[3] == 6


def test_refuses() -> None:
    case = CASES["same"]
    x, w, bias = arrays(case)
    args = (given(x, int16(0.001)), constant(w), constant(bias), *rest(case))
    refuses_tflite("aten.convolution", args, convolve, "the weight is FP32 and not quantized",
                   out_quant=int16(0.01))  # fmt: skip
