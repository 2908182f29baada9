"""Where an FX node comes from in the user's model: source line and module path."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from types import TracebackType
from typing import Any

from npuc.ir import Loc

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')

# Frames of these packages are not the user's.
_INTERNAL = tuple(
    f"{os.sep}{name}{os.sep}"
    for name in ("torch", "torchao", "executorch", "npuc", "functorch", "importlib")
)


@lru_cache(maxsize=4096)
def is_users(file: str) -> bool:
    """Whether a source file is the user's (or a model library's), not PyTorch's or ours."""
    if file.startswith("<"):
        return False
    at = file.rfind(f"site-packages{os.sep}")
    inside = file[at + len("site-packages") :] if at >= 0 else file
    if at < 0:
        return not ("/src/npuc/" in file or re.search(r"/lib/python3[^/]*/", file))
    return not inside.startswith(_INTERNAL)


@lru_cache(maxsize=65536)
def line_of(stack_trace: str | None) -> tuple[str, int]:
    """File and line of the innermost frame that is the user's; of the innermost, if none is."""
    frames = _FRAME.findall(stack_trace or "")
    for file, line in reversed(frames):
        if is_users(file):
            return file, int(line)
    return (frames[-1][0], int(frames[-1][1])) if frames else ("", 0)


def module_of(stack: Any) -> str:
    """Path of the innermost module of `meta["nn_module_stack"]`: "features.3"."""
    if not stack:
        return ""
    path = next(reversed(stack.values()))[0]
    path = re.sub(r"\[['\"]?([^\]'\"]+)['\"]?\]", r".\1", str(path))
    path = re.sub(r"^L?\.?_*self_*\.?|^L__self___?", "", path).removeprefix("_modules.")
    return re.sub(r"^_export_root\.?", "", path)  # a strict export's name for the model


def loc_of(meta: dict[str, Any], name: str, op: str) -> Loc:
    """The location of an FX node with this `meta`; its op is the user's, which it may be a part of."""
    file, line = line_of(meta.get("stack_trace"))
    return Loc(file, line, module_of(meta.get("nn_module_stack")), name, meta.get("npuc_kind", op))


def users_line(traceback: TracebackType | None) -> str:
    """`file:line` of the innermost frame of the user's in a traceback; empty if there is none."""
    where = ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if is_users(file):
            where = f"{file}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return where
