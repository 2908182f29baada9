"""Resolve the unknown sizes of a TOSA file for given input shapes, with Arm's `infer_shapes`.

The reference model executes static shapes only. The tool computes the shapes of a TOSA 1.1 file
from those of its inputs by itself: so it is a second opinion on the shape arithmetic in the file.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from npuc.errors import NpucError, ToolMissing
from npuc.execute.vgf_file import output_of, run_tool


def infer_shapes(tosa_bytes: bytes, shapes: Mapping[str, Sequence[int]]) -> bytes:
    """The TOSA file with all shapes known. `shapes` are those of the inputs, by name.

    Raises ToolMissing without tosa-tools and NpucError with the tool's words when it fails.
    """
    tool = _find_tool()
    with tempfile.TemporaryDirectory(prefix="npuc-") as folder:
        source, job = Path(folder, "model.tosa"), Path(folder, "job.json")
        source.write_bytes(tosa_bytes)
        sizes = {name: [int(d) for d in shape] for name, shape in shapes.items()}
        job.write_text(json.dumps({"tosa_file": str(source), "shapes": sizes}))
        done = run_tool([str(tool), str(job)])
        resolved = Path(folder, "resolved_model.tosa")
        if done.returncode == 0 and resolved.exists():
            return resolved.read_bytes()
    raise NpucError("infer_shapes cannot resolve the shapes of this graph",
                    why=output_of(done) or f"status {done.returncode}")  # fmt: skip


def _find_tool() -> Path:
    try:
        import tosa_reference_model
    except ImportError:
        raise ToolMissing("tosa-tools", "pip install tosa-tools==2026.8.0") from None
    tool = Path(str(tosa_reference_model.__file__)).parents[1] / "bin" / "infer_shapes"
    if not tool.exists():
        raise ToolMissing("infer_shapes of tosa-tools", "pip install tosa-tools==2026.8.0")
    return tool
