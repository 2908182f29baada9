"""RESHAPEs whose order of elements a convolution's constant weights can take over.

flatten -> linear: [N, C, H, W] -> [N, C*H*W] reads its operand in any order if the weights' input
channels are permuted likewise. linear -> unflatten: the output channels are permuted instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuc.ir import Builder, Graph, Op, Quant, Value
from npuc.passes.layout.behaviour import Group, is_view
from npuc.passes.layout.views import Views
from npuc.passes.unary import is_unary

#: operators with a constant weight, output channels first -> its axis of the input channels
WEIGHT_AXES = {"tosa.CONV2D": 3, "tflite.CONV_2D": 3, "tflite.FULLY_CONNECTED": 1}


@dataclass(frozen=True)
class Absorber:
    """A RESHAPE with the block `group` whose parts may lie in any order.

    `side` 0: the parts are axes of the operand and `ops` are all that read the result, down to
    convolutions. `side` 1: they are axes of the result, and `ops` lead up to one convolution.
    """

    group: int
    side: int
    ops: tuple[Op, ...]


def find_absorbers(graph: Graph, views: Views) -> dict[Op, Absorber]:
    """The RESHAPEs whose order of elements constant weights can take over."""
    readers, outputs = graph.readers(), set(graph.outputs)
    captured = {v for op in graph.ops for r in op.regions for i in r.walk() for v in i.operands}
    found: dict[Op, Absorber] = {}
    taken: set[tuple[Op, int]] = set()
    for op, groups in views.groups.items():
        for side in (0, 1):
            wide = [g for g, group in enumerate(groups) if len(group[side]) > 1]
            if len(wide) != 1 or any(len(group[1 - side]) != 1 for group in groups):
                continue
            axis = groups[wide[0]][1 - side][0]
            walk = _down if side == 0 else _up
            stop = outputs | captured
            ops = walk(op, axis, views, readers, stop)
            claimed = {(other, side) for other in ops or ()}
            if ops is not None and not taken & claimed:
                taken |= claimed
                found[op] = Absorber(wide[0], side, tuple(ops))
                break
    return found


def _down(
    op: Op, axis: int, views: Views, readers: dict[Value, list[Op]], stop: set[Value]
) -> list[Op] | None:
    """All ops that read the result, down to convolutions; None where there are others."""
    found: list[Op] = []
    stack: list[tuple[Value, int]] = [(op.results[0], axis)]
    while stack:
        value, axis = stack.pop()
        if value in stop:
            return None
        for reader in readers.get(value, []):
            if is_view(reader):
                root_axis = views[value].axes[axis]
                stack.append((reader.results[0], views[reader.results[0]].axes.index(root_axis)))
            elif is_unary(reader) and reader.operands[0] is value:
                found.append(reader)
                stack.append((reader.results[0], axis))
            elif _takes_channels(reader, value, axis):
                found.append(reader)
            else:
                return None
    return found


def _takes_channels(op: Op, value: Value, axis: int) -> bool:
    if op.kind not in WEIGHT_AXES or op.operands[0] is not value or not op.operands[1].is_const:
        return False
    if op.operands[1].type.shape[WEIGHT_AXES[op.kind]] not in (1, value.type.shape[-1]):
        return False  # a grouped convolution
    return axis == value.type.rank - 1 and op.operands.count(value) == 1


def _up(
    op: Op, axis: int, views: Views, readers: dict[Value, list[Op]], stop: set[Value]
) -> list[Op] | None:
    """The ops with one reader each that lead up to a convolution whose channels are `axis`."""
    found: list[Op] = []
    value = op.operands[0]
    while value.op is not None and len(readers[value]) == 1 and value not in stop:
        maker = value.op
        if is_view(maker):
            root_axis = views[value].axes[axis]
            value = maker.operands[0]
            axis = views[value].axes.index(root_axis)
            continue
        if maker.kind in WEIGHT_AXES:
            constant = all(v.is_const for v in maker.operands[1:3])
            last = axis == value.type.rank - 1
            return [*found, maker] if constant and last else None
        per_channel = maker.kind == "tosa.RESCALE" and maker.attrs["per_channel"]
        if per_channel and (axis != value.type.rank - 1 or not maker.operands[1].is_const):
            return None
        if not per_channel and not is_unary(maker):
            return None
        found.append(maker)
        value = maker.operands[0]
    return None


def reordered_operands(
    b: Builder,
    op: Op,
    operands: Sequence[Value],
    sizes: Sequence[int],
    order: Sequence[int],
    side: int,
) -> list[Value]:
    """Operands of an op on channels whose blocks of `sizes` lie in `order` now."""
    found = list(operands)
    if op.kind in WEIGHT_AXES:
        for k, axis in ((1, WEIGHT_AXES[op.kind]),) if side == 0 else ((1, 0), (2, 0)):
            if k < len(op.operands) and op.operands[k].type.shape[axis] != 1:
                found[k] = _reorder(b, found[k], axis, sizes, order)
    if op.kind == "tosa.RESCALE" and op.attrs["per_channel"]:
        found[1], found[2] = (_reorder(b, found[k], 0, sizes, order) for k in (1, 2))
    return found


def _reorder(
    b: Builder, constant: Value, axis: int, sizes: Sequence[int], order: Sequence[int]
) -> Value:
    """A constant with the blocks of one axis in another order."""
    array, shape = constant.array, constant.array.shape
    split = array.reshape(*shape[:axis], *sizes, *shape[axis + 1 :])
    perm = [*range(axis), *(axis + p for p in order), *range(axis + len(sizes), split.ndim)]
    moved = np.ascontiguousarray(split.transpose(perm)).reshape(shape)
    quant = constant.type.quant
    if quant is not None and quant.axis == axis:
        scale, zero = (
            np.broadcast_to(v, shape[axis]).reshape(sizes).transpose(order).reshape(-1)
            for v in (quant.scale, quant.zero_point)
        )
        quant = Quant(scale, zero, axis, quant.qmin, quant.qmax)
    return b.const(moved, constant.type.dtype, quant)


def sorted_groups(
    groups: Sequence[Group], side: int, order: Sequence[int], free: int | None
) -> list[int] | None:
    """The groups in the order of their axes, None where the axes of one are not together.

    The group `free` may have its axes in any order.
    """
    starts = {group[side]: g for g, group in enumerate(groups)}
    found, at = [], 0
    sizes = sorted({len(group[side]) for group in groups})
    while at < len(order):
        block = [(starts[axes], n) for n in sizes if (axes := tuple(order[at : at + n])) in starts]
        if not block and free is not None:
            n = len(groups[free][side])
            block = [(free, n)] if set(order[at : at + n]) == set(groups[free][side]) else []
        if not block:
            return None
        found.append(block[0][0])
        at += block[0][1]
    return found
