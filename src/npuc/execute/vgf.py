"""Execute a VGF file through Vulkan, in a child process.

The driver, the layers and the scenario runner are native code that may crash at exit, and the
loader must be chosen before the first Vulkan call: so `python -m npuc.execute.vgf FOLDER` does the
work, and this module's functions only write and read the files of FOLDER.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from npuc.errors import BadInput, NpucError, ToolMissing
from npuc.execute.vgf_file import VgfPort, describe_vgf, read_ports
from npuc.execute.vulkan import find_vulkan

INSTALL_RUNNER = "pip install ai-ml-sdk-scenario-runner==0.11.0"

Arrays = Sequence[npt.NDArray[Any]]

# Vulkan format -> scenario runner's name, dtype of arrays in the file, numpy or ml_dtypes name.
_FORMATS = {
    "VK_FORMAT_R8_BOOL_ARM": ("R8BoolArm", "bool", "bool"),
    "VK_FORMAT_R8_SINT": ("R8Sint", "int8", "int8"),
    "VK_FORMAT_R8_UINT": ("R8Uint", "uint8", "uint8"),
    "VK_FORMAT_R16_SINT": ("R16Sint", "int16", "int16"),
    "VK_FORMAT_R16_UINT": ("R16Uint", "uint16", "uint16"),
    "VK_FORMAT_R32_SINT": ("R32Sint", "int32", "int32"),
    "VK_FORMAT_R32_UINT": ("R32Uint", "uint32", "uint32"),
    "VK_FORMAT_R64_SINT": ("R64Sint", "int64", "int64"),
    "VK_FORMAT_R16_SFLOAT": ("R16Sfloat", "float16", "float16"),
    "VK_FORMAT_R32_SFLOAT": ("R32Sfloat", "float32", "float32"),
    "VK_FORMAT_R16_SFLOAT_FPENCODING_BFLOAT16_ARM": ("R16Bfloat16Arm", "uint16", "bfloat16"),
    "VK_FORMAT_R8_SFLOAT_FPENCODING_FLOAT8E4M3_ARM": ("R8Float8E4M3Arm", "uint8", "float8_e4m3fn"),
    "VK_FORMAT_R8_SFLOAT_FPENCODING_FLOAT8E5M2_ARM": ("R8Float8E5M2Arm", "uint8", "float8_e5m2"),
}


def run_vgf(
    vgf_bytes: bytes, arrays: Arrays, timeout_seconds: float = 600
) -> list[npt.NDArray[Any]]:
    """Execute a VGF file on `arrays` (order, shape and dtype of its inputs); return its outputs.

    Raises BadInput for arrays that do not fit, ToolMissing when loader, driver, layers or scenario
    runner are not there, NpucError when the run fails or takes longer than `timeout_seconds`.
    """
    return run_vgf_batches(vgf_bytes, [arrays], timeout_seconds)[0]


def run_vgf_batches(
    vgf_bytes: bytes, batches: Sequence[Arrays], timeout_seconds: float = 600
) -> list[list[npt.NDArray[Any]]]:
    """`run_vgf` for several sets of inputs in one process: shaders are compiled once."""
    inputs, outputs = read_ports(describe_vgf(vgf_bytes))
    for arrays in batches:
        _check_inputs(inputs, arrays)
    if find_spec("scenario_runner_py") is None:
        raise ToolMissing("Arm's scenario runner", INSTALL_RUNNER)
    setup = find_vulkan()
    with tempfile.TemporaryDirectory(prefix="npuc-vgf-") as name:
        folder = Path(name)
        (folder / "model.vgf").write_bytes(vgf_bytes)
        for batch, arrays in enumerate(batches):
            raw = [_to_bits(p, array) for p, array in zip(inputs, arrays, strict=True)]
            np.savez(folder / f"inputs_{batch}.npz", *raw)
        layers = folder / "layers"
        layers.mkdir()
        environment = {
            **os.environ,
            **setup.environment(layers),
            "NPUC_VULKAN_LOADER": str(setup.loader),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        _run_child(folder, environment, timeout_seconds)
        return [_read_outputs(folder, batch, outputs) for batch in range(len(batches))]


def _run_child(folder: Path, environment: dict[str, str], timeout_seconds: float) -> None:
    command = [sys.executable, "-m", "npuc.execute.vgf", str(folder)]
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_seconds,
        )
    except subprocess.TimeoutExpired:
        raise NpucError(
            "the VGF file was not executed",
            why=f"no result after {timeout_seconds:g} s",
            hint="give more time, or check large networks with the TOSA reference model",
        ) from None
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise NpucError(
            "the VGF file was not executed",
            why="; ".join([f"status {done.returncode}", *lines[-6:]]),
            hint="npuc doctor shows whether Vulkan runs here",
        )


def _read_outputs(folder: Path, batch: int, ports: list[VgfPort]) -> list[npt.NDArray[Any]]:
    with np.load(folder / f"outputs_{batch}.npz") as saved:
        return [
            saved[f"arr_{index}"].view(array_dtype(port)).reshape(port.shape)
            for index, port in enumerate(ports)
        ]


def array_dtype(port: VgfPort) -> np.dtype[Any]:
    """numpy (or ml_dtypes) dtype of the arrays of a port. Raises NpucError for other formats."""
    import ml_dtypes

    name = _format(port)[2]
    return np.dtype(getattr(ml_dtypes, name, name))


def _check_inputs(ports: list[VgfPort], arrays: Arrays) -> None:
    if len(ports) != len(arrays):
        raise BadInput(f"{len(arrays)} arrays for a VGF file with {len(ports)} inputs")
    for port, array in zip(ports, arrays, strict=True):
        dtype = array_dtype(port)
        if array.dtype != dtype or array.shape != port.shape:
            raise BadInput(
                f"input {port.name!r}",
                why=f"got {array.dtype}{list(array.shape)}, "
                f"the VGF file takes {dtype}{list(port.shape)}",
            )


def _to_bits(port: VgfPort, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array as the scenario runner takes it: bits for the types that numpy has not."""
    dense = np.ascontiguousarray(array).reshape(port.shape)
    return dense.view(_format(port)[1])


def _format(port: VgfPort) -> tuple[str, str, str]:
    if port.vk_format not in _FORMATS:
        raise NpucError(
            f"VGF tensor {port.name!r} has format {port.vk_format}", why="npuc cannot execute it"
        )
    return _FORMATS[port.vk_format]


def execute_folder(folder: Path) -> None:
    """The child's work: inputs_N.npz of the folder through model.vgf to outputs_N.npz."""
    # Same soname as the system's loader: whoever loads Vulkan later gets this one.
    ctypes.CDLL(os.environ["NPUC_VULKAN_LOADER"], ctypes.RTLD_GLOBAL)
    import scenario_runner_py as runner

    vgf_path = folder / "model.vgf"
    inputs, outputs = read_ports(describe_vgf(vgf_path.read_bytes()))
    builder = runner.ScenarioBuilder()
    tensors = {}  # two outputs, or an input and an output, may share one binding
    for port in (*inputs, *outputs):
        if port.binding not in tensors:
            layout = getattr(runner.Format, _format(port)[0])
            tensors[port.binding] = builder.add_tensor(list(port.shape), layout)
    model = runner.VgfInfo()
    model.load_source(str(vgf_path))
    dispatch = runner.DispatchVgfData(builder.add_vgf(model))
    kind = runner.DescriptorType.TensorArm
    dispatch.bindings = [
        runner.TypedBinding(0, binding, tensor, kind) for binding, tensor in tensors.items()
    ]
    builder.add_dispatch_vgf(dispatch)
    scenario = builder.build()
    for batch in range(len(list(folder.glob("inputs_*.npz")))):
        with np.load(folder / f"inputs_{batch}.npz") as given:
            for index, port in enumerate(inputs):
                scenario.upload(tensors[port.binding], given[f"arr_{index}"])
        scenario.run()
        results = [_downloaded(scenario, tensors[port.binding], port) for port in outputs]
        np.savez(folder / f"outputs_{batch}.npz", *results)


def _downloaded(scenario: Any, tensor: Any, port: VgfPort) -> npt.NDArray[Any]:
    raw = np.ascontiguousarray(scenario.download(tensor))
    return raw.reshape(port.shape).view(_format(port)[1])


if __name__ == "__main__":
    execute_folder(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # the Vulkan layers crash while the interpreter shuts down
