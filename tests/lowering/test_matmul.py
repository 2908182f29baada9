"""Linear layers and matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from npuc.dialects.tosa import Limits
from npuc.ir import DType, Graph, Quant
from tests.lowering.harness import (
    TOSA_BF16,
    TOSA_FP,
    TOSA_INT,
    TOSA_INT16,
    U55,
    U85,
    check_op,
    constant,
    given,
    label,
    ops,
    quant_for,
    refuses,
    torch_result,
    vela,
    weight_quant,
)

FLOATS = [(TOSA_FP, DType.FP32), (TOSA_FP, DType.FP16), (TOSA_BF16, DType.BF16)]
INTEGERS = [(TOSA_INT, 8), (TOSA_INT16, 16), (U55, 8), (U85, 8), (U85, 16)]
SHAPES = [
    ((2, 3, 4, 5), (2, 3, 5, 6)),
    ((2, 3, 4, 5), (1, 1, 5, 6)),
    ((2, 1, 4, 5), (1, 3, 5, 6)),
    ((4, 5), (5, 6)),
    ((1, 5), (5, 1)),
]


def linear(
    x: tuple[int, ...], w: tuple[int, int], bias: bool, bits: int, limits: Limits, **options: Any
) -> Graph:
    rng = np.random.default_rng(1)
    array, weight = rng.normal(size=x) + 0.2, rng.normal(size=w)
    args = (given(array, quant_for(array, bits)), constant(weight, weight_quant(weight)),
            constant(rng.normal(size=w[0])) if bias else None)  # fmt: skip
    out = quant_for(torch_result(args, {}, F.linear)[0], bits)
    return check_op("aten.linear", args, F.linear, out_quant=out, limits=limits, **options)


def product(
    a: tuple[int, ...], c: tuple[int, ...], bits: int, limits: Limits, make_a: Any = given,
    make_c: Any = given,
) -> Graph:  # fmt: skip
    rng = np.random.default_rng(2)
    left, right = rng.normal(size=a), rng.normal(size=c) + 0.4
    args = (make_a(left, quant_for(left, bits)), make_c(right, quant_for(right, bits)))
    out = quant_for(torch_result(args, {}, torch.matmul)[0], bits)
    return check_op("aten.matmul", args, torch.matmul, out_quant=out, limits=limits)


@pytest.mark.parametrize(("limits", "bits"), INTEGERS, ids=label)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("x", [(2, 3, 8), (5, 8), (1, 2, 3, 8)], ids=label)
def test_quantized_linear_is_one_1x1_convolution(x, bias: bool, limits: Limits, bits: int) -> None:
    graph = linear(x, (5, 8), bias, bits, limits)
    assert [n for n in ops(graph) if n != "RESHAPE"] == ["CONV2D", "RESCALE"]
    (conv,) = [op for op in graph.ops if op.name == "CONV2D"]
    assert conv.operands[0].type.shape[:2] == (1, 1)  # rows along the width
    if limits in (U55, U85):
        vela(graph, limits.name)


@pytest.mark.parametrize(("limits", "dtype"), FLOATS, ids=label)
def test_float_linear(limits: Limits, dtype: DType) -> None:
    rng = np.random.default_rng(3)
    args = (given(rng.normal(size=(2, 3, 8)), dtype=dtype),
            constant(rng.normal(size=(5, 8)), dtype=dtype),
            constant(rng.normal(size=5), dtype=dtype))  # fmt: skip
    check_op("aten.linear", args, F.linear, limits=limits)


@pytest.mark.parametrize(("limits", "bits"), [i for i in INTEGERS if i != (U55, 16)], ids=label)
@pytest.mark.parametrize("shapes", SHAPES, ids=label)
def test_quantized_matmul(shapes, limits: Limits, bits: int) -> None:
    graph = product(*shapes, bits, limits)
    assert ops(graph).count("MATMUL") == 1 and ops(graph).count("RESCALE") == 1
    if limits in (U55, U85):
        vela(graph, limits.name)


@pytest.mark.parametrize(("limits", "dtype"), FLOATS, ids=label)
@pytest.mark.parametrize("shapes", SHAPES, ids=label)
def test_float_matmul(shapes, limits: Limits, dtype: DType) -> None:
    rng = np.random.default_rng(4)
    args = tuple(given(rng.normal(size=s), dtype=dtype) for s in shapes)
    graph = check_op("aten.matmul", args, torch.matmul, limits=limits)
    (matmul,) = [op for op in graph.ops if op.name == "MATMUL"]
    assert matmul.result.type.dtype is DType.FP32  # the accumulator; 16-bit floats are cast back


@pytest.mark.parametrize("limits", [TOSA_INT, U55], ids=lambda limits: limits.name)
@pytest.mark.parametrize(
    ("a", "c", "left", "right"),
    [
        ((4, 5), (5, 6), constant, given),
        ((1, 4, 5), (3, 5, 6), constant, given),
        ((3, 4, 5), (1, 5, 6), given, constant),
    ],
)
def test_a_constant_matrix_becomes_the_weight_of_a_convolution(a, c, left, right, limits) -> None:
    names = ops(product(a, c, 8, limits, left, right))
    assert "MATMUL" not in names and names.count("CONV2D") == 1


def test_a_batch_of_constant_matrices_stays_a_matmul() -> None:
    assert "MATMUL" in ops(product((3, 4, 5), (3, 5, 6), 8, TOSA_INT, given, constant))


def test_refusals() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(3, 4))
    skewed = Quant(1e-3, 7, None, -(2**15), 2**15 - 1)
    args = (given(x, skewed), given(x.T.copy(), skewed))
    refuses("aten.matmul", args, torch.matmul, "TOSA has no zero point (7) for INT16 operands",
            out_quant=skewed, limits=TOSA_INT16)  # fmt: skip
    args = (given(x, quant_for(x, 16)), given(x.T.copy(), quant_for(x, 16)))
    refuses("aten.matmul", args, torch.matmul, "MATMUL for INT8 only", out_quant=quant_for(x, 16),
            limits=U55)  # fmt: skip
