"""Functions of one quantized tensor: one TABLE, exact for int8, within two steps for int16."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from npuc.dialects.tosa import Limits
from npuc.ir import DType, Quant
from tests.lowering.harness import (
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
    vela,
)
from tests.lowering.test_unary_float import FUNCTIONS, schema

aten = torch.ops.aten


def operand(kind: str, bits: int, count: int = 600):
    low, high = FUNCTIONS[kind]
    x = np.linspace(max(low, 1.01) if kind == "acosh" else low, high, count)
    return given(x, quant=quant_for(x, bits))


def result_quant(kind: str, x, bits: int) -> Quant:
    args, kwargs = schema(kind)
    y = getattr(aten, kind)(x.meaning, *args, **kwargs).numpy()
    return quant_for(y[np.isfinite(y)], bits)


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_int8_is_one_exact_table(kind: str) -> None:
    x = operand(kind, 8)
    args, kwargs = schema(kind)
    graph = check_op(
        f"aten.{kind}", (x, *args), getattr(aten, kind), kwargs=kwargs, limits=TOSA_INT,
        out_quant=result_quant(kind, x, 8), steps=1, wrong=0.15,  # ties of float32 and float64
    )  # fmt: skip
    assert ops(graph) == ["TABLE"]


@pytest.mark.parametrize("kind", [k for k in FUNCTIONS if k != "frac"])
def test_int16(kind: str) -> None:
    x = operand(kind, 16, 4001)
    args, kwargs = schema(kind)
    check_op(
        f"aten.{kind}", (x, *args), getattr(aten, kind), kwargs=kwargs, limits=TOSA_INT16,
        out_quant=result_quant(kind, x, 16), steps=16, wrong=0.6,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["sigmoid", "tanh", "silu", "gelu", "exp", "rsqrt", "log", "sqrt"])
def test_int16_is_within_two_steps_away_from_the_ends(kind: str) -> None:
    """Where the result saturates within a cell of the table, 16 steps are accepted."""
    low, high = FUNCTIONS[kind]
    x = np.linspace(low, high, 4001)
    args, kwargs = schema(kind)
    quant = result_quant(kind, given(x, quant=quant_for(x, 16)), 16)
    inner = given(x[np.abs(x) < 0.97 * high], quant=quant_for(x, 16))
    check_op(
        f"aten.{kind}", (inner, *args), getattr(aten, kind), kwargs=kwargs, limits=TOSA_INT16,
        out_quant=Quant(quant.s * 1.1, 0, None, quant.qmin, quant.qmax), steps=2, wrong=0.6,
    )  # fmt: skip


def test_common_activations_of_int16_are_one_table() -> None:
    for kind in ("sigmoid", "silu", "gelu", "elu", "leaky_relu", "neg", "abs"):
        x = operand(kind, 16)
        args, kwargs = schema(kind)
        graph = lowered(
            f"aten.{kind}", (x, *args), getattr(aten, kind), kwargs=kwargs, limits=TOSA_INT16,
            out_quant=result_quant(kind, x, 16),
        )  # fmt: skip
        assert ops(graph) == ["TABLE", "RESCALE"], kind


def test_table_entry_describes_its_code_whatever_qmin_is() -> None:
    x = np.linspace(-6, 6, 128)
    quant = Quant(6 / 127, 0, None, -127, 127)
    check_op(
        "aten.sigmoid", (given(x, quant=quant),), aten.sigmoid, limits=TOSA_INT,
        out_quant=Quant(1 / 256, -128), steps=0,
    )  # fmt: skip


def test_what_is_not_finite_saturates() -> None:
    x = given(np.arange(-4.0, 5.0), quant=Quant(1.0))
    check_op(
        "aten.reciprocal", (x,), aten.reciprocal, limits=TOSA_INT, out_quant=Quant(0.01), steps=0
    )
    check_op("aten.log", (x,), aten.log, limits=TOSA_INT, out_quant=Quant(0.02, 3), steps=0)
    wide = given([0.0, 1.0, 0.5, 0.001], quant=int16(1 / 16384))
    for kind in ("log", "rsqrt", "logit", "atanh"):
        check_op(
            f"aten.{kind}", (wide,), getattr(aten, kind), limits=TOSA_INT16, steps=32,
            out_quant=int16(1 / 4096),
        )  # fmt: skip


@pytest.mark.parametrize("bits, limits", [(8, TOSA_INT), (16, TOSA_INT16)])
@pytest.mark.parametrize("kind, edge", [("acos", -1.0), ("acosh", 1.0), ("sqrt", 0.0)])
def test_where_a_function_is_not_defined_its_nearest_value_is_taken(
    kind: str, edge: float, bits: int, limits: Limits
) -> None:
    """A value at the edge of the domain may be rounded to the code beyond it."""
    step = 0.0101 if bits == 8 else 0.00010001
    q, r = Quant(step, 0), Quant(0.03, 0)
    if bits == 16:
        q, r = int16(step), int16(0.0002)
    first = np.ceil(edge / step)
    graph = lowered(
        f"aten.{kind}", (given(step * (first + np.arange(-1.0, 1.0)), quant=q),),
        getattr(aten, kind), limits=limits, out_quant=r,
    )  # fmt: skip
    codes = (first + np.arange(-1.0, 1.0)).astype(np.int8 if bits == 8 else np.int16)
    beyond, inside = run(graph, [codes])[0]
    want = getattr(aten, kind)(torch.tensor(step * first, dtype=torch.float64))
    assert max(abs(r.s * float(v) - float(want)) for v in (beyond, inside)) <= 0.03


def test_parameters_reach_the_table() -> None:
    x = np.linspace(-4, 4, 96)
    q = quant_for(x)
    cases = [
        ("aten.pow.Tensor_Scalar", (3,), aten.pow, {}),
        ("aten.elu", (0.5, 1.2, 0.3), aten.elu, {}),
        ("aten.softplus", (2.0, 1.0), aten.softplus, {}),
        ("aten.gelu", (), aten.gelu, {"approximate": "tanh"}),
        ("aten.round.decimals", (), aten.round, {"decimals": 1}),
        ("aten.threshold", (0.3, -2.0), aten.threshold, {}),
    ]
    for kind, args, call, kwargs in cases:
        out = quant_for(call(torch.from_numpy(x), *args, **kwargs))
        graph = check_op(
            kind, (given(x, quant=q), *args), call, kwargs=kwargs, limits=TOSA_INT, out_quant=out
        )
        assert ops(graph) == ["TABLE"], kind


def test_rounding_of_int16_is_exact() -> None:
    """A 16-bit table would smear every jump over 128 codes."""
    scale = 1 / 4096
    x = given(np.arange(-30000, 30000, 7) * scale, quant=int16(scale))
    ties = given(np.asarray([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3, -3]), quant=int16(scale))
    for kind in ("floor", "ceil", "round", "trunc"):
        for limits in (TOSA_INT16, U55):
            for operand in (x, ties):
                check_op(
                    f"aten.{kind}", (operand,), getattr(aten, kind), limits=limits,
                    out_quant=int16(scale), steps=0,
                )  # fmt: skip


@pytest.mark.parametrize("scale", [1e-4, 3.7e-4, 1e-3, 0.02])
def test_table_slopes_fit_16_bits_across_a_pole(scale: float) -> None:
    """The specification demands it; the reference model refuses a steeper table that is read."""
    codes = np.arange(-32768, 32768)
    for out in (1e-3, 0.3, 1.0, 7.0):
        graph = lowered(
            "aten.reciprocal",
            (given(codes[::977] * scale, quant=int16(scale)),),
            aten.reciprocal,
            limits=TOSA_INT16,
            out_quant=int16(out),
        )
        for op in graph.ops:
            if op.name == "TABLE":
                assert np.abs(np.diff(op.operands[1].array.astype(np.int64))).max() < 2**15


def test_int8_to_int16_and_back() -> None:
    x = np.linspace(-5, 5, 300)
    check_op(
        "aten.silu", (given(x, quant=quant_for(x)),), aten.silu, limits=TOSA_INT16,
        out_quant=int16(5 / 32767), steps=1,
    )  # fmt: skip
    graph = check_op(
        "aten.silu", (given(x, quant=quant_for(x, 16)),), aten.silu, limits=TOSA_INT16,
        out_quant=quant_for([-0.3, 5]), steps=1, wrong=0.05,
    )  # fmt: skip
    assert ops(graph) == ["TABLE", "RESCALE", "RESCALE"]


def test_glu() -> None:
    x = np.random.default_rng(0).normal(size=(2, 6, 4))
    y = aten.glu(torch.from_numpy(x), 1).numpy()
    for bits, limits, steps in ((8, TOSA_INT, 1), (16, TOSA_INT16, 3)):
        check_op(
            "aten.glu", (given(x, quant=quant_for(x, bits)), 1), aten.glu, limits=limits,
            out_quant=quant_for(y, bits), steps=steps,
        )  # fmt: skip


def test_refusals() -> None:
    x = np.linspace(-5, 5, 50)
    wide, narrow = given(x, quant=quant_for(x, 16)), given(x, quant=quant_for(x))
    quant = Quant(0.1)
    refuses(
        "aten.tan",
        (wide,),
        aten.tan,
        "steps on this range",
        limits=TOSA_INT16,
        out_quant=int16(0.01),
    )
    refuses("aten.exp", (wide,), aten.exp, "EXT-INT16", limits=TOSA_INT, out_quant=int16(0.01))
    refuses(
        "aten.exp", (given(x),), aten.exp, "quantized operand", limits=TOSA_INT, out_quant=quant
    )
    refuses("aten.exp", (narrow,), aten.exp, "quantized but", limits=TOSA_INT, out_dtype=DType.FP32)
    per_channel = given(np.zeros((2, 3)), quant=Quant([0.1, 0.2], 0, 0))
    refuses("aten.exp", (per_channel,), aten.exp, "per-channel", limits=TOSA_INT, out_quant=quant)
    refuses("aten.exp", (given(np.arange(3)),), aten.exp, "no form for INT32", out_dtype=DType.FP32)


@pytest.mark.parametrize("limits", [U55, U85], ids=["u55", "u85"])
def test_vela_runs_a_table_as_one_operation(limits) -> None:
    for bits in (8, 16):
        x = np.linspace(-6, 6, 4096).reshape(1, 16, 16, 16)
        graph = lowered(
            "aten.sigmoid", (given(x, quant=quant_for(x, bits)),), aten.sigmoid, limits=limits,
            out_quant=Quant(1 / 256, -128) if bits == 8 else int16(1 / 32768),
        )  # fmt: skip
        result = vela(graph, limits.name)
        assert len(result.ops) == 1, [op.name for op in result.ops]
