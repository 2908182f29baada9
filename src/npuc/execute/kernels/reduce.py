"""Reductions along one axis, which stays with size 1, and ARGMAX."""

from __future__ import annotations

import numpy as np

from npuc.execute.kernels.registry import Array, kernel, stored, wide
from npuc.ir import Op


@kernel("REDUCE_ALL")
def reduce_all(op: Op, x: Array) -> Array:
    """Whether all are true."""
    return np.all(x, axis=op.attrs["axis"], keepdims=True)


@kernel("REDUCE_ANY")
def reduce_any(op: Op, x: Array) -> Array:
    """Whether any is true."""
    return np.any(x, axis=op.attrs["axis"], keepdims=True)


@kernel("REDUCE_MAX")
def reduce_max(op: Op, x: Array) -> Array:
    """The largest; NaN as `nan_mode` says."""
    ignore = op.attrs["nan_mode"] == "IGNORE"
    reduce = (np.fmax if ignore else np.maximum).reduce
    return stored(op, reduce(wide(x), axis=op.attrs["axis"], keepdims=True))


@kernel("REDUCE_MIN")
def reduce_min(op: Op, x: Array) -> Array:
    """The smallest; NaN as `nan_mode` says."""
    ignore = op.attrs["nan_mode"] == "IGNORE"
    reduce = (np.fmin if ignore else np.minimum).reduce
    return stored(op, reduce(wide(x), axis=op.attrs["axis"], keepdims=True))


@kernel("REDUCE_PRODUCT")
def reduce_product(op: Op, x: Array) -> Array:
    """Floats only, multiplied in float32."""
    return stored(op, np.multiply.reduce(wide(x), axis=op.attrs["axis"], keepdims=True))


@kernel("REDUCE_SUM")
def reduce_sum(op: Op, x: Array) -> Array:
    """Integers wrap as their type does; floats are added in float32."""
    x = wide(x)
    return stored(op, np.add.reduce(x, axis=op.attrs["axis"], keepdims=True, dtype=x.dtype))


@kernel("ARGMAX")
def argmax(op: Op, x: Array) -> Array:
    """The first of equal maxima. PROPAGATE: the first NaN, if there is one."""
    x = wide(x)
    if op.attrs["nan_mode"] == "IGNORE" and x.dtype.kind == "f":
        x = np.where(np.isnan(x), -np.inf, x)
    return stored(op, np.argmax(x, axis=op.attrs["axis"]))
