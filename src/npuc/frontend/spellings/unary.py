"""Spellings of one-operand ops: conversions, bounds, functions of real numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from npuc.frontend.spellings.registry import add, spells
from npuc.frontend.spellings.speller import Speller
from npuc.ir import Value

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946

# bounds --------------------------------------------------------------------------------------


@spells("clamp clip hardtanh", into="clamp")
def clamp(c: Speller, x: Value, low: Any = None, high: Any = None) -> Value:
    out = c.out[0]
    low = None if low is None or low == -math.inf else low
    high = None if high is None or high == math.inf else high
    x = c.to(x, out.dtype)
    if low is None and high is None:
        return x
    return c.make("aten.clamp", out, x, low, high)


@spells("clamp_min", into="clamp")
def clamp_min(c: Speller, x: Value, low: Any) -> Value:
    return clamp(c, x, low, None)


@spells("clamp_max", into="clamp")
def clamp_max(c: Speller, x: Value, high: Any) -> Value:
    return clamp(c, x, None, high)


@spells("relu", into="clamp")
def relu(c: Speller, x: Value) -> Value:
    return clamp(c, x, 0, None)


@spells("relu6", into="clamp")
def relu6(c: Speller, x: Value) -> Value:
    return clamp(c, x, 0, 6)


@spells("threshold", into="threshold")
def threshold(c: Speller, x: Value, limit: Any, value: Any) -> Value:
    if limit == 0 and value == 0:
        return clamp(c, x, 0, None)
    return c.make("aten.threshold", c.out[0], x, limit, value)


# one operand ---------------------------------------------------------------------------------


@spells(
    "to.dtype to.device to.other to.dtype_layout _to_copy type_as to.prim_dtype to.prim_device "
    "to.prim_other _cast_Float _cast_Half _cast_Int _cast_Long",
    into="to",
)
def to(c: Speller, x: Value, *_: Any, **__: Any) -> Value:
    return c.to(x, c.out[0].dtype)


def _unary(kind: str) -> Callable[..., Value]:
    """An op of real numbers: integer operands are converted."""

    def respell(c: Speller, x: Value, *args: Any, **kwargs: Any) -> Value:
        return c.make(kind, c.out[0], c.to(x, c.out[0].dtype), *args, **kwargs)

    return respell


#: canonical op -> its spellings; all arguments after the first are kept
_UNARY = {
    "abs": "abs absolute", "neg": "neg negative", "sign": "sign sgn", "exp": "exp",
    "expm1": "expm1 special_expm1", "exp2": "exp2 special_exp2", "log": "log",
    "log1p": "log1p special_log1p", "log2": "log2", "log10": "log10", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "reciprocal": "reciprocal", "erf": "erf special_erf",
    "erfinv": "erfinv special_erfinv", "sin": "sin", "cos": "cos", "tan": "tan",
    "asin": "asin arcsin", "acos": "acos arccos", "atan": "atan arctan", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "asinh": "asinh arcsinh", "acosh": "acosh arccosh",
    "atanh": "atanh arctanh", "sigmoid": "sigmoid special_expit", "hardsigmoid": "hardsigmoid",
    "hardswish": "hardswish", "silu": "silu", "mish": "mish", "log_sigmoid": "log_sigmoid",
    "gelu": "gelu", "leaky_relu": "leaky_relu", "softplus": "softplus",
    "hardshrink": "hardshrink", "softshrink": "softshrink", "logit": "logit special_logit",
    "round.decimals": "round.decimals special_round.decimals",
}  # fmt: skip
for _canonical, _names in _UNARY.items():
    for _name in _names.split():
        add(_name, _unary(f"aten.{_canonical}"), _canonical)


def _rounding(kind: str) -> Callable[..., Value]:
    """Rounding leaves integers as they are."""

    def respell(c: Speller, x: Value) -> Value:
        return c.make(kind, c.out[0], x) if x.type.dtype.is_float else x

    return respell


_ROUNDINGS = {
    "floor": "floor", "ceil": "ceil", "round": "round special_round", "trunc": "trunc fix",
}  # fmt: skip
for _canonical, _names in _ROUNDINGS.items():
    for _name in _names.split():
        add(_name, _rounding(f"aten.{_canonical}"), _canonical)


@spells("log_sigmoid_forward", into="log_sigmoid")
def log_sigmoid_forward(c: Speller, x: Value) -> tuple[Value]:
    return (c.make("aten.log_sigmoid", c.out[0], x),)


@spells("elu", into="elu")
def elu(c: Speller, x: Value, alpha: Any, scale: Any, input_scale: Any) -> Value:
    return c.make("aten.elu", c.out[0], x, float(alpha), float(scale), float(input_scale))


@spells("celu", into="elu")
def celu(c: Speller, x: Value, alpha: Any) -> Value:
    return elu(c, x, alpha, 1.0, 1.0 / alpha)


@spells("selu", into="elu")
def selu(c: Speller, x: Value) -> Value:
    return elu(c, x, SELU_ALPHA, SELU_SCALE, 1.0)


@spells("rrelu", into="leaky_relu")
def rrelu(c: Speller, x: Value, lower: Any, upper: Any, *_: Any, **__: Any) -> Value:
    """In inference the slope is the middle of the range."""
    return c.make("aten.leaky_relu", c.out[0], x, (lower + upper) / 2)


@spells("glu", into="glu")
def glu(c: Speller, x: Value, dim: int) -> Value:
    return c.make("aten.glu", c.out[0], x, dim % x.type.rank)


@spells("prelu _prelu_kernel", into="prelu")
def prelu(c: Speller, x: Value, weight: Value) -> Value:
    if weight.type.rank > 1:
        weight = c.view(weight, (weight.type.size,))
    return c.make("aten.prelu", c.out[0], x, weight)
