"""The graph: values, operations with regions, and source locations. Nothing here is mutated by passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npuc.ir.moves import Moves
from npuc.ir.types import TensorType


@dataclass(frozen=True)
class Loc:
    """Where an op comes from in the user's model: source line, module path and the value's name."""

    file: str = ""
    line: int = 0
    module: str = ""
    name: str = ""
    op: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.file else self.name or "<unknown>"
        return f"{where} ({self.module})" if self.module else where


NOWHERE = Loc()


#: constants up to this size are compared by content, larger ones by the identity of their data
INTERN_BYTES = 4096


class Blob:
    """Bytes of a constant, compared by identity and never copied before serialization.

    A builder has one for all that have the same `key`.
    """

    __slots__ = ("array", "key")

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        small = array.nbytes <= INTERN_BYTES
        content = array.tobytes() if small else array.__array_interface__["data"][0]
        self.key = (content, array.dtype, array.shape, None if small else array.strides)

    def __repr__(self) -> str:
        return f"Blob({self.array.dtype}, {self.array.shape})"


class Value:
    """A typed result of an operation, or (`op` None) an input of a graph."""

    __slots__ = ("index", "name", "op", "type")

    def __init__(
        self, type: TensorType, op: Op | None = None, index: int = 0, name: str = ""
    ) -> None:
        self.type = type
        self.op = op
        self.index = index
        self.name = name

    @property
    def is_const(self) -> bool:
        return self.op is not None and self.op.kind == "const"

    @property
    def array(self) -> np.ndarray:
        """The data of a constant (a view)."""
        if self.op is None or self.op.kind != "const":
            raise ValueError(f"{self!r} is not a constant")
        return self.op.attrs["value"].array  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        kind = self.op.kind if self.op else "input"
        return f"Value({self.name or kind}: {self.type})"


class Op:
    """One operation. `attrs` values are hashable; `regions` are graphs (branches, loop bodies)."""

    __slots__ = ("attrs", "frozen", "kind", "loc", "operands", "regions", "results")

    def __init__(
        self,
        kind: str,
        operands: tuple[Value, ...],
        attrs: Mapping[str, Any],
        result_types: tuple[TensorType, ...],
        regions: tuple[Graph, ...] = (),
        loc: Loc = NOWHERE,
    ) -> None:
        self.kind = kind
        self.operands = operands
        self.attrs = attrs
        self.regions = regions
        self.loc = loc
        #: the attributes in hashable form, once a builder has made it
        self.frozen: Any = None
        self.results = tuple(Value(t, self, i) for i, t in enumerate(result_types))

    @property
    def name(self) -> str:
        """The kind without its dialect: CONV2D, add.Tensor, const."""
        return self.kind.partition(".")[2] or self.kind

    @property
    def result(self) -> Value:
        return self.results[0]

    def __repr__(self) -> str:
        return f"Op({self.kind}: {', '.join(map(repr, (r.type for r in self.results)))})"


#: a value and how the model's value is made of it
Origin = tuple[Value, Moves]


@dataclass
class Graph:
    """Inputs, ops in execution order, outputs.

    `origins` maps the name of a value of the user's model to the value that carries it here and
    the moves that make the model's elements of those here; its shape may still be another.
    """

    name: str
    inputs: tuple[Value, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Value, ...]
    origins: dict[str, Origin] = field(default_factory=dict)

    def readers(self) -> dict[Value, list[Op]]:
        """For each value the ops that read it, once per operand slot, in order."""
        found: dict[Value, list[Op]] = {}
        for op in self.ops:
            for v in op.operands:
                found.setdefault(v, []).append(op)
        return found

    def walk(self) -> Iterator[Op]:
        """All ops, those of regions after the op that owns them."""
        for op in self.ops:
            yield op
            for region in op.regions:
                yield from region.walk()

    def all_origins(self) -> dict[str, Origin]:
        """The origins of this graph and of all regions in it, whose names begin with their path."""
        found = dict(self.origins)
        for op in self.ops:
            for region in op.regions:
                found |= region.all_origins()
        return found

    def __str__(self) -> str:
        from npuc.ir.print_mlir import print_mlir

        return print_mlir(self)
