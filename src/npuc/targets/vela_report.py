"""Read Vela's performance tables: cycles and memory of the network and of each operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Vela's operators that only move or requantize data, under the name the report uses.
OVERHEAD = {"Rescale": "rescale", "Transpose": "transpose", "MemoryCopy": "copy"}


@dataclass(frozen=True, slots=True)
class OpCost:
    """One operation as Vela runs it.

    `operator` is Vela's name, `name` the tensor it writes, `tosa_op` the TOSA operator it was at
    first and `tosa_index` that operator's index in its block (None when Vela does not say).
    An operation chained behind another has its time in that one's line, and 0 here.
    """

    operator: str
    name: str
    tosa_op: str
    tosa_index: int | None
    op_cycles: int
    npu_cycles: int
    macs: int
    staging_bytes: int
    chained: bool
    on_npu: bool
    access_cycles: dict[str, int]


def read_performance(report: Any, core_clock: float) -> dict[str, Any]:
    """Figures of the whole network from regor's report, all of them Vela's estimates.

    Keys: total_cycles, npu_cycles, macs, milliseconds (at `core_clock` Hz), core_clock,
    sram_peak (bytes of feature maps and staging, without constants that share the SRAM, as Vela's
    command line counts), read_only_peak, original_weights, encoded_weights (bytes), npu_ops,
    cpu_ops, cascades, memories: {name: {peak, access_cycles, read, written}}.
    """
    memories = {
        str(name): {
            "peak": int(memory.peakUsage),
            "access_cycles": int(memory.totalAccessCycles),
            "read": sum(int(access.bytesRead) for access in memory.accesses.values()),
            "written": sum(int(access.bytesWritten) for access in memory.accesses.values()),
        }
        for name, memory in report.memories.items()
        if str(name).lower() not in ("shram", "lutram")  # inside the NPU
    }
    return {
        "total_cycles": int(report.totalCycles),
        "npu_cycles": int(report.npuCycles),
        "macs": int(report.macCount),
        "milliseconds": report.totalCycles / core_clock * 1e3,
        "core_clock": core_clock,
        "sram_peak": _sram_peak(memories, int(report.readOnlyPeakUsage)),
        "read_only_peak": int(report.readOnlyPeakUsage),
        "original_weights": int(report.originalWeights),
        "encoded_weights": int(report.encodedWeights),
        "npu_ops": int(report.npuOps),
        "cpu_ops": int(report.cpuOps),
        "cascades": int(report.cascades),
        "memories": memories,
    }


def _sram_peak(memories: Mapping[str, Mapping[str, int]], read_only_peak: int) -> int:
    """Peak of the SRAM; where it is the only memory the constants are counted apart."""
    peak = memories["Sram"]["peak"] if "Sram" in memories else 0
    return peak - read_only_peak if set(memories) == {"Sram"} else peak


def read_op_costs(tables: Mapping[str, Any]) -> tuple[OpCost, ...]:
    """Rows of Vela's table `perf` in the order of execution, each traced to its TOSA operator."""
    sources = {row["id"]: row for row in _rows(tables, "source")}
    chained = {row["id"] for row in _rows(tables, "group")}
    return tuple(
        _op_cost(row, sources.get(row["source_id"], {}), row["id"] in chained)
        for row in _rows(tables, "perf")
    )


def _op_cost(row: Mapping[str, str], source: Mapping[str, str], chained: bool) -> OpCost:
    key = source.get("ext_key", "")
    return OpCost(
        operator=row["operator"],
        name=row["name"],
        tosa_op=source.get("operator", ""),
        tosa_index=int(key) if key.isdigit() else None,
        op_cycles=int(row["op_cycles"]),
        npu_cycles=int(row["npu_cycles"]),
        macs=int(row["mac_count"]),
        staging_bytes=int(row["staging_usage"]),
        chained=chained,
        on_npu=row["operator"] != "Passthrough",
        access_cycles={
            name.removesuffix("_ac"): int(value)
            for name, value in row.items()
            if name.endswith("_ac") and not name.startswith(("shram", "lutram"))
        },
    )


def overhead_cycles(ops: tuple[OpCost, ...]) -> dict[str, int]:
    """Cycles of operations that compute nothing: lone RESCALE, TRANSPOSE and copies."""
    cycles = dict.fromkeys(OVERHEAD.values(), 0)
    for op in ops:
        if op.operator in OVERHEAD:
            cycles[OVERHEAD[op.operator]] += op.op_cycles
    return cycles


def _rows(tables: Mapping[str, Any], name: str) -> list[dict[str, str]]:
    """A table of the database as dictionaries; [] when Vela did not write it."""
    if name not in tables:
        return []
    table = tables[name]
    return [dict(zip(table.header, row, strict=False)) for row in table.data]
