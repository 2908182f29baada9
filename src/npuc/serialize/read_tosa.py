"""The bytes of a .tosa file back to a graph, and what `npuc inspect` says about them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from npuc.errors import BadInput
from npuc.ir import NOWHERE, Blob, DType, Graph, Loc, Op, SymDim, TensorType, Value
from npuc.serialize.read_flatbuffer import read_flatbuffer
from npuc.serialize.tosa_format import (
    RESIZE_MODES,
    attribute_table,
    elements,
    operator_of,
    tosa_schema,
)

Table = Mapping[str, Any]

_MODES = {stored: mode for mode, stored in RESIZE_MODES.items()}

_PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?: \((?P<module>.*)\))?")


def read_tosa(data: bytes) -> Graph:
    """The graph of a .tosa file: values named as its tensors, ops in its order, regions inside.

    `serialize(read_tosa(data))` computes what `data` computes. Raises BadInput when the bytes are
    no TOSA file, are damaged, or use what the schema of this version does not know.
    """
    root = read_flatbuffer(tosa_schema(), data)
    try:
        regions = {region["name"]: region["blocks"] for region in root["regions"]}
        return _Reader(data, regions).region(root["regions"][0]["name"], ())
    except (KeyError, IndexError, ValueError, TypeError) as error:
        what = error.args[0] if error.args else error
        raise BadInput("not a TOSA file that can be read", why=str(what)) from None


def summarize_tosa(data: bytes) -> dict[str, Any]:
    """What a .tosa file is: version, writer, inputs, outputs, operators and constants.

    Raises what `read_tosa` raises.
    """
    graph = read_tosa(data)
    root = read_flatbuffer(tosa_schema(), data)
    version, writer = root["version"], root.get("software_version", {})
    ops = list(graph.walk())
    constants = [op.attrs["value"].array for op in ops if op.kind == "const"]
    draft = " draft" if version["_draft"] else ""
    return {
        "version": f"{version['_major']}.{version['_minor']}.{version['_patch']}{draft}",
        "writer": ".".join(str(writer.get(k, "?")) for k in ("_major", "_minor", "_micro")),
        "inputs": [_port(v) for v in graph.inputs],
        "outputs": [_port(v) for v in graph.outputs],
        "operators": dict(Counter(op.name for op in ops if op.kind != "const").most_common()),
        "constants": {"count": len(constants), "elements": sum(a.size for a in constants)},
        "regions": [region["name"] for region in root["regions"]],
        "bytes": len(data),
    }


def _port(value: Value) -> dict[str, Any]:
    shape = [d if isinstance(d, int) else None for d in value.type.shape]
    return {"name": value.name, "dtype": value.type.dtype.name, "shape": shape}


class _Reader:
    def __init__(self, data: bytes, regions: dict[str, list[Table]]) -> None:
        self.data = np.frombuffer(data, np.uint8)
        self.regions = regions

    def region(self, name: str, inside: tuple[str, ...]) -> Graph:
        """The graph of a region; `inside` names those that it is part of."""
        if name not in self.regions:
            raise BadInput("the TOSA file is damaged", why=f"it has no region {name!r}")
        if name in inside:
            raise BadInput("the TOSA file is damaged", why=f"region {name!r} contains itself")
        blocks = self.regions[name]
        if len(blocks) != 1:
            raise BadInput(
                "not a TOSA file that can be read", why=f"{name!r} has {len(blocks)} blocks"
            )
        return _BlockReader(self, blocks[0], (*inside, name)).graph(name)


class _BlockReader:
    """One block. Tensors become values where an operator writes them."""

    def __init__(self, reader: _Reader, block: Table, inside: tuple[str, ...]) -> None:
        self.reader = reader
        self.block = block
        self.inside = inside
        self.tensors = {t["name"]: t for t in block.get("tensors", ())}
        self.shapes = {t["name"]: t for t in block.get("shapes", ())}
        self.types = {n: _type(t) for n, t in self.tensors.items()}
        self.types |= {n: TensorType(DType.SHAPE, (t["rank"],)) for n, t in self.shapes.items()}
        self.values: dict[str, Value] = {}
        self.ops: list[Op] = []

    def graph(self, name: str) -> Graph:
        inputs = []
        for tensor in self.block.get("inputs", ()):
            value = self.values[tensor] = Value(self.typed(tensor), name=tensor)
            inputs.append(value)
        for tensor in self.tensors.values():
            if tensor["variable"]:
                self.add("tosa.VARIABLE", (), self.variable(tensor), (), (), NOWHERE)
        for operator in self.block.get("operators", ()):
            self.operator(operator)
        outputs = [self.value(n) for n in self.block.get("outputs", ())]
        return Graph(name, tuple(inputs), tuple(self.ops), tuple(outputs))

    def operator(self, table: Table) -> None:
        kind, stored = table["attribute"]
        name = operator_of(kind)
        if name != table["op"] and table["op"] != "IDENTITY":  # tosa-opt writes variables so
            raise ValueError(f"operator {table['op']} has {kind}")
        inputs, outputs = table.get("inputs", []), table.get("outputs", [])
        loc = _loc(table.get("location", {}).get("text", ""))
        if name in ("CONST", "CONST_SHAPE"):
            (tensor,) = outputs
            self.add("const", (), {"value": self.constant(tensor)}, (), outputs, loc)
            return
        attrs = self.attributes(name, stored, inputs)
        if name == "VARIABLE_READ":
            attrs["name"], inputs = self.tensors[inputs[0]]["variable_name"], []
        elif name == "VARIABLE_WRITE":
            attrs["name"], outputs = self.tensors[outputs[0]]["variable_name"], []
        operands = tuple(self.value(n) for n in inputs)
        regions = tuple(
            self.reader.region(stored[f], self.inside)
            for f in ("then_graph", "else_graph", "cond_graph", "body_graph")
            if f in stored
        )
        self.add(f"tosa.{name}", operands, attrs, regions, outputs, loc)

    def add(
        self,
        kind: str,
        operands: tuple[Value, ...],
        attrs: dict[str, Any],
        regions: tuple[Graph, ...],
        outputs: Any,
        loc: Loc,
    ) -> None:
        op = Op(kind, operands, attrs, tuple(self.typed(n) for n in outputs), regions, loc)
        self.ops.append(op)
        for name, value in zip(outputs, op.results, strict=True):
            value.name = name
            self.values[name] = value

    def typed(self, name: str) -> TensorType:
        if name not in self.types:
            raise ValueError(f"tensor {name!r} is used but not defined")
        return self.types[name]

    def value(self, name: str) -> Value:
        if name not in self.values:
            raise ValueError(f"tensor {name!r} is read before it is written")
        return self.values[name]

    def constant(self, name: str) -> Blob:
        table = self.tensors.get(name) or self.shapes[name]
        type = self.typed(name)
        if not type.is_static:
            raise ValueError(f"constant {name!r} has unknown sizes")
        data = self.bytes(table)
        return Blob(elements(data, type.dtype, math.prod(type.ints)).reshape(type.ints))

    def bytes(self, table: Table) -> np.ndarray:
        """The data of a tensor; of files above 2 GiB it lies behind the flatbuffer."""
        if table.get("offset", 0) > 1:
            return self.reader.data[table["offset"] : table["offset"] + table["size"]]
        return np.frombuffer(table.get("data", b""), np.uint8)

    def variable(self, table: Table) -> dict[str, Any]:
        type = self.typed(table["name"])
        attrs = {"name": table["variable_name"], "var_shape": type.shape, "type": type.dtype}
        if len(self.bytes(table)):
            attrs["initial_value"] = self.constant(table["name"])
        return attrs

    def attributes(self, name: str, stored: Table, inputs: list[str]) -> dict[str, Any]:
        """Attributes with the values they have in our graphs."""
        attrs: dict[str, Any] = {"input_unsigned": False} if name == "CAST" else {}
        for f in tosa_schema().tables[attribute_table(name)]:
            value: Any = stored.get(f.name)
            if f.name.endswith("_graph"):
                continue
            if f.type == "DType":
                value = DType[value]
            elif f.type == "ResizeMode":
                value = _MODES[value]
            elif f.type == "BlockSize":
                value = int(value.rpartition("_")[2])
            elif f.name in ("min_val", "max_val"):
                dtype = self.typed(inputs[0]).dtype
                value = elements(np.frombuffer(value, np.uint8), dtype, 1)[0]
                value = float(value) if dtype.is_float else int(value)
            elif f.type == "ubyte":
                value = bytes(value)
            elif f.kind == "vector":
                value = tuple(value)
            attrs[f.name] = value
        return attrs


def _type(table: Table) -> TensorType:
    name = table["name"]
    shape = [
        SymDim(f"{name}.{axis}") if d < 0 else d for axis, d in enumerate(table.get("shape", ()))
    ]
    return TensorType(DType[table["type"]], tuple(shape))


def _loc(text: str) -> Loc:
    """The place that `serialize` wrote; any other text becomes the name."""
    if not text:
        return NOWHERE
    match = _PLACE.fullmatch(text)
    if match is None:
        return Loc(name=text)
    return Loc(match["file"], int(match["line"]), match["module"] or "")
