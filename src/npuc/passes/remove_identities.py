"""Removes ops that give back their operand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.ir import Graph, Op, Value, sweep


def remove_identities(graph: Graph, limits: Limits) -> Graph:
    """IDENTITY, CAST to the own type, PAD by zero, TILE by one, reductions over one element ...

    An IDENTITY between a graph input or constant and a graph output stays: it is the copy.
    """
    outputs = set(graph.outputs)

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        check = IDENTITIES.get(op.name) if op.kind.startswith("tosa.") else None
        if check is None or not operands or not check(op):
            return None
        x, y = operands[0], op.results[0]
        is_copy = op.name == "IDENTITY" and y in outputs and (x.op is None or x.is_const)
        if is_copy or x.type.dtype is not y.type.dtype or x.type.shape != y.type.shape:
            return None
        return (x,)

    return sweep(graph, rewrite, OpBuilder(limits))


def _always(op: Op) -> bool:
    return True


def _over_one(op: Op) -> bool:
    return op.operands[0].type.shape[op.attrs["axis"]] == 1


def _all(number: int) -> Callable[[Op], bool]:
    def check(op: Op) -> bool:
        return op.operands[1].is_const and bool(np.all(op.operands[1].array == number))

    return check


def _in_order(op: Op) -> bool:
    return tuple(op.attrs["perms"]) == tuple(range(len(op.attrs["perms"])))


def _single(op: Op) -> bool:
    return len(op.operands) == 1


def _window_of_one(op: Op) -> bool:
    """A pool over one element; the average keeps it where both zero points are equal."""
    if (tuple(op.attrs["kernel"]), tuple(op.attrs["stride"])) != ((1, 1), (1, 1)):
        return False
    if any(op.attrs["pad"]) or op.name == "MAX_POOL2D":
        return not any(op.attrs["pad"])
    zero_points = op.operands[1:3]
    return all(z.is_const for z in zero_points) and zero_points[0].array == zero_points[1].array


def _times_one(op: Op) -> bool:
    """x * 1.0. Integers stay: `cheapen_rescales` writes a requantization as a product with 1."""
    factor = op.operands[1]
    if not op.results[0].type.dtype.is_float or not factor.is_const:
        return False
    return bool(np.all(factor.array == 1))


def _unscaled(op: Op) -> bool:
    """A RESCALE that multiplies by 1 and leaves the zero point as it is."""
    multiplier, shift, zp_in, zp_out = op.operands[1:5]
    if op.attrs["input_unsigned"] != op.attrs["output_unsigned"]:
        return False
    if not all(v.is_const for v in op.operands[1:5]):
        return False
    one = multiplier.array.astype(np.int64) == 1 << shift.array.astype(np.int64)
    return bool(np.all(one)) and int(zp_in.array[0]) == int(zp_out.array[0])


IDENTITIES: dict[str, Callable[[Op], bool]] = {
    "IDENTITY": _always, "CAST": _always, "SLICE": _always, "RESHAPE": _always,
    "TRANSPOSE": _in_order, "CONCAT": _single, "REVERSE": _over_one, "REDUCE_SUM": _over_one,
    "REDUCE_MAX": _over_one, "REDUCE_MIN": _over_one, "REDUCE_PRODUCT": _over_one,
    "REDUCE_ALL": _over_one, "REDUCE_ANY": _over_one, "PAD": _all(0), "TILE": _all(1),
    "MAX_POOL2D": _window_of_one, "AVG_POOL2D": _window_of_one, "MUL": _times_one,
    "RESCALE": _unscaled,
}  # fmt: skip
