"""The Neutron targets (NXP): a checked TFLite file, and what NXP's converter makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npuc.dialects.tflite import TfliteLimits
from npuc.ir import Graph
from npuc.targets.neutron_policy import CHIPS, policy_of
from npuc.targets.target import Artifact, Target
from npuc.targets.tflite import TFLITE_PASSES, count_operators, prepare_io

PREFIX = "neutron-"
NAMES = tuple(PREFIX + name for name in CHIPS)
PASSES = (*TFLITE_PASSES, "add_for_quantize")
OPTIONS: dict[str, Any] = {"c_header": False, "io_type": None}
DEMANDS = {"fixed_ranges": True, "wide_sums": False, "symmetric_products": True}


def neutron_target(name: str) -> Target:
    chip = CHIPS[name.removeprefix(PREFIX)]
    limits = TfliteLimits(
        name, floats=False, int4=False, grouped=False, steps=False, tables=False,
        int16=False, depth_multiplier=False, spreads=False, per_channel_linear=False,
        chip=policy_of(chip),
    )  # fmt: skip
    return Target(
        name, f"{chip.description}", limits, finish_neutron, "tflite", ("neutron",), PASSES,
        prepare=_prepare, demands=DEMANDS,
    )  # fmt: skip


def _prepare(graph: Graph, target: Target) -> Graph:
    return prepare_io(graph, target, OPTIONS)


def finish_neutron(graph: Graph, target: Target) -> Artifact:
    from npuc.serialize.tflite_flatbuffer import serialize

    return Artifact(serialize(graph), ".tflite", performance=count_operators(graph))
