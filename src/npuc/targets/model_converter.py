"""Make a VGF file from a TOSA file with Arm's model-converter."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from npuc.errors import NpucError, ToolMissing
from npuc.execute.tosa_signature import check_tosa
from npuc.execute.vgf_file import describe_vgf, find_binary, output_of, run_tool

__all__ = ["convert_to_vgf", "describe_vgf"]

INSTALL = "pip install ai-ml-sdk-model-converter==0.11.0"


def convert_to_vgf(tosa_bytes: bytes, extra_args: Sequence[str] = ()) -> bytes:
    """The VGF file of a TOSA file. `extra_args` are passed on ("--emit-debug-info").

    Raises BadInput for bytes that are no TOSA file, ToolMissing without the converter, and
    NpucError with its words and the command that repeats the failure when it refuses the graph.
    """
    check_tosa(tosa_bytes)
    tool = find_binary("model_converter", "model-converter")
    if tool is None:
        raise ToolMissing("model-converter (ai-ml-sdk-model-converter)", INSTALL)
    with tempfile.TemporaryDirectory(prefix="npuc-") as folder:
        source, target = Path(folder, "model.tosa"), Path(folder, "model.vgf")
        source.write_bytes(tosa_bytes)
        # Not through stdout: the tool prints warnings there.
        done = run_tool([str(tool), "-i", str(source), "-o", str(target), *extra_args])
        if done.returncode == 0 and target.exists():
            return target.read_bytes()
    repeat = shlex.join([tool.name, "-i", "model.tosa", "-o", "model.vgf", *extra_args])
    raise NpucError(
        "model-converter cannot convert this graph",
        why=output_of(done) or f"status {done.returncode}",
        hint=f"to repeat, on the TOSA file of this compilation: {repeat}",
    )
