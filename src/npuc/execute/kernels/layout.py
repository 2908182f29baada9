"""Operators that move data: concat, pad, reshape, gather and the like."""

from __future__ import annotations

import numpy as np

from npuc.execute.kernels.registry import Array, kernel
from npuc.ir import Op


@kernel("CONCAT")
def concat(op: Op, *arrays: Array) -> Array:
    """The operands one after the other along an axis."""
    return np.concatenate(arrays, axis=op.attrs["axis"])


@kernel("PAD")
def pad(op: Op, x: Array, padding: Array, value: Array) -> Array:
    """`padding` holds the counts before and after, axis by axis."""
    before, after = padding.reshape(-1, 2).T
    if padding.size and padding.min() < 0:
        raise ValueError(f"padding {padding.tolist()} is negative")
    y = np.empty(tuple(np.add(x.shape, before) + after), x.dtype)
    y[...] = value.reshape(-1)[0]
    y[tuple(slice(b, b + n) for b, n in zip(before, x.shape, strict=True))] = x
    return y


@kernel("RESHAPE")
def reshape(op: Op, x: Array, shape: Array) -> Array:
    """The same elements in another shape (a view)."""
    return x.reshape(tuple(shape.tolist()))


@kernel("REVERSE")
def reverse(op: Op, x: Array) -> Array:
    """Backwards along an axis (a view)."""
    return np.flip(x, op.attrs["axis"])


@kernel("SLICE")
def take_slice(op: Op, x: Array, start: Array, size: Array) -> Array:
    """A window (a view); one outside the operand is an error."""
    for axis, (first, count, extent) in enumerate(
        zip(start.tolist(), size.tolist(), x.shape, strict=True)
    ):
        if first < 0 or count < 0 or first + count > extent:
            raise IndexError(f"{count} elements from {first} exceed {extent} on axis {axis}")
    return x[tuple(slice(s, s + n) for s, n in zip(start.tolist(), size.tolist(), strict=True))]


@kernel("TILE")
def tile(op: Op, x: Array, multiples: Array) -> Array:
    """Repeats along each axis."""
    return np.tile(x, tuple(multiples.tolist()))


@kernel("TRANSPOSE")
def transpose(op: Op, x: Array) -> Array:
    """Axis i of the result is axis perms[i] of the operand."""
    return np.ascontiguousarray(x.transpose(op.attrs["perms"])).reshape(
        tuple(x.shape[p] for p in op.attrs["perms"])
    )


def checked(indices: Array, rows: int) -> Array:
    """Indices for numpy; one outside 0..rows-1 is an error, never a wrap-around."""
    if indices.size and (indices.min() < 0 or indices.max() >= rows):
        raise IndexError(f"indices {indices.min()}..{indices.max()} are not all in 0..{rows - 1}")
    return indices.astype(np.intp)


@kernel("GATHER")
def gather(op: Op, values: Array, indices: Array) -> Array:
    """Rows of `values` [N, K, C] by `indices` [N, W]."""
    batch = np.arange(values.shape[0])[:, None]
    return values[batch, checked(indices, values.shape[1])]


@kernel("ROW_GATHER")
def row_gather(op: Op, values: Array, indices: Array, row_count: Array) -> Array:
    """GATHER of `row_count` rows from each index on."""
    rows = indices[:, :, None] + np.arange(int(row_count.reshape(-1)[0]))
    return gather(op, values, rows.reshape(indices.shape[0], -1))


@kernel("SCATTER")
def scatter(op: Op, values: Array, indices: Array, updates: Array) -> Array:
    """`values` [N, K, C] with `updates` [N, W, C] in the rows `indices` [N, W]."""
    result = values.copy()
    batch = np.arange(values.shape[0])[:, None]
    result[batch, checked(indices, values.shape[1])] = updates
    return result
