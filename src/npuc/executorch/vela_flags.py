"""Options of Vela's command line, as users write them, sorted into what npuc passes to Vela."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields

from npuc.errors import BadInput
from npuc.targets.vela_options import VelaOptions, parse_options

#: options that only make Vela's command line print or write more; the result is the same
_ONLY_PRINT = ("enable_debug_db", "show_cpu_operations", "show_subgraph_io_summary", "timing")


@dataclass(frozen=True)
class VelaSettings:
    """What a list of flags says: names of sections, the file they are in, further options."""

    system_config: str | None = None
    memory_mode: str | None = None
    config: str | None = None
    options: dict[str, str] = field(default_factory=dict)


def vela_settings(flags: Sequence[str]) -> VelaSettings:
    """Read flags such as "--optimise=Size", or "--optimise", "Size".

    Flags that only make Vela print more are accepted and left out. Raises BadInput for what is no
    option of Vela, for a value that does not fit, and for an output format that is not raw.
    """
    known = {f.name for f in fields(VelaOptions)}
    found: dict[str, str] = {}
    options: dict[str, str] = {}
    for name, value in _pairs(flags):
        key = name.replace("-", "_")
        if key in ("system_config", "memory_mode", "config"):
            found[key] = value
        elif key == "output_format":
            if value != "raw":
                raise BadInput(
                    f"Vela option output-format={value}", why="a delegate holds raw output"
                )
        elif key in known:
            options[name] = value
        elif key not in (*_ONLY_PRINT, "accelerator_config") and not key.startswith("verbose_"):
            options[name] = value  # parse_options knows what to say
    parse_options(options)
    return VelaSettings(
        found.get("system_config"), found.get("memory_mode"), found.get("config"), options
    )


def _pairs(flags: Iterable[str]) -> list[tuple[str, str]]:
    """(name without dashes, value or "") of each flag."""
    found: list[tuple[str, str]] = []
    for flag in map(str, flags):
        if flag.startswith("--"):
            name, _, value = flag[2:].partition("=")
            found.append((name, value))
        elif found and not found[-1][1]:
            found[-1] = (found[-1][0], flag)
        else:
            raise BadInput(f"{flag!r} is no option of Vela", hint="the form is --name=value")
    return found
