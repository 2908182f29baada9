"""Arguments of `aten.*` ops: Python values in which tensors are markers into the op's operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npuc.ir.graph import Op, Value


@dataclass(frozen=True, slots=True)
class Operand:
    """Stands in `attrs["args"]` and `attrs["kwargs"]` for `op.operands[index]`."""

    index: int

    def __repr__(self) -> str:
        return f"%{self.index}"


def pack(
    args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Value, ...], dict[str, Any]]:
    """Operands and attributes of an op whose arguments hold Values (also inside lists)."""
    operands: list[Value] = []

    def mark(value: Value) -> Operand:
        operands.append(value)
        return Operand(len(operands) - 1)

    packed = tuple([_map(a, Value, mark) for a in args])
    named = {k: _map(v, Value, mark) for k, v in kwargs.items()}
    return tuple(operands), {"args": packed, "kwargs": named}


def unpack(op: Op, operands: Sequence[Value]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of an aten op with `operands` in place of the markers."""

    def value(marker: Operand) -> Value:
        return operands[marker.index]

    args = [_map(a, Operand, value) for a in op.attrs["args"]]
    return args, {k: _map(v, Operand, value) for k, v in op.attrs["kwargs"].items()}


def _map(argument: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    if isinstance(argument, kind):
        return change(argument)
    if isinstance(argument, (tuple, list)):
        return tuple([_map(a, kind, change) for a in argument])
    return argument
