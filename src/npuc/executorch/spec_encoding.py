"""How values of a compile spec are written as text and read back; errors name the key."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import Enum
from typing import Any

from npuc.errors import BadInput

#: keys that every compile spec may have
COMMON_KEYS = (
    "tosa_spec", "output_format", "compile_flags", "debug_artifact_path", "dump_debug_info",
    "output_order_workaround", "preserve_io_quantization", "tosa_sw_dev_mode",
    "transform_pipeline_config",
)  # fmt: skip


class DebugMode(Enum):
    """JSON: a file that maps ops to the model; TOSA: the same as locations inside of the .tosa."""

    JSON = "json"
    TOSA = "tosa"


def read_texts(compile_specs: Iterable[Any]) -> dict[str, str]:
    """Key -> text of each compile spec. BadInput for a key that is there twice, or no text."""
    found: dict[str, str] = {}
    for spec in compile_specs:
        if spec.key in found:
            raise BadInput(f"compile spec: key {spec.key!r} is there twice")
        try:
            found[spec.key] = bytes(spec.value).decode()
        except UnicodeDecodeError:
            raise BadInput(f"compile spec: key {spec.key!r}", why="its value is no text") from None
    return found


def flag(value: bool) -> str | None:
    """A flag as text; one that is off is not written."""
    return "true" if value else None


def is_set(found: dict[str, str], key: str) -> bool:
    """Whether a flag is on."""
    value = found.get(key, "false").lower()
    if value not in ("true", "false"):
        raise BadInput(f"compile spec: {key}={value!r}", hint="true or false")
    return value == "true"


def read_debug_mode(text: str | None) -> DebugMode | None:
    """The debug mode of this name."""
    if text is None:
        return None
    try:
        return DebugMode(text)
    except ValueError:
        raise BadInput(f"compile spec: dump_debug_info={text!r}", hint="json or tosa") from None


def read_json(found: dict[str, str], key: str) -> Any:
    """The value of a key that holds JSON; None when it is not there."""
    if key not in found:
        return None
    try:
        return json.loads(found[key])
    except ValueError as error:
        raise BadInput(f"compile spec: key {key!r} is no JSON", why=str(error)) from None
