"""Spellings of look-ups, gathers, scatters and sorts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npuc.frontend.spellings.pointwise import as_value
from npuc.frontend.spellings.registry import add, spells
from npuc.frontend.spellings.speller import Speller
from npuc.ir import DType, TensorType, Value


@spells("embedding", into="embedding")
def embedding(c: Speller, weight: Value, indices: Value, *_: Any) -> Value:
    """The padding index matters to gradients only."""
    return c.make("aten.embedding", c.out[0], weight, indices)


@spells("index_select", into="index_select")
def index_select(c: Speller, x: Value, dim: int, index: Value) -> Value:
    if x.type.rank == 0:
        return x
    return _index_select(c, x, dim % x.type.rank, index)


def _index_select(c: Speller, x: Value, dim: int, index: Value) -> Value:
    """Rows `index` (any rank) along `dim`; constant negative ones count from the end."""
    index = _non_negative(c, index, x.type.shape[dim])
    flat = c.view(index, (index.type.size,))
    before, after = x.type.shape[:dim], x.type.shape[dim + 1 :]
    type = x.type.with_(shape=(*before, flat.type.shape[0], *after))
    made = c.make("aten.index_select", type, x, dim, flat)
    return c.view(made, (*before, *index.type.shape, *after))


def _non_negative(c: Speller, index: Value, size: Any) -> Value:
    if index.is_const and index.array.size and int(index.array.min()) < 0:
        return c.const(np.where(index.array < 0, index.array + size, index.array))
    return index


@spells("gather", into="gather")
def gather(c: Speller, x: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    return c.make("aten.gather", c.out[0], x, dim % max(x.type.rank, 1), index)


@spells("index.Tensor _unsafe_index.Tensor", into="index.Tensor")
def index(c: Speller, x: Value, indices: Sequence[Value | None]) -> Value:
    if any(v is not None and v.type.dtype is DType.BOOL for v in indices):
        return c.make("aten.masked_select", c.out[0], x, indices)  # no target has it
    places = _as_integers(c, x, indices)
    given = [d for d, place in enumerate(places) if place is not None]
    if not given:
        return x
    if len(given) == 1:
        dim = given[0]
        return c.view(_index_select(c, x, dim, places[dim]), c.out[0].shape)  # type: ignore[arg-type]
    return c.make("aten.index.Tensor", c.out[0], x, places)


@spells("index_put _unsafe_index_put _index_put_impl", into="index_put where")
def index_put(
    c: Speller, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool,
    unsafe: bool = False,
) -> Value:  # fmt: skip
    values = c.to(values, x.type.dtype)
    chosen = None if accumulate else _where_mask(c, x, indices, values)
    if chosen is not None:
        return chosen
    places = _as_integers(c, x, indices)
    return c.make("aten.index_put", c.out[0], x, places, values, accumulate)


def _where_mask(
    c: Speller, x: Value, indices: Sequence[Value | None], values: Value
) -> Value | None:
    """x[:, mask] = values as a choice: where one mask is all and each place gets the same values."""
    given = [v for v in indices if v is not None]
    if len(given) != 1 or given[0].type.dtype is not DType.BOOL:
        return None
    mask, first = given[0], list(indices).index(given[0])
    behind = x.type.rank - first - mask.type.rank
    leading = values.type.shape[: max(values.type.rank - behind, 0)]
    if any(n != 1 for n in leading):
        return None
    mask = c.view(mask, (*[1] * first, *mask.type.shape, *[1] * behind))
    values = c.view(values, values.type.shape[len(leading) :])
    return c.make("aten.where", c.out[0], mask, values, x)


def _as_integers(c: Speller, x: Value, indices: Sequence[Value | None]) -> list[Value | None]:
    """Index tensors per dim (the import has replaced constant masks by their positions)."""
    places: list[Value | None] = []
    for given in indices:
        if given is None or given.type.dtype is DType.BOOL:
            places += [given] + [None] * (given.type.rank - 1 if given is not None else 0)
        else:
            places.append(_non_negative(c, given, x.type.shape[len(places)]))
    return places


# scatters: (x, dim, index, source) -----------------------------------------------------------


def _with_dim(kind: str) -> Callable[..., Value]:
    """An op whose second argument is a dim and whose fourth is a tensor of x's type."""

    def respell(
        c: Speller, x: Value, dim: int, index: Value, source: Value, *rest: Any, **kw: Any
    ) -> Value:
        dim %= max(x.type.rank, 1)
        return c.make(kind, c.out[0], x, dim, index, c.to(source, x.type.dtype), *rest, **kw)

    return respell


for _name in ("index_copy", "index_add", "scatter.src", "scatter_add", "scatter_reduce.two",
              "scatter.reduce", "index_reduce"):  # fmt: skip
    add(_name, _with_dim(f"aten.{_name}"), _name)


@spells("scatter.value", into="scatter.src expand")
def scatter_value(c: Speller, x: Value, dim: int, index: Value, value: Any) -> Value:
    source = c.expand(as_value(c, value, x.type.dtype), index.type.shape)
    return c.make("aten.scatter.src", c.out[0], x, dim % max(x.type.rank, 1), index, source)


@spells("index_fill.int_Scalar index_fill.int_Tensor", into="index_copy expand")
def index_fill(c: Speller, x: Value, dim: int, index: Value, value: Any) -> Value:
    dim %= max(x.type.rank, 1)
    shape = (*x.type.shape[:dim], index.type.size, *x.type.shape[dim + 1 :])
    source = c.expand(as_value(c, value, x.type.dtype), shape)
    return c.make("aten.index_copy", c.out[0], x, dim, index, source)


# sorting -------------------------------------------------------------------------------------


@spells("topk", into="topk")
def topk(
    c: Speller, x: Value, k: int, dim: int, largest: bool, in_order: bool
) -> tuple[Value, ...]:
    return _several(c, "aten.topk", x, k, dim % max(x.type.rank, 1), largest, in_order)


@spells("sort", into="sort")
def sort(c: Speller, x: Value, dim: int, descending: bool) -> tuple[Value, ...]:
    return _several(c, "aten.sort", x, dim % max(x.type.rank, 1), descending)


@spells("sort.stable", into="sort")
def sort_stable(
    c: Speller, x: Value, *, stable: Any, dim: int, descending: bool
) -> tuple[Value, ...]:
    return _several(c, "aten.sort", x, dim % max(x.type.rank, 1), descending)


@spells("argsort", into="sort")
def argsort(c: Speller, x: Value, dim: int, descending: bool) -> Value:
    values = TensorType(x.type.dtype, x.type.shape)
    return _several(
        c, "aten.sort", x, dim % max(x.type.rank, 1), descending, types=(values, c.out[0])
    )[1]


def _several(c: Speller, kind: str, *args: Any, types: Any = None) -> tuple[Value, ...]:
    from npuc.ir import pack

    operands, attrs = pack(args, {})
    return c.emit(kind, operands, attrs, types or c.out)


@spells("fft_rfft2", into="fft_rfft2")
def rfft2(c: Speller, x: Value, size: Any, dims: Any, norm: Any) -> tuple[Value, ...] | None:
    last_two = [d % x.type.rank for d in dims] == [x.type.rank - 2, x.type.rank - 1]
    if size is not None or not last_two or norm not in (None, "backward"):
        return None
    return _several(c, "aten.fft_rfft2", x)
