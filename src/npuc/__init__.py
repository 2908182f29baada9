"""npuc: an ahead-of-time compiler from PyTorch models to NPUs."""

from __future__ import annotations

from typing import Any

from npuc.errors import BadInput, CheckFailed, NpucError, Reason, ToolMissing, Unsupported

__version__ = "0.1.0"

#: public names and the modules that define them, imported when they are first used
_LAZY = {
    "compile": "npuc.pipeline",
    "explain": "npuc.pipeline",
    "targets": "npuc.pipeline",
    "Target": "npuc.targets.target",
    "Recipe": "npuc.quantizer",
    "Compilation": "npuc.compilation",
    "register_custom_op": "npuc.lowering.custom_ops",
    "unregister_custom_op": "npuc.lowering.custom_ops",
}

__all__ = [
    "BadInput", "CheckFailed", "NpucError", "Reason", "ToolMissing", "Unsupported", *_LAZY,
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'npuc' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
