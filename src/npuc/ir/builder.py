"""Builds graphs: verifies each op, returns an existing op when an equal one is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from npuc.ir.dtype import DType
from npuc.ir.graph import NOWHERE, Blob, Graph, Loc, Op, Origin, Value
from npuc.ir.moves import Moves, before_reshape, before_transpose
from npuc.ir.types import Quant, TensorType

#: kinds whose ops are never merged with an equal one
SIDE_EFFECTS = frozenset(
    {"tosa.VARIABLE_WRITE", "tosa.VARIABLE_READ", "tosa.CUSTOM", "tosa.VARIABLE"}
)

#: kinds whose result has all elements of the first operand, in its order or that of `perms`
MOVES = frozenset({"tosa.RESHAPE", "tosa.TRANSPOSE", "tosa.IDENTITY"})

Verify = Callable[[str, Sequence[Value], Mapping[str, Any], Sequence[TensorType]], None]


class Builder:
    """Collects the ops of one graph in execution order.

    `verify(kind, operands, attrs, result_types)` raises when an op breaks its definition or the
    limits of the target. `parent` is the builder of the enclosing graph for regions.
    """

    def __init__(self, verify: Verify | None = None) -> None:
        self.verify = verify
        self.inputs: list[Value] = []
        self.ops: list[Op] = []
        self.loc: Loc = NOWHERE
        #: value -> (another that carries its elements, the permutation against it or None); a
        #: reshape between them does not count. Lets `origins` survive ops that a pass moved.
        self.carried: dict[Value, tuple[Value, tuple[int, ...] | None]] = {}
        self._seen: dict[Any, tuple[Value, ...]] = {}
        self._blobs: dict[Any, Blob] = {}

    def input(self, type: TensorType, name: str = "") -> Value:
        """Add a graph input."""
        value = Value(type, name=name)
        self.inputs.append(value)
        return value

    def emit(
        self,
        kind: str,
        operands: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        result_types: Sequence[TensorType] = (),
        regions: Sequence[Graph] = (),
        loc: Loc | None = None,
        frozen: Any = None,
    ) -> tuple[Value, ...]:
        """Add an op, or return the results of an equal one. Raises what `verify` raises.

        frozen: `Op.frozen` of the op whose attributes these are, where it is a copy.
        """
        operands, attrs = tuple(operands), attrs or {}
        if kind == "const":
            blob = attrs["value"]
            known = self._blobs.setdefault(blob.key, blob)
            if known is not blob:
                attrs, frozen = {**attrs, "value": known}, None
        key = None
        if not regions and kind not in SIDE_EFFECTS:
            frozen = frozen or _frozen(attrs)
            key = (kind, operands, frozen, tuple(result_types))
            found = self._seen.get(key)
            if found is not None:
                return found
        if self.verify is not None:
            self.verify(kind, operands, attrs, result_types)
        op = Op(kind, operands, attrs, tuple(result_types), tuple(regions), loc or self.loc)
        op.frozen = frozen
        self.ops.append(op)
        if key is not None:
            self._seen[key] = op.results
        return op.results

    def const(
        self, array: Any, dtype: DType | None = None, quant: Quant | None = None, name: str = ""
    ) -> Value:
        """A constant. `array` is kept as it is (a view); dtype defaults to the array's own."""
        array = np.asarray(array)
        dtype = dtype or DType.of(array.dtype)
        if array.dtype != dtype.numpy:
            array = array.astype(dtype.numpy)
        type = TensorType(dtype, array.shape, quant)
        (value,) = self.emit("const", (), {"value": Blob(array)}, (type,))
        value.name = value.name or name
        return value

    def finish(
        self,
        outputs: Sequence[Value],
        name: str = "main",
        origins: Mapping[str, Origin] | None = None,
    ) -> Graph:
        """The graph of everything emitted that an output, or a side effect, depends on."""
        kept = live_ops(self.ops, outputs)
        graph = Graph(name, tuple(self.inputs), tuple(kept), tuple(outputs))
        alive = {r for op in kept for r in op.results} | set(self.inputs)
        found = {
            k: entry if entry[0] in alive else self._alive(*entry, alive)
            for k, entry in (origins or {}).items()
        }
        graph.origins = {k: v for k, v in found.items() if v is not None}
        return graph

    def _alive(self, value: Value, moves: Moves, alive: set[Value]) -> Origin | None:
        """The live value that carries what `value` does, and the moves from there."""
        while value not in alive:
            perms = None  # by which `value` is a transpose of `source`
            if value in self.carried:
                source, order = self.carried[value]
                perms = None if order is None else _inverse(order)
            elif value.op is not None and value.op.kind in MOVES:
                source, perms = value.op.operands[0], value.op.attrs.get("perms")
            else:
                return None
            shape = value.type.shape
            if perms is not None:
                moves = before_transpose(perms, moves)
                shape = tuple([shape[i] for i in _inverse(perms)])
            moves = before_reshape(source.type.shape, shape, moves)
            value = source
        return value, moves


def _inverse(perms: Sequence[int]) -> tuple[int, ...]:
    return tuple([list(perms).index(i) for i in range(len(perms))])


def live_ops(ops: Sequence[Op], outputs: Sequence[Value]) -> list[Op]:
    """The ops that `outputs` or a side effect depend on, in their order."""
    needed = {v.op for v in outputs}
    kept = []
    for op in reversed(ops):
        if op in needed or op.kind in SIDE_EFFECTS:
            kept.append(op)
            needed.update(v.op for v in op.operands)
            for region in op.regions:
                needed.update(v.op for inner in region.walk() for v in inner.operands)
                needed.update(v.op for v in region.outputs)
    return kept[::-1]


def _frozen(attrs: Mapping[str, Any]) -> Any:
    """A hashable form of attributes; dictionaries and lists inside become tuples."""
    return tuple([(k, _freeze(v)) for k, v in attrs.items()])


def _freeze(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((k, _freeze(v)) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(_freeze(v) for v in value)
    if isinstance(value, float):
        return (value, str(value))  # 0.0 and -0.0, nan; 1 and 1.0 below
    return (type(value), value) if isinstance(value, (bool, int)) else value
