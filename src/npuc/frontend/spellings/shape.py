"""Spellings of reshapes, transposes, repetitions, joins, cuts and pads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from npuc.frontend.spellings.registry import spells
from npuc.frontend.spellings.speller import Speller
from npuc.ir import Dim, SymDim, Value
from npuc.ir.symbolic import at_least, at_most

_NO_PAD = (0, 0)


@spells(
    "view reshape _unsafe_view flatten.using_ints unflatten.int squeeze squeeze.dim squeeze.dims "
    "unsqueeze view_as reshape_as ravel atleast_1d atleast_2d atleast_3d _reshape_alias "
    "_reshape_copy",
    into="view",
)
def view(c: Speller, x: Value, *_: Any) -> Value:
    return c.view(x, c.out[0].shape)


@spells("clone contiguous detach alias lift lift_fresh positive resolve_conj resolve_neg", into="")
def same(c: Speller, x: Value, **_: Any) -> Value:
    return x


@spells("permute", into="permute")
def permute(c: Speller, x: Value, dims: Sequence[int]) -> Value:
    return c.permute(x, [d % x.type.rank for d in dims])


@spells("transpose.int swapaxes swapdims", into="permute")
def transpose(c: Speller, x: Value, first: int, second: int) -> Value:
    if x.type.rank == 0:
        return x
    dims = list(range(x.type.rank))
    dims[first], dims[second] = dims[second], dims[first]
    return c.permute(x, dims)


@spells("t mT mH adjoint matrix_H", into="permute")
def transpose_last(c: Speller, x: Value) -> Value:
    return transpose(c, x, -2, -1) if x.type.rank > 1 else x


@spells("numpy_T", into="permute")
def reverse_dims(c: Speller, x: Value) -> Value:
    return c.permute(x, range(x.type.rank)[::-1])


@spells("movedim.int moveaxis.int movedim.intlist moveaxis.intlist", into="permute")
def movedim(c: Speller, x: Value, source: Any, destination: Any) -> Value:
    rank = x.type.rank
    sources = [d % rank for d in (source if isinstance(source, (tuple, list)) else [source])]
    places = destination if isinstance(destination, (tuple, list)) else [destination]
    rest = [d for d in range(rank) if d not in sources]
    for place, dim in sorted(zip([p % rank for p in places], sources, strict=True)):
        rest.insert(place, dim)
    return c.permute(x, rest)


@spells("expand expand_as broadcast_to", into="expand")
def expand(c: Speller, x: Value, *_: Any, implicit: bool = False) -> Value:
    return c.expand(x, c.out[0].shape)


@spells("broadcast_tensors", into="expand")
def broadcast_tensors(c: Speller, values: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(c.expand(v, t.shape) for v, t in zip(values, c.out, strict=True))


@spells("copy", into="expand")
def copy(c: Speller, x: Value, source: Value, non_blocking: bool = False) -> Value:
    return c.expand(c.to(source, x.type.dtype), x.type.shape)


@spells("fill.Scalar fill.Tensor", into="expand")
def fill(c: Speller, x: Value, value: Any) -> Value:
    source = value if isinstance(value, Value) else c.number(value, x.type.dtype)
    return c.expand(c.to(source, x.type.dtype), x.type.shape)


@spells("repeat tile", into="repeat")
def repeat(c: Speller, x: Value, repeats: Sequence[int]) -> Value:
    rank = max(len(repeats), x.type.rank)
    counts = (1,) * (rank - len(repeats)) + tuple(repeats)
    x = c.view(x, (1,) * (rank - x.type.rank) + x.type.shape)
    if all(n == 1 or size == 1 for n, size in zip(counts, x.type.shape, strict=True)):
        return c.expand(x, c.out[0].shape)
    return c.make("aten.repeat", x.type.with_(shape=c.out[0].shape), x, counts)


@spells("repeat_interleave.self_int", into="expand")
def repeat_interleave(
    c: Speller, x: Value, count: int, dim: int | None, *, output_size: int | None = None
) -> Value:
    if dim is None:
        x, dim = c.view(x, (x.type.size,)), 0
    dim %= x.type.rank
    before, after = x.type.shape[: dim + 1], x.type.shape[dim + 1 :]
    wide = c.expand(c.view(x, (*before, 1, *after)), (*before, count, *after))
    return c.view(wide, c.out[0].shape)


@spells("cat concat concatenate", into="cat")
def cat(c: Speller, values: Sequence[Value], dim: int) -> Value:
    out = c.out[0]
    # PyTorch ignores empty vectors whatever the rank of the others
    joined = [c.to(v, out.dtype) for v in values if v.type.shape != (0,) or out.rank == 1]
    dim %= out.rank
    filled = [v for v in joined if v.type.shape[dim] != 0] or joined[:1]
    return c.cat(filled, dim)


@spells("stack", into="cat")
def stack(c: Speller, values: Sequence[Value], dim: int) -> Value:
    out = c.out[0]
    dim %= out.rank
    shape = (*out.shape[:dim], 1, *out.shape[dim + 1 :])
    return c.cat([c.view(c.to(v, out.dtype), shape) for v in values], dim)


@spells(
    "split.Tensor split.sizes split_with_sizes unsafe_split.Tensor unsafe_split_with_sizes chunk "
    "unsafe_chunk tensor_split.sections tensor_split.indices",
    into="slice",
)
def split(c: Speller, x: Value, pieces: Any, dim: int = 0) -> tuple[Value, ...]:
    dim %= x.type.rank
    ends = list(accumulate(t.shape[dim] for t in c.out))
    starts = [0, *ends[:-1]]
    return tuple(c.slice(x, dim, s, e) for s, e in zip(starts, ends, strict=True))


@spells("unbind.int", into="slice")
def unbind(c: Speller, x: Value, dim: int) -> tuple[Value, ...]:
    dim %= x.type.rank
    return tuple(c.view(c.slice(x, dim, i, i + 1), out.shape) for i, out in enumerate(c.out))


@spells("select.int", into="slice")
def select(c: Speller, x: Value, dim: int, index: Any) -> Value | None:
    dim %= x.type.rank
    if not isinstance(index, (int, SymDim)):
        return None
    index = index + x.type.shape[dim] if index < 0 else index
    return c.view(c.slice(x, dim, index, index + 1), c.out[0].shape)


@spells("slice.Tensor", into="slice")
def slice_(c: Speller, x: Value, dim: int, start: Any, end: Any, step: int) -> Value | None:
    dim %= x.type.rank
    size = x.type.shape[dim]
    first, last = _bound(start, size, 0), _bound(end, size, size)
    if first is None or last is None:
        return None
    return c.slice(x, dim, first, at_least(first, last), step)


def _bound(value: Any, size: Dim, default: Dim) -> Dim | None:
    """A slice bound between 0 and `size`; None when it is computed."""
    if value is None:
        return default
    if not isinstance(value, (int, SymDim)):
        return None
    if isinstance(value, int) and value >= 2**31 - 1:  # PyTorch's "to the end"
        return size
    return at_most(at_least(value + size if value < 0 else value, 0), size)


@spells("narrow", into="slice")
def narrow(c: Speller, x: Value, dim: int, start: Any, length: Any) -> Value | None:
    dim %= x.type.rank
    if not isinstance(start, (int, SymDim)):
        return None
    if start < 0:
        start += x.type.ints[dim]
    return c.slice(x, dim, start, start + length)


@spells("slice_scatter", into="slice cat")
def slice_scatter(
    c: Speller, x: Value, source: Value, dim: int, start: Any, end: Any, step: int
) -> Value | None:
    dim %= x.type.rank
    size = x.type.shape[dim]
    first, last = _bound(start, size, 0), _bound(end, size, size)
    if first is None or last is None:
        return None
    source = c.to(source, x.type.dtype)
    if step != 1:
        return c.make("aten.slice_scatter", x.type, x, source, dim, first, last, step)
    return _replace(c, x, source, dim, first, at_least(first, last))


@spells("select_scatter", into="slice cat")
def select_scatter(c: Speller, x: Value, source: Value, dim: int, index: Any) -> Value | None:
    dim %= x.type.rank
    if not isinstance(index, (int, SymDim)):
        return None
    index = index % x.type.ints[dim]
    shape = (*x.type.shape[:dim], 1, *x.type.shape[dim + 1 :])
    source = c.view(c.to(source, x.type.dtype), shape)
    return _replace(c, x, source, dim, index, index + 1)


def _replace(c: Speller, x: Value, source: Value, dim: int, start: Dim, end: Dim) -> Value:
    """`x` with the part from start to end along `dim` replaced."""
    size = x.type.ints[dim]
    parts = [c.slice(x, dim, 0, start), source, c.slice(x, dim, end, size)]
    filled = [p for p in parts if p.type.shape[dim] != 0]
    return c.cat(filled, dim) if filled else x


# pads, flips, shuffles -----------------------------------------------------------------------


@spells("pad", into="pad")
def pad(c: Speller, x: Value, pads: Sequence[Any], mode: str, value: Any) -> Value | None:
    return _pad(c, x, pads, mode, 0 if value is None else value)


@spells("constant_pad_nd", into="pad")
def constant_pad_nd(c: Speller, x: Value, pads: Sequence[Any], value: Any) -> Value | None:
    return pad(c, x, pads, "constant", value)


@spells("reflection_pad1d reflection_pad2d reflection_pad3d", into="pad")
def reflection_pad(c: Speller, x: Value, pads: Sequence[int]) -> Value | None:
    return pad(c, x, pads, "reflect", 0)


@spells("replication_pad1d replication_pad2d replication_pad3d", into="pad")
def replication_pad(c: Speller, x: Value, pads: Sequence[int]) -> Value | None:
    return pad(c, x, pads, "replicate", 0)


@spells("_pad_circular", into="pad")
def circular_pad(c: Speller, x: Value, pads: Sequence[int]) -> Value | None:
    return pad(c, x, pads, "circular", 0)


def _pad(c: Speller, x: Value, pads: Sequence[int], mode: str, value: Any) -> Value:
    """PyTorch lists pairs from the last dim on; a negative number crops."""
    rank = x.type.rank
    pairs = [_NO_PAD] * (rank - len(pads) // 2)
    pairs += [(pads[i], pads[i + 1]) for i in range(len(pads) - 2, -1, -2)]
    for dim, (before, after) in enumerate(pairs):
        size = x.type.shape[dim]
        x = c.slice(x, dim, at_least(0, -before), size + at_most(0, after))
    flat = tuple(at_least(0, p) for pair in pairs for p in pair)
    if all(p == 0 for p in flat):
        return x
    number = value if x.type.dtype.is_float else int(value)
    return c.make("aten.pad", x.type.with_(shape=c.out[0].shape), x, flat, mode, number)


@spells("flip", into="flip")
def flip(c: Speller, x: Value, dims: Sequence[int]) -> Value:
    wanted = sorted({d % x.type.rank for d in dims}) if x.type.rank else []
    flipped = tuple(d for d in wanted if x.type.shape[d] != 1)
    return c.make("aten.flip", x.type, x, flipped) if flipped else x


@spells("rot90", into="flip permute")
def rot90(c: Speller, x: Value, count: int, dims: Sequence[int]) -> Value:
    first, second = (d % x.type.rank for d in dims)
    count %= 4
    if count == 0:
        return x
    if count == 2:
        return flip(c, x, (first, second))
    if count == 1:
        return transpose(c, flip(c, x, (second,)), first, second)
    return flip(c, transpose(c, x, first, second), (second,))


@spells("roll", into="roll")
def roll(c: Speller, x: Value, shifts: Sequence[int], dims: Sequence[int]) -> Value:
    if not dims:
        flat = c.view(x, (x.type.size,))
        return c.view(_roll(c, flat, shifts, (0,)), x.type.shape)
    return _roll(c, x, shifts, dims)


def _roll(c: Speller, x: Value, shifts: Sequence[int], dims: Sequence[int]) -> Value:
    sizes = x.type.ints
    total: dict[int, int] = {}
    for shift, dim in zip(shifts, dims, strict=True):
        dim %= x.type.rank
        total[dim] = (total.get(dim, 0) + shift) % max(sizes[dim], 1)
    moved = {d: s for d, s in sorted(total.items()) if s}
    if not moved:
        return x
    return c.make("aten.roll", x.type, x, tuple(moved.values()), tuple(moved))


@spells("pixel_shuffle", into="pixel_shuffle")
def pixel_shuffle(c: Speller, x: Value, factor: int) -> Value:
    return _with_rank_4(c, "aten.pixel_shuffle", x, factor)


@spells("pixel_unshuffle", into="pixel_unshuffle")
def pixel_unshuffle(c: Speller, x: Value, factor: int) -> Value:
    return _with_rank_4(c, "aten.pixel_unshuffle", x, factor)


def _with_rank_4(c: Speller, kind: str, x: Value, factor: int) -> Value:
    if factor == 1:
        return x
    out = c.out[0].shape
    batch: Dim = 1
    if x.type.rank > 3:
        batch = x.type.shape[0] if x.type.rank == 4 else math.prod(x.type.ints[:-3])
    inner = c.view(x, (batch, *x.type.shape[-3:]))
    made = c.make(kind, x.type.with_(shape=(batch, *out[-3:])), inner, factor)
    return c.view(made, out)


@spells("channel_shuffle native_channel_shuffle", into="permute")
def channel_shuffle(c: Speller, x: Value, groups: int) -> Value:
    batch, channels, *rest = x.type.ints
    parts = c.view(x, (batch, groups, channels // groups, *rest))
    return c.view(transpose(c, parts, 1, 2), x.type.shape)


@spells("unfold", into="unfold")
def unfold(c: Speller, x: Value, dim: int, size: int, step: int) -> Value:
    return c.make("aten.unfold", c.out[0], x, dim % max(x.type.rank, 1), size, step)


@spells("im2col", into="im2col")
def im2col(c: Speller, x: Value, *pairs: Any) -> Value:
    batch = x.type.shape if x.type.rank == 4 else (1, *x.type.shape)
    out = c.out[0].shape if x.type.rank == 4 else (1, *c.out[0].shape)
    made = c.make(
        "aten.im2col", x.type.with_(shape=out), c.view(x, batch), *(as_tuple(p, 2) for p in pairs)
    )
    return c.view(made, c.out[0].shape)


@spells("col2im", into="col2im")
def col2im(c: Speller, x: Value, *pairs: Any) -> Value:
    batch = x.type.shape if x.type.rank == 3 else (1, *x.type.shape)
    out = c.out[0].shape if x.type.rank == 3 else (1, *c.out[0].shape)
    made = c.make(
        "aten.col2im", x.type.with_(shape=out), c.view(x, batch), *(as_tuple(p, 2) for p in pairs)
    )
    return c.view(made, c.out[0].shape)


def as_tuple(value: Any, count: int) -> tuple[int, ...]:
    """`count` numbers from one number or a list; one stands for all."""
    if not isinstance(value, (tuple, list)):
        return (value,) * count
    return tuple(value) * count if len(value) == 1 else tuple(value)
