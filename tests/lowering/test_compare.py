"""Comparisons, logical and bitwise operators, where: BOOL, and masks where there is no BOOL."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from npuc.ir import DType, Quant
from tests.lowering.harness import (
    TOSA_ALL,
    TOSA_FP,
    TOSA_INT,
    TOSA_INT16,
    U55,
    U85,
    check_op,
    constant,
    given,
    int16,
    lowered,
    ops,
    quant_for,
    refuses,
    vela,
)

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 5, 6, 8)), RNG.normal(size=(2, 5, 6, 8))
NAMES = pytest.mark.parametrize("name", ["eq", "ne", "gt", "ge", "lt", "le"])
INTEGER_TARGETS = pytest.mark.parametrize("limits", [TOSA_INT16, U55, U85], ids=lambda x: x.name)


def bools(*shape: int) -> np.ndarray:
    return RNG.random(shape) < 0.5


@NAMES
def test_floats_integers_and_bool(name: str) -> None:
    kind, function = f"aten.{name}.Tensor", getattr(torch, name)
    mixed = np.where(bools(*X.shape), X, Y)
    edge = np.asarray([np.nan, np.inf, 0.0, 1.0])
    for a, b in ((X, mixed), (X, Y[0, :, :1]), (edge, edge[::-1]), (edge, edge)):
        check_op(kind, (given(a), given(b)), function)
    check_op(kind, (given(X, dtype=DType.FP16), given(mixed, dtype=DType.FP16)), function)
    check_op(kind, (given(X), constant(np.asarray(0.25))), function)
    whole = RNG.integers(-3, 3, (4, 7)).astype(np.int32)
    for dtype in (np.int32, np.int8, np.int16):
        operands = given(whole.astype(dtype)), given(whole[::-1].astype(dtype))
        check_op(kind, operands, function, limits=TOSA_ALL)
    for limits in (TOSA_ALL, TOSA_FP):
        check_op(kind, (given(bools(3, 4)), given(bools(3, 4))), function, limits=limits)
    large = np.asarray([2**30, -(2**30), 16777217, 0], np.int32)  # FP32 does not hold them all
    for a in (large, large - 1):
        check_op(kind, (given(large), given(a)), function, limits=TOSA_FP)
        check_op(kind, (given(a.reshape(2, 2)), given(large[:2])), function, limits=TOSA_FP)
    check_op(kind, (given(whole.astype(np.int8)), given(whole[::-1].astype(np.int8))), function)


@NAMES
@INTEGER_TARGETS
def test_quantized(name: str, limits) -> None:
    kind, function = f"aten.{name}.Tensor", getattr(torch, name)
    for bits in (8, 16):
        q, r = quant_for(X, bits), quant_for(Y * 1.3, bits)
        for args in (
            (given(X, quant=q), given(np.where(X > 0.3, X, Y), quant=q)),
            (given(X, quant=q), given(Y, quant=r)),
            (given(X, quant=q), given(Y[0, :, :1], quant=r)),
            (given(X, quant=q), constant(np.asarray(0.5))),
            (given(X, quant=q), constant(np.asarray(40.0))),
            (constant(np.asarray(-0.5)), given(X, quant=q)),
        ):
            check_op(kind, args, function, limits=limits)
    whole = RNG.integers(-5, 5, (3, 7)).astype(np.int32)
    check_op(kind, (given(whole), given(whole[::-1])), function, limits=limits)


def test_comparison_with_a_number_is_pytorchs_in_float32() -> None:
    """Codes whose value is the number exactly, in float32, count as equal."""
    q = Quant(0.1)
    x = given(np.arange(-128, 128) * 0.1, quant=q)
    for number in (0.3, 0.7, -1.2, 5.0):
        want = (np.arange(-128, 128).astype(np.float32) * np.float32(0.1)) >= np.float32(number)
        for limits in (TOSA_INT, U55):
            args = (x, constant(np.asarray(number)))
            check_op(
                "aten.ge.Tensor", args, lambda a, b, w=want: torch.from_numpy(w), limits=limits
            )


@pytest.mark.parametrize("name", ["and", "or", "xor"])
def test_logical(name: str) -> None:
    kind, function = f"aten.logical_{name}", getattr(torch, f"logical_{name}")
    for limits in (TOSA_FP, TOSA_INT, U55, U85):
        check_op(kind, (given(bools(3, 4)), given(bools(3, 4))), function, limits=limits)
        check_op(kind, (given(bools(3, 4)), given(bools(4))), function, limits=limits)
    bitwise = getattr(torch, f"bitwise_{name}")
    kind = f"aten.bitwise_{name}.Tensor"
    check_op(kind, (given(bools(3, 4)), given(bools(3, 4))), bitwise, limits=TOSA_INT)
    for dtype in (np.int8, np.int16, np.int32):
        a = RNG.integers(-100, 100, 50).astype(dtype)
        check_op(kind, (given(a), given(a[::-1])), bitwise, limits=U85)
    refuses(kind, (given(a), given(a)), bitwise, "no bitwise operators", limits=U55)


def test_not_and_shifts() -> None:
    for limits in (TOSA_FP, TOSA_INT, U55):
        check_op("aten.logical_not", (given(bools(3, 4)),), torch.logical_not, limits=limits)
    whole = given(RNG.integers(-100, 100, 50).astype(np.int32))
    check_op("aten.bitwise_not", (whole,), torch.bitwise_not, limits=TOSA_INT)
    left, right = "aten.bitwise_left_shift.Tensor", "aten.bitwise_right_shift.Tensor"
    for dtype in (np.int8, np.int16, np.int32):
        a = given(RNG.integers(-100, 100, 50).astype(dtype))
        by = given(RNG.integers(0, 7, 50).astype(dtype))
        three = constant(np.asarray(3, dtype))
        for limits in (TOSA_INT, U55, U85):
            check_op(left, (a, three), torch.bitwise_left_shift, limits=limits)
            check_op(right, (a, three), torch.bitwise_right_shift, limits=limits)
            check_op(left, (a, by), torch.bitwise_left_shift, limits=limits)
            if limits is not U55 or dtype is not np.int32:
                check_op(right, (a, by), torch.bitwise_right_shift, limits=limits)
    refuses(right, (a, by), torch.bitwise_right_shift, "shift rounds", limits=U55)
    far = constant(np.asarray(40, np.int32))
    refuses("aten.bitwise_left_shift.Tensor", (whole, far), torch.bitwise_left_shift, "shift by 40",
            limits=TOSA_INT)  # fmt: skip


def test_is_nan_inf_finite() -> None:
    x = given(np.asarray([np.nan, np.inf, -np.inf, 0.0, 3e38]))
    for name in ("isnan", "isinf", "isfinite"):
        check_op(f"aten.{name}", (x,), getattr(torch, name))
        whole = given(np.arange(3, dtype=np.int32))
        check_op(f"aten.{name}", (whole,), getattr(torch, name), limits=TOSA_INT)


def test_where_of_floats_and_integers() -> None:
    condition = given(bools(*X.shape))
    check_op("aten.where", (condition, given(X), given(Y)), torch.where)
    check_op("aten.where", (given(bools(5, 1, 1)), given(X[:, :, :, :1]), given(Y)), torch.where)
    minus_infinity = constant(np.asarray(-np.inf))
    check_op("aten.where", (condition, minus_infinity, given(X)), torch.where)
    whole = given(RNG.integers(-9, 9, (3, 7)).astype(np.int32))
    for limits in (TOSA_INT, U55):
        check_op("aten.where", (given(bools(3, 7)), whole, constant(np.asarray(4, np.int32))),
                 torch.where, limits=limits)  # fmt: skip


@INTEGER_TARGETS
def test_where_quantized(limits) -> None:
    def choose(condition, x, y):
        return torch.where(condition, x.double(), y.double())

    for bits in (8, 16):
        q, r, out = quant_for(X, bits), quant_for(Y * 1.3, bits), quant_for([-4.0, 4.0], bits)
        condition = given(bools(*X.shape))
        number, lowest = constant(np.asarray(-1.0)), constant(np.asarray(-np.inf))
        for args in (
            (condition, given(X, quant=q), given(Y, quant=r)),
            (condition, given(X, quant=out), given(Y, quant=out)),
            (given(bools(5, 1, 1)), given(X, quant=q), given(Y[:, :1], quant=r)),
            (condition, number, given(Y, quant=r)),
            (condition, given(Y, quant=out), number),
            (condition, lowest, given(Y, quant=out)),
            (condition, number, constant(np.asarray(2.0))),
            (constant(bools(*X.shape)), given(X, quant=q), given(Y, quant=out)),
        ):
            check_op("aten.where", args, choose, limits=limits, out_quant=out, steps=1)


def test_masked_fill_with_infinity_is_one_operation_on_u55() -> None:
    out = quant_for([-4.0, 4.0])
    args = given(bools(*X.shape)), constant(np.asarray(-np.inf)), given(Y, quant=out)
    graph = lowered("aten.where", args, torch.where, limits=U55, out_quant=out)
    assert ops(graph) == ["TABLE", "RESCALE", "RESCALE", "MINIMUM", "RESCALE"]
    assert len(vela(graph).ops) == 2


@NAMES
def test_vela_runs_a_comparison_on_u55_as_one_operation(name: str) -> None:
    x = RNG.normal(size=(1, 16, 16, 16))
    for bits in (8, 16):
        args = given(x, quant=quant_for(x, bits)), given(x, quant=quant_for(x * 1.3, bits))
        graph = lowered(f"aten.{name}.Tensor", args, getattr(torch, name), limits=U55)
        result = vela(graph)
        assert result.perf["npu_cycles"] <= 1.6 * x.size, result.ops


def test_refusals() -> None:
    x, q = given(X), given(X, quant=int16(1e-3))
    refuses("aten.gt.Tensor", (x, x), torch.gt, "PRO-FP", limits=TOSA_INT)
    refuses("aten.where", (given(bools(*X.shape)), q, x), torch.where, "not quantized",
            limits=TOSA_INT16, out_quant=int16(1e-3))  # fmt: skip
