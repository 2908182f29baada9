"""A convolution whose channels are moved apart becomes one per part, for Ethos-U.

The heads of an attention layer, channels [T, h, d] of a projection, are wanted as [h, T, d]: h
convolutions write them there through a CONCAT, which is free, where a TRANSPOSE moves the whole
tensor. One projection for queries, keys and values is cut into parts, which Vela copies. Exact:
every channel is computed as before. DeiT-tiny's attention, one layer: 342k to 306k cycles (U85-256,
Vela 5.2), 390k with one projection for all three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import Graph, Op, Value, sweep
from npuc.passes.fuse_depth_to_space import convolve_channels, find_convolution
from npuc.passes.uses import count_uses

MOVES = ("tosa.RESHAPE", "tosa.TRANSPOSE", "tosa.SLICE")
#: what a convolution's result can come from
ENDS = ("tosa.RESCALE", "tosa.TABLE", "tosa.CLAMP")
#: channels that a convolution should have at least; U85 moves few at a time at 8 cycles each
CHANNELS, CHANNELS_U85 = 16, 4
#: what reads a part of a tensor where it lies
READS_PARTS = frozenset({"CONV2D", "DEPTHWISE_CONV2D", "AVG_POOL2D", "MAX_POOL2D", "TABLE", "CLAMP",
                         "RESCALE", "CAST", "MUL"})  # fmt: skip

Index = npt.NDArray[np.int64]
Readers = Mapping[Value, list[Op]]


@dataclass(frozen=True)
class Part:
    """Some channels of a convolution, as something reads them.

    starts: first channels of groups of `size`. The value is [group, positions, size], or with
    `turned` [size, positions] of one group.
    """

    value: Value
    starts: tuple[int, ...]
    size: int
    turned: bool


@dataclass(frozen=True)
class Division:
    """A convolution, the operators up to `source`, and the parts that are read of that."""

    conv: Op
    chain: tuple[Op, ...]
    source: Value
    parts: tuple[Part, ...]


def split_heads(graph: Graph, limits: Limits) -> Graph:
    """CONV2D, RESCALE and moves of its channels -> a CONV2D and RESCALE per part, and CONCATs."""
    divisions = _find_all(graph, CHANNELS_U85 if "u85" in limits.name else CHANNELS)
    parts = {part.value.op: (division, part) for division in divisions for part in division.parts}
    new: dict[Value, Value] = {}

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        new.update(zip(op.operands, operands, strict=True))
        if op not in parts:
            return None
        division, part = parts[op]
        try:
            y = _emit(b, division, part, tuple([new[v] for v in division.conv.operands]))
            if part.starts == tuple(range(0, division.source.type.ints[-1], part.size)):
                b.carried[new[division.source]] = (_whole(b, division.source, part, y), None)
            return (y,)
        except Unsupported:
            return None

    return sweep(graph, rewrite, OpBuilder(limits))


def _find_all(graph: Graph, least: int) -> list[Division]:
    """`least`: channels that a part has to have."""
    uses, readers = count_uses(graph), graph.readers()
    found = []
    for op in graph.ops:
        if op.kind not in ENDS or not op.results[0].type.is_static:
            continue
        if not any(r.kind in MOVES for r in readers.get(op.results[0], ())):
            continue
        traced = find_convolution(op.results[0], uses)
        if traced is None or traced[0].results[0].type.ints[0] != 1:
            continue
        conv, chain = traced
        parts = _parts(op.results[0], uses, readers)
        if parts is None or min(part.size for part in parts) < least:
            continue
        if _pays(parts, readers, conv.results[0].type.ints[3]):
            found.append(Division(conv, chain, op.results[0], tuple(parts)))
    return found


def _parts(source: Value, uses: Mapping[Value, int], readers: Readers) -> list[Part] | None:
    """What is read of `source` behind moves; None where something else is, or a channel twice."""
    *_, channels = source.type.ints
    places = np.arange(source.type.size, dtype=np.int64).reshape(source.type.ints)
    parts, todo = [], [(source, places)]
    while todo:
        value, index = todo.pop()
        moves = [r for r in readers.get(value, []) if r.kind in MOVES]
        if len(moves) == uses[value] and moves:
            todo += [(move.results[0], moved(index, move)) for move in moves]
            continue
        part = None if value is source else _as_part(value, index, channels)
        if part is None:
            return None
        parts.append(part)
    taken = sum(part.size * len(part.starts) for part in parts)
    return parts if taken <= channels else None


def moved(index: Index, move: Op) -> Index:
    if move.kind == "tosa.RESHAPE":
        return index.reshape(move.results[0].type.ints)
    if move.kind == "tosa.TRANSPOSE":
        return index.transpose(move.attrs["perms"])
    start, size = (tuple(int(n) for n in v.array) for v in move.operands[1:])
    return index[tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))]


def _as_part(value: Value, index: Index, channels: int) -> Part | None:
    """The part that `index`, places in [positions, channels], is."""
    flat = index.reshape(-1)
    column = np.flatnonzero(flat // channels == flat[0] // channels)
    turned = column.size > 1 and column[1] != 1
    if turned:
        positions = int(column[1])
        size, starts = flat.size // positions, flat[:1]
        expected = starts + np.arange(size)[:, None] + np.arange(positions) * channels
    else:
        jumps = np.flatnonzero(np.diff(flat) != 1)
        size = int(jumps[0]) + 1 if jumps.size else flat.size
        first = flat[::size][: flat.size // size]
        starts = first[first < channels]
        positions = max(flat.size // (size * max(starts.size, 1)), 1)
        rows = starts[:, None, None] + np.arange(positions)[:, None] * channels
        expected = rows + np.arange(size)
    if expected.size != flat.size or not np.array_equal(expected.reshape(-1), flat):
        return None
    if starts.max() + size > channels:
        return None
    return Part(value, tuple(int(s) for s in starts), size, turned)


def _pays(parts: list[Part], readers: Readers, channels: int) -> bool:
    """Whether a part is moved or copied now, and would not be any more."""
    if len(parts) == 1 and len(parts[0].starts) == 1:
        return False
    return any(
        len(part.starts) > 1 or part.turned
        or any(r.name not in READS_PARTS for r in readers.get(part.value, []))
        for part in parts
    )  # fmt: skip


def _emit(b: OpBuilder, division: Division, part: Part, operands: tuple[Value, ...]) -> Value:
    heads = [
        convolve_channels(
            b, division.conv, division.chain, operands, np.arange(start, start + part.size)
        )
        for start in part.starts
    ]
    y, result = heads[0], part.value.type
    if part.turned:
        rows = b.reshape(y, (1, y.type.size // part.size, part.size))
        y = b.transpose(rows, (0, 2, 1))
    elif len(heads) > 1:
        y = b.CONCAT(*heads, axis=1, quant=result.quant)
    return b.RESHAPE(y, result.ints, quant=result.quant)  # type: ignore[no-any-return]


def _whole(b: OpBuilder, source: Value, part: Part, y: Value) -> Value:
    """`source`, made of its only part `y`: nothing reads it, but `origins` lead to `y`."""
    groups = b.reshape(y, (len(part.starts), y.type.size // source.type.ints[-1], part.size))
    return b.reshape(b.transpose(groups, (1, 0, 2)), source.type.ints)
