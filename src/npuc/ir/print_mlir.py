"""Text form of a graph: MLIR generic syntax, as `tosa-opt` parses it for TOSA graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npuc.ir.dtype import DType
from npuc.ir.graph import Blob, Graph, Op, Value
from npuc.ir.types import TensorType

#: constants with more elements are printed as `dense_resource`-like zero splats with a digest
MAX_ELEMENTS = 16

#: kinds that stand beside the function and not in it
MODULE_LEVEL = frozenset({"tosa.VARIABLE"})

#: dialect -> function that writes one op (text after the results), or None for the generic form
PRINTERS: dict[str, Callable[[Op, list[str], Printer], str | None]] = {}


class Printer:
    """Names values and writes ops line by line."""

    def __init__(
        self, max_elements: int = MAX_ELEMENTS, locations: bool = False, dialect: str = ""
    ) -> None:
        self.names: dict[Value, str] = {}
        self.lines: list[str] = []
        self.max_elements = max_elements
        self.locations = locations
        #: whose printer writes the ops without a dialect (constants)
        self.dialect = dialect

    def name(self, value: Value) -> str:
        return self.names.setdefault(value, f"%{len(self.names)}")

    def write_ops(self, graph: Graph, indent: str) -> None:
        for op in graph.ops:
            if op.kind not in MODULE_LEVEL:
                self.write_op(op, indent)

    def write_op(self, op: Op, indent: str) -> None:
        operands = [self.name(v) for v in op.operands]
        results = ", ".join([self.name(r) for r in op.results])
        printer = PRINTERS.get(op.kind.partition(".")[0] if "." in op.kind else self.dialect)
        text = printer(op, operands, self) if printer else None
        if text is None:
            text = self.generic(op, op.kind, operands, op.attrs)
        if op.regions:
            regions = ", ".join([self._region(region, indent) for region in op.regions])
            head, sep, tail = text.rpartition(" : ")
            text = f"{head} ({regions}){sep}{tail}"
        where = f" loc({quoted(str(op.loc))})" if self.locations else ""
        self.lines.append(
            f"{indent}{results} = {text}{where}" if results else indent + text + where
        )

    def _region(self, region: Graph, indent: str) -> str:
        inner = Printer(self.max_elements, self.locations, self.dialect)
        inner.names = self.names
        args = ", ".join(f"{inner.name(v)}: {mlir_type(v.type)}" for v in region.inputs)
        inner.lines = ["{" + (f"\n{indent}^bb0({args}):" if args else "")]
        inner.write_ops(region, indent + "  ")
        outs = ", ".join(inner.name(v) for v in region.outputs)
        types = ", ".join(mlir_type(v.type) for v in region.outputs)
        inner.lines.append(f'{indent}  "tosa.yield"({outs}) : ({types}) -> ()\n{indent}}}')
        return "\n".join(inner.lines)

    def generic(self, op: Op, kind: str, operands: list[str], attrs: Any) -> str:
        inner = ", ".join(f"{k} = {self.attribute(v, op)}" for k, v in attrs.items())
        text = f'"{kind}"({", ".join(operands)})'
        if inner:
            text += f" <{{{inner}}}>"
        ins = ", ".join(mlir_type(v.type) for v in op.operands)
        outs = ", ".join(mlir_type(r.type) for r in op.results)
        return f"{text} : ({ins}) -> {outs if len(op.results) == 1 else f'({outs})'}"

    def attribute(self, value: Any, op: Op) -> str:
        if isinstance(value, Blob):
            return dense(value.array, op.results[0].type, self.max_elements)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, float):
            return f"{value!r}"
        if isinstance(value, DType):
            return value.mlir
        if isinstance(value, (tuple, list)) and value and all(type(v) is int for v in value):
            return f"array<i64: {', '.join(map(str, value))}>"
        return quoted(value) if isinstance(value, str) else repr(value)


def quoted(text: str | bytes) -> str:
    """A string of MLIR."""
    data = text.encode() if isinstance(text, str) else text
    plain = [32 <= c < 127 and c not in b'"\\' for c in data]
    return (
        '"'
        + "".join([chr(c) if p else f"\\{c:02X}" for c, p in zip(data, plain, strict=True)])
        + '"'
    )


def mlir_type(type: TensorType) -> str:
    """`tensor<1x?x4xi8>`; shapes are `!tosa.shape<rank>`."""
    if type.dtype is DType.SHAPE:
        return f"!tosa.shape<{type.shape[0] if type.shape else 0}>"
    dims = "".join(f"{d}x" if isinstance(d, int) else "?x" for d in type.shape)
    return f"tensor<{dims}{type.dtype.mlir}>"


def dense(array: np.ndarray, type: TensorType, max_elements: int) -> str:
    """A constant's data; one that is too large is shown as a splat of its first element."""
    kind = "index" if type.dtype is DType.SHAPE else type.dtype.mlir
    dims = "".join(f"{d}x" for d in type.shape)
    if array.size == 0:
        body = ""
    elif array.size <= max_elements:
        body = _nested(array, type.dtype)
    else:
        body = scalar(array.flat[0], type.dtype)
    return f"dense<{body}> : tensor<{dims}{kind}>"


def _nested(array: np.ndarray, dtype: DType) -> str:
    if array.ndim == 0:
        return scalar(array[()], dtype)
    return "[" + ", ".join(_nested(a, dtype) for a in array) + "]"


def scalar(value: Any, dtype: DType) -> str:
    """One element as MLIR text; floats so that they are read back exactly."""
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    if np.isfinite(np.float64(value)):
        return f"{float(value):.9e}"
    bits = np.asarray(value, dtype.numpy).view(f"u{dtype.numpy.itemsize}")
    return f"0x{int(bits):0{dtype.numpy.itemsize * 2}X}"


def print_mlir(graph: Graph, max_elements: int = MAX_ELEMENTS, locations: bool = False) -> str:
    """The graph as one MLIR function. Constants above `max_elements` are shown as splats."""
    dialects = [op.kind.partition(".")[0] for op in graph.ops if "." in op.kind]
    p = Printer(max_elements, locations, dialects[0] if dialects else "tosa")
    args = ", ".join(f"{p.name(v)}: {mlir_type(v.type)}" for v in graph.inputs)
    outs = ", ".join(mlir_type(v.type) for v in graph.outputs)
    for op in graph.ops:
        if op.kind in MODULE_LEVEL:
            p.write_op(op, "")
    p.lines.append(f"func.func @{graph.name}({args}) -> ({outs}) {{")
    p.write_ops(graph, "  ")
    names = ", ".join(p.name(v) for v in graph.outputs)
    p.lines.append(f"  return{' ' + names if names else ''}{' : ' + outs if outs else ''}\n}}")
    return "\n".join(p.lines) + "\n"
