"""Spellings of tensors that are filled or counted up to a size known only at run time.

Those of fixed sizes are constants already: the import evaluates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npuc.frontend.spellings.registry import spells
from npuc.frontend.spellings.speller import Speller
from npuc.ir import Dim, DType, TensorType, Value


@spells("full full_like new_full", into="expand")
def full(c: Speller, *args: Any, **_: Any) -> Value:
    return _filled(c, args[-1])


@spells("zeros zeros_like new_zeros empty.memory_format empty_like new_empty", into="expand")
def zeros(c: Speller, *_: Any, **__: Any) -> Value:
    return _filled(c, 0)


@spells("ones ones_like new_ones", into="expand")
def ones(c: Speller, *_: Any, **__: Any) -> Value:
    return _filled(c, 1)


def _filled(c: Speller, value: Any) -> Value:
    out = c.out[0]
    number = c.to(value, out.dtype) if isinstance(value, Value) else c.number(value, out.dtype)
    return c.expand(number, out.shape)


@spells("scalar_tensor", into="")
def scalar_tensor(c: Speller, value: Any, **_: Any) -> Value:
    return c.number(value, c.out[0].dtype)


@spells("arange", into="arange")
def arange(c: Speller, end: Any, **_: Any) -> Value:
    return _counted(c, 0, 1)


@spells("arange.start", into="arange")
def arange_start(c: Speller, start: Any, end: Any, **_: Any) -> Value:
    return _counted(c, start, 1)


@spells("arange.start_step", into="arange")
def arange_start_step(c: Speller, start: Any, end: Any, step: Any = 1, **_: Any) -> Value:
    return _counted(c, start, step)


def _counted(c: Speller, start: Any, step: Any) -> Value:
    """start, start + step, ... from 0, 1, 2, ..."""
    type = c.out[0]
    y = c.to(positions(c, type.shape[0]), type.dtype)
    if step != 1:
        y = c.make("aten.mul.Tensor", type, y, c.number(step, type.dtype))
    if start == 0:
        return y
    return c.make("aten.add.Tensor", type, y, c.number(start, type.dtype), alpha=1)


@spells("eye eye.m", into="eq.Tensor")
def eye(c: Speller, *_: Any, **__: Any) -> Value:
    out = c.out[0]
    rows, columns = (positions(c, n) for n in out.shape)
    column = c.view(rows, (out.shape[0], 1))
    return c.to(c.make("aten.eq.Tensor", out.with_(dtype=DType.BOOL), column, columns), out.dtype)


def positions(c: Speller, count: Dim) -> Value:
    """0, 1, ... count - 1 as INT64."""
    return c.make("aten.arange", TensorType(DType.INT64, (count,)), count)


def triangle(c: Speller, shape: Sequence[Dim], diagonal: int) -> Value:
    """The BOOL matrix that is true up to `diagonal`."""
    rows, columns = shape
    by_row = c.view(positions(c, rows), (rows, 1))
    by_column = c.view(positions(c, columns), (1, columns))
    if diagonal:
        number = c.number(diagonal, DType.INT64)
        by_row = c.make("aten.add.Tensor", by_row.type, by_row, number, alpha=1)
    return c.make("aten.le.Tensor", TensorType(DType.BOOL, (rows, columns)), by_column, by_row)
