"""Spellings of reductions: dims always as a sorted tuple, element types converted before."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from npuc.frontend.spellings.registry import add, spells
from npuc.frontend.spellings.speller import Speller
from npuc.ir import DType, TensorType, Value


def all_dims(x: Value, dims: Any) -> tuple[int, ...]:
    """Sorted non-negative dims; none given means all."""
    rank = x.type.rank
    if dims is None or (isinstance(dims, (tuple, list)) and not dims):
        return tuple(range(rank))
    given = dims if isinstance(dims, (tuple, list)) else (dims,)
    return tuple(sorted({d % rank for d in given})) if rank else ()


def _reduction(kind: str) -> Callable[..., Value]:
    """sum, mean, amax, amin: (x, dims, keepdim), computed in the type of the result."""

    def respell(
        c: Speller, x: Value, dims: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Value:
        dims = all_dims(x, dims)
        x = c.to(x, c.out[0].dtype)
        return c.make(kind, c.out[0], x, dims, keepdim) if dims else x

    return respell


_REDUCTIONS = {
    "mean.dim": "mean mean.dim", "sum.dim_IntList": "sum sum.dim_IntList",
    "amax": "amax max", "amin": "amin min", "prod.dim_int": "prod prod.dim_int",
}  # fmt: skip
for _canonical, _names in _REDUCTIONS.items():
    for _name in _names.split():
        add(_name, _reduction(f"aten.{_canonical}"), _canonical)


def _truth(kind: str) -> Callable[..., Value]:
    """any, all: of BOOL values."""

    def respell(c: Speller, x: Value, dims: Any = None, keepdim: bool = False) -> Value:
        dims = all_dims(x, dims)
        x = c.to(x, DType.BOOL)
        made = c.make(kind, c.out[0].with_(dtype=DType.BOOL), x, dims, keepdim) if dims else x
        return c.to(made, c.out[0].dtype)

    return respell


for _name in ("any", "all"):
    for _overload in ("", ".dim", ".dims"):
        add(f"{_name}{_overload}", _truth(f"aten.{_name}.dims"), f"{_name}.dims")


@spells("max.dim", into="amax argmax")
def max_dim(c: Speller, x: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return _extreme(c, "amax", "argmax", x, dim, keepdim)


@spells("min.dim", into="amin argmin")
def min_dim(c: Speller, x: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
    return _extreme(c, "amin", "argmin", x, dim, keepdim)


def _extreme(
    c: Speller, of_values: str, of_indices: str, x: Value, dim: int, keepdim: bool
) -> tuple[Value, Value]:
    values, indices = c.out
    if x.type.rank == 0:
        return x, c.number(0, DType.INT64)
    dim %= x.type.rank
    return (
        c.make(f"aten.{of_values}", values, x, (dim,), keepdim),
        c.make(f"aten.{of_indices}", indices, x, dim, keepdim),
    )


@spells("aminmax", into="amin amax")
def aminmax(c: Speller, x: Value, *, dim: Any, keepdim: bool) -> tuple[Value, ...]:
    dims = all_dims(x, dim)
    if not dims:
        return x, x
    low, high = c.out
    return c.make("aten.amin", low, x, dims, keepdim), c.make("aten.amax", high, x, dims, keepdim)


@spells("argmax", into="argmax")
@spells("argmin", into="argmin")
def arg_extreme(c: Speller, x: Value, dim: int | None, keepdim: bool) -> Value:
    out = c.out[0]
    if x.type.rank == 0:
        return c.number(0, DType.INT64)
    if dim is not None:
        return c.make(c.op.kind, out, x, dim % x.type.rank, keepdim)
    flat = c.view(x, (math.prod(x.type.ints),))
    return c.view(c.make(c.op.kind, TensorType(out.dtype, ()), flat, 0, False), out.shape)


def _cumulative(kind: str) -> Callable[..., Value]:
    def respell(c: Speller, x: Value, dim: int, *, dtype: Any = None) -> Value:
        x = c.to(x, c.out[0].dtype)
        return c.make(kind, c.out[0], x, dim % x.type.rank) if x.type.rank else x

    return respell


for _name in ("cumsum", "cumprod"):
    add(_name, _cumulative(f"aten.{_name}"), _name)


# variance ------------------------------------------------------------------------------------


def _spread(kind: str) -> Callable[..., Value]:
    """var, std with `correction` (divisor = count - correction; None means 1)."""

    def respell(
        c: Speller, x: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
    ) -> Value:
        dims = all_dims(x, dim)
        correction = 1 if correction is None else correction
        return c.make(kind, c.out[0], x, dims, correction=correction, keepdim=keepdim)

    return respell


def _biased(kind: str) -> Callable[..., Value]:
    """var, std with `unbiased`."""

    def respell(c: Speller, x: Value, *args: Any) -> Value:
        dims, unbiased, keepdim = args if len(args) == 3 else (None, args[0], False)
        correction = 1 if unbiased else 0
        return c.make(kind, c.out[0], x, all_dims(x, dims), correction=correction, keepdim=keepdim)

    return respell


for _name in ("var", "std"):
    add(f"{_name}.correction", _spread(f"aten.{_name}.correction"), f"{_name}.correction")
    for _overload in ("", ".dim"):
        add(f"{_name}{_overload}", _biased(f"aten.{_name}.correction"), f"{_name}.correction")


@spells("var_mean var_mean.dim", into="var.correction mean.dim")
def var_mean_biased(c: Speller, x: Value, *args: Any) -> tuple[Value, Value]:
    dims, unbiased, keepdim = args if len(args) == 3 else (None, args[0], False)
    return var_mean(c, x, dims, correction=int(unbiased), keepdim=keepdim)


@spells("var_mean.correction", into="var.correction mean.dim")
def var_mean(
    c: Speller, x: Value, dim: Any, *, correction: Any, keepdim: bool
) -> tuple[Value, Value]:
    dims = all_dims(x, dim)
    correction = 1 if correction is None else correction
    var, mean = c.out
    return (
        c.make("aten.var.correction", var, x, dims, correction=correction, keepdim=keepdim),
        c.make("aten.mean.dim", mean, x, dims, keepdim),
    )
