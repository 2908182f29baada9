"""A TOSA graph to the bytes of a .tosa file. Writes what it is given and decides nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npuc.errors import NpucError
from npuc.ir import NOWHERE, Builder, DType, Graph, Loc, Op, SymDim, TensorType, Value
from npuc.serialize.flatbuffer_schema import Field
from npuc.serialize.tosa_format import (
    DEVELOPMENT,
    DRAFTS,
    LIBRARY,
    NEWEST,
    RESIZE_MODES,
    STORED_AS,
    attribute_table,
    element_bytes,
    tosa_schema,
)
from npuc.serialize.write_flatbuffer import write_flatbuffer

#: size of a dimension that is known only at run time
UNKNOWN_DIM = -1


def serialize(
    graph: Graph,
    version: tuple[int, int] = (1, 0),
    *,
    development: bool = False,
    locations: bool = True,
) -> bytes:
    """The .tosa file of a graph of `tosa.*` ops and constants.

    `version` is the TOSA version to declare (1.1 is a draft, and is marked as one). `development`
    marks the file as written by a development version of Arm's library: then readers older than
    the format used here accept it. `locations` stores where each op comes from in the model.
    The same graph gives the same bytes.

    Raises NpucError for a version that is too new, an op that is no TOSA op or lacks an attribute,
    and for data above 2 GiB.
    """
    version = (int(version[0]), int(version[1]))
    if version > NEWEST:
        raise NpucError(
            f"TOSA {version[0]}.{version[1]}",
            why=f"the newest version that can be written is {NEWEST[0]}.{NEWEST[1]}",
        )
    regions = _Regions(locations)
    regions.add("main", graph)
    year, month, micro = LIBRARY
    library = {"_major": year, "_minor": month, "_micro": micro, "_modifier": ""}
    root = {
        "version": {
            "_major": version[0], "_minor": version[1], "_patch": 0, "_draft": version in DRAFTS
        },
        "regions": regions.written,
        "software_version": library | ({"_major": DEVELOPMENT} if development else {}),
        "compatibility": {"min_reader_version": library, "features": 0},
    }  # fmt: skip
    try:
        return write_flatbuffer(tosa_schema(), root)
    except OverflowError as error:
        raise NpucError("the TOSA file is too large", why=str(error)) from None


class _Regions:
    """All regions of a file. A region has one block; names are unique in the whole file."""

    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.written: list[dict[str, Any]] = []
        self.used: dict[str, int] = {"main": 1}

    def unique(self, wanted: str) -> str:
        """`wanted`, or with a number behind it when it is taken."""
        name, number = wanted, self.used.get(wanted, 0)
        while name in self.used:
            name, number = f"{wanted}_{number}", number + 1
        self.used[wanted] = max(number, 1)
        self.used.setdefault(name, 1)
        return name

    def add(self, name: str, graph: Graph) -> None:
        block = _Block(self, name)
        self.written.append({"name": name, "blocks": [block.written]})
        block.fill(graph)


class _Block:
    """One block: operators, tensors and shapes in order of definition."""

    def __init__(self, regions: _Regions, name: str) -> None:
        self.regions = regions
        self.names: dict[Value, str] = {}
        self.constants: dict[Any, str] = {}
        self.variables: dict[str, str] = {}
        self.operators: list[dict[str, Any]] = []
        self.tensors: list[dict[str, Any]] = []
        self.shapes: list[dict[str, Any]] = []
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.written: dict[str, Any] = {
            "name": name, "operators": self.operators, "tensors": self.tensors,
            "inputs": self.inputs, "outputs": self.outputs, "shapes": self.shapes,
        }  # fmt: skip

    def fill(self, graph: Graph) -> None:
        for value in graph.inputs:
            self.inputs.append(self.define(value, "input"))
        for op in graph.ops:
            self.operation(op)
        for value in graph.outputs:
            self.outputs.append(self.output(value))

    def operation(self, op: Op) -> None:
        if op.kind == "const":
            return  # written where it is first read
        if not op.kind.startswith("tosa.") or op.name not in tosa_schema().enums["Op"]:
            raise NpucError(op.kind, str(op.loc), "it is not an operator of the TOSA file format")
        if op.name == "VARIABLE":
            self.variable(op)
            return
        inputs = [self.read(v, op) for v in op.operands]
        if op.name == "VARIABLE_READ":
            inputs = [self.variable_name(op)]
        regions = self.region_names(op)
        attributes = {f.name: self.attribute(op, f, regions) for f in _attribute_fields(op)}
        if op.attrs.get("input_unsigned") and op.name == "CAST":
            raise NpucError(op.kind, str(op.loc), "the file format has no unsigned CAST")
        outputs = [self.define(r, op.name.lower()) for r in op.results]
        if op.name == "VARIABLE_WRITE":
            outputs = [self.variable_name(op)]
        self.add(op.name, attributes, inputs, outputs, op.loc)
        for name, region in zip(regions, op.regions, strict=True):
            self.regions.add(name, region)

    def add(
        self, name: str, attributes: dict[str, Any], inputs: Sequence[str], outputs: Sequence[str],
        loc: Loc,
    ) -> None:  # fmt: skip
        text = _location(loc) if self.regions.locations else ""
        self.operators.append({
            "op": name, "attribute": (attribute_table(name), attributes), "inputs": inputs,
            "outputs": outputs, "location": {"text": text},
        })  # fmt: skip

    def define(self, value: Value, fallback: str, data: np.ndarray | None = None) -> str:
        """Add the tensor or shape of a value; its name."""
        name = self.regions.unique(value.name or fallback)
        self.names[value] = name
        if value.type.dtype is DType.SHAPE:
            rank = value.type.ints[0] if value.type.shape else 0
            self.shapes.append({"name": name, "rank": rank, "data": data})
        else:
            self.tensors.append(_tensor(name, value.type, data))
        return name

    def read(self, value: Value, reader: Op) -> str:
        """The name of an operand. Constants are written where they are first read."""
        if value in self.names:
            return self.names[value]
        if not value.is_const:
            raise NpucError(
                reader.kind,
                str(reader.loc),
                f"it reads {value!r}, which its region does not define",
            )
        blob, dtype = value.op.attrs["value"], value.type.dtype  # type: ignore[union-attr]
        key = (id(blob), dtype, value.type.shape)
        name = self.constants.get(key)
        if name is None:
            if dtype is DType.INT4 and blob.array.size and blob.array.min() < -7:
                why = f"its constant {value.name or value.type} holds -8; INT4 of TOSA is -7..7"
                raise NpucError(reader.kind, str(reader.loc), why)
            data = element_bytes(blob.array, dtype)
            name = self.constants[key] = self.define(value, "const", data)
            kind = "CONST_SHAPE" if dtype is DType.SHAPE else "CONST"
            self.add(kind, {}, [], [name], value.op.loc)  # type: ignore[union-attr]
        self.names[value] = name
        return name

    def output(self, value: Value) -> str:
        """The name of an output: every output has an operator that writes it alone.

        Vela refuses a graph input as an output, and the model converter gives a tensor that is
        returned twice one binding for both. Such a tensor is copied by a RESHAPE: the emulation
        layers for Vulkan lose an output that an IDENTITY reads.
        """
        written_by_op = value in self.names and value.op is not None and not value.is_const
        if written_by_op and self.names[value] not in self.outputs:
            return self.names[value]
        loc = value.op.loc if value.op else NOWHERE
        source = self.read(value, Op("tosa.IDENTITY", (value,), {}, (), loc=loc))
        copy = Value(value.type, name=value.name)
        if written_by_op and not any(isinstance(d, SymDim) for d in value.type.shape):
            shape = Builder().const(np.array(value.type.ints, np.int64), DType.SHAPE)
            size = self.read(shape, Op("tosa.RESHAPE", (value, shape), {}, (), loc=loc))
            self.add("RESHAPE", {}, [source, size], [self.define(copy, "copy")], loc)
        else:
            self.add("IDENTITY", {}, [source], [self.define(copy, "identity")], loc)
        return self.names[copy]

    def region_names(self, op: Op) -> list[str]:
        kinds = ("then", "else") if op.name == "COND_IF" else ("cond", "body")
        return [
            self.regions.unique(f"{op.name.lower()}_{kinds[i]}") for i in range(len(op.regions))
        ]

    def attribute(self, op: Op, f: Field, regions: Sequence[str]) -> Any:
        """The value of an attribute as the schema stores it."""
        if f.name.endswith("_graph"):
            return regions[0 if f.name in ("then_graph", "cond_graph") else 1]
        if f.name not in op.attrs:
            raise NpucError(op.kind, str(op.loc), f"attribute {f.name} is missing")
        value = op.attrs[f.name]
        if isinstance(value, DType):
            return value.name
        if f.name in ("min_val", "max_val"):
            dtype = op.operands[0].type.dtype
            return element_bytes(np.asarray([value]).astype(dtype.numpy), dtype).view(np.uint8)
        if f.type == "ResizeMode":
            return RESIZE_MODES[value]
        return value

    def variable(self, op: Op) -> None:
        """A VARIABLE is no operator of the file but a tensor with a mark."""
        name = self.regions.unique(op.attrs["name"])
        self.variables[op.attrs["name"]] = name
        type = TensorType(op.attrs["type"], op.attrs["var_shape"])
        initial = op.attrs.get("initial_value")
        data = None if initial is None else element_bytes(initial.array, type.dtype)
        marks = {"variable": True, "variable_name": op.attrs["name"]}
        self.tensors.append(_tensor(name, type, data) | marks)

    def variable_name(self, op: Op) -> str:
        name = op.attrs["name"]
        if name not in self.variables:
            raise NpucError(op.kind, str(op.loc), f"variable {name!r} is not defined before it")
        return self.variables[name]


def _attribute_fields(op: Op) -> tuple[Field, ...]:
    return tosa_schema().tables[attribute_table(op.name)]


def _tensor(name: str, type: TensorType, data: np.ndarray | None) -> dict[str, Any]:
    shape = [UNKNOWN_DIM if isinstance(d, SymDim) else d for d in type.shape]
    dtype = STORED_AS.get(type.dtype, type.dtype)
    if dtype.name not in tosa_schema().enums["DType"]:
        raise NpucError(f"value {name!r}", why=f"the TOSA file format has no type {dtype.name}")
    return {"name": name, "shape": shape, "type": dtype.name, "data": data}


def _location(loc: Loc) -> str:
    """Where an op comes from, without the folder: the same model gives the same file anywhere."""
    return "" if loc == NOWHERE else str(replace(loc, file=os.path.basename(loc.file)))
