"""Pooling: maxima are exact, averages within a step, whatever padding counts."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from npuc.dialects.tosa import Limits
from npuc.ir import DType, Graph, TensorType
from npuc.lowering.aten_to_tosa.average_pool import adaptive_runs, mean_as_avg_pool
from npuc.lowering.tosa_builder import TosaBuilder
from tests.lowering.harness import (
    TOSA_ALL,
    TOSA_BF16,
    TOSA_FP,
    TOSA_INT,
    TOSA_INT16,
    U55,
    U85,
    check_op,
    compare,
    given,
    label,
    ops,
    quant_for,
    refuses,
    run,
    torch_result,
    vela,
)

INTEGERS = [(TOSA_INT, 8), (TOSA_INT16, 16), (U55, 8), (U85, 8), (U55, 16)]
FLOATS = [(TOSA_FP, DType.FP32), (TOSA_FP, DType.FP16), (TOSA_BF16, DType.BF16)]
MAXIMA = [
    ((1, 3, 9, 10), ((3, 2), (2, 2), (1, 1), (1, 1), False)),
    ((2, 3, 9, 10), ((3, 3), (2, 2), (1, 0), (1, 1), True)),
    ((1, 3, 9, 10), ((2, 2), (3, 3), (0, 0), (1, 1), False)),
    ((1, 3, 9, 10), ((3, 2), (2, 1), (1, 1), (2, 3), False)),
    ((2, 3, 11, 7), ((3, 3), (1, 3), (1, 1), (2, 2), True)),
    ((1, 3, 19, 20), ((4, 6), (4, 6), (1, 1), (1, 1), True)),
    ((1, 3, 19, 20), ((5, 7), (4, 5), (2, 3), (1, 1), False)),
    ((1, 3, 5, 9, 10), ((3, 2, 2), (2, 2, 1), (1, 1, 0), (1, 1, 1), False)),
    ((1, 3, 5, 9, 10), ((2, 2, 2), (2, 2, 1), (0, 1, 0), (2, 1, 2), True)),
]
AVERAGES = [
    ((1, 3, 9, 10), ((3, 2), (2, 2), (1, 1))),
    ((1, 3, 9, 10), ((3, 3), (3, 2), (0, 0))),
    ((1, 3, 8, 8), ((8, 8), (8, 8), (0, 0))),
    ((1, 2, 5, 9, 10), ((3, 2, 2), (2, 2, 1), (1, 1, 0))),
]


def max_pool(x: torch.Tensor, *args: Any) -> torch.Tensor:
    return (F.max_pool2d if x.ndim == 4 else F.max_pool3d)(x, *args)


def avg_pool(x: torch.Tensor, *args: Any) -> torch.Tensor:
    return (F.avg_pool2d if x.ndim == 4 else F.avg_pool3d)(x, *args)


def pool(
    kind: str, shape: tuple[int, ...], args: tuple[Any, ...], fn: Any, limits: Limits,
    bits: int = 8, same: bool = True,
) -> Graph:  # fmt: skip
    """Check a quantized pool with the parameters of its input (`same`) or its own."""
    x = np.random.default_rng(len(shape)).normal(size=shape) + 0.3
    operands = (given(x, quant_for(x, bits)), *args)
    kind += f"{len(shape) - 2}d"
    out = quant_for(x, bits) if same else quant_for(torch_result(operands, {}, fn)[0], bits)
    return check_op(kind, operands, fn, out_quant=out, limits=limits)


@pytest.mark.parametrize(("limits", "bits"), INTEGERS, ids=label)
@pytest.mark.parametrize(("shape", "args"), MAXIMA, ids=label)
def test_max_pool(shape, args, limits: Limits, bits: int) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    quant = quant_for(x, bits)
    kind = f"aten.max_pool{len(shape) - 2}d"
    graph = check_op(
        kind, (given(x, quant), *args), max_pool, out_quant=quant, limits=limits, steps=0
    )
    assert "RESCALE" not in ops(graph)
    pool("aten.max_pool", shape, args, max_pool, limits, bits, same=False)
    if limits in (U55, U85):
        vela(graph, limits.name)


@pytest.mark.parametrize(("limits", "dtype"), FLOATS, ids=label)
@pytest.mark.parametrize(("shape", "args"), MAXIMA, ids=label)
def test_float_max_pool(shape, args, limits: Limits, dtype: DType) -> None:
    x = np.random.default_rng(0).normal(size=shape) - 3  # padding by 0 would win
    check_op(f"aten.max_pool{len(shape) - 2}d", (given(x, dtype=dtype), *args), max_pool,
             limits=limits, tolerance=1e-9)  # fmt: skip


@pytest.mark.parametrize(("limits", "bits"), INTEGERS[:4], ids=label)
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(("shape", "args"), AVERAGES, ids=label)
def test_avg_pool(shape, args, same: bool, limits: Limits, bits: int) -> None:
    for ceil_mode, include in product((True, False), (True, False)):
        options = (*args, ceil_mode, include, None)
        graph = pool("aten.avg_pool", shape, options, avg_pool, limits, bits, same)
    pool("aten.avg_pool", shape, (*args, False, True, 5), avg_pool, limits, bits, same)
    if limits in (U55, U85):
        vela(graph, limits.name)


@pytest.mark.parametrize(("limits", "dtype"), FLOATS, ids=label)
@pytest.mark.parametrize(("shape", "args"), AVERAGES, ids=label)
def test_float_avg_pool(shape, args, limits: Limits, dtype: DType) -> None:
    x = given(np.random.default_rng(0).normal(size=shape) + 1, dtype=dtype)
    kind = f"aten.avg_pool{len(shape) - 2}d"
    for ceil_mode, include in product((True, False), (True, False)):
        check_op(kind, (x, *args, ceil_mode, include, None), avg_pool, limits=limits)
    check_op(kind, (x, *args, False, True, 5), avg_pool, limits=limits)


def test_equal_parameters_give_one_avg_pool() -> None:
    options = ((2, 2), (2, 2), (0, 0), False, True, None)
    graph = pool("aten.avg_pool", (1, 3, 8, 8), options, avg_pool, U55)
    assert [n for n in ops(graph) if n != "TRANSPOSE"] == ["AVG_POOL2D"]


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(
    "args", [((9, 9), (1, 1), (4, 4)), ((4, 4), (4, 4), (0, 0)), ((4, 4), (4, 4), (1, 1))]
)
@pytest.mark.parametrize("include", [True, False])
def test_averages_that_u55_refuses_as_they_are(args, include: bool, same: bool) -> None:
    options = (*args, False, include, None)
    vela(pool("aten.avg_pool", (1, 3, 19, 20), options, avg_pool, U55, same=same), U55.name)


@pytest.mark.parametrize(("limits", "bits"), INTEGERS, ids=label)
@pytest.mark.parametrize("size", [(4, 3), (7, 7), (3, 10)], ids=label)
def test_adaptive_avg_pool(size, limits: Limits, bits: int) -> None:
    for same in (True, False):
        x = np.random.default_rng(1).normal(size=(1, 3, 10, 7))
        operands = (given(x, quant_for(x, bits)), size)
        want = torch_result(operands, {}, F.adaptive_avg_pool2d)[0]
        check_op("aten.adaptive_avg_pool2d", operands, F.adaptive_avg_pool2d, limits=limits,
                 out_quant=quant_for(x if same else want, bits))  # fmt: skip


def test_adaptive_runs_group_equal_neighbours() -> None:
    for size, out in ((10, 4), (7, 3), (5, 7), (224, 7), (17, 5)):
        found = [
            (start + i * w.stride, start + i * w.stride + w.kernel)
            for start, w in adaptive_runs(size, out) for i in range(w.out)
        ]  # fmt: skip
        assert found == [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]
    assert len(adaptive_runs(224, 7)) == 1


def with_indices(x: torch.Tensor, *args: Any) -> Any:
    return F.max_pool2d(x, *args, return_indices=True)


def adaptive_with_indices(x: torch.Tensor, size: Any) -> Any:
    return F.adaptive_max_pool2d(x, size, return_indices=True)


@pytest.mark.parametrize(
    ("limits", "bits"), [(TOSA_INT, 8), (TOSA_INT16, 16), (U85, 8), (TOSA_ALL, 0)], ids=label
)
def test_indices_of_maxima(limits: Limits, bits: int) -> None:
    x = np.random.default_rng(2).normal(size=(2, 3, 9, 10))
    quant = quant_for(x, bits) if bits else None
    operand, out = given(x, quant), (quant, None)
    for args in [((2, 2), (2, 2), (0, 0), (1, 1), False), ((3, 2), (2, 1), (1, 1), (2, 3), True)]:
        check_op("aten.max_pool2d_with_indices", (operand, *args), with_indices, limits=limits,
                 out_quant=out, steps=0)  # fmt: skip
    check_op("aten.adaptive_max_pool2d", (operand, (4, 3)), adaptive_with_indices, limits=limits,
             out_quant=out, steps=0)  # fmt: skip


def test_indices_of_padding_and_ties_are_those_of_the_first_element() -> None:
    x = np.full((1, 1, 4, 4), -5.0)
    args = (given(x, dtype=DType.FP32), (3, 3), (1, 1), (1, 1), (1, 1), False)
    check_op("aten.max_pool2d_with_indices", args, with_indices, limits=TOSA_ALL)
    lowest = quant_for(np.array([-5.0, 5.0]))
    args = (given(np.full((1, 1, 4, 4), lowest.dequantize(np.int8(-128))), lowest), *args[1:])
    check_op("aten.max_pool2d_with_indices", args, with_indices, limits=TOSA_INT,
             out_quant=(lowest, None))  # fmt: skip


@pytest.mark.parametrize("axes", [(2, 3), (1,), (3,), (1, 2)], ids=label)
@pytest.mark.parametrize("same", [True, False])
def test_mean_as_avg_pool(axes, same: bool) -> None:
    x = np.random.default_rng(3).normal(size=(2, 3, 5, 7)) + 0.2
    operand = given(x, quant_for(x))
    want = operand.meaning.numpy().mean(axis=axes, keepdims=True)
    out = TensorType(DType.INT8, want.shape, quant_for(x if same else want))
    b = TosaBuilder(TOSA_INT)
    y = mean_as_avg_pool(b, b.input(operand.type, "x"), axes, out)
    assert y.type == out
    (got,) = run(b.finish([y]), [operand.stored])
    compare("mean", got, want, out)


def test_refusals() -> None:
    x = np.arange(80).reshape(1, 1, 8, 10).astype(np.int32)
    args = (given(x), (2, 2), (2, 2), (0, 0), (1, 1), False)

    def integer_pool(x: torch.Tensor, *args: Any) -> torch.Tensor:
        return F.max_pool2d(x.float(), *args).int()

    refuses("aten.max_pool2d", args, integer_pool, "TOSA has no pooling of INT32", limits=TOSA_INT)
    x = np.zeros((1, 1, 300, 300))
    args = (given(x, quant_for(x)), (290, 290), (1, 1), (0, 0), False, True, None)
    refuses("aten.avg_pool2d", args, avg_pool, "kernel 290x290 exceeds 256 rows",
            out_quant=quant_for(x), limits=U55)  # fmt: skip
