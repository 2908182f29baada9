"""Finds a target by name."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from npuc.errors import BadInput
from npuc.targets.target import Target

#: names shown as examples of the TOSA targets; any specification string works
TOSA_EXAMPLES = (
    "tosa-1.0+fp", "tosa-1.0+int", "tosa-1.0+int+fp", "tosa-1.0+int+int16+int4+cf",
    "tosa-1.0+fp+bf16", "tosa-1.1+int+fp+int64+shape",
)  # fmt: skip


def target_names() -> list[str]:
    """All names, TOSA ones as examples."""
    from npuc.targets.neutron import NAMES
    from npuc.targets.tflite import DESCRIPTIONS
    from npuc.targets.vela import ACCELERATORS

    return [*TOSA_EXAMPLES, "vgf", *ACCELERATORS, *DESCRIPTIONS, *NAMES]


def find_target(name: str | Target, options: Mapping[str, Any] | None = None) -> Target:
    """The target called `name`; BadInput with the nearest names where there is none."""
    if isinstance(name, Target):
        return name.with_options(options or {})
    return _make(name, options or {}).with_options(options or {})


def _make(name: str, options: Mapping[str, Any]) -> Target:
    from npuc.targets.ethos_u import ethos_u_target
    from npuc.targets.ethos_u_tflite import ethos_u_tflite_target
    from npuc.targets.neutron import NAMES, neutron_target
    from npuc.targets.tflite import DESCRIPTIONS, tflite_target
    from npuc.targets.tosa import tosa_target
    from npuc.targets.vela import ACCELERATORS
    from npuc.targets.vgf import vgf_target

    lower = str(name).lower()
    if lower in ACCELERATORS and options.get("route") == "tflite":
        return ethos_u_tflite_target(lower)
    if lower in ACCELERATORS:
        return ethos_u_target(lower)
    if lower in NAMES:
        return neutron_target(lower, options)
    if lower in DESCRIPTIONS:
        return tflite_target(lower)
    if lower == "vgf":
        return vgf_target(lower)
    if lower.startswith("tosa-"):
        return tosa_target(str(name))
    near = difflib.get_close_matches(lower, target_names(), 3, 0.4)
    hint = f"nearest: {', '.join(near)}" if near else "`npuc targets` lists them"
    raise BadInput(f"unknown target {name!r}", hint=hint)


def targets() -> dict[str, str]:
    """Every target's name and what it is."""
    return {name: _make(name, {}).description for name in target_names()}
