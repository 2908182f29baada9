"""Operators that compute each element of their result from one element of one tensor."""

from __future__ import annotations

from collections.abc import Callable

from npuc.ir import Builder, Op, TensorType, Value
from npuc.passes.layout import tflite_operators
from npuc.passes.layout.behaviour import UNARY

#: operators that commute with every monotone function of an element
MOVING = frozenset(
    {"RESHAPE", "TRANSPOSE", "SLICE", "REVERSE", "TILE", "IDENTITY", "MAX_POOL2D", "REDUCE_MAX",
     "REDUCE_MIN"}
)  # fmt: skip


def is_unary(op: Op | None) -> bool:
    """Whether `op` works element by element, the same for every element of its first operand."""
    if op is None:
        return False
    if op.kind.startswith("tflite."):
        return op.name in tflite_operators.UNARY
    if not op.kind.startswith("tosa.") or op.name not in UNARY:
        return False
    return not (op.name == "RESCALE" and op.attrs["per_channel"])


def unary_chain(value: Value, uses: Callable[[Value], int]) -> tuple[list[Op], Value]:
    """The unary ops with one reader each that end in `value`, last first, and their source."""
    chain: list[Op] = []
    while value.op is not None and is_unary(value.op) and uses(value) == 1:
        chain.append(value.op)
        value = value.op.operands[0]
    return chain, value


def commutes(op: Op | None) -> bool:
    """Whether `op` picks elements of its first operand by place or size: monotone functions of an
    element can be computed before or after it."""
    return op is not None and op.kind.startswith("tosa.") and op.name in MOVING


def is_rename(op: Op) -> bool:
    """Whether `op` moves axes of size 1 only: a RESHAPE, or a TRANSPOSE that is one."""
    if op.kind not in ("tosa.RESHAPE", "tosa.TRANSPOSE"):
        return False
    before, after = op.operands[0].type.shape, op.results[0].type.shape
    if op.kind == "tosa.TRANSPOSE":
        moved = [p for p in op.attrs["perms"] if before[p] != 1]
        return moved == sorted(moved)
    return [d for d in before if d != 1] == [d for d in after if d != 1]


def replay(
    builder: Builder, chain: list[Op], source: Value, perm: tuple[int, ...] | None = None
) -> Value:
    """`chain` (as `unary_chain` gives it) emitted again on `source`, in its shape.

    perm: `source` is what the chain started from transposed by `perm` (None: only reshaped).
    """
    for op in reversed(chain):
        old = op.results[0].type
        type = TensorType(old.dtype, source.type.shape, old.quant)
        (source,) = builder.emit(op.kind, (source, *op.operands[1:]), op.attrs, [type], loc=op.loc)
        builder.carried[op.results[0]] = (source, perm)
    return source
