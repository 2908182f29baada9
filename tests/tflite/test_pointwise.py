"""Arithmetic, comparisons and functions of one tensor on LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from npuc.ir import DType, Quant
from tests.lowering.harness import constant, given, quant_for
from tests.tflite.harness import check_tflite, names

rng = np.random.default_rng(2)
aten = torch.ops.aten


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (rng.normal(0, scale, shape)).astype(np.float32)


BINARY: dict[str, Callable[..., Any]] = {
    "aten.add.Tensor": torch.add, "aten.sub.Tensor": torch.sub, "aten.mul.Tensor": torch.mul,
    "aten.maximum": torch.maximum, "aten.minimum": torch.minimum,
}  # fmt: skip
SHAPES = [
    ((2, 3, 4, 5), (2, 3, 4, 5)),
    ((2, 3, 4, 5), (3, 1, 1)),
    ((2, 1, 4), (1, 3, 1)),
    ((3, 4), ()),
]


@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("bits", [0, 8, 16])
def test_binary(kind: str, shapes: Any, bits: int) -> None:
    x, y = normal(*shapes[0]), normal(*shapes[1], scale=2)
    kwargs = {"alpha": 1} if kind[5:8] in ("add", "sub") else {}
    if not bits:
        check_tflite(kind, (given(x), given(y)), BINARY[kind], kwargs=kwargs)
        return
    out = BINARY[kind](torch.from_numpy(x), torch.from_numpy(np.asarray(y))).numpy()
    args = (given(x, quant_for(x, bits)), given(y, quant_for(y, bits)))
    check_tflite(kind, args, BINARY[kind], kwargs=kwargs, out_quant=quant_for(out, bits),
                 steps=1 if bits == 8 else 4)  # fmt: skip


@pytest.mark.parametrize("alpha", [2, 0.5, -1.5])
def test_alpha(alpha: float) -> None:
    x, y = normal(3, 4), normal(3, 4)
    out = x + alpha * y
    check_tflite("aten.add.Tensor", (given(x), given(y)), torch.add, kwargs={"alpha": alpha})
    args = (given(x, quant_for(x)), given(y, quant_for(y)))
    check_tflite(
        "aten.add.Tensor", args, torch.add, kwargs={"alpha": alpha}, out_quant=quant_for(out)
    )


def test_constants_and_mixed_widths() -> None:
    x, y = normal(2, 3, 4), normal(3, 1)
    for other in (constant(y), constant(y, quant_for(y)), constant(np.float32(1.5))):
        out = x + other.array
        check_tflite("aten.add.Tensor", (given(x, quant_for(x)), other), torch.add,
                     kwargs={"alpha": 1}, out_quant=quant_for(out))  # fmt: skip
    args = (given(x, quant_for(x, 16)), given(y, quant_for(y)))
    check_tflite("aten.mul.Tensor", args, torch.mul, out_quant=quant_for(x * y, 8))
    check_tflite("aten.mul.Tensor", args, torch.mul, out_quant=quant_for(x * y, 16), steps=4)


def test_integers() -> None:
    x = rng.integers(-50, 50, (3, 4)).astype(np.int64)
    y = rng.integers(1, 9, (4,)).astype(np.int64)
    for kind, function in BINARY.items():
        kwargs = {"alpha": 1} if kind[5:8] in ("add", "sub") else {}
        check_tflite(kind, (given(x), given(y)), function, kwargs=kwargs, out_dtype=DType.INT64)
    for mode in ("floor", "trunc"):
        check_tflite("aten.div.Tensor", (given(x), given(y)), torch.div,
                     kwargs={"rounding_mode": mode})  # fmt: skip
    check_tflite("aten.remainder.Tensor", (given(x), given(y)), torch.remainder)
    check_tflite("aten.fmod.Tensor", (given(x), given(y)), torch.fmod)
    check_tflite("aten.bitwise_xor.Tensor", (given(x), given(y)), torch.bitwise_xor)
    check_tflite("aten.bitwise_not", (given(x),), torch.bitwise_not)
    check_tflite(
        "aten.bitwise_right_shift.Tensor", (given(x), given(y % 4)), torch.bitwise_right_shift
    )


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_float_division(mode: str | None) -> None:
    x, y = normal(3, 4, scale=5), normal(4) + np.float32(3)
    check_tflite("aten.div.Tensor", (given(x), given(y)), torch.div, kwargs={"rounding_mode": mode})


def test_quantized_division() -> None:
    x, y = normal(3, 4, scale=2), rng.uniform(1, 4, (3, 4)).astype(np.float32)
    kwargs = {"rounding_mode": None}
    args = (given(x, quant_for(x)), given(y, quant_for(y)))
    check_tflite("aten.div.Tensor", args, torch.div, kwargs=kwargs, out_quant=quant_for(x / y))
    args = (given(x, quant_for(x)), constant(np.float32(3)))
    graph = check_tflite(
        "aten.div.Tensor", args, torch.div, kwargs=kwargs, out_quant=quant_for(x / 3)
    )
    assert names(graph) == ["MUL"]
    args = (given(x, quant_for(x)), constant(y))
    check_tflite("aten.div.Tensor", args, torch.div, kwargs=kwargs, out_quant=quant_for(x / y))


@pytest.mark.parametrize("bits", [8, 16])
def test_division_by_a_wide_range(bits: int) -> None:
    x = normal(6, 50, scale=2)
    y = (np.exp(rng.uniform(-3, 1.5, (1, 50))) * rng.choice([-1, 1], (1, 50))).astype(np.float32)
    args = (given(x, quant_for(x, bits)), given(y, quant_for(y, bits)))
    check_tflite("aten.div.Tensor", args, torch.div, kwargs={"rounding_mode": None},
                 out_quant=quant_for(x / y, bits), steps=1 if bits == 8 else 3)  # fmt: skip


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons(op: str) -> None:
    function = getattr(torch, op)
    x, y = normal(3, 4), normal(1, 4)
    y[0, 1] = x[1, 1]
    kind = f"aten.{op}.Tensor"
    check_tflite(kind, (given(x), given(y)), function)
    check_tflite(kind, (given(x), constant(np.float32(0.5))), function)
    q = quant_for(np.concatenate([x, y]))
    check_tflite(kind, (given(x, q), given(y, q)), function)
    q16 = quant_for(np.concatenate([x, y]), 16)
    check_tflite(kind, (given(x, q16), given(y, q16)), function)
    small = (v * np.float32(0.01) for v in (x, y))  # below what LiteRT's kernels tell apart
    x, y = small
    q = quant_for(np.concatenate([x, y]))
    check_tflite(kind, (given(x, q), given(y, q)), function)
    q16 = quant_for(np.concatenate([x, y]), 16)
    check_tflite(kind, (given(x, q16), given(y, q16)), function)
    check_tflite(kind, (given(x, q), constant(np.float32(0.003))), function)
    apart = np.where(np.abs(x - y) < 3 * q.s, x + np.float32(9 * q.s), x)
    check_tflite(kind, (given(apart, quant_for(apart)), given(y, quant_for(y))), function)
    ints = rng.integers(0, 4, (3, 4))
    check_tflite(kind, (given(ints), given(ints[:1])), function)
    check_tflite(kind, (given(ints > 1), given(ints[:1] > 1)), function)


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("scale", [0.125, 1.0, 3.0])
def test_comparisons_with_constants_are_exact(op: str, scale: float) -> None:
    """On the grid of codes and between, at the ends and outside; coarse scales too."""
    q = Quant(scale, 5)
    x = q.dequantize(np.arange(-128, 128)).astype(np.float32)
    function = getattr(torch, op)
    for code in (0, 0.5, 5, -128, 127, 126.7, 300, -300):
        number = np.float32((code - 5) * scale)
        given_x, c = given(x, q), constant(number)
        check_tflite(f"aten.{op}.Tensor", (given_x, c), lambda a, b: function(a, b.to(a.dtype)))
        check_tflite(f"aten.{op}.Tensor", (c, given_x), lambda a, b: function(a.to(b.dtype), b))
    check_tflite(f"aten.{op}.Tensor", (given(x, q), given(x[::-1].copy(), q)), function)


def test_logic() -> None:
    x, y = rng.integers(0, 2, (3, 4)) > 0, rng.integers(0, 2, (4,)) > 0
    for op in ("and", "or", "xor"):
        check_tflite(f"aten.logical_{op}", (given(x), given(y)), getattr(torch, f"logical_{op}"))
    check_tflite("aten.logical_not", (given(x),), torch.logical_not)
    floats = np.array([1.0, np.nan, np.inf, -np.inf, 0.0], np.float32)
    for op in ("isnan", "isinf", "isfinite"):
        check_tflite(f"aten.{op}", (given(floats),), getattr(torch, op))


@pytest.mark.parametrize("bits", [0, 8, 16])
def test_where(bits: int) -> None:
    c, x, y = rng.integers(0, 2, (2, 1, 4)) > 0, normal(2, 3, 4), normal(4)
    if not bits:
        check_tflite("aten.where", (given(c), given(x), given(y)), torch.where)
        return
    q = quant_for(np.concatenate([x.ravel(), y]), bits)
    check_tflite("aten.where", (given(c), given(x, q), given(y, q)), torch.where, out_quant=q)
    check_tflite(
        "aten.where", (given(c), given(x, q), constant(np.float32(-1))), torch.where, out_quant=q
    )


#: function -> range of operands, further arguments
UNARY: dict[str, tuple[Any, ...]] = {
    "abs": (-4, 4), "neg": (-4, 3), "exp": (-5, 2), "exp2": (-5, 3), "expm1": (-3, 2), "log": (0.05, 6),
    "log1p": (-0.7, 5), "log2": (0.05, 6), "log10": (0.05, 6), "sqrt": (0, 7), "rsqrt": (0.1, 5),
    "reciprocal": (0.3, 4), "sin": (-4, 4), "cos": (-4, 4), "tan": (-1.2, 1.2), "asin": (-0.98, 0.98),
    "acos": (-0.98, 0.98), "atan": (-5, 5), "sinh": (-3, 3), "cosh": (-3, 3), "tanh": (-4, 4),
    "asinh": (-5, 5), "acosh": (1.1, 6), "atanh": (-0.95, 0.95), "sigmoid": (-6, 6), "erf": (-3, 3),
    "erfinv": (-0.95, 0.95), "hardsigmoid": (-5, 5), "hardswish": (-5, 5), "silu": (-7, 7),
    "mish": (-6, 6), "softplus": (-6, 6, 1, 20), "log_sigmoid": (-6, 6), "gelu": (-4, 4),
    "elu": (-4, 4, 1, 1, 1), "leaky_relu": (-4, 4, 0.1), "hardshrink": (-2, 2, 0.5),
    "softshrink": (-2, 2, 0.5), "threshold": (-2, 2, 0.3, 1.0), "floor": (-4.3, 4.3), "ceil": (-4.3, 4.3),
    "round": (-4.3, 4.3), "trunc": (-4.3, 4.3), "sign": (-2, 2), "logit": (0.05, 0.95, None),
}  # fmt: skip
SELU = (1.6732632423543772, 1.0507009873554805, 1)


def _call(name: str) -> Callable[..., Any]:
    if name == "log_sigmoid":
        return lambda x: torch.nn.functional.logsigmoid(x)
    return getattr(aten, name)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", UNARY)
def test_unary_float(name: str) -> None:
    low, high, *args = UNARY[name]
    x = np.linspace(low, high, 300).astype(np.float32).reshape(3, 100)
    check_tflite(f"aten.{name}", (given(x), *args), _call(name))


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("bits", [8, 16])
def test_unary_quantized(name: str, bits: int) -> None:
    low, high, *args = UNARY[name]
    x = np.linspace(low, high, 2000).astype(np.float32).reshape(20, 100)
    q = quant_for(np.array([low, high]), bits)
    x = q.dequantize(q.quantize(x))
    x = (
        np.clip(x, low, high)
        if low > 0 or name in ("asin", "acos", "atanh", "erfinv", "log1p")
        else x
    )
    x = np.where(q.quantize(x) == q.zp, x if low <= 0 else high, x)
    want = _call(name)(torch.from_numpy(x), *args).numpy()
    out = quant_for(want, bits)
    check_tflite(f"aten.{name}", (given(x, q), *args), _call(name), out_quant=out,
                 steps=1 if bits == 8 else 40)  # fmt: skip


def test_fixed_ranges_take_one_operator() -> None:
    x = np.linspace(-6, 6, 200).astype(np.float32)
    q = quant_for(x)
    graph = check_tflite(
        "aten.sigmoid", (given(x, q),), torch.sigmoid, out_quant=Quant(1 / 256, -128)
    )
    assert names(graph) == ["LOGISTIC"]
    graph = check_tflite("aten.tanh", (given(x, q),), torch.tanh, out_quant=Quant(1 / 128, 0))
    assert names(graph) == ["TANH"]


def test_elu_forms_and_powers() -> None:
    x = np.linspace(-4, 4, 200).astype(np.float32)
    q = quant_for(x)
    for args in (SELU, (0.5, 1, 1), (1, 1, 2)):
        want = aten.elu(torch.from_numpy(x), *args).numpy()
        check_tflite("aten.elu", (given(x), *args), aten.elu)
        check_tflite("aten.elu", (given(x, q), *args), aten.elu, out_quant=quant_for(want))
    for exponent in (2, 3, 0.5, -1, 1.7, 0):
        y = np.abs(x) + np.float32(0.2)
        want = y.astype(np.float64) ** exponent
        check_tflite("aten.pow.Tensor_Scalar", (given(y), exponent), torch.pow)
        check_tflite("aten.pow.Tensor_Scalar", (given(y, quant_for(y)), exponent), torch.pow,
                     out_quant=quant_for(want))  # fmt: skip


def test_gelu_of_tanh() -> None:
    x = np.linspace(-4, 4, 200).astype(np.float32)
    want = aten.gelu(torch.from_numpy(x), approximate="tanh").numpy()
    check_tflite("aten.gelu", (given(x),), aten.gelu, kwargs={"approximate": "tanh"})
    check_tflite("aten.gelu", (given(x, quant_for(x)),), aten.gelu, kwargs={"approximate": "tanh"},
                 out_quant=quant_for(want))  # fmt: skip


@pytest.mark.parametrize(
    "bounds", [(0, None), (0, 6), (-1, 1), (0, 1), (-0.5, 2), (None, 1.5), (0.5, None)]
)
@pytest.mark.parametrize("bits", [0, 8, 16])
def test_clamp(bounds: Any, bits: int) -> None:
    x = np.linspace(-4, 8, 300).astype(np.float32)
    if not bits:
        check_tflite("aten.clamp", (given(x), *bounds), torch.clamp)
        return
    want = torch.clamp(torch.from_numpy(x), *bounds).numpy()
    q = quant_for(x, bits)
    for out in (q, quant_for(want, bits)):
        check_tflite("aten.clamp", (given(x, q), *bounds), torch.clamp, out_quant=out,
                     steps=1 if bits == 8 else 2)  # fmt: skip


@pytest.mark.parametrize("bits", [0, 8, 16])
@pytest.mark.parametrize("slopes", [1, 3])
def test_prelu(bits: int, slopes: int) -> None:
    x, w = normal(2, 3, 4, 5), rng.uniform(-0.5, 1.5, slopes).astype(np.float32)
    if not bits:
        check_tflite("aten.prelu", (given(x), constant(w)), torch.prelu)
        return
    want = torch.prelu(torch.from_numpy(x), torch.from_numpy(w)).numpy()
    check_tflite("aten.prelu", (given(x, quant_for(x, bits)), constant(w)),
                 lambda a, b: torch.prelu(a, b.to(a.dtype)), out_quant=quant_for(want, bits),
                 steps=1 if bits == 8 else 4)  # fmt: skip


def test_casts() -> None:
    x = np.array([-3.7, -0.5, 0.0, 1.5, 200.2], np.float32)
    check_tflite("aten.to", (given(x), DType.INT32), lambda t, d: t.to(torch.int32))
    check_tflite("aten.to", (given(x), DType.BOOL), lambda t, d: t.to(torch.bool))
    ints = np.array([-3, 0, 7], np.int64)
    check_tflite("aten.to", (given(ints), DType.FP32), lambda t, d: t.to(torch.float32))
    q = quant_for(np.array([-4.0, 8.0]))
    check_tflite(
        "aten.to", (given(ints), DType.FP32), lambda t, d: t.to(torch.float64), out_quant=q
    )
    check_tflite(
        "aten.to", (given(ints > 0), DType.FP32), lambda t, d: t.to(torch.float64), out_quant=q
    )
    check_tflite("quantized_decomposed.quantize_per_tensor", (given(x),), lambda t: t, out_quant=q)
    check_tflite("quantized_decomposed.dequantize_per_tensor", (given(x, q),), lambda t: t.float())
    check_tflite("quantized_decomposed.requantize", (given(x, q),), lambda t: t,
                 out_quant=quant_for(np.array([-1.0, 3.0])))  # fmt: skip


def test_uint8_is_carried_by_int8() -> None:
    x = np.linspace(0, 4, 50).astype(np.float32)
    q = Quant(4 / 255, 10, None, 0, 255)
    check_tflite("aten.exp", (given(x, q, DType.UINT8),), torch.exp,
                 out_quant=Quant(0.25, 3, None, 0, 255), out_dtype=DType.UINT8)  # fmt: skip


def test_glu_and_shifts() -> None:
    x = normal(2, 6, 4)
    check_tflite("aten.glu", (given(x), 1), aten.glu)
    want = aten.glu(torch.from_numpy(x), 1).numpy()
    check_tflite("aten.glu", (given(x, quant_for(x)), 1), aten.glu, out_quant=quant_for(want))
    ints = rng.integers(0, 9, (3, 4))
    check_tflite("aten.bitwise_left_shift.Tensor", (given(ints), constant(np.array([0, 1, 2, 3]))),
                 torch.bitwise_left_shift)  # fmt: skip


@pytest.mark.parametrize("bits", [8, 16])
def test_sums_of_very_different_scales(bits: int) -> None:
    """An operand that calibration saw as zero has scale 1; LiteRT's kernel would abort."""
    x, y = normal(3, 4, scale=1e-6 if bits == 8 else 1e-4), np.zeros((3, 4), np.float32)
    one = Quant(1.0, 0, None, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    args = (given(x, quant_for(x, bits)), given(y, one))
    check_tflite(
        "aten.add.Tensor", args, torch.add, kwargs={"alpha": 1}, out_quant=quant_for(x, bits)
    )


def test_functions_of_pairs() -> None:
    """Quantized functions of two tensors without an operator: a table of all pairs of codes."""
    x, y = normal(3, 40, scale=3), rng.uniform(0.6, 2.5, (1, 40)).astype(np.float32)
    qx, qy = quant_for(x), quant_for(y)
    x = qx.dequantize(qx.quantize(x))
    y = qy.dequantize(qy.quantize(y))
    for kind, function, kwargs in (
        ("aten.div.Tensor", torch.div, {"rounding_mode": "floor"}),
        ("aten.div.Tensor", torch.div, {"rounding_mode": "trunc"}),
        ("aten.remainder.Tensor", torch.remainder, {}), ("aten.fmod.Tensor", torch.fmod, {}),
        ("aten.atan2", torch.atan2, {}),
        ("aten.pow.Tensor_Tensor", lambda a, b: torch.pow(a.abs(), b), {}),
    ):  # fmt: skip
        left = np.abs(x) if "pow" in kind else x
        q = quant_for(left)
        left = q.dequantize(q.quantize(left))
        want = function(torch.from_numpy(left), torch.from_numpy(y), **kwargs).numpy()
        args = (given(left, q), given(y, qy))
        # ties apart, exactly
        check_tflite(kind, args, function, kwargs=kwargs, out_quant=quant_for(want), wrong=0.05)
    want = np.floor(x / 1.5)
    args = (given(x, qx), constant(np.float32(1.5)))
    kwargs = {"rounding_mode": "floor"}
    check_tflite("aten.div.Tensor", args, torch.div, kwargs=kwargs, out_quant=quant_for(want))


def test_bits() -> None:
    for low, high, dtype in ((-(2**31), 2**31, DType.INT32), (-128, 128, DType.INT8)):
        x, y = (rng.integers(low, high, (4, 50)).astype(dtype.numpy) for _ in range(2))
        for op in ("and", "or", "xor"):
            kind = f"aten.bitwise_{op}.Tensor"
            check_tflite(kind, (given(x), given(y)), getattr(torch, f"bitwise_{op}"))
    x, y = rng.integers(0, 9, (3, 4)), rng.integers(0, 5, (3, 4))
    check_tflite("aten.bitwise_left_shift.Tensor", (given(x), given(y)), torch.bitwise_left_shift)


@pytest.mark.parametrize("bits", [8, 16])
def test_sigmoid_of_very_negative_values(bits: int) -> None:
    """Its results are below the steps of LOGISTIC."""
    x = np.linspace(-20, -9, 300).astype(np.float32)
    want = 1 / (1 + np.exp(-x.astype(np.float64)))
    check_tflite(
        "aten.sigmoid", (given(x, quant_for(x, bits)),), torch.sigmoid,
        out_quant=quant_for(want, bits), steps=1 if bits == 8 else 4,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "exp", "hardswish"])
def test_functions_between_widths(name: str) -> None:
    x = np.linspace(-3, 3, 400).astype(np.float32)
    want = _call(name)(torch.from_numpy(x)).numpy()
    for before, after in ((16, 8), (8, 16)):
        check_tflite(
            f"aten.{name}", (given(x, quant_for(x, before)),), _call(name),
            out_quant=quant_for(want, after), steps=1 if after == 8 else 4,
        )  # fmt: skip
