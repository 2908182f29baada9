"""What a VGF file says about itself, through Arm's `vgf_dump`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from npuc.errors import BadInput, NpucError, ToolMissing

INSTALL = "pip install ai-ml-sdk-vgf-library==0.11.0"

TIMEOUT_SECONDS = 300


@dataclass(frozen=True, slots=True)
class VgfPort:
    """A tensor that the host binds: `vk_format` is Vulkan's name, e.g. "VK_FORMAT_R8_SINT"."""

    name: str
    binding: int
    vk_format: str
    shape: tuple[int, ...]


def describe_vgf(vgf_bytes: bytes) -> dict[str, Any]:
    """The content of a VGF file as `vgf_dump` prints it.

    Keys: header, modules, resources, constants, model_sequence (inputs, outputs, segments).
    Raises BadInput when the bytes are no VGF file, ToolMissing without vgf_dump.
    """
    tool = find_binary("vgf_lib", "vgf_dump")
    if tool is None:
        raise ToolMissing("vgf_dump (ai-ml-sdk-vgf-library)", INSTALL)
    with tempfile.TemporaryDirectory(prefix="npuc-") as folder:
        source, target = Path(folder, "model.vgf"), Path(folder, "model.json")
        source.write_bytes(vgf_bytes)
        done = run_tool([str(tool), "-i", str(source), "-o", str(target)])
        if done.returncode != 0:
            raise BadInput("not a VGF file", why=output_of(done) or f"status {done.returncode}")
        described: dict[str, Any] = json.loads(target.read_text())
    return described


def read_ports(description: dict[str, Any]) -> tuple[list[VgfPort], list[VgfPort]]:
    """Inputs and outputs of the model in the order of the file, from `describe_vgf`."""
    resources = {resource["index"]: resource for resource in description["resources"]}

    def ports(entries: list[dict[str, Any]]) -> list[VgfPort]:
        found = []
        for entry in entries:
            resource = resources[entry["mrt_index"]]
            shape = tuple(int(size) for size in resource["shape"])
            found.append(VgfPort(entry["name"], entry["binding"], resource["vk_format"], shape))
        return found

    sequence = description["model_sequence"]
    return ports(sequence["inputs"]), ports(sequence["outputs"])


def find_binary(package: str, name: str) -> Path | None:
    """The program `name` that the Python package `package` ships; None when it is not there."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    suffix = ".exe" if sys.platform == "win32" else ""
    path = Path(spec.submodule_search_locations[0], "binaries", "bin", name + suffix)
    return path if os.access(path, os.X_OK) else None


def run_tool(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a program, its output caught. Raises NpucError when it takes too long or cannot start."""
    name = Path(command[0]).name
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise NpucError(
            name, why=f"no result after {TIMEOUT_SECONDS} s", hint=" ".join(command)
        ) from None
    except OSError as error:
        raise NpucError(name, why=f"cannot be started: {error}") from None


def output_of(done: subprocess.CompletedProcess[str]) -> str:
    """What a program printed, on one line, without its remarks on the specification's version."""
    lines = [line.strip() for line in (done.stderr + "\n" + done.stdout).splitlines()]
    skip = ("VGF [debug]", "WARNING: Different TOSA spec", "^")
    return "; ".join(line for line in lines if line and not line.startswith(skip))
