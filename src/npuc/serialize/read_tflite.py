"""Reads what is in a TFLite file, for reports and tests; the object API reads it without copies."""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import Any

from npuc.errors import BadInput
from npuc.serialize.tflite_flatbuffer import load_schema


@dataclass(frozen=True)
class Tensor:
    """A tensor of a file. `scale` has several entries when it is quantized per channel."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        text = f"{'x'.join(map(str, self.shape)) or 'scalar'} {self.dtype}"
        if len(self.scale) == 1:
            return f"{text} <{self.scale[0]:g}:{self.zero_point[0]}>"
        return f"{text} <{len(self.scale)} scales on axis {self.axis}>" if self.scale else text


@dataclass(frozen=True)
class Operator:
    """An operator: name (custom ones by their code), version, indices of its tensors."""

    name: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Subgraph:
    """The tensors and operators of a (sub)graph; inputs and outputs are indices of tensors."""

    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class TfliteFile:
    """What a file holds. `signatures`: key -> (names of inputs, names of outputs)."""

    description: str
    subgraphs: tuple[Subgraph, ...]
    signatures: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]
    metadata: dict[str, bytes]


def read_tflite(data: bytes) -> TfliteFile:
    """The parts of a TFLite file. Raises BadInput for other bytes, ToolMissing without LiteRT."""
    if bytes(data[4:8]) != b"TFL3":
        raise BadInput("not a TFLite file", why="the mark TFL3 is missing")
    schema = load_schema()
    try:
        model = schema.ModelT.InitFromPackedBuf(data, 0)
        return _file(schema, model)
    except BadInput:
        raise
    except Exception as error:  # flatbuffers raises whatever a damaged offset leads to
        raise BadInput("damaged TFLite file", why=f"{type(error).__name__}: {error}") from None


def _file(schema: Any, model: Any) -> TfliteFile:
    codes = [_code(schema, code) for code in model.operatorCodes or []]
    return TfliteFile(
        _text(model.description),
        tuple(_subgraph(schema, model, graph, codes) for graph in model.subgraphs or []),
        {
            _text(s.signatureKey): (
                tuple(_text(t.name) for t in s.inputs or []),
                tuple(_text(t.name) for t in s.outputs or []),
            )
            for s in model.signatureDefs or []
        },
        {_text(m.name): _data(model.buffers[m.buffer]) for m in model.metadata or []},
    )


def _code(schema: Any, code: Any) -> tuple[str, int]:
    number = max(code.deprecatedBuiltinCode, code.builtinCode)
    name = _names(schema.BuiltinOperator).get(number, str(number))
    return (_text(code.customCode) if name == "CUSTOM" else name), code.version


def _subgraph(schema: Any, model: Any, graph: Any, codes: list[tuple[str, int]]) -> Subgraph:
    return Subgraph(
        _text(graph.name),
        tuple(_tensor(schema, model, t) for t in graph.tensors or []),
        tuple(_operator(op, codes) for op in graph.operators or []),
        _ints(graph.inputs),
        _ints(graph.outputs),
    )


def _tensor(schema: Any, model: Any, tensor: Any) -> Tensor:
    quant = tensor.quantization
    scale = () if quant is None or quant.scale is None else tuple(map(float, quant.scale))
    zero = () if quant is None or quant.zeroPoint is None else _ints(quant.zeroPoint)
    dtype = _names(schema.TensorType)[tensor.type]
    size = len(_data(model.buffers[tensor.buffer]))
    axis = quant.quantizedDimension if quant is not None else 0
    return Tensor(_text(tensor.name), dtype, _ints(tensor.shape), scale, zero, axis, size)


def _operator(op: Any, codes: list[tuple[str, int]]) -> Operator:
    name, version = codes[op.opcodeIndex]
    options = vars(op.builtinOptions) if op.builtinOptions is not None else {}
    return Operator(name, version, _ints(op.inputs), _ints(op.outputs), dict(options))


def _names(enum: Any) -> dict[int, str]:
    return {v: k for k, v in vars(enum).items() if not k.startswith("_")}


def _ints(values: Any) -> tuple[int, ...]:
    return () if values is None else tuple(int(v) for v in values)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def _data(buffer: Any) -> bytes:
    return b"" if buffer.data is None else bytes(buffer.data)


def summarize(file: TfliteFile) -> dict[str, Any]:
    """A nested summary for `npuc inspect`."""
    main = file.subgraphs[0]
    operators = collections.Counter(
        f"{op.name} (version {op.version})" for g in file.subgraphs for op in g.operators
    )
    constants = [t for g in file.subgraphs for t in g.tensors if t.bytes]
    version = file.metadata.get("min_runtime_version", b"").rstrip(b"\0").decode(errors="replace")
    return {
        "kind": "TFLite flatbuffer",
        "description": file.description,
        "min_runtime_version": version,
        "inputs": {main.tensors[i].name: str(main.tensors[i]) for i in main.inputs},
        "outputs": {main.tensors[i].name: str(main.tensors[i]) for i in main.outputs},
        "signatures": {k: [list(names) for names in v] for k, v in file.signatures.items()},
        "subgraphs": len(file.subgraphs),
        "operators": dict(operators.most_common()),
        "constants": {"count": len(constants), "bytes": sum(t.bytes for t in constants)},
    }
