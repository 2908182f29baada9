"""Conversions of element types, and explicit quantize, dequantize, requantize."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from npuc.ir import DType, Quant
from tests.lowering.harness import (
    TOSA_ALL,
    TOSA_BF16,
    TOSA_FP,
    TOSA_INT,
    TOSA_INT16,
    U55,
    U85,
    check_op,
    given,
    int16,
    lowered,
    ops,
    quant_for,
    refuses,
    run,
)

TORCH = {
    DType.BOOL: torch.bool, DType.INT8: torch.int8, DType.INT16: torch.int16,
    DType.INT32: torch.int32, DType.FP16: torch.float16, DType.FP32: torch.float32,
    DType.BF16: torch.bfloat16,
}  # fmt: skip
VALUES = np.asarray([-3.7, -2.5, -1.5, -1.0, -0.5, 0.0, 0.4, 0.5, 0.99, 1.5, 2.5, 100.7])


def to(x: torch.Tensor, dtype: DType) -> torch.Tensor:
    result = x.to(TORCH[dtype])
    return result.float() if dtype is DType.BF16 else result


def convert(x, dtype: DType, limits, **options):
    return check_op("aten.to", (x, dtype), to, limits=limits, out_dtype=dtype, **options)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.INT32, DType.BOOL])
def test_floats_are_truncated(dtype: DType) -> None:
    convert(given(VALUES), dtype, TOSA_FP)
    convert(given(VALUES, dtype=DType.FP16), dtype, TOSA_FP)


def test_between_floats() -> None:
    convert(given(VALUES), DType.FP16, TOSA_FP)
    convert(given(VALUES, dtype=DType.FP16), DType.FP32, TOSA_FP)
    convert(given(VALUES), DType.BF16, TOSA_BF16)


@pytest.mark.parametrize("source", [np.int8, np.int16, np.int32, bool])
def test_integers_and_bool(source) -> None:
    x = given(np.asarray([0, 1, 5, -3, 100, 0]).astype(source))
    for dtype in (DType.INT8, DType.INT16, DType.INT32, DType.BOOL, DType.FP32, DType.FP16):
        if DType.of(np.dtype(source)) is not dtype:
            convert(x, dtype, TOSA_ALL)
    if source is bool:
        convert(x, DType.FP32, TOSA_FP)
        convert(x, DType.INT32, TOSA_FP)
    else:
        convert(x, DType.BOOL, TOSA_FP)


def test_wide_integers_wrap() -> None:
    for limits in (TOSA_INT, U55):
        convert(given(np.asarray([300, -300, 128], np.int32)), DType.INT8, limits)


@pytest.mark.parametrize("limits", [TOSA_INT16, U55, U85], ids=lambda x: x.name)
def test_quantized_values_keep_their_meaning(limits) -> None:
    for bits in (8, 16):
        q = quant_for(VALUES, bits)
        x = given(VALUES, quant=q)
        convert(x, DType.INT32, limits)
        convert(x, DType.BOOL, limits)
        same = lambda x, dtype: x  # noqa: E731
        for out in (Quant(0.7, 3), int16(0.01)):
            check_op("aten.to", (x, DType.FP32), same, limits=limits, out_quant=out)
    real = lambda x, dtype: x.double()  # noqa: E731
    whole = given(np.asarray([0, 1, 5, -3, 100], np.int32))
    check_op("aten.to", (whole, DType.FP32), real, limits=limits, out_quant=Quant(0.5, -20))
    flags = given(np.asarray([True, False, True]))
    check_op("aten.to", (flags, DType.FP32), real, limits=limits, out_quant=Quant(1 / 255, -128))


# explicit ------------------------------------------------------------------------------------


def pytorchs_codes(x: np.ndarray, q: Quant) -> np.ndarray:
    """What PyTorch's own op computes, in float32."""
    import torch.ao.quantization.fx._decomposed

    dtype = torch.int8 if q.qmax < 128 else torch.int16
    return torch.ops.quantized_decomposed.quantize_per_tensor(
        torch.from_numpy(x), q.s, q.zp, q.qmin, q.qmax, dtype
    ).numpy()


@pytest.mark.parametrize("quant", [Quant(0.1), Quant(0.03, 7), Quant(0.05, -128), int16(1e-3),
                                   Quant(0.25, 3, None, -100, 90)], ids=str)  # fmt: skip
def test_quantize_is_pytorchs_to_the_last_bit(quant: Quant) -> None:
    rng = np.random.default_rng(0)
    ties = (np.arange(-300, 300) + 0.5) * quant.s
    x = np.concatenate([rng.normal(size=4000) * 60 * quant.s, ties, [1e30, -1e30]]).astype(
        np.float32
    )
    kind = "quantized_decomposed.quantize_per_tensor"
    graph = lowered(kind, (given(x),), lambda x: x, limits=TOSA_ALL, out_quant=quant)
    (got,) = run(graph, [x])
    np.testing.assert_array_equal(got, pytorchs_codes(x, quant))


def test_quantize_per_channel() -> None:
    x = np.random.default_rng(0).normal(size=(3, 40))
    for zeros in (0, [3, -5, 7]):
        q = Quant([0.02, 0.05, 0.01], zeros, 0)
        kind = "quantized_decomposed.quantize_per_channel"
        check_op(kind, (given(x),), lambda x: x, limits=TOSA_ALL, out_quant=q, steps=1, wrong=0.02)
        kind = "quantized_decomposed.dequantize_per_channel"
        check_op(kind, (given(x, quant=q),), lambda x: x, limits=TOSA_ALL, out_dtype=DType.FP32)


def test_dequantize_is_exact() -> None:
    for q in (Quant(0.1), Quant(0.03, 7), int16(1e-3)):
        codes = np.arange(-128, 128).astype(np.int16 if q.qmax > 127 else np.int8)
        x = given(q.dequantize(codes), quant=q)
        kind = "quantized_decomposed.dequantize_per_tensor"
        graph = lowered(kind, (x,), lambda x: x, limits=TOSA_ALL, out_dtype=DType.FP32)
        (got,) = run(graph, [codes])
        want = (codes.astype(np.float32) - np.float32(q.zp)) * np.float32(q.s)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("limits", [TOSA_INT16, U55, U85], ids=lambda x: x.name)
def test_requantize(limits) -> None:
    kind, x = "quantized_decomposed.requantize", np.linspace(-3, 3, 255)
    for q in (quant_for(x), quant_for(x, 16)):
        for out in (Quant(0.05, 5), int16(2e-4), Quant(0.1, 0, None, -20, 20)):
            graph = check_op(kind, (given(x, quant=q),), lambda x: x, limits=limits, out_quant=out)
            assert ops(graph)[0] == "RESCALE"
    q = quant_for(x)
    narrow = Quant(q.s, q.zp, None, -100, 100)
    graph = check_op(
        kind, (given(x, quant=q),), lambda x: x, limits=limits, out_quant=narrow, steps=0
    )
    assert ops(graph) == ["CLAMP"]
    assert ops(lowered(kind, (given(x, quant=q),), lambda x: x, limits=limits, out_quant=q)) == []


def test_floats_in_the_middle_are_refused_on_integer_targets() -> None:
    q, x = Quant(0.1), np.linspace(-3, 3, 9)
    refuses("quantized_decomposed.quantize_per_tensor", (given(x),), lambda x: x,
            "is float here and tosa-1.0+int has integers only; quantize the op", limits=TOSA_INT,
            out_quant=q)  # fmt: skip
    refuses("quantized_decomposed.dequantize_per_tensor", (given(x, quant=q),), lambda x: x,
            "the result is float here", limits=U55, out_dtype=DType.FP32)  # fmt: skip
