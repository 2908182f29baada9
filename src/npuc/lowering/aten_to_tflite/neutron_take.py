"""Elements at constant places on Neutron, which gathers nothing: slices, or a product that selects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuc.ir import Value
from npuc.lowering.aten_to_tflite import pool, take
from npuc.lowering.aten_to_tflite.emit_convolution import strided
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import TfliteBuilder

#: slices up to which they are joined; above them a matrix of ones and zeros selects
MOST_SLICES = 16
#: bytes of a matrix above which it is not worth it
MAX_MATRIX = 2**20


@lowers("aten.flip", target="neutron", dialect="tflite")
def flip(b: TfliteBuilder, x: Value, dims: Sequence[int]) -> Value:
    """flip -> SLICEs and a CONCATENATION, or FULLY_CONNECTED with a permutation."""
    for dim in dims:
        if x.type.shape[dim] != 1:
            x = _taken(b, x, dim, np.arange(x.type.ints[dim])[::-1])
    return b.as_result(x)


@lowers("aten.index_select", target="neutron", dialect="tflite")
def index_select(b: TfliteBuilder, x: Value, dim: int, index: Value) -> Value:
    """index_select of constant places -> the same; the common form is refused with its reason."""
    if not index.is_const or x.is_const or x.type.quant is None:
        return take.index_select(b, x, dim, index)
    places = index.array.reshape(-1).astype(np.int64)
    return b.as_result(_taken(b, x, dim, places % x.type.ints[dim]))


def _taken(b: TfliteBuilder, x: Value, dim: int, places: np.ndarray) -> Value:
    """Elements `places` of axis `dim`."""
    runs = np.split(places, np.flatnonzero(np.diff(places) != 1) + 1)
    if len(runs) <= MOST_SLICES:
        parts = [strided(b, x, dim, int(r[0]), int(r[-1]) + 1, 1) for r in runs]
        return b.CONCATENATION(*parts, axis=dim) if len(parts) > 1 else parts[0]
    rank, size = x.type.rank, x.type.ints[dim]
    count = size * len(places)
    b.require(count <= MAX_MATRIX, f"{len(runs)} runs of places in an axis of {size} need a matrix of "
              f"{count} elements (at most {MAX_MATRIX})")  # fmt: skip
    order = [*(i for i in range(rank) if i != dim), dim]
    y = pool.by_matrix(b, b.transpose(x, order), np.eye(size)[places])
    return b.transpose(y, [order.index(i) for i in range(rank)])
