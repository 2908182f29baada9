"""div in every rounding mode, remainder, fmod."""

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
    lowered,
    ops,
    quant_for,
    refuses,
    vela,
)

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, (2, 300))
Y = RNG.uniform(0.2, 4, (2, 300)) * np.where(RNG.random((2, 300)) < 0.3, -1, 1)
MODES = pytest.mark.parametrize("mode", [None, "floor", "trunc"])
REMAINDERS = {"aten.remainder.Tensor": torch.remainder, "aten.fmod.Tensor": torch.fmod}


def div(a, b, rounding_mode=None):
    return torch.div(a, b, rounding_mode=rounding_mode)


@MODES
def test_floats(mode) -> None:
    kwargs = {"rounding_mode": mode}
    whole = np.arange(-60, 60.0).reshape(1, -1)
    for x, y in (
        (X, Y),
        (X * 30, Y),
        (whole, np.full((1, 1), 3.0)),
        (whole, np.full((1, 1), -0.1)),
    ):
        check_op("aten.div.Tensor", (given(x), given(y)), div, kwargs=kwargs)
        check_op("aten.div.Tensor", (given(x), constant(y)), div, kwargs=kwargs)
    check_op(
        "aten.div.Tensor",
        (given(X, dtype=DType.FP16), given(Y, dtype=DType.FP16)),
        div,
        kwargs=kwargs,
    )


def test_float_division_by_zero_and_infinity() -> None:
    x = np.asarray([1.0, -1.0, 0.0, 5.0, np.inf])
    y = np.asarray([0.0, 0.0, 0.0, np.inf, 2.0])
    check_op("aten.div.Tensor", (given(x), given(y)), div, kwargs={"rounding_mode": None})


@pytest.mark.parametrize("mode", ["floor", "trunc"])
def test_integers(mode) -> None:
    x = np.arange(-20, 20, dtype=np.int32)
    for divisor in (3, -3, 4, 7):
        for y in (np.full(40, divisor, np.int32), np.asarray([divisor], np.int32)):
            for make, limits in ((given, TOSA_ALL), (constant, TOSA_ALL), (given, TOSA_FP)):
                check_op("aten.div.Tensor", (given(x), make(y)), div,
                         kwargs={"rounding_mode": mode}, limits=limits)  # fmt: skip


def test_integers_on_u55_without_a_divider() -> None:
    x = np.concatenate([RNG.integers(-(2**31) + 1, 2**31 - 1, 3000), np.arange(-50, 50)])
    bits = RNG.integers(1, 31, x.size)
    y = RNG.integers(1, 2**bits) * np.where(RNG.random(x.size) < 0.5, -1, 1)
    operands = given(x.astype(np.int32)), given(y.astype(np.int32))
    for mode in ("floor", "trunc"):
        graph = check_op(
            "aten.div.Tensor", operands, div, kwargs={"rounding_mode": mode}, limits=U55
        )
    assert vela(graph).perf["cpu_ops"] == 0
    for kind, function in REMAINDERS.items():
        check_op(kind, operands, function, limits=U55)
        check_op(kind, (operands[0], constant(np.asarray(7, np.int32))), function, limits=U55)
    small = given(np.arange(-100, 100, dtype=np.int8))
    check_op("aten.div.Tensor", (small, constant(np.asarray(3, np.int8))), div,
             kwargs={"rounding_mode": "floor"}, limits=U55)  # fmt: skip


@pytest.mark.parametrize("kind", REMAINDERS)
def test_remainder_of_floats_and_integers(kind) -> None:
    function = REMAINDERS[kind]
    check_op(kind, (given(X), given(Y)), function)
    check_op(kind, (given(X), constant(np.asarray(1.5))), function)
    x, y = np.arange(-20, 20, dtype=np.int32), np.asarray([3, -3, 5, -7] * 10, np.int32)
    check_op(kind, (given(x), given(y)), function, limits=TOSA_ALL)


@MODES
@pytest.mark.parametrize("limits", [TOSA_INT, TOSA_INT16, U55, U85], ids=lambda x: x.name)
def test_quantized(mode, limits) -> None:
    kwargs = {"rounding_mode": mode}
    for bits in (8, 16):
        if bits == 16 and limits is TOSA_INT:
            continue
        for y in (Y, np.abs(Y), np.abs(Y)[:1, :1]):
            operands = given(X, quant=quant_for(X, bits)), given(y, quant=quant_for(y, bits))
            check_op("aten.div.Tensor", operands, div, kwargs=kwargs, limits=limits,
                     out_quant=quant_for(X / y, bits), steps=1 if bits == 8 else 4)  # fmt: skip


@MODES
def test_quantized_by_a_number(mode) -> None:
    for divisor in (3.0, -1.5):
        x = X * 4
        want = div(torch.from_numpy(x), divisor, mode).numpy()
        for bits, limits in ((8, TOSA_INT), (16, TOSA_INT16), (16, U55)):
            args = given(x, quant=quant_for(x, bits)), constant(np.asarray(divisor))
            graph = check_op("aten.div.Tensor", args, div, kwargs={"rounding_mode": mode},
                             limits=limits, out_quant=quant_for(want, bits))  # fmt: skip
            if bits == 8:
                assert ops(graph) == (["RESCALE"] if mode is None and divisor > 0 else ["TABLE"])


def test_a_number_by_a_quantized_tensor_is_a_table() -> None:
    y = given(np.abs(Y), quant=quant_for(np.abs(Y)))
    args = constant(np.asarray(2.0), quant=Quant(2 / 127)), y
    graph = check_op("aten.div.Tensor", args, div, kwargs={"rounding_mode": None}, limits=TOSA_INT,
                     out_quant=Quant(10 / 255, -128))  # fmt: skip
    assert ops(graph) == ["TABLE"]


@pytest.mark.parametrize("kind", REMAINDERS)
@pytest.mark.parametrize("limits", [TOSA_INT16, U55], ids=lambda x: x.name)
def test_quantized_remainder(kind, limits) -> None:
    function = REMAINDERS[kind]
    for bits in (8, 16):
        steps = 1 if bits == 8 else 4
        x = given(X, quant=quant_for(X, bits))
        want = function(torch.from_numpy(X), torch.from_numpy(Y)).numpy()
        check_op(kind, (x, given(Y, quant=quant_for(Y, bits))), function, limits=limits,
                 out_quant=quant_for(want, bits), steps=steps)  # fmt: skip
        for divisor in (1.5, -1.5, 0.3):
            want = function(torch.from_numpy(X), divisor).numpy()
            check_op(kind, (x, constant(np.asarray(divisor))), function, limits=limits,
                     out_quant=quant_for(want, bits), steps=steps)  # fmt: skip


def test_whole_quotients_of_equal_scales_are_exact() -> None:
    """6 / 3 has to be 2 in every mode, also where a reciprocal is rounded."""
    codes = np.arange(-40, 41)
    x, y = (a.reshape(1, -1) for a in np.meshgrid(codes, np.asarray([-7, -3, -1, 1, 3, 5, 7])))
    q, out = Quant(1.0), Quant(1.0, 0, None, -128, 127)
    for mode in ("floor", "trunc"):
        for limits in (TOSA_INT, TOSA_INT16, U55):
            operands = given(x * 1.0, quant=q), given(y * 1.0, quant=q)
            kwargs = {"rounding_mode": mode}
            check_op("aten.div.Tensor", operands, div, kwargs=kwargs, limits=limits,
                     out_quant=out, steps=0)  # fmt: skip


@pytest.mark.parametrize("limits", [U55, U85], ids=lambda x: x.name)
def test_vela_compiles_quotients(limits) -> None:
    for bits in (8, 16):
        args = given(X, quant=quant_for(X, bits)), given(Y, quant=quant_for(Y, bits))
        for mode in (None, "floor"):
            graph = lowered("aten.div.Tensor", args, div, kwargs={"rounding_mode": mode},
                            limits=limits, out_quant=quant_for(X / Y, bits))  # fmt: skip
            assert vela(graph, limits.name).perf["cpu_ops"] == 0


def test_refusals() -> None:
    zero = constant(np.asarray([0.0, 1.0]), quant=Quant(1.0))
    q = given(np.ones((3, 2)), quant=Quant(0.01))
    refuses("aten.div.Tensor", (q, zero), div, "contains zero", kwargs={"rounding_mode": None},
            limits=TOSA_INT, out_quant=Quant(0.1))  # fmt: skip
