"""Elementwise operators and TABLE. Small floats are computed in float32 and rounded per op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npuc.execute.kernels.registry import KERNELS, Array, as_tensor, kernel, stored, wide
from npuc.ir import DType, Op


def _erf(x: Array) -> Array:
    import torch

    return torch.erf(as_tensor(x)).numpy().reshape(x.shape)


def _intdiv(a: Array, b: Array) -> Array:
    """Division towards zero."""
    if not np.all(b):
        raise ZeroDivisionError("a divisor is 0")
    quotient = a // b
    return quotient + ((a % b != 0) & ((a < 0) != (b < 0)))


def _logical_right_shift(a: Array, b: Array) -> Array:
    unsigned = f"u{a.dtype.itemsize}"
    return (a.view(unsigned) >> b.view(unsigned)).view(a.dtype)


UNARY: dict[str, Callable[[Array], Any]] = {
    "ABS": np.abs,
    "BITWISE_NOT": np.invert,
    "CEIL": np.ceil,
    "COS": np.cos,
    "ERF": _erf,
    "EXP": np.exp,
    "FLOOR": np.floor,
    "LOG": np.log,
    "LOGICAL_NOT": np.logical_not,
    "RECIPROCAL": lambda x: np.float32(1) / x,
    "RSQRT": lambda x: np.float32(1) / np.sqrt(x),
    "SIGMOID": lambda x: np.float32(1) / (np.float32(1) + np.exp(-x)),
    "SIN": np.sin,
    "TANH": np.tanh,
    "IDENTITY": lambda x: x,
}

BINARY: dict[str, Callable[[Array, Array], Any]] = {
    "ADD": np.add,
    "SUB": np.subtract,
    "POW": np.power,
    "INTDIV": _intdiv,
    "BITWISE_AND": np.bitwise_and,
    "BITWISE_OR": np.bitwise_or,
    "BITWISE_XOR": np.bitwise_xor,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_OR": np.logical_or,
    "LOGICAL_XOR": np.logical_xor,
    "LOGICAL_LEFT_SHIFT": np.left_shift,
    "LOGICAL_RIGHT_SHIFT": _logical_right_shift,
    "EQUAL": np.equal,
    "GREATER": np.greater,
    "GREATER_EQUAL": np.greater_equal,
}


def _unary(function: Callable[[Array], Any]) -> Callable[[Op, Array], Array]:
    return lambda op, x: stored(op, function(wide(x)))


def _binary(function: Callable[[Array, Array], Any]) -> Callable[[Op, Array, Array], Array]:
    return lambda op, a, b: stored(op, function(wide(a), wide(b)))


KERNELS.update({name: _unary(function) for name, function in UNARY.items()})
KERNELS.update({name: _binary(function) for name, function in BINARY.items()})


@kernel("MAXIMUM")
def maximum(op: Op, a: Array, b: Array) -> Array:
    """The larger; NaN as `nan_mode` says."""
    ignore = op.attrs["nan_mode"] == "IGNORE"
    return stored(op, (np.fmax if ignore else np.maximum)(wide(a), wide(b)))


@kernel("MINIMUM")
def minimum(op: Op, a: Array, b: Array) -> Array:
    """The smaller; NaN as `nan_mode` says."""
    ignore = op.attrs["nan_mode"] == "IGNORE"
    return stored(op, (np.fmin if ignore else np.minimum)(wide(a), wide(b)))


@kernel("CLAMP")
def clamp(op: Op, x: Array) -> Array:
    """Bounds in the type of the operand; NaN as `nan_mode` says."""
    low, high = (np.asarray(op.attrs[k]).astype(x.dtype) for k in ("min_val", "max_val"))
    if op.attrs["nan_mode"] == "IGNORE":
        return stored(op, np.fmin(np.fmax(wide(x), wide(low)), wide(high)))
    return stored(op, np.minimum(np.maximum(wide(x), wide(low)), wide(high)))


@kernel("MUL")
def mul(op: Op, a: Array, b: Array, shift: Array) -> Array:
    """Product; of INT32 with a shift: rounded half up, from the full 64-bit product."""
    if op.results[0].type.dtype is not DType.INT32:
        return stored(op, wide(a) * wide(b))
    product = a.astype(np.int64) * b
    places = int(shift.reshape(-1)[0])
    if places:
        product = (product + (1 << (places - 1))) >> places
    return stored(op, product)


@kernel("ARITHMETIC_RIGHT_SHIFT")
def arithmetic_right_shift(op: Op, a: Array, b: Array) -> Array:
    shifted = a >> b
    if op.attrs["round"]:
        shifted = shifted + ((b > 0) & ((a >> np.maximum(b - 1, 0)) & 1).astype(bool))
    return stored(op, shifted)


@kernel("CLZ")
def clz(op: Op, x: Array) -> Array:
    """Leading zero bits: halve the width until the highest set bit is found."""
    bits = x.dtype.itemsize * 8
    rest = x.view(f"u{x.dtype.itemsize}")
    zeros = np.full(x.shape, bits, x.dtype)
    width = bits // 2
    while width:
        high = rest >> rest.dtype.type(width)
        found = high != 0
        zeros = np.where(found, zeros - x.dtype.type(width), zeros)
        rest = np.where(found, high, rest)
        width //= 2
    return zeros - rest.astype(x.dtype)


@kernel("NEGATE")
def negate(op: Op, x: Array, x_zp: Array, y_zp: Array) -> Array:
    """out = out_zp - (x - in_zp), saturated below 32 bits, wrapped from there on."""
    if x.dtype.kind != "i":
        return stored(op, -wide(x))
    if x.dtype.itemsize >= 4:
        return -x
    value = int(y_zp.reshape(-1)[0]) + int(x_zp.reshape(-1)[0]) - x.astype(np.int32)
    low, high = op.results[0].type.dtype.range
    return stored(op, np.clip(value, low, high))


@kernel("SELECT")
def select(op: Op, condition: Array, a: Array, b: Array) -> Array:
    """The second operand where the first is true, else the third."""
    return np.where(condition, a, b)


@kernel("TABLE")
def table(op: Op, x: Array, entries: Array) -> Array:
    """INT8: 256 entries. INT16: 513 entries, linear between them, result with 7 more bits."""
    if x.dtype == np.int8:
        return entries[x.astype(np.intp) + 128]
    position = x.astype(np.int32) + 32768
    index, fraction = position >> 7, position & 127
    base = entries.astype(np.int32)
    return (base[index] << 7) + (base[index + 1] - base[index]) * fraction
