"""Execute a .pte program in ExecuTorch's Python runtime, in a child process.

The runtime's VGF backend crashes while the process exits, and the Vulkan loader must be chosen
before the first call: so `python -m npuc.executorch.execute_pte FOLDER` does the work, and
`run_pte` only writes and reads the files of FOLDER.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuc.boundary import TO_NCHW, TensorIO, to_artifact
from npuc.errors import BadInput, NpucError, ToolMissing

if TYPE_CHECKING:
    from npuc.compilation import Compilation

INSTALL = "pip install executorch==1.4.1"


def run_pte(
    program: bytes,
    calls: Sequence[Sequence[Any]],
    method: str = "forward",
    timeout_seconds: float = 600,
) -> list[list[Any]]:
    """Execute `method` once per element of `calls` (tuples of tensors), in one loaded program.

    Returns the flat outputs of each call. Raises ToolMissing without ExecuTorch or, for a program
    with a VGF delegate, without Vulkan; NpucError with the runtime's words when it fails.
    """
    return run_pte_methods(program, [(method, call) for call in calls], timeout_seconds)


def run_compilation(c: Compilation, inputs: Sequence[Any]) -> Any:
    """The model's outputs, computed by ExecuTorch from the compilation's program.

    Raises BadInput for an artifact that is no program; otherwise as `run_pte`.
    """
    import torch.utils._pytree as pytree

    if c.output.suffix != ".pte":
        raise BadInput(
            f"a {c.output.suffix} file does not run in ExecuTorch", hint='compile with format="pte"'
        )
    tensors = iter(zip(c.program.flatten_inputs(inputs), c.io.inputs))
    given = [
        _entered(*next(tensors), c.io_form) if leaf.is_tensor else leaf.constant
        for leaf in c.program.inputs
    ]
    return pytree.tree_unflatten(run_pte(c.artifact, [given])[0], c.program.out_spec)


def _entered(x: Any, port: TensorIO, io_form: str) -> Any:
    """A tensor of the model as the program's method takes it."""
    import torch

    if io_form == "quantized":
        array = torch.from_numpy(to_artifact(x, port))
        return array.permute(TO_NCHW) if port.layout == "channels_last" else array
    is_nhwc = port.layout == "channels_last"
    return x.contiguous(memory_format=torch.channels_last if is_nhwc else torch.contiguous_format)


def run_pte_methods(
    program: bytes, calls: Sequence[tuple[str, Sequence[Any]]], timeout_seconds: float = 600
) -> list[list[Any]]:
    """`run_pte` for calls (name of the method, its inputs) of several methods."""
    import torch

    with tempfile.TemporaryDirectory(prefix="npuc-pte-") as name:
        folder = Path(name)
        (folder / "model.pte").write_bytes(program)
        torch.save([(method, tuple(inputs)) for method, inputs in calls], folder / "inputs.pt")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        if b"VgfBackend" in program:
            from npuc.execute.vulkan import find_vulkan

            setup = find_vulkan()
            layers = folder / "layers"
            layers.mkdir()
            environment |= {**setup.environment(layers), "NPUC_VULKAN_LOADER": str(setup.loader)}
        _run_child(folder, environment, timeout_seconds)
        return torch.load(folder / "outputs.pt")  # type: ignore[no-any-return]


def _run_child(folder: Path, environment: dict[str, str], timeout_seconds: float) -> None:
    command = [sys.executable, "-m", "npuc.executorch.execute_pte", str(folder)]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace",
            timeout=timeout_seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise NpucError(
            "the .pte program was not executed", why=f"no result after {timeout_seconds:g} s"
        ) from None
    if done.returncode == _NO_EXECUTORCH:
        raise ToolMissing("ExecuTorch's Python runtime", INSTALL)
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise NpucError(
            "the .pte program was not executed",
            why="; ".join([f"status {done.returncode}", *lines[-6:]]),
        )


_NO_EXECUTORCH = 77


def execute_folder(folder: Path) -> None:
    """The child's work: inputs.pt of the folder through model.pte to outputs.pt."""
    if "NPUC_VULKAN_LOADER" in os.environ:
        # Same soname as the system's loader: whoever loads Vulkan later gets this one.
        ctypes.CDLL(os.environ["NPUC_VULKAN_LOADER"], ctypes.RTLD_GLOBAL)
    import torch

    try:
        from executorch.extension.pybindings import _portable_lib
    except ImportError:
        os._exit(_NO_EXECUTORCH)
    torch.set_num_threads(1)
    _load_quantized_kernels()
    calls = torch.load(folder / "inputs.pt", weights_only=False)
    data = (folder / "model.pte").read_bytes()  # the module does not keep it alive
    module = _portable_lib._load_for_executorch_from_buffer(data)
    outputs = []
    for method, inputs in calls:
        results = module.run_method(method, inputs)
        outputs.append([r.clone() if isinstance(r, torch.Tensor) else r for r in results])
    torch.save(outputs, folder / "outputs.pt")


def _load_quantized_kernels() -> None:
    """Register the quantize and dequantize kernels; importing executorch.kernels takes seconds."""
    import executorch
    import torch

    for root in map(Path, executorch.__path__):
        for library in root.glob("kernels/quantized/*quantized_ops_aot_lib.*"):
            torch.ops.load_library(str(library))


if __name__ == "__main__":
    execute_folder(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # the VGF backend crashes while the interpreter shuts down
