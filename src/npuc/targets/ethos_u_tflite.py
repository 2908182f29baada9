"""The Ethos-U targets by the TFLite route (option route="tflite"): a TFLite file, then Vela.

It is there to compare the two routes for one model, and for those whose firmware runs TFLite Micro.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npuc.dialects.tflite import TfliteLimits
from npuc.ir import DType, Graph, TensorType, Value
from npuc.targets.ethos_u import FAMILIES
from npuc.targets.target import Artifact, Target
from npuc.targets.tflite import OPTIONS, TFLITE_PASSES, count_operators, prepare_io

VELA_OPTIONS: dict[str, Any] = {
    "system_config": None,
    "memory_mode": None,
    "config_ini": None,
    "extra_options": {},
}
#: operators whose kernels U55 and U65 limit: elements with dilation
KERNELS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})
MAX_AREA = 64 * 64
#: operators that are left to the CPU on every Ethos-U and have a form that is not
OTHER_FORMS = frozenset({"BROADCAST_TO", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE"})


def ethos_u_tflite_target(name: str) -> Target:
    """The target of an accelerator such as `ethos-u55-128` by the TFLite route."""
    from npuc.targets.vela import ACCELERATORS

    family = ACCELERATORS[name].family
    limits = TfliteLimits(
        name, floats=False, int4=False, grouped=False, steps=False, tables=False,
        max_stride=3, channels_at_once=8, chip=_policy(family),
    )  # fmt: skip
    return Target(
        name, f"Arm {family} by the TFLite route (Vela)", limits, finish_ethos_u_tflite, "tflite",
        FAMILIES[family], (*TFLITE_PASSES, "cheapen_rows"), prepare=_prepare,
    )  # fmt: skip


Policy = Callable[[str, Sequence[Value], Mapping[str, Any], Sequence[TensorType]], "str | None"]


def _policy(family: str) -> Policy:
    """What makes Vela 5.2.0 stop instead of leaving an operator to the CPU."""

    def policy(
        name: str,
        operands: Sequence[Value],
        attrs: Mapping[str, Any],
        results: Sequence[TensorType],
    ) -> str | None:
        dtypes = {v.type.dtype for v in operands} | {t.dtype for t in results}
        if name in OTHER_FORMS:
            return "Vela leaves it to the CPU"
        if DType.BOOL in dtypes and family != "EthosU85":
            return f"Vela refuses booleans on {family}"
        if name in KERNELS and family != "EthosU85":
            return _large_kernel(operands, attrs)
        if name == "ARG_MAX" and operands[0].type.dtype is not DType.INT8:
            return f"Vela refuses it for {operands[0].type.dtype.name}"
        if name in ("SQUARED_DIFFERENCE", "QUANTIZE") and operands[0].type.dtype is DType.INT32:
            return "Vela stops at it for INT32"
        return None

    return policy


def _large_kernel(operands: Sequence[Value], attrs: Mapping[str, Any]) -> str | None:
    """Kernels with their dilation cover at most 4096 elements."""
    kernel = operands[1].type.ints[1:3]
    height, width = ((k - 1) * d + 1 for k, d in zip(kernel, attrs["dilation"], strict=True))
    if height * width > MAX_AREA:
        return f"the kernel covers {height}x{width} elements; Vela takes {MAX_AREA} on this chip"
    return None


def _prepare(graph: Graph, target: Target) -> Graph:
    return prepare_io(graph, target, {**OPTIONS, **VELA_OPTIONS, "route": "tflite"})


def finish_ethos_u_tflite(graph: Graph, target: Target) -> Artifact:
    """Vela's TFLite file for `graph`; beside it is the file that Vela read.

    `performance` has `cpu_operators`: what Vela left to the CPU, with its reasons.
    """
    from npuc.serialize.tflite_flatbuffer import serialize
    from npuc.targets.vela_tflite import compile_vela_tflite

    data = serialize(graph)
    options = {k: v for k, v in target.options.items() if k in VELA_OPTIONS}
    result = compile_vela_tflite(data, target.name, **options)
    performance = {
        **result.perf,
        **count_operators(graph),
        "cpu_operators": [f"{name}: {reason}" for name, reason in result.cpu_operators],
        "overhead": result.overhead,
        "system_config": result.system_config,
        "memory_mode": result.memory_mode,
    }
    return Artifact(result.model, ".vela.tflite", b"", {".tflite": data}, performance, result.ops)
