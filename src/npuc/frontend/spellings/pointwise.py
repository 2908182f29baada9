"""Spellings of two-operand ops: element types made equal, numbers made constants."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import zip_longest
from typing import Any

import numpy as np

from npuc.frontend.spellings.open_sizes import triangle
from npuc.frontend.spellings.registry import add, spells
from npuc.frontend.spellings.speller import Speller
from npuc.ir import DType, Value

# element types -------------------------------------------------------------------------------


def common_dtype(*operands: Any) -> DType:
    """The type in which PyTorch computes with these tensors and numbers (its promotion rules):
    tensors with dims come before 0-d ones and those before numbers, within one category."""
    ranked: list[list[DType]] = [[], [], []]
    for x in operands:
        if isinstance(x, Value):
            ranked[0 if x.type.rank else 1].append(x.type.dtype)
        elif x is not None:
            ranked[2].append(_number_type(x))
    best: DType | None = None
    for group in ranked:
        if group:
            best = _combine(best, _promote_all(group))
    assert best is not None
    return best


def _number_type(x: Any) -> DType:
    if isinstance(x, bool):
        return DType.BOOL
    return DType.FP32 if isinstance(x, float) else DType.INT64


def _promote_all(group: list[DType]) -> DType:
    best = group[0]
    for dtype in group[1:]:
        best = _promote(best, dtype)
    return best


def _combine(higher: DType | None, lower: DType) -> DType:
    if higher is None:
        return lower
    if higher.is_float:
        return higher
    if higher is DType.BOOL or lower.is_float:
        return _promote(higher, lower)
    return higher


@cache
def _promote(a: DType, b: DType) -> DType:
    import torch

    from npuc.frontend.torch_arrays import dtype_of, torch_dtype

    return dtype_of(torch.promote_types(torch_dtype(a), torch_dtype(b)))


def as_value(c: Speller, x: Any, dtype: DType) -> Value:
    """A tensor converted to `dtype`, a number as a 0-d constant of it."""
    return c.to(x, dtype) if isinstance(x, Value) else c.number(x, dtype)


def _arithmetic(
    c: Speller, kind: str, a: Any, b: Any, dtype: DType | None = None, **kw: Any
) -> Value:
    """A two-operand op in the common type; its result converted to what the model has."""
    dtype = dtype or common_dtype(a, b)
    type = c.out[0].with_(dtype=dtype)
    made = c.make(kind, type, as_value(c, a, dtype), as_value(c, b, dtype), **kw)
    return c.to(made, c.out[0].dtype)


# arithmetic ----------------------------------------------------------------------------------


@spells("add.Tensor add.Scalar _add_relu.Tensor", into="add.Tensor")
def add_(c: Speller, a: Any, b: Any, alpha: Any = 1) -> Value:
    if c.out[0].dtype is DType.BOOL:
        return _arithmetic(c, "aten.logical_or", a, b)
    return _arithmetic(c, "aten.add.Tensor", a, b, alpha=alpha)


@spells("sub.Tensor sub.Scalar subtract.Tensor subtract.Scalar", into="sub.Tensor")
def sub(c: Speller, a: Any, b: Any, alpha: Any = 1) -> Value:
    return _arithmetic(c, "aten.sub.Tensor", a, b, alpha=alpha)


@spells("rsub.Tensor rsub.Scalar", into="sub.Tensor")
def rsub(c: Speller, a: Any, b: Any, alpha: Any = 1) -> Value:
    return _arithmetic(c, "aten.sub.Tensor", b, a, alpha=alpha)


@spells("mul.Tensor mul.Scalar multiply.Tensor multiply.Scalar", into="mul.Tensor")
def mul(c: Speller, a: Any, b: Any) -> Value:
    kind = "aten.logical_and" if c.out[0].dtype is DType.BOOL else "aten.mul.Tensor"
    return _arithmetic(c, kind, a, b)


@spells(
    "div.Tensor div.Scalar div.Tensor_mode div.Scalar_mode divide.Tensor divide.Scalar "
    "divide.Tensor_mode divide.Scalar_mode true_divide.Tensor true_divide.Scalar",
    into="div.Tensor",
)
def div(c: Speller, a: Any, b: Any, rounding_mode: str | None = None) -> Value:
    dtype = common_dtype(a, b)
    if rounding_mode is None and not dtype.is_float:
        dtype = c.out[0].dtype
    return _arithmetic(c, "aten.div.Tensor", a, b, dtype, rounding_mode=rounding_mode)


@spells("floor_divide floor_divide.Scalar", into="div.Tensor")
def floor_divide(c: Speller, a: Any, b: Any) -> Value:
    return div(c, a, b, "floor")


@spells("pow.Tensor_Scalar float_power.Tensor_Scalar", into="pow.Tensor_Scalar")
def pow_scalar(c: Speller, x: Value, exponent: Any) -> Value:
    return c.make("aten.pow.Tensor_Scalar", c.out[0], c.to(x, c.out[0].dtype), exponent)


@spells("square", into="pow.Tensor_Scalar")
def square(c: Speller, x: Value) -> Value:
    return pow_scalar(c, x, 2)


@spells("pow.Tensor_Tensor pow.Scalar float_power.Tensor_Tensor", into="pow.Tensor_Tensor")
def pow_tensor(c: Speller, a: Any, b: Any) -> Value:
    return _arithmetic(c, "aten.pow.Tensor_Tensor", a, b, c.out[0].dtype)


def _binary(canonical: str) -> Callable[..., Value]:
    def respell(c: Speller, a: Any, b: Any) -> Value:
        return _arithmetic(c, canonical, a, b)

    return respell


_BINARY = {
    "maximum": "maximum max.other",
    "minimum": "minimum min.other",
    "fmax": "fmax",
    "fmin": "fmin",
    "remainder.Tensor": "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor",
    "fmod.Tensor": "fmod.Tensor fmod.Scalar",
    "bitwise_left_shift.Tensor": "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar "
    "bitwise_left_shift.Scalar_Tensor __lshift__.Scalar __lshift__.Tensor",
    "bitwise_right_shift.Tensor": "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar "
    "bitwise_right_shift.Scalar_Tensor __rshift__.Scalar __rshift__.Tensor",
}
for _canonical, _names in _BINARY.items():
    for _name in _names.split():
        add(_name, _binary(f"aten.{_canonical}"), _canonical)


@spells("atan2 arctan2", into="atan2")
def atan2(c: Speller, a: Value, b: Value) -> Value:
    return _arithmetic(c, "aten.atan2", a, b, c.out[0].dtype)


# comparison and logic ------------------------------------------------------------------------


def _comparison(canonical: str) -> Callable[..., Value]:
    def respell(c: Speller, a: Any, b: Any) -> Value:
        dtype = common_dtype(a, b)
        type = c.out[0].with_(dtype=DType.BOOL)
        return c.to(
            c.make(canonical, type, as_value(c, a, dtype), as_value(c, b, dtype)), c.out[0].dtype
        )

    return respell


_COMPARISONS = {
    "eq": "eq", "ne": "ne not_equal", "gt": "gt greater", "ge": "ge greater_equal",
    "lt": "lt less", "le": "le less_equal",
}  # fmt: skip
for _canonical, _names in _COMPARISONS.items():
    for _name in _names.split():
        for _overload in ("Tensor", "Scalar"):
            _function = _comparison(f"aten.{_canonical}.Tensor")
            add(f"{_name}.{_overload}", _function, f"{_canonical}.Tensor")


def _bitwise(name: str) -> Callable[..., Value]:
    def respell(c: Speller, a: Any, b: Any) -> Value:
        if common_dtype(a, b) is DType.BOOL:
            return _arithmetic(c, f"aten.logical_{name}", a, b)
        return _arithmetic(c, f"aten.bitwise_{name}.Tensor", a, b)

    return respell


def _logical(name: str) -> Callable[..., Value]:
    def respell(c: Speller, a: Any, b: Any) -> Value:
        return _arithmetic(c, f"aten.logical_{name}", a, b, DType.BOOL)

    return respell


for _name in ("and", "or", "xor"):
    for _spelling in (
        f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar", f"bitwise_{_name}.Scalar_Tensor",
        f"__{_name}__.Tensor", f"__{_name}__.Scalar",
    ):  # fmt: skip
        add(_spelling, _bitwise(_name), f"bitwise_{_name}.Tensor")
    add(f"logical_{_name}", _logical(_name), f"logical_{_name}")


@spells("bitwise_not", into="bitwise_not")
def bitwise_not(c: Speller, x: Value) -> Value:
    kind = "aten.logical_not" if x.type.dtype is DType.BOOL else "aten.bitwise_not"
    return c.make(kind, c.out[0], x)


@spells("logical_not", into="logical_not")
def logical_not(c: Speller, x: Value) -> Value:
    return c.make("aten.logical_not", c.out[0], c.to(x, DType.BOOL))


# choices and bounds --------------------------------------------------------------------------


@spells("where.self where.ScalarOther where.ScalarSelf where.Scalar", into="where")
def where(c: Speller, condition: Value, a: Any, b: Any) -> Value:
    return _where(c, condition, a, b, common_dtype(a, b))


def _where(c: Speller, condition: Value, a: Any, b: Any, dtype: DType) -> Value:
    condition = c.to(condition, DType.BOOL)
    type = c.out[0].with_(dtype=dtype)
    made = c.make("aten.where", type, condition, as_value(c, a, dtype), as_value(c, b, dtype))
    return c.to(made, c.out[0].dtype)


@spells("masked_fill.Scalar masked_fill.Tensor", into="where")
def masked_fill(c: Speller, x: Value, mask: Value, value: Any) -> Value:
    return _where(c, mask, value, x, x.type.dtype)


@spells("tril", into="where")
def tril(c: Speller, x: Value, diagonal: int) -> Value:
    return _where(c, _triangle(c, x, diagonal), x, 0, x.type.dtype)


@spells("triu", into="where")
def triu(c: Speller, x: Value, diagonal: int) -> Value:
    return _where(c, _triangle(c, x, diagonal - 1), 0, x, x.type.dtype)


def _triangle(c: Speller, x: Value, diagonal: int) -> Value:
    """What lies on or below a diagonal of the last two dims."""
    shape = x.type.shape[-2:]
    if all(isinstance(n, int) for n in shape):
        return c.const(np.tri(*shape, diagonal, dtype=bool))  # type: ignore[call-overload]
    return triangle(c, shape, diagonal)


@spells("clamp.Tensor clip.Tensor", into="maximum minimum")
def clamp_tensor(c: Speller, x: Value, low: Value | None, high: Value | None) -> Value:
    out = c.out[0]
    if low is not None:
        x = _bounded(c, "aten.maximum", x, low)
    if high is not None:
        x = _bounded(c, "aten.minimum", x, high)
    return c.expand(c.to(x, out.dtype), out.shape)


def _bounded(c: Speller, kind: str, x: Value, bound: Value) -> Value:
    dtype = c.out[0].dtype
    sizes = zip_longest(x.type.shape[::-1], bound.type.shape[::-1], fillvalue=1)
    shape = tuple([m if n == 1 else n for n, m in sizes])[::-1]
    return c.make(kind, c.out[0].with_(shape=shape), c.to(x, dtype), c.to(bound, dtype))


@spells("clamp_min.Tensor", into="maximum")
def clamp_min_tensor(c: Speller, x: Value, low: Value) -> Value:
    return _arithmetic(c, "aten.maximum", x, low)


@spells("clamp_max.Tensor", into="minimum")
def clamp_max_tensor(c: Speller, x: Value, high: Value) -> Value:
    return _arithmetic(c, "aten.minimum", x, high)
