"""The TFLite target: a standard TFLite file for LiteRT, TFLite Micro, Vela and other NPU tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from npuc.dialects.tflite import TfliteLimits
from npuc.ir import Graph
from npuc.targets.target import Artifact, Target

TFLITE_PASSES = (
    "assign_layout",
    "cancel_transposes",
    "cancel_reshapes",
    "pad_as_same",
    "merge_quantizes",
    "fuse_activations",
    "drop_reduced_axes",
    "fold_transposes_into_matmul",
    "cancel_reshapes",
)
DESCRIPTIONS = {
    "tflite": "TFLite file for LiteRT and TFLite Micro",
    "tflite-int8": "TFLite file without operators on floats",
}
#: names of the options -> what they are when not given
OPTIONS: dict[str, Any] = {"io_type": None, "c_header": False}
#: operators that only move between types
CONVERSIONS = ("QUANTIZE", "DEQUANTIZE", "CAST")


def tflite_target(name: str) -> Target:
    """The target `tflite`, or `tflite-int8` that refuses operators on floats.

    Options: io_type ("int8", "uint8", "int16" or "float32": the type of quantized inputs and
    outputs; default: as the quantization made them), c_header (a C header that describes them).
    """
    limits = TfliteLimits(name, floats=name != "tflite-int8", has_control_flow=True)
    return Target(
        name, DESCRIPTIONS[name], limits, finish_tflite, "tflite", (name,), TFLITE_PASSES,
        prepare=prepare_io,
    )  # fmt: skip


def prepare_io(graph: Graph, target: Target, allowed: Mapping[str, Any] | None = None) -> Graph:
    """The aten graph with inputs and outputs of the type that the option io_type says."""
    from npuc.lowering.io_types import set_io_types
    from npuc.targets.tosa import check_options

    check_options(target, OPTIONS if allowed is None else allowed)
    return set_io_types(graph, target.options.get("io_type"))


def finish_tflite(graph: Graph, target: Target) -> Artifact:
    """The TFLite file of `graph`."""
    from npuc.serialize.tflite_flatbuffer import serialize

    return Artifact(serialize(graph), ".tflite", performance=count_operators(graph))


def count_operators(graph: Graph) -> dict[str, Any]:
    """Operators by name, and how many compute on floats."""
    ops = [op for op in graph.walk() if op.kind != "const"]
    floats = [op for op in ops if any(v.type.dtype.is_float for v in (*op.operands, *op.results))]
    return {
        "operators": dict(Counter(op.name for op in ops).most_common()),
        "float_operators": sum(op.name not in CONVERSIONS for op in floats),
    }
