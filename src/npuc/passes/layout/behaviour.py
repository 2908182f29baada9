"""How operators behave when the axes of their tensors are permuted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from npuc.ir import Dim, DType, Op, Shape, SymbolicShape, Value
from npuc.passes.layout import tflite_operators
from npuc.passes.layout.free import Free

UNARY = (
    "ABS", "BITWISE_NOT", "CAST", "CEIL", "CLAMP", "CLZ", "COS", "ERF", "EXP", "FLOOR", "IDENTITY",
    "LOG", "LOGICAL_NOT", "NEGATE", "RECIPROCAL", "RESCALE", "RSQRT", "SIGMOID", "SIN", "TABLE",
    "TANH",
)  # fmt: skip
BINARY = (
    "ADD", "ARITHMETIC_RIGHT_SHIFT", "BITWISE_AND", "BITWISE_OR", "BITWISE_XOR", "EQUAL", "GREATER",
    "GREATER_EQUAL", "INTDIV", "LOGICAL_AND", "LOGICAL_LEFT_SHIFT", "LOGICAL_OR",
    "LOGICAL_RIGHT_SHIFT", "LOGICAL_XOR", "MAXIMUM", "MINIMUM", "MUL", "POW", "SUB",
)  # fmt: skip
REDUCTIONS = (
    "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PRODUCT", "REDUCE_SUM",
)  # fmt: skip

FREE: dict[str, Free] = {
    **dict.fromkeys(UNARY, Free(1)),
    **dict.fromkeys(BINARY, Free(2)),
    **dict.fromkeys(REDUCTIONS, Free(1, axis=True)),
    "SELECT": Free(3),
    "CONCAT": Free(None, axis=True),
    "REVERSE": Free(1, axis=True),
    "ARGMAX": Free(1, axis=True, drops_axis=True),
    "PAD": Free(1, shapes=(1,)),
    "SLICE": Free(1, shapes=(1, 2)),
    "TILE": Free(1, shapes=(1,)),
}

IMAGE = (("nhwc",), "nhwc")
#: operators of one fixed layout -> letters of the axes of their first operands and of each result;
#: equal letters name the same axis, so that a whole network speaks of one N, H, W and C
FIXED_AXES: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(
        ("CONV2D", "DEPTHWISE_CONV2D", "TRANSPOSE_CONV2D", "AVG_POOL2D", "MAX_POOL2D", "RESIZE",
         "AVG_POOL2D_ADAPTIVE", "MAX_POOL2D_ADAPTIVE"), IMAGE,
    ),
    "CONV3D": (("ndhwc",), "ndhwc"),
    "MATMUL": (("nhc", "ncw"), "nhw"),
    "MATMUL_T": (("nhc", "nwc"), "nhw"),
    "GATHER": (("nkc", "nw"), "nwc"),
    "SCATTER": (("nkc", "nw", "nwc"), "nkc"),
    "FFT2D": (("nhw", "nhw"), "nhw"),
    "RFFT2D": (("nhw",), "nhf"),
}  # fmt: skip

#: per dialect the operators that run in any layout
ANY_LAYOUT = {"tosa": FREE, "tflite": tflite_operators.FREE}
TRANSPOSES = frozenset({"tosa.TRANSPOSE", "tflite.TRANSPOSE"})
RESHAPES = frozenset({"tosa.RESHAPE", "tflite.RESHAPE"})

#: positions of the input axes and of the output axes that are the same block of memory
Group = tuple[tuple[int, ...], tuple[int, ...]]


def free_behaviour(op: Op) -> Free | None:
    """The behaviour of an operator that runs in any layout; None for the others.

    Operands whose rank is not the operator's leave no way to renumber. Of shapes it has to be known
    how they are computed. No operator moves INT48: what reads it does so as it was made.
    """
    dialect = op.kind.partition(".")[0]
    free = ANY_LAYOUT.get(dialect, {}).get(op.name)
    if free is None or op.regions or (dialect == "tflite" and not tflite_operators.is_free(op)):
        return None
    rank = op.operands[0].type.rank
    if any(v.type.rank != rank for v in data_operands(op, free)):
        return None
    if any(op.operands[i].op is None for i in free.shapes):
        return None
    if any(v.type.dtype is DType.INT48 for v in op.operands):
        return None
    return free if rank > 1 else None


def data_operands(op: Op, free: Free) -> tuple[Value, ...]:
    """The operands that are tensors in the op's layout."""
    return op.operands if free.data is None else op.operands[: free.data]


def keeps_last_axis(op: Op) -> bool:
    """Whether the op's last axis has to stay the last: its scales or its sums run along it."""
    if op.kind.startswith("tflite."):
        return tflite_operators.FREE[op.name].last
    return op.name == "RESCALE" and bool(op.attrs["per_channel"])


def fixed_axes(op: Op) -> tuple[tuple[str, ...], str]:
    """Letters of the axes of the first operands and of each result of an op in one layout."""
    if op.kind.startswith("tflite."):
        return tflite_operators.fixed_axes(op)
    return FIXED_AXES.get(op.name, ((), ""))


def renumber(op: Op, free: Free, perm: Sequence[int]) -> Mapping[str, Any]:
    """Attributes of `op` on tensors transposed by `perm`."""
    place = list(perm).index
    changed: dict[str, Any] = {"axis": place(op.attrs["axis"])} if free.axis else {}
    changed |= {name: tuple(place(a) for a in op.attrs[name]) for name in free.axes}
    changed |= {name: renumber_shape(op.attrs[name], perm) for name in free.per_axis}
    return {**op.attrs, **changed} if changed else op.attrs


def renumber_shape(entries: Sequence[Dim], perm: Sequence[int]) -> tuple[Dim, ...]:
    """A shape operand with one or two (before, after) entries per axis, permuted."""
    each = len(entries) // max(len(perm), 1)
    return tuple(entries[p * each + k] for p in perm for k in range(each))


def hard_axes(shape: Shape) -> tuple[int, ...]:
    """Positions of the axes that are not of size 1; the others take part in no data movement."""
    return tuple([i for i, d in enumerate(shape) if d != 1])


def reshape_groups(before: Shape, after: Shape) -> list[Group] | None:
    """The blocks of axes that a RESHAPE merges and splits, axes of size 1 left out.

    [N, C, H, W] -> [N, C, H*W] gives (0)->(0), (1)->(1), (2, 3)->(2). None where the bounds of
    symbolic sizes do not tell which axes make a block.
    """
    try:
        return _groups(before, after)
    except SymbolicShape:
        return None


def _groups(before: Shape, after: Shape) -> list[Group] | None:
    groups: list[Group] = []
    ins, outs = hard_axes(before), hard_axes(after)
    i = j = 0
    while i < len(ins):
        first_in, first_out = i, j
        size_in: Dim = 1
        size_out: Dim = 1
        while size_in != size_out or i == first_in:
            read = size_in <= size_out
            if (i == len(ins)) if read else (j == len(outs)):
                return None  # the same number of elements, but not the same expression
            if read:
                size_in *= before[ins[i]]
                i += 1
            else:
                size_out *= after[outs[j]]
                j += 1
        groups.append((ins[first_in:i], outs[first_out:j]))
    return groups if j == len(outs) else None


def reads_sizes(op: Op) -> bool:
    """Whether the op reads the sizes of a tensor only: the order of its axes is nothing to it."""
    return op.kind == "tosa.DIM"


def is_view(op: Op) -> bool:
    """Whether the op only renames axes: a TRANSPOSE, or a RESHAPE that moves axes of size 1."""
    if op.kind in TRANSPOSES:
        return True
    if op.kind not in RESHAPES:
        return False
    before, after = op.operands[0].type.shape, op.results[0].type.shape
    return [d for d in before if d != 1] == [d for d in after if d != 1]
