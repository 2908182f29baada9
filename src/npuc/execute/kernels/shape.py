"""Arithmetic on shapes: int64 vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuc.execute.kernels.registry import KERNELS, Array, kernel
from npuc.ir import Op


def _divisor(b: Array) -> Array:
    if not np.all(b > 0):
        raise ZeroDivisionError(f"divisors {b.tolist()} are not all positive")
    return b


def _log2(x: Array, ceil: bool) -> Array:
    if not np.all(x > 0):
        raise ValueError(f"log2 of {x.tolist()}")
    return np.array([(int(v) - 1 if ceil else int(v) // 2).bit_length() for v in x], np.int64)


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "ADD_SHAPE": np.add,
    "SUB_SHAPE": np.subtract,
    "MUL_SHAPE": np.multiply,
    "MAX_SHAPE": np.maximum,
    "MIN_SHAPE": np.minimum,
    "MOD_SHAPE": lambda a, b: a % _divisor(b),
    "DIV_FLOOR_SHAPE": lambda a, b: a // _divisor(b),
    "DIV_CEIL_SHAPE": lambda a, b: -(-a // _divisor(b)),
}


def _binary(function: Callable[[Array, Array], Array]) -> Callable[[Op, Array, Array], Array]:
    return lambda op, a, b: function(a, b)


KERNELS.update({name: _binary(function) for name, function in BINARY.items()})


@kernel("EXP2_SHAPE")
def exp2_shape(op: Op, x: Array) -> Array:
    """2 to the power of each element."""
    return np.left_shift(np.int64(1), x)


@kernel("LOG2_CEIL_SHAPE")
def log2_ceil_shape(op: Op, x: Array) -> Array:
    """The logarithm rounded up."""
    return _log2(x, ceil=True)


@kernel("LOG2_FLOOR_SHAPE")
def log2_floor_shape(op: Op, x: Array) -> Array:
    """The logarithm rounded down."""
    return _log2(x, ceil=False)


@kernel("CONCAT_SHAPE")
def concat_shape(op: Op, *shapes: Array) -> Array:
    """The shapes one after the other."""
    return np.concatenate(shapes)


@kernel("SLICE_SHAPE")
def slice_shape(op: Op, x: Array, start: Array, size: Array) -> Array:
    """`size` elements from `start` on."""
    first, count = int(start.reshape(-1)[0]), int(size.reshape(-1)[0])
    if first < 0 or count < 0 or first + count > x.size:
        raise IndexError(f"{count} elements from {first} exceed {x.size}")
    return x[first : first + count]


@kernel("DIM")
def dim(op: Op, x: Array) -> Array:
    """The size of one axis."""
    return np.array([x.shape[op.attrs["axis"]]], np.int64)


@kernel("ASSERT_EQUAL_SHAPE")
def assert_equal_shape(op: Op, a: Array, b: Array) -> tuple[()]:
    """No result; an error when the shapes differ."""
    equal = a == b
    if op.attrs["allow_broadcast"]:
        equal = equal | (a == 1) | (b == 1)
    if not np.all(equal):
        raise ValueError(f"shapes {a.tolist()} and {b.tolist()} differ")
    return ()
