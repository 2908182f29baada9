"""Functions of one float tensor against PyTorch in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import npuc
from npuc.ir import DType
from tests.lowering.harness import TOSA_ALL, TOSA_BF16, TOSA_FP, check_op, given, lowered, ops, run

aten = torch.ops.aten
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0]

#: kind -> (lowest, highest operand, further arguments)
FUNCTIONS = {
    "abs": (-5, 5), "neg": (-5, 5), "exp": (-10, 10), "exp2": (-10, 10), "expm1": (-5, 5),
    "log": (0.01, 10), "log2": (0.01, 10), "log10": (0.01, 10), "log1p": (-0.9, 10),
    "sqrt": (0, 10), "rsqrt": (0.1, 10), "reciprocal": (0.1, 10), "sin": (-6, 6), "cos": (-6, 6),
    "tan": (-1.4, 1.4), "asin": (-1, 1), "acos": (-1, 1), "atan": (-20, 20), "sinh": (-5, 5),
    "cosh": (-5, 5), "tanh": (-5, 5), "asinh": (-20, 20), "acosh": (1, 20), "atanh": (-0.99, 0.99),
    "erf": (-4, 4), "erfinv": (-0.99, 0.99), "sigmoid": (-9, 9), "silu": (-9, 9), "mish": (-9, 25),
    "softplus": (-9, 25), "log_sigmoid": (-25, 25), "elu": (-5, 5), "leaky_relu": (-5, 5),
    "hardsigmoid": (-5, 5), "hardswish": (-5, 5), "hardshrink": (-2, 2), "softshrink": (-2, 2),
    "floor": (-5, 5), "ceil": (-5, 5), "round": (-5, 5), "trunc": (-5, 5), "frac": (-5, 5),
    "sign": (-5, 5), "gelu": (-6, 6), "logit": (0.01, 0.99),
}  # fmt: skip


def schema(kind: str) -> tuple[tuple, dict]:
    """Further arguments as the frontend fills them in."""
    positional = {
        "softplus": (1, 20), "elu": (1, 1, 1), "leaky_relu": (0.01,), "hardshrink": (0.5,),
        "softshrink": (0.5,), "logit": (None,),
    }  # fmt: skip
    return positional.get(kind, ()), {"approximate": "none"} if kind == "gelu" else {}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_matches_pytorch(kind: str) -> None:
    low, high = FUNCTIONS[kind]
    args, kwargs = schema(kind)
    x = np.linspace(low, high, 4001).reshape(1, -1)
    call = getattr(aten, kind)
    check_op(f"aten.{kind}", (given(x), *args), call, kwargs=kwargs)
    # in 16 bits PyTorch's operand is rounded as ours is
    check_op(f"aten.{kind}", (given(x[:, ::7], dtype=DType.FP16), *args), call, kwargs=kwargs)


@pytest.mark.parametrize("kind", ["gelu", "log1p", "atan", "round", "silu", "sqrt"])
def test_bf16(kind: str) -> None:
    low, high = FUNCTIONS[kind]
    args, kwargs = schema(kind)
    x = given(np.linspace(low, high, 101), dtype=DType.BF16)
    check_op(f"aten.{kind}", (x, *args), getattr(aten, kind), kwargs=kwargs, limits=TOSA_BF16)


#: results far below 1 keep relative accuracy
@pytest.mark.parametrize(
    "kind",
    ["log1p", "expm1", "asinh", "atanh", "sinh", "atan", "asin", "erfinv", "tan", "softplus"],
)
def test_relative_accuracy_near_zero(kind: str) -> None:
    magnitudes = np.logspace(-20, -0.5, 200).astype(np.float32)
    x = np.concatenate([magnitudes, -magnitudes])
    if kind == "softplus":
        x = -np.linspace(1, 80, 200).astype(np.float32)
    args, _ = schema(kind)
    call = getattr(aten, kind)
    graph = lowered(f"aten.{kind}", (given(x), *args), call)
    want = call(torch.from_numpy(x.astype(np.float64)), *args).numpy()
    (got,) = run(graph, [x])
    np.testing.assert_allclose(got, want, rtol=2e-6)


@pytest.mark.parametrize(
    "kind", [k for k in FUNCTIONS if k not in ("mish", "gelu", "silu", "hardswish", "sign")]
)
def test_infinities_and_nan(kind: str) -> None:
    """PyTorch's own results for 0, 1, infinity and NaN."""
    args, kwargs = schema(kind)
    if kind in ("sin", "cos", "tan", "erfinv"):
        edges = [0.0, 1.0, -1.0] if kind == "erfinv" else [0.0, 1.0, np.nan]
    else:
        edges = [e for e in EDGES if kind != "exp2" or e == e]  # POW of NaN is undefined
    x = np.asarray(edges, np.float32)
    call = getattr(aten, kind)
    graph = lowered(f"aten.{kind}", (given(x), *args), call, kwargs=kwargs)
    (got,) = run(graph, [x])
    want = call(torch.from_numpy(x), *args, **kwargs).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["mish", "gelu", "silu", "hardswish", "sign"])
def test_zero_and_nan(kind: str) -> None:
    args, kwargs = schema(kind)
    x = np.asarray([0.0, 1.0, np.nan, 80.0, -80.0], np.float32)
    call = getattr(aten, kind)
    (got,) = run(lowered(f"aten.{kind}", (given(x), *args), call, kwargs=kwargs), [x])
    want = call(torch.from_numpy(x), *args, **kwargs).numpy()
    if kind == "sign":
        want[2] = 0
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_round_is_half_to_even() -> None:
    x = np.asarray([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388609.0, 3e9, 1e30])
    check_op("aten.round", (given(x),), aten.round)
    check_op("aten.round.decimals", (given(x[:6] / 10.1),), aten.round, kwargs={"decimals": 1})
    check_op("aten.round.decimals", (given(x * 100),), aten.round, kwargs={"decimals": -2})


@pytest.mark.parametrize(
    "exponent", [0, 1, 2, 3, 5, 8, 11, 12, -1, -2, -3, -9, 0.5, -0.5, 1.5, 2.2, -1.7]
)
def test_power(exponent: float) -> None:
    x = np.linspace(-3, 3, 601)
    if exponent < 0:
        x = x[np.abs(x) > 0.1]
    check_op("aten.pow.Tensor_Scalar", (given(x), exponent), aten.pow, tolerance=1e-5)


def test_power_of_integers() -> None:
    x = np.arange(-5, 6, dtype=np.int32)
    for exponent in (0, 1, 2, 3):
        check_op("aten.pow.Tensor_Scalar", (given(x), exponent), aten.pow, limits=TOSA_ALL)


def test_gelu_tanh_and_parameters() -> None:
    x = given(np.linspace(-6, 6, 500))
    check_op("aten.gelu", (x,), aten.gelu, kwargs={"approximate": "tanh"})
    check_op("aten.elu", (x, 1.6732632423543772, 1.0507009873554805, 1), aten.elu)
    check_op("aten.elu", (x, 0.7, 1, 1 / 0.7), aten.elu)
    check_op("aten.leaky_relu", (x, -0.3), aten.leaky_relu)
    check_op("aten.leaky_relu", (x, 1.3), aten.leaky_relu)
    check_op("aten.softplus", (x, 2.5, 3.0), aten.softplus)
    check_op("aten.threshold", (x, 0.5, -7.0), aten.threshold)
    check_op("aten.logit", (given(np.linspace(-0.2, 1.2, 99)), 0.1), aten.logit)


def test_integers() -> None:
    for dtype in (np.int32, np.int8, np.int16):
        x = given(np.arange(-9, 10, dtype=dtype))
        for kind in ("abs", "neg", "sign", "floor", "round"):
            check_op(f"aten.{kind}", (x,), getattr(aten, kind), limits=TOSA_ALL)


def test_one_operator_where_tosa_has_it() -> None:
    x = given(np.linspace(0.1, 1, 9))
    for kind, name in (("exp", "EXP"), ("tanh", "TANH"), ("erf", "ERF"), ("floor", "FLOOR")):
        assert ops(lowered(f"aten.{kind}", (x,), getattr(aten, kind), limits=TOSA_FP)) == [name]
    assert ops(lowered("aten.sqrt", (x,), aten.sqrt)) == ["RSQRT", "RECIPROCAL"]


def test_glu() -> None:
    x = np.random.default_rng(0).normal(size=(2, 6, 4))
    check_op("aten.glu", (given(x), 1), aten.glu)


def test_a_refused_part_of_an_op_is_named_with_the_op():
    class Bessel(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.i0(x)

    (verdict,) = npuc.explain(Bessel(), (torch.ones(2),), target="tosa-1.0+fp").refused
    assert verdict.reason.op == "aten.special_i0"
    assert verdict.reason.why == "no lowering rule for prims.bessel_i0, which it is made of"
