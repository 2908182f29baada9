"""Compile a TFLite file for Ethos-U with Vela, in process: NPU parts become one operator."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from npuc.errors import NpucError
from npuc.execute.capture_output import capture_output
from npuc.targets.vela import (
    architecture_text,
    arena_limit,
    find_accelerator,
    load_regor,
    read_system,
)
from npuc.targets.vela_options import parse_options
from npuc.targets.vela_report import OpCost, overhead_cycles, read_op_costs, read_performance


@dataclass(frozen=True, slots=True)
class VelaTflite:
    """What Vela made of a TFLite file.

    model: a TFLite file whose `ethos-u` operators hold command streams. cpu_operators: names of the
    operators that stay on the CPU, each with Vela's reason. perf, ops, overhead: as in VelaResult.
    """

    model: bytes
    perf: dict[str, Any]
    ops: tuple[OpCost, ...]
    overhead: dict[str, int]
    cpu_operators: tuple[tuple[str, str], ...]
    system_config: str
    memory_mode: str


def compile_vela_tflite(
    data: bytes,
    target_name: str,
    system_config: str | None = None,
    memory_mode: str | None = None,
    extra_options: Mapping[str, object] | None = None,
    config_ini: str | os.PathLike[str] | None = None,
) -> VelaTflite:
    """Compile a TFLite file for `target_name`; arguments and errors as `compile_vela`."""
    accelerator = find_accelerator(target_name)
    options = parse_options(extra_options or {})
    regor, _ = load_regor()
    system = read_system(accelerator, system_config, memory_mode, config_ini)
    text = options.text(arena_limit(accelerator, system, options), "TFLite")
    error: Exception | None = None
    with capture_output() as printed:
        try:
            made = regor.compile(
                accelerator.family, bytes(data), "TFLITE", architecture_text(accelerator, system),
                options=text,
            )  # fmt: skip
        except (RuntimeError, ValueError) as refused:
            error = refused
    if error is not None:
        lines = [line.strip(" -") for line in str(error).splitlines()]
        why = "; ".join(line for line in lines if line).replace(":; ", ": ")
        raise NpucError(f"Vela cannot compile this file for {target_name}", why=why) from None
    tables = made.opt_database.tables
    ops = read_op_costs(tables)
    return VelaTflite(
        bytes(made.model), read_performance(made.perf_report, system.core_clock), ops,
        overhead_cycles(ops), _cpu_operators(printed.text), system.system_config,
        system.memory_mode,
    )  # fmt: skip


def _cpu_operators(log: str) -> tuple[tuple[str, str], ...]:
    """(operator, reason) of Vela's warnings about operators that it leaves to the CPU."""
    found = []
    for block in log.split("Warning (supported operators)")[1:]:
        name = re.search(r"operator: (\w+)", block)
        reason = re.search(r"Reason: (.*)", block)
        if name is not None:
            found.append((name.group(1), reason.group(1).strip() if reason else ""))
    return tuple(found)
