"""Writes TFLite files with the object API that ai-edge-litert brings. Decides nothing.

Two things are done differently from the object API: constants are copied once, straight to their
place in the file (a Python list of 10 MB takes 40 s), and they lie on 16 bytes there (the Python
flatbuffers builder ignores the schema's alignment, and TFLite Micro reads weights in place).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from npuc.dialects.tflite import DEFINITIONS, lowest_version, runtime_of
from npuc.errors import ToolMissing
from npuc.ir import DType, Graph, Op, Quant, Value

INSTALL = "pip install ai-edge-litert==2.3.0"
ALIGNMENT = 16
MAX_BYTES = 2**31 - 1
#: bytes that `min_runtime_version` takes in the metadata
VERSION_BYTES = 16
SIGNATURE = "serving_default"

TENSOR_TYPES = {
    DType.FP32: "FLOAT32", DType.FP16: "FLOAT16", DType.BF16: "BFLOAT16", DType.FP64: "FLOAT64",
    DType.INT4: "INT4", DType.INT8: "INT8", DType.UINT8: "UINT8", DType.INT16: "INT16",
    DType.UINT16: "UINT16", DType.INT32: "INT32", DType.INT64: "INT64", DType.BOOL: "BOOL",
}  # fmt: skip

#: attributes with an entry per spatial axis -> the fields of their last entries (height and width)
PER_AXIS = {
    "stride": ("strideD", "strideH", "strideW"),
    "dilation": ("dilationDFactor", "dilationHFactor", "dilationWFactor"),
    "kernel": ("", "filterHeight", "filterWidth"),
}
#: attributes that are names -> enumeration of the schema and field
ENUMS = {
    "padding": ("Padding", "padding"),
    "activation": ("ActivationFunctionType", "fusedActivationFunction"),
    "mode": ("MirrorPadMode", "mode"),
}


def serialize(graph: Graph) -> bytes:
    """The bytes of a TFLite file of `graph`.

    Raises ToolMissing without ai-edge-litert, OverflowError when the file would pass 2 GiB.
    """
    return _Writer(load_schema()).write(graph)


@cache
def load_schema() -> Any:
    """The module with the schema's classes. Raises ToolMissing."""
    try:
        from ai_edge_litert import schema_py_generated
    except ImportError:
        raise ToolMissing("LiteRT (ai-edge-litert)", INSTALL) from None
    return schema_py_generated


def tensor_numbers(graph: Graph) -> dict[Value, int]:
    """Index in the file of every value of `graph`: inputs first, then results in order."""
    numbers: dict[Value, int] = {}
    outer = [v for op in graph.ops for v in op.operands] + list(graph.outputs)
    constants = [v for v in outer if v.is_const]
    results = [r for op in graph.ops if op.kind != "const" for r in op.results]
    for value in (*graph.inputs, *constants, *results):
        numbers.setdefault(value, len(numbers))
    return numbers


@dataclass
class _Writer:
    """Collects the parts of one file."""

    schema: Any
    buffers: list[Any] = field(default_factory=list)
    codes: dict[tuple[str, int], int] = field(default_factory=dict)
    subgraphs: list[Any] = field(default_factory=list)
    _blobs: dict[Any, int] = field(default_factory=dict)

    def write(self, graph: Graph) -> bytes:
        self.buffers.append(self.schema.BufferT())  # buffer 0: no data
        self.subgraph(graph, "main")
        size = sum(b.size_in_file for b in self.buffers[1:])
        if size > MAX_BYTES:
            raise OverflowError(f"{size} bytes of constants do not fit in a TFLite file of 2 GiB")
        model = self.schema.ModelT(version=3, description="npuc")
        model.operatorCodes = [self._code(*code) for code in self.codes]
        model.subgraphs = self.subgraphs
        model.signatureDefs = [self._signature(graph)]
        model.metadata = [self._runtime_version()]
        model.buffers = self.buffers
        import flatbuffers

        builder = flatbuffers.Builder(size + 1024 + 512 * len(tensor_numbers(graph)))
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def subgraph(self, graph: Graph, name: str) -> int:
        """Add a graph; returns its number. Region graphs follow the graph that owns them."""
        number = len(self.subgraphs)
        made = self.schema.SubGraphT(name=name)
        self.subgraphs.append(made)
        numbers = tensor_numbers(graph)
        names = _unique_names(numbers, graph)
        made.tensors = [self._tensor(v, names[v]) for v in numbers]
        made.inputs = _int32([numbers[v] for v in graph.inputs])
        made.outputs = _int32([numbers[v] for v in graph.outputs])
        made.operators = [
            self._operator(op, numbers, made.tensors) for op in graph.ops if op.kind != "const"
        ]
        return number

    # -- tensors ----------------------------------------------------------------------------

    def _tensor(self, value: Value, name: str) -> Any:
        type = value.type
        made = self.schema.TensorT(name=name, shape=_int32(type.ints), hasRank=True)
        made.type = self._type(type.dtype)
        made.quantization = self._quantization(type.quant)
        if value.is_const:
            made.buffer = self._buffer(_storage(value.array), value.array, type.dtype)
        return made

    def _type(self, dtype: DType) -> int:
        return int(getattr(self.schema.TensorType, TENSOR_TYPES[dtype]))

    def _quantization(self, quant: Quant | None) -> Any:
        if quant is None:
            return None
        made = self.schema.QuantizationParametersT()
        made.scale = quant.scale.astype(np.float32)
        made.zeroPoint = np.ascontiguousarray(quant.zero_point, np.int64)
        made.quantizedDimension = quant.axis or 0
        return made

    def _buffer(self, key: Any, array: np.ndarray, dtype: DType) -> int:
        found = self._blobs.get((key, dtype))
        if found is None:
            self.buffers.append(_buffer_class(self.schema)(_packed(array, dtype)))
            found = self._blobs[key, dtype] = len(self.buffers) - 1
        return found

    def _constant(self, values: Sequence[int], shape: tuple[int, ...], name: str) -> Any:
        """An INT32 tensor of an attribute."""
        array = np.array(values, np.int32).reshape(shape)
        made = self.schema.TensorT(name=name, shape=_int32(shape), hasRank=True)
        made.type = self._type(DType.INT32)
        made.buffer = self._buffer((tuple(values), shape), array, DType.INT32)
        return made

    # -- operators --------------------------------------------------------------------------

    def _operator(self, op: Op, numbers: Mapping[Value, int], tensors: list[Any]) -> Any:
        made = self.schema.OperatorT()
        types = [v.type for v in op.operands], [r.type for r in op.results]
        version = lowest_version(op.name, types[0], op.attrs, types[1])
        made.opcodeIndex = self.codes.setdefault((op.name, version), len(self.codes))
        made.inputs = _int32(self._inputs(op, numbers, tensors))
        made.outputs = _int32([numbers[r] for r in op.results])
        options = DEFINITIONS[op.name].options
        if options is not None:
            made.builtinOptionsType = getattr(self.schema.BuiltinOptions, options)
            made.builtinOptions = self._options(op, options)
        return made

    def _inputs(self, op: Op, numbers: Mapping[Value, int], tensors: list[Any]) -> list[int]:
        operands = iter([numbers[v] for v in op.operands])
        found = []
        for name in DEFINITIONS[op.name].inputs:
            if name.startswith("#"):
                tensors.append(self._attribute(op, name[1:]))
                found.append(len(tensors) - 1)
            elif name.endswith("*"):
                found += operands
            else:
                found += [n for n in [next(operands, None)] if n is not None]
        return found

    def _attribute(self, op: Op, name: str) -> Any:
        value = op.attrs[name]
        values = value if isinstance(value, tuple) else (value,)
        shape: tuple[int, ...] = (len(values) // 2, 2) if name == "paddings" else (len(values),)
        if name in ("axis", "k"):
            shape = ()
        return self._constant(values, shape, f"{op.results[0].name or op.name}/{name}")

    def _options(self, op: Op, options: str) -> Any:
        made = getattr(self.schema, options + "T")()
        given = set(DEFINITIONS[op.name].tensors)
        for key, value in op.attrs.items():
            if key in PER_AXIS:
                for name, number in zip(PER_AXIS[key][-len(value) :], value, strict=True):
                    setattr(made, name, number)
            elif key in ENUMS:
                enum, name = ENUMS[key]
                setattr(made, name, getattr(getattr(self.schema, enum), value))
            elif key not in given:
                setattr(made, _camel(key), value)
        self._special_options(op, made)
        return made

    def _special_options(self, op: Op, made: Any) -> None:
        if op.name == "RESHAPE":
            made.newShape = _int32(op.attrs["shape"])
        elif op.name in ("ADD", "SUB") and op.operands[0].type.dtype is DType.INT16:
            made.potScaleInt16 = False
        elif op.name == "CAST":
            made.inDataType = self._type(op.operands[0].type.dtype)
            made.outDataType = self._type(op.results[0].type.dtype)
        elif op.name in ("ARG_MAX", "ARG_MIN"):
            made.outputType = self._type(op.results[0].type.dtype)
        elif op.name == "IF":
            made.thenSubgraphIndex, made.elseSubgraphIndex = self._regions(op, "then", "else")
        elif op.name == "WHILE":
            made.condSubgraphIndex, made.bodySubgraphIndex = self._regions(op, "condition", "body")

    def _regions(self, op: Op, *names: str) -> list[int]:
        owner = op.results[0].name or op.name
        return [
            self.subgraph(r, f"{owner}/{name}") for r, name in zip(op.regions, names, strict=True)
        ]

    def _code(self, name: str, version: int) -> Any:
        code = getattr(self.schema.BuiltinOperator, name)
        return self.schema.OperatorCodeT(min(code, 127), None, version, code)

    # -- the model's ends -------------------------------------------------------------------

    def _signature(self, graph: Graph) -> Any:
        numbers = tensor_numbers(graph)
        names = _unique_names(numbers, graph)

        def ports(values: Sequence[Value]) -> list[Any]:
            taken: dict[str, int] = {}
            return [self.schema.TensorMapT(_unused(names[v], taken), numbers[v]) for v in values]

        return self.schema.SignatureDefT(ports(graph.inputs), ports(graph.outputs), SIGNATURE, 0)

    def _runtime_version(self) -> Any:
        oldest = max([runtime_of(*code) for code in self.codes], default=())
        text = ".".join(map(str, oldest or (1, 5, 0))).encode()
        data = np.frombuffer(text.ljust(VERSION_BYTES, b"\0"), np.uint8)
        self.buffers.append(_buffer_class(self.schema)(data))
        return self.schema.MetadataT("min_runtime_version", len(self.buffers) - 1)


@cache
def _buffer_class(schema: Any) -> type:
    """A Buffer whose data is copied once and lies on 16 bytes."""

    class AlignedBuffer(schema.BufferT):  # type: ignore[misc,name-defined]
        def __init__(self, array: np.ndarray) -> None:
            super().__init__()
            self.array = array

        @property
        def size_in_file(self) -> int:
            return int(self.array.nbytes) + ALIGNMENT + 16

        def Pack(self, builder: Any) -> int:
            size = self.array.nbytes
            builder.StartVector(1, size, ALIGNMENT)
            head = builder.head - size
            builder.head = head
            place = np.frombuffer(builder.Bytes, self.array.dtype, self.array.size, head)
            place.reshape(self.array.shape)[...] = self.array
            data = builder.EndVector()
            schema.BufferStart(builder)
            schema.BufferAddData(builder, data)
            return int(schema.BufferEnd(builder))

    return AlignedBuffer


def _storage(array: np.ndarray) -> Any:
    """Equal for arrays of the same bytes in memory, whatever their shapes."""
    place = array.__array_interface__["data"][0]
    if array.flags.c_contiguous:
        return place, array.nbytes
    return place, array.shape, array.strides


def _packed(array: np.ndarray, dtype: DType) -> np.ndarray:
    """An array as its tensor stores it: INT4 in pairs, the first element in the low half."""
    if dtype is not DType.INT4:
        return array
    nibbles = array.reshape(-1).astype(np.uint8) & 0xF
    nibbles = np.append(nibbles, np.zeros(nibbles.size % 2, np.uint8))
    return nibbles[::2] | (nibbles[1::2] << 4)


def _int32(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int32)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _unique_names(numbers: Mapping[Value, int], graph: Graph) -> dict[Value, str]:
    """A name per value, the model's own where it has one; those of the graph's ends come first."""
    taken: dict[str, int] = {}
    names: dict[Value, str] = {}
    for value in dict.fromkeys([*graph.inputs, *graph.outputs, *numbers]):
        op = value.op
        plain = value.name or (op.loc.name if op else "") or (op.name if op else "input")
        names[value] = _unused(plain, taken)
    return names


def _unused(name: str, taken: dict[str, int]) -> str:
    """`name`, with a number behind it where it is taken; `taken` counts uses of each name."""
    candidate = name
    while candidate in taken:
        candidate = f"{name}_{taken[name]}"
        taken[name] += 1
    taken[candidate] = 1
    return candidate
