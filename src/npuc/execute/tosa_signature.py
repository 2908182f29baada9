"""What a TOSA file says about its own inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from npuc.errors import BadInput, ToolMissing


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a TOSA graph. `dtype` is TOSA's name, e.g. "INT8"."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def storage(self) -> np.dtype[Any]:
        """The numpy (or ml_dtypes) dtype of arrays for this port: INT4 in int8, INT48 in int64."""
        return storage_dtype(self.dtype)


@dataclass(frozen=True, slots=True)
class Signature:
    """Ports of the main block in graph order, and the version of the specification.

    `live_inputs` are the inputs that an output depends on: Vela drops the others.
    """

    version: tuple[int, int]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    live_inputs: tuple[Port, ...]


def storage_dtype(name: str) -> np.dtype[Any]:
    """numpy dtype of a TOSA dtype name. Raises KeyError for a name that has none."""
    import ml_dtypes

    table: dict[str, npt.DTypeLike] = {
        "BOOL": np.bool_,
        "INT4": np.int8,
        "INT8": np.int8,
        "INT16": np.int16,
        "INT32": np.int32,
        "INT48": np.int64,
        "INT64": np.int64,
        "SHAPE": np.int64,
        "FP16": np.float16,
        "FP32": np.float32,
        "BF16": ml_dtypes.bfloat16,
        "FP8E4M3": ml_dtypes.float8_e4m3fn,
        "FP8E5M2": ml_dtypes.float8_e5m2,
    }
    return np.dtype(table[name])


def check_tosa(tosa_bytes: bytes) -> None:
    """Raise BadInput unless the bytes carry the identifier of a TOSA file."""
    if len(tosa_bytes) < 16 or tosa_bytes[4:8] != b"TOSA":
        found = bytes(tosa_bytes[4:8])
        raise BadInput(
            "not a TOSA file",
            why=f"{len(tosa_bytes)} bytes, identifier {found!r} instead of b'TOSA'",
        )


def read_signature(tosa_bytes: bytes) -> Signature:
    """Names, dtypes and shapes of the graph's inputs and outputs.

    Raises BadInput when the bytes are not a TOSA file.
    """
    check_tosa(tosa_bytes)
    graph_class = _graph_class()
    try:
        graph = graph_class.GetRootAs(tosa_bytes, 0)
        version = graph.Version()
        block = graph.Regions(0).Blocks(0)
        tensors = {port.name: port for port in _ports(block)}
        inputs = [tensors[name] for name in _names(block.Inputs, block.InputsLength())]
        outputs = [tensors[name] for name in _names(block.Outputs, block.OutputsLength())]
        live = _live_names(block, [port.name for port in outputs])
        return Signature(
            (version._Major(), version._Minor()),
            tuple(inputs),
            tuple(outputs),
            tuple(port for port in inputs if port.name in live),
        )
    except Exception as error:  # the flatbuffer reader raises anything on a damaged file
        raise BadInput("the TOSA file is damaged", why=f"{type(error).__name__}: {error}") from None


def _names(entry: Callable[[int], bytes], count: int) -> list[str]:
    return [entry(index).decode() for index in range(count)]


def _live_names(block: Any, outputs: list[str]) -> set[str]:
    """Names of tensors that the outputs depend on; operators come in topological order."""
    live = set(outputs)
    for index in reversed(range(block.OperatorsLength())):
        operator = block.Operators(index)
        if live.intersection(_names(operator.Outputs, operator.OutputsLength())):
            live.update(_names(operator.Inputs, operator.InputsLength()))
    return live


def _ports(block: Any) -> list[Port]:
    """Every tensor and every shape of a block as a Port."""
    names = _dtype_names()
    found = []
    for index in range(block.TensorsLength()):
        tensor = block.Tensors(index)
        shape = tuple(int(tensor.Shape(axis)) for axis in range(tensor.ShapeLength()))
        found.append(Port(tensor.Name().decode(), names[tensor.Type()], shape))
    for index in range(block.ShapesLength()):
        shape_value = block.Shapes(index)
        found.append(Port(shape_value.Name().decode(), "SHAPE", (shape_value.Rank(),)))
    return found


@cache
def _dtype_names() -> dict[int, str]:
    from tosa.DType import DType

    return {code: name for name, code in vars(DType).items() if not name.startswith("_")}


def _graph_class() -> Any:
    try:
        from tosa.TosaGraph import TosaGraph
    except ImportError:
        raise ToolMissing("tosa-tools", "pip install tosa-tools==2026.8.0") from None
    return TosaGraph
