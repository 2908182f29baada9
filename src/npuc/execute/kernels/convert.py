"""CAST and RESCALE."""

from __future__ import annotations

import numpy as np

from npuc.execute.kernels.registry import Array, as_stored, kernel, wide
from npuc.ir import DType, Op


@kernel("CAST")
def cast(op: Op, x: Array) -> Array:
    """Between integers bits are dropped; floats to integers round to even and saturate."""
    dtype = op.results[0].type.dtype
    if op.attrs.get("input_unsigned"):
        x = x.view(f"u{x.dtype.itemsize}")
    if dtype is DType.BOOL:
        return x != 0
    if x.dtype.kind in "biu":
        return as_stored(x.astype(np.float32) if dtype.is_float else x, dtype)
    if dtype.is_float:
        return as_stored(wide(x), dtype)
    return saturate(np.rint(wide(x).astype(np.float64)), dtype)


def saturate(x: Array, dtype: DType) -> Array:
    """Whole float64 numbers to an integer type; NaN becomes 0."""
    low, high = dtype.range
    x = np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf)
    inside = (x >= low) & (x < 2.0 ** (dtype.bits - 1))
    whole = np.where(inside, x, 0.0).astype(np.int64)
    return np.where(inside, whole, np.where(x < 0, low, high)).astype(dtype.numpy)


@kernel("RESCALE")
def rescale(op: Op, x: Array, multiplier: Array, shift: Array, x_zp: Array, y_zp: Array) -> Array:
    """out = ((x - in_zp) * multiplier + round >> shift) + out_zp, saturated.

    Exact in 64 bits: INT32 by 31 bits, or INT48 by 15 bits. INEXACT_ROUND leaves the choice to
    the chip; this is SINGLE_ROUND, as in the reference model.
    """
    attrs, dtype = op.attrs, op.results[0].type.dtype
    value = scaled(op, x, multiplier, shift, x_zp)
    value += int(read_as(y_zp, attrs["output_unsigned"]).reshape(-1)[0])
    low = 0 if attrs["output_unsigned"] else -(2 ** (dtype.bits - 1))
    np.clip(value, low, low + 2**dtype.bits - 1, out=value)
    return value.astype(dtype.numpy)


def scaled(op: Op, x: Array, multiplier: Array, shift: Array, x_zp: Array) -> Array:
    """The int64 values of RESCALE before the output's zero point and saturation."""
    attrs = op.attrs
    places = shift.astype(np.int64)
    if not attrs["per_channel"] or np.all(places == places[0]):
        places = places[0]
    value = read_as(x, attrs["input_unsigned"]).astype(np.int64)
    value -= int(read_as(x_zp, attrs["input_unsigned"]).reshape(-1)[0])
    extra = None
    if attrs["rounding_mode"] == "DOUBLE_ROUND":
        extra = np.where(value >= 0, 1 << 30, -(1 << 30)) * (places > 31)
    value *= multiplier.astype(np.int64) if attrs["per_channel"] else int(multiplier[0])
    value += np.int64(1) << (places - 1)
    if extra is not None:
        value += extra
    value >>= places
    return value


def read_as(x: Array, unsigned: bool) -> Array:
    """The bits of integers as unsigned or signed, whatever their type says."""
    return x.view(f"{'u' if unsigned else 'i'}{x.dtype.itemsize}")
