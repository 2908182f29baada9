"""Reports on the terminal, with rich, on stderr."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from npuc.report.units import byte_text, count_text

if TYPE_CHECKING:
    from npuc.compilation import Compilation, Coverage


def console() -> Console:
    """The console of all human output: stderr, so that stdout stays for data."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def summary_line(c: Compilation) -> str:
    """`NPU 64 of 64 ops, 1.03 M cycles, 22 kB SRAM, check: exact`."""
    total = len(c.coverage)
    parts = [f"NPU {total - len(c.coverage.refused)} of {total} ops"]
    cycles, sram = c.performance.get("total_cycles"), c.performance.get("sram_peak")
    if cycles is not None:
        parts.append(f"{count_text(cycles)} cycles")
    if sram is not None:
        parts.append(f"{byte_text(sram)} SRAM")
    if cycles is None:
        parts.append(f"{byte_text(len(c.artifact))} {c.output.suffix}")
    parts.append(f"check: {c.check.summary() if c.check else 'skipped'}")
    return ", ".join(parts)


def show_compilation(c: Compilation, paths: Sequence[Path], verbose: bool = False) -> None:
    """The summary line, then what costs, what is left, where it is written."""
    out = console()
    out.print(f"[bold]{escape(c.name)}[/] on [bold]{c.target.name}[/]: {summary_line(c)}")
    if verbose:
        out.print(coverage_table(c.coverage, True))
    left = ", ".join(f"{v} {k.replace('_', ' ')}" for k, v in c.waste.items() if v)
    out.print(f"  left in the graph: {left or 'no data movement, no rescales'}")
    overhead = c.performance.get("overhead") or {}
    costs = ", ".join(f"{k} {count_text(v)}" for k, v in overhead.items() if v)
    if costs:
        out.print(f"  cycles spent on nothing but: {costs}")
    for text in dict.fromkeys(c.performance.get("cpu_operators") or ()):
        out.print(f"  [yellow]on the CPU:[/] {escape(text)}")
    for port in (*c.io.inputs, *c.io.outputs):
        kind = "in " if port in c.io.inputs else "out"
        quant = f", scale {port.scale:.6g}, zero point {port.zero_point}" if port.scale else ""
        shape = "x".join(map(str, port.artifact_shape))
        out.print(f"  {kind} {escape(port.name)}: {port.dtype} {shape} {port.layout}{quant}")
    kernels = getattr(c, "kernels", None)
    if kernels:
        out.print(f"  the host computes the rest with the kernels {', '.join(kernels)}")
    times = ", ".join(f"{k} {v:.2f}" for k, v in c.timings.items())
    out.print(f"  seconds: {times}")
    for path in paths:
        out.print(f"  wrote {path} ({byte_text(path.stat().st_size)})")


def coverage_table(coverage: Coverage, everything: bool) -> Table:
    """A row per op: name, kind, place, and the reason where it is refused."""
    table = Table(box=None, pad_edge=False)
    for column in ("op", "at", "on target", "why not"):
        table.add_column(column, overflow="fold")
    for v in coverage:
        if v.on_target and not everything:
            continue
        why = ""
        if v.reason:
            why = v.reason.why + (f"; {v.reason.hint}" if v.reason.hint else "")
        table.add_row(v.kind, str(v.loc), "yes" if v.on_target else "[red]no[/]", escape(why))
    return table


def show_coverage(coverage: Coverage, everything: bool = False) -> None:
    """How many ops the target takes, and a table of those it does not."""
    out = console()
    total, refused = len(coverage), len(coverage.refused)
    out.print(f"{coverage.target}: {total - refused} of {total} ops")
    if refused or everything:
        out.print(coverage_table(coverage, everything))


def show_pairs(first: str, second: str, pairs: Mapping[str, str]) -> None:
    """A table of two columns, on stdout: it is what the command is asked for."""
    table = Table(box=None, pad_edge=False)
    table.add_column(first, no_wrap=True)
    table.add_column(second, overflow="fold")
    for key, value in pairs.items():
        table.add_row(escape(key), escape(value))
    Console(highlight=False).print(table)


def show_tools(tools: Iterable[Any]) -> None:
    """What is installed, in which version, and how to get what is not."""
    table = Table(box=None, pad_edge=False)
    for column in ("tool", "for", "version", "state"):
        table.add_column(column, overflow="fold")
    for tool in tools:
        state = "[green]ok[/]" if tool.ok else f"[red]missing[/]: {escape(tool.how_to_install)}"
        table.add_row(tool.name, tool.purpose, tool.version or "-", state)
    Console(highlight=False).print(table)


def show_tree(title: str, data: Any) -> None:
    """Nested data as a tree, on stdout."""
    tree = Tree(escape(title))
    _grow(tree, data)
    Console(highlight=False).print(tree)


def _grow(tree: Tree, data: Any) -> None:
    items = data.items() if isinstance(data, Mapping) else enumerate(data)
    for key, value in items:
        if isinstance(value, (Mapping, list)) and value and not _is_flat(value):
            _grow(tree.add(escape(str(key))), value)
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            tree.add(escape(f"{key}: {text}"))


def _is_flat(value: Any) -> bool:
    return isinstance(value, list) and not any(isinstance(v, (Mapping, list)) for v in value)
