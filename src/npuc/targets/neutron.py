"""The Neutron targets (NXP): a checked TFLite file, and what NXP's converter makes of it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from npuc.dialects.tflite import TfliteLimits
from npuc.errors import BadInput, NpucError, Reason, Unsupported
from npuc.ir import Graph
from npuc.serialize.read_tflite import read_tflite
from npuc.targets.neutron_converter import (
    INSTALL,
    LOG,
    TOOL,
    Settings,
    convert_for_neutron,
    find_sdk,
)
from npuc.targets.neutron_io import channels_last, leave_transposes
from npuc.targets.neutron_payload import Port, build_payload, read_converted, single_graph
from npuc.targets.neutron_policy import CHIPS, fusing_policy, idle, policy_of
from npuc.targets.target import Artifact, Target
from npuc.targets.tflite import TFLITE_PASSES, count_operators, prepare_io

PREFIX = "neutron-"
NAMES = tuple(PREFIX + name for name in CHIPS)
PASSES = (*TFLITE_PASSES, "add_for_quantize")
#: what the operators demand of every recipe: fixed ranges of functions, 8 bits, symmetric products
DEMANDS = {"fixed_ranges": True, "wide_sums": False, "symmetric_products": True}
#: the only chip whose payloads ExecuTorch's runtime takes
PAYLOAD_CHIP = "imxrt700"
ARTIFACTS = (None, "payload", "npu-tflite", "tflite")
FLAGS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Options:
    """Options of a Neutron target.

    artifact: "payload" (for ExecuTorch's NeutronBackend), "npu-tflite" (NXP's TFLite file whose
        NeutronGraph operators run on the NPU, for LiteRT and TFLite Micro), "tflite" (the checked
        file before NXP's converter, which is not called), or None: the first of these that the chip
        and what is installed here allow.
    format_conversion: the NPU transposes channels-first images at the ends; else the host does.
    cpu_operators: operators that Neutron does not have may stay in the file, for the CPU.
    c_header: a C header that describes inputs and outputs. io_type: "int8" only.
    Others: see `neutron_converter.Settings`.
    """

    artifact: str | None = None
    format_conversion: bool = True
    cpu_operators: bool = False
    fetch_constants_to_sram: bool = False
    dump_kernel_selection: bool = False
    profiling: bool = False
    extra_flags: tuple[str, ...] = ()
    timeout: float = Settings.timeout
    c_header: bool = False
    io_type: str | None = None

    @staticmethod
    def of(given: Mapping[str, Any], name: str) -> Options:
        """The options that a user gave, as values or as text. Raises BadInput."""
        known = {f.name: f.default for f in fields(Options)}
        for key in given:
            if key not in known:
                hint = f"it has: {', '.join(sorted(known))}"
                raise BadInput(f"{name} has no option {key!r}", hint=hint)
        options = Options(**{k: _parsed(k, v, known[k]) for k, v in given.items()})
        if options.artifact not in ARTIFACTS:
            hint = f"one of {', '.join(map(str, ARTIFACTS[1:]))}"
            raise BadInput(f"artifact={options.artifact!r}", hint=hint)
        chip = name.removeprefix(PREFIX)
        if options.artifact == "payload" and chip != PAYLOAD_CHIP:
            raise BadInput(
                f"{name} has no payload", why=f"ExecuTorch's runtime takes {PAYLOAD_CHIP} only",
                hint="artifact=npu-tflite runs in LiteRT and TFLite Micro",
            )  # fmt: skip
        if options.artifact == "payload" and options.cpu_operators:
            raise BadInput("a payload with cpu_operators", why="all of it runs on the NPU")
        return options

    def settings(self) -> Settings:
        """What of them is for NXP's converter."""
        return Settings(**{f.name: getattr(self, f.name) for f in fields(Settings)})


def _parsed(key: str, value: Any, default: Any) -> Any:
    """A value given as text (on the command line) as the type of the option."""
    if isinstance(default, bool):
        text = str(value).lower()
        if text not in FLAGS:
            raise BadInput(f"{key}={value!r}", hint="true or false")
        return FLAGS[text]
    if isinstance(default, tuple):
        return tuple(value.split()) if isinstance(value, str) else tuple(value)
    if not isinstance(default, (int, float)):
        return value
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise BadInput(f"{key}={value!r}", hint="a number of seconds above 0")
    return seconds


def neutron_target(name: str, options: Mapping[str, Any] | None = None) -> Target:
    """The target of a chip, such as `neutron-imxrt700`.

    With the option cpu_operators an operator that Neutron does not have is no reason to refuse.
    """
    chip = CHIPS[name.removeprefix(PREFIX)]
    on_cpu = bool(options) and Options.of(options or {}, name).cpu_operators
    limits = TfliteLimits(
        name, floats=on_cpu, int4=False, grouped=False, steps=on_cpu, tables=on_cpu,
        ramps=not on_cpu, int16=on_cpu,
        depth_multiplier=False, spreads=False, per_channel_linear=False,
        chip=fusing_policy if on_cpu else policy_of(chip),
    )  # fmt: skip
    known = "" if chip.is_known else "; restrictions of i.MX RT700 assumed, NXP publishes none"
    return Target(
        name, f"{chip.description}, {chip.subsystem} NPU (NXP's converter){known}", limits,
        finish_neutron, "tflite", ("neutron",), PASSES, prepare=_prepare, demands=DEMANDS, idle=idle,
        package=package_neutron,
    )  # fmt: skip


def _prepare(graph: Graph, target: Target) -> Graph:
    options = Options.of(target.options, target.name)
    if options.io_type not in (None, "int8"):
        raise BadInput(f"io_type={options.io_type!r}", why="Neutron computes on int8 only")
    return prepare_io(graph, target, vars(options))


def finish_neutron(graph: Graph, target: Target) -> Artifact:
    """The TFLite file of a graph. Raises Unsupported for one that computes nothing."""
    from npuc.serialize.tflite_flatbuffer import serialize

    why = idle(graph)
    if why is not None:
        raise Unsupported(Reason(graph.name, "", why, "leave it to the host"))
    performance = {**count_operators(graph), "cpu_operators": cpu_operators(graph, target)}
    return Artifact(serialize(graph), ".tflite", performance=performance)


def package_neutron(graph: Graph, plain: Artifact, target: Target) -> Artifact:
    """The payload, or the TFLite file that is wanted or possible; see `Options`.

    plain: the checked TFLite file of `graph`. Raises ToolMissing without NXP's converter where the
    artifact needs it, NpucError where it fails or its result is no payload.
    """
    options = Options.of(target.options, target.name)
    if options.artifact == "tflite":
        return plain
    if options.artifact is None and find_sdk() is None:
        warnings.warn(
            f"the artifact is the checked TFLite file: what runs on {target.name} is made from it by "
            f"{TOOL}, which is not installed: {INSTALL}; artifact=tflite asks for this file",
            stacklevel=2,
        )
        return plain
    return _converted(graph, target, options, plain)


def cpu_operators(graph: Graph, target: Target) -> list[str]:
    """The operators that the chip does not take, each with the reason."""
    policy = policy_of(CHIPS[target.name.removeprefix(PREFIX)])
    found = []
    for op in graph.walk():
        if op.kind == "const":
            continue
        why = policy(op.name, op.operands, op.attrs, [r.type for r in op.results])
        if why is not None:
            found.append(f"{op.name} at {op.loc}: {why}")
    return found


def _converted(graph: Graph, target: Target, options: Options, plain: Artifact) -> Artifact:
    """What NXP's converter makes of the checked file."""
    from npuc.serialize.tflite_flatbuffer import serialize

    data, inputs, outputs = plain.data, *_layouts(graph, target)
    if not options.format_conversion:
        assert isinstance(target.limits, TfliteLimits)
        bare, left_in, left_out = leave_transposes(graph, target.limits)
        data = serialize(bare)
        inputs = [a or b for a, b in zip(inputs, left_in, strict=True)]
        outputs = [a or b for a, b in zip(outputs, left_out, strict=True)]
    chip = target.name.removeprefix(PREFIX)
    made = convert_for_neutron(data, chip, options.settings())
    _compare_facts(made.facts, chip)
    converted = read_converted(made.model)
    files = {".tflite": plain.data, LOG: made.log.encode()}
    if made.kernel_selection:
        files[".kernel_selection.c"] = made.kernel_selection
    performance = {
        **plain.performance, "npu_graphs": len(converted.graphs), "sdk": made.version,
        "cpu_operators": list(converted.cpu_operators),
    }  # fmt: skip
    whole = Artifact(made.model, ".npu.tflite", files=files, performance=performance)
    if not _wants_payload(options, chip):
        return whole
    try:
        payload = build_payload(single_graph(converted), *_ports(data, inputs, outputs))
    except NpucError as error:
        if options.artifact == "payload":
            raise
        warnings.warn(f"the artifact is NXP's TFLite file: {error}", stacklevel=3)
        return whole
    return Artifact(
        payload, ".neutron", files={**files, ".npu.tflite": made.model}, performance=performance
    )


def _wants_payload(options: Options, chip: str) -> bool:
    if options.artifact is None:
        return chip == PAYLOAD_CHIP and not options.cpu_operators
    return options.artifact == "payload"


def _layouts(graph: Graph, target: Target) -> tuple[list[bool], list[bool]]:
    """Which inputs and outputs have their channels last."""
    orders_in, orders_out = target.orders
    return channels_last(orders_in, len(graph.inputs)), channels_last(
        orders_out, len(graph.outputs)
    )


def _ports(data: bytes, inputs: list[bool], outputs: list[bool]) -> tuple[list[Port], list[Port]]:
    """Inputs and outputs by their names in the file that the converter read."""
    main = read_tflite(data).subgraphs[0]

    def ports(places: tuple[int, ...], flags: list[bool]) -> list[Port]:
        return [Port(main.tensors[i].name, f) for i, f in zip(places, flags, strict=True)]

    return ports(main.inputs, inputs), ports(main.outputs, outputs)


def _compare_facts(facts: Mapping[str, Any], chip: str) -> None:
    """Warn where NXP's library says another number of MACs than the restrictions assume."""
    macs = facts.get("numMacs")
    if isinstance(macs, int) and macs != CHIPS[chip].macs:
        warnings.warn(
            f"NXP's library says {macs} MACs per pipe for {chip}, npuc's limit of kernels assumes "
            f"{CHIPS[chip].macs}", stacklevel=4,
        )  # fmt: skip
