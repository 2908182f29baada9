"""Convolutions on plain TOSA: every kind, every type, one RESCALE each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npuc.ir import DType, Quant
from tests.lowering.convolutions import (
    PLAIN,
    TRANSPOSED,
    Conv,
    check_float,
    check_quantized,
    conv_fn,
    quantized,
)
from tests.lowering.harness import (
    TOSA_FP,
    TOSA_INT,
    TOSA_INT16,
    check_op,
    constant,
    given,
    lowered,
    ops,
    quant_for,
    refuses,
    torch_result,
    weight_quant,
)

ALL = PLAIN + TRANSPOSED
SMALL = Conv((1, 4, 5, 5), (6, 4, 3, 3), pad=1)


@pytest.mark.parametrize("conv", ALL, ids=str)
def test_int8_is_within_a_step_with_one_rescale_per_operator(conv: Conv) -> None:
    names = ops(check_quantized(conv))
    convs = [n for n in names if n.endswith(("CONV2D", "CONV3D"))]
    assert names.count("RESCALE") == len(convs)


@pytest.mark.parametrize("conv", ALL, ids=str)
def test_fp32(conv: Conv) -> None:
    check_float(conv)


@pytest.mark.parametrize("conv", [PLAIN[0], PLAIN[5], PLAIN[9], TRANSPOSED[0]], ids=str)
@pytest.mark.parametrize("dtype", [DType.FP16, DType.BF16], ids=str)
def test_16_bit_floats_accumulate_in_32_bits(conv: Conv, dtype: DType) -> None:
    graph = check_float(conv, dtype)
    accumulators = {op.attrs["acc_type"] for op in graph.ops if "acc_type" in op.attrs}
    assert accumulators == {DType.FP32}


@pytest.mark.parametrize("conv", ALL, ids=str)
def test_int16_activations_accumulate_in_48_bits(conv: Conv) -> None:
    graph = check_quantized(conv, bits=16)
    assert {op.attrs["acc_type"] for op in graph.ops if "acc_type" in op.attrs} == {DType.INT48}


@pytest.mark.parametrize("conv", [PLAIN[0], PLAIN[5], PLAIN[6], TRANSPOSED[0]], ids=str)
def test_4_bit_weights_are_int4_where_the_target_has_them(conv: Conv) -> None:
    check = [
        check_quantized(conv, weight_bits=4, limits=limits) for limits in (TOSA_INT16, TOSA_INT)
    ]
    kernels = [
        [v.type.dtype for op in g.ops for v in op.operands[1:2] if "CONV" in op.name] for g in check
    ]
    assert set(kernels[0]) == {DType.INT4} and set(kernels[1]) == {DType.INT8}


@pytest.mark.parametrize("conv", [PLAIN[0], PLAIN[4], TRANSPOSED[3]], ids=str)
def test_weights_with_one_scale(conv: Conv) -> None:
    check_quantized(conv, per_channel=False)


def test_asymmetric_weights_keep_their_zero_point() -> None:
    x, w, bias = SMALL.values()
    w = w + 0.4
    args = (given(x, quant_for(x)), constant(w, quant_for(w)), constant(bias), *SMALL.arguments())
    out = quant_for(torch_result(args, {}, conv_fn)[0])
    check_op("aten.convolution", args, conv_fn, out_quant=out, limits=TOSA_INT)


def test_unsigned_weights_become_signed() -> None:
    x, w, bias = SMALL.values()
    quant = Quant(np.abs(w).max() / 128, 128, None, 0, 255)
    weight = constant(w, quant, dtype=DType.UINT8)
    args = (given(x, quant_for(x)), weight, constant(bias), *SMALL.arguments())
    out = quant_for(torch_result(args, {}, conv_fn)[0])
    check_op("aten.convolution", args, conv_fn, out_quant=out, limits=TOSA_INT)


@pytest.mark.parametrize("quant", [None, Quant(1e-3, 5, None, -(2**31), 2**31 - 1)], ids=str)
def test_a_bias_of_another_scale_is_requantized_at_compile_time(quant: Quant | None) -> None:
    args, out = quantized(SMALL)
    args = (*args[:2], constant(SMALL.values()[2], quant), *args[3:])
    check_op("aten.convolution", args, conv_fn, out_quant=out, limits=TOSA_INT)


def test_a_channel_with_tiny_weights_keeps_its_large_bias() -> None:
    x, w, bias = SMALL.values()
    w[2] *= 1e-12
    bias = bias + 3.0
    args = (
        given(x, quant_for(x)),
        constant(w, weight_quant(w)),
        constant(bias),
        *SMALL.arguments(),
    )
    out = quant_for(torch_result(args, {}, conv_fn)[0])
    check_op("aten.convolution", args, conv_fn, out_quant=out, limits=TOSA_INT)


def test_missing_bias_is_zeros_of_the_accumulator() -> None:
    graph = check_quantized(replace(SMALL, bias=False), bits=16)
    (conv,) = [op for op in graph.ops if op.name == "CONV2D"]
    assert conv.operands[2].type.dtype is DType.INT48 and not conv.operands[2].array.any()


def test_a_narrow_result_range_is_clamped() -> None:
    args, out = quantized(SMALL)
    narrow = Quant(out.scale, out.zero_point, None, -20, 90)
    graph = check_op("aten.convolution", args, conv_fn, out_quant=narrow, limits=TOSA_INT)
    assert ops(graph)[-2:] == ["CLAMP", "TRANSPOSE"]


def test_padding_is_folded_and_trimmed() -> None:
    """Height (6 + 2 - 3) leaves 1 at stride 2: the trailing padding goes, no SLICE, no PAD."""
    graph = check_quantized(Conv((1, 4, 6, 6), (6, 4, 3, 3), stride=2, pad=1))
    (conv,) = [op for op in graph.ops if op.name == "CONV2D"]
    assert conv.attrs["pad"] == (1, 0, 1, 0)
    assert not {"PAD", "SLICE"} & set(ops(graph))


def test_computed_weights() -> None:
    x, w, _ = SMALL.values()
    args = (given(x), given(w), None, *SMALL.arguments())
    check_op("aten.convolution", args, conv_fn, limits=TOSA_FP)
    args = (given(x, quant_for(x)), given(w, quant_for(w)), None, *SMALL.arguments())
    out = quant_for(torch_result(args, {}, conv_fn)[0])
    check_op("aten.convolution", args, conv_fn, out_quant=out, limits=TOSA_INT)


def test_two_convolutions_share_a_depthwise_kernel() -> None:
    from npuc.lowering.aten_to_tosa.convolution import convolution
    from npuc.lowering.tosa_builder import TosaBuilder

    conv = Conv((1, 4, 9, 8), (4, 1, 3, 3), pad=1, groups=4)
    x, w, _ = conv.values()
    b = TosaBuilder(TOSA_FP)
    y = b.input(given(x).type, "x")
    weight = b.const(w.astype(np.float32))
    b.out = (y.type,)
    for _ in range(2):
        y = convolution(b, y, weight, None, *conv.arguments())
    kernels = {op.operands[1] for op in b.finish([y]).ops if op.name == "DEPTHWISE_CONV2D"}
    assert len(kernels) == 1


def test_refusals() -> None:
    args, out = quantized(SMALL)
    x, w, _ = SMALL.values()

    def refused(changed: tuple, text: str, quant: Quant | None = out) -> None:
        refuses("aten.convolution", changed, conv_fn, text, out_quant=quant, limits=TOSA_INT16)

    refused((args[0], constant(w), *args[2:]), "the weight is FP32 and not quantized")
    skewed = Quant(1e-3, 7, None, -(2**15), 2**15 - 1)
    refused((given(x, skewed), *args[1:]), "TOSA has no zero point (7) for INT16 activations")
    zeros = Quant(np.full(6, 0.02), np.array([-100, 100, 0, 0, 0, 0]), 0)
    refused((args[0], constant(w * 9, zeros), *args[2:]), "weights minus their zero points reach")
    transposed, other = quantized(TRANSPOSED[0])
    wrong = constant(TRANSPOSED[0].values()[1], weight_quant(TRANSPOSED[0].values()[1], 0))
    refused(
        (transposed[0], wrong, *transposed[2:]), "weights have a scale per channel of axis 0", other
    )


def test_refuses_float_on_the_integer_profile() -> None:
    x, w, _ = SMALL.values()
    args = (given(x), constant(w), None, *SMALL.arguments())
    refuses("aten.convolution", args, conv_fn, "PRO-FP", limits=TOSA_INT)
    assert ops(lowered("aten.convolution", args, conv_fn, limits=TOSA_FP)).count("CONV2D") == 1
