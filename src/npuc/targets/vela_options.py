"""The options of Vela's command line that change its result, checked and written for regor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from npuc.errors import BadInput

_CHOICES = {
    "optimise": ("Performance", "Size"),
    "tensor_allocator": ("LinearAlloc", "Greedy", "HillClimb"),
    "cop_format": ("COP1", "COP2"),
}

# Option -> name of the scheduler feature that it switches off, in the order of the command line.
_FEATURES = {
    "disable_chaining": "Grouping",
    "disable_fwd": "FWD",
    "disable_cascading": "Cascading",
    "disable_buffering": "WeightBuffering",
    "disable_ifm_reuse": "ReuseIFM",
}


@dataclass(frozen=True, slots=True)
class VelaOptions:
    """Options with the defaults of the command line; names as there, with underscores."""

    optimise: str = "Performance"
    arena_cache_size: int | None = None
    tensor_allocator: str = "HillClimb"
    cop_format: str = "COP1"
    cpu_tensor_alignment: int = 16
    separate_io_regions: bool = False
    disable_chaining: bool = False
    disable_fwd: bool = False
    disable_cascading: bool = False
    disable_buffering: bool = False
    disable_ifm_reuse: bool = False
    verbose_high_level_command_stream: bool = False
    verbose_register_command_stream: bool = False
    verbose_schedule: bool = False
    verbose_allocation: bool = False
    verbose_graph: bool = False

    @property
    def is_verbose(self) -> bool:
        """True when Vela prints something that the caller asked for."""
        return any(getattr(self, f.name) for f in fields(self) if f.name.startswith("verbose_"))

    def text(self, arena_size_limit: int, output_format: str = "Raw") -> str:
        """The configuration text that regor takes, with the performance tables."""
        disabled = "|".join(name for option, name in _FEATURES.items() if getattr(self, option))
        lines = ["", "[compiler]"]
        lines += _flag("verbose_high_level_command_stream", self.verbose_high_level_command_stream)
        lines += _flag("verbose_register_command_stream", self.verbose_register_command_stream)
        lines += ["enable_db=true", f"output_format={output_format}"]
        lines += [f"cop_format={self.cop_format}", ""]
        lines += ["[scheduler]", f"optimize={self.optimise}"]
        lines += [f"arena_size_limit={arena_size_limit}"]
        lines += _flag("verbose", self.verbose_schedule)
        lines += _flag("verbose_allocation", self.verbose_allocation)
        lines += [f"disable_feature={disabled}"]
        lines += _flag("separate_io_regions", self.separate_io_regions)
        lines += [f"cpu_tensor_alignment={self.cpu_tensor_alignment}"]
        lines += [f"tensor_allocator={self.tensor_allocator}", "", "[graph]"]
        lines += _flag("verbose", self.verbose_graph)
        return "\n".join(lines) + "\n"


def parse_options(given: Mapping[str, object]) -> VelaOptions:
    """Options from names (dashes or underscores) and values (text or Python values).

    Raises BadInput for an unknown name, with all names, and for a value that does not fit.
    """
    known = {field.name: field.type for field in fields(VelaOptions)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        field = name.strip().lstrip("-").replace("-", "_")
        if field not in known:
            names = ", ".join(sorted(name.replace("_", "-") for name in known))
            raise BadInput(f"unknown Vela option {name!r}", hint=f"one of {names}")
        values[field] = _convert(field, str(known[field]), value)
    options = VelaOptions(**values)
    alignment = options.cpu_tensor_alignment
    if alignment < 16 or alignment & (alignment - 1):
        raise BadInput(
            "Vela option 'cpu-tensor-alignment'", why=f"{alignment} is no power of 2 from 16 on"
        )
    return options


def _convert(field: str, type_name: str, value: object) -> str | int | bool:
    name = field.replace("_", "-")
    if field in _CHOICES:
        if value not in _CHOICES[field]:
            choices = ", ".join(_CHOICES[field])
            raise BadInput(f"Vela option {name!r}: {value!r}", hint=f"one of {choices}")
        return str(value)
    if type_name == "bool":
        return _convert_flag(name, value)
    try:
        return int(str(value), 0)
    except ValueError:
        raise BadInput(f"Vela option {name!r}", why=f"{value!r} is not a whole number") from None


def _convert_flag(name: str, value: object) -> bool:
    words = {"true": True, "1": True, "yes": True, "": True}
    words |= {"false": False, "0": False, "no": False}
    text = str(value).lower()
    if text not in words:
        raise BadInput(f"Vela option {name!r}", why=f"{value!r} is neither true nor false")
    return words[text]


def _flag(name: str, value: bool) -> list[str]:
    return [f"{name}=true"] if value else []
