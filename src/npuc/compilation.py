"""The record of one compilation: the artifact, and everything a report or a script asks about it."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from npuc.boundary import IO, from_artifact, to_artifact
from npuc.c_header import c_header
from npuc.check.report import CheckReport
from npuc.errors import BadInput, NpucError
from npuc.ir import Graph
from npuc.lowering.lower import Verdict
from npuc.targets.target import Artifact, Target


@dataclass
class Coverage:
    """Per op of the model: on the target, or the reason why not. Iterates over Verdicts."""

    ops: list[Verdict]
    target: str

    def __iter__(self) -> Any:
        return iter(self.ops)

    def __len__(self) -> int:
        return len(self.ops)

    @property
    def refused(self) -> list[Verdict]:
        return [v for v in self.ops if not v.on_target]

    @property
    def supported(self) -> bool:
        return not self.refused

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "target": self.target,
            "total": len(self.ops),
            "on_target": len(self.ops) - len(self.refused),
            "ops": [
                {"name": v.name, "op": v.kind, "file": v.loc.file, "line": v.loc.line,
                 "module": v.loc.module, "on_target": v.on_target,
                 "reason": str(v.reason.why) if v.reason else None,
                 "hint": v.reason.hint or None if v.reason else None}
                for v in self.ops
            ],
        }  # fmt: skip


@dataclass
class Compilation:
    """What `npuc.compile` returns."""

    name: str
    target: Target
    graph: Graph
    output: Artifact
    io: IO
    coverage: Coverage
    check: CheckReport | None
    timings: dict[str, float]
    stages: dict[str, Graph] = field(default_factory=dict)
    quantization: str | None = None
    io_form: str = "float"
    program: Any = None
    state: list[Any] = field(default_factory=list)

    @property
    def artifact(self) -> bytes:
        """The bytes of the target's file."""
        return self.output.data

    @property
    def performance(self) -> dict[str, Any]:
        """Figures of the vendor's tool; empty where the target has none."""
        return dict(self.output.performance)

    @property
    def waste(self) -> dict[str, Any]:
        """Transposes, rescales and bytes moved that are left in the graph."""
        from npuc.passes.count_waste import count_waste

        return count_waste(self.graph)

    @property
    def graph_dialect(self) -> str:
        """The dialect of the compiled graph: "tosa" or "tflite"."""
        return self.target.dialect

    def run(self, *inputs: Any, on: str | None = None, **keywords: Any) -> Any:
        """Execute the compiled artifact on the model's inputs; returns the model's outputs.

        `on` chooses the executor: "evaluator" (npuc's own for TOSA, bit-exact for integers),
        "reference-model" (the TOSA reference model), "vulkan" (a VGF on the Vulkan driver),
        "litert" (a TFLite file in LiteRT on its own kernels), "litert-xnnpack" (on those that an
        application gets) or "executorch" (a .pte program with a VGF delegate in ExecuTorch's
        runtime, from the initial state); None: evaluator or litert.
        With io="float" float tensors are quantized and dequantized here, as the host does it.
        State (mutated buffers) is kept between calls; `reset()` sets it back.
        """
        inputs = (inputs, keywords) if keywords else inputs
        if on == "executorch":
            from npuc.executorch.execute_pte import run_compilation

            return run_compilation(self, inputs)
        from npuc.execute_artifact import execute_artifact

        arrays = self.input_arrays(inputs)
        outputs = execute_artifact(self, arrays, on)
        return self._outputs(outputs)

    def input_arrays(self, inputs: Sequence[Any]) -> list[Any]:
        """The model's inputs (and the state) as the artifact takes them."""
        flat = self.program.flatten_inputs(inputs)
        count = len(self.io.inputs) - len(self.io.state)
        if len(flat) != count:
            raise BadInput(f"{len(flat)} input tensors given, the artifact takes {count}")
        sizes: dict[str, int] = {}
        arrays = [to_artifact(x, port, sizes) for x, port in zip(flat, self.io.inputs)]
        return arrays + (self.state or self.initial_state)

    @property
    def initial_state(self) -> list[Any]:
        """The initial values of the state as the artifact stores them, in the order of its inputs.

        Feed them to the inputs behind the model's own in the first run, and in every later one what
        the paired outputs of the run before gave (`io.state`): the types are the same.
        """
        ports = self.io.inputs[len(self.io.inputs) - len(self.io.state) :]
        return [to_artifact(x, p) for x, p in zip(self.program.initial_state(), ports)]

    def reset(self) -> None:
        """Set the state back to the buffers' initial values."""
        self.state = []

    def _outputs(self, arrays: Sequence[Any]) -> Any:
        dtypes = self.program.output_dtypes()
        if self.io_form == "quantized":
            dtypes = [None] * len(dtypes)
        triples = zip(arrays, self.io.outputs, dtypes)
        tensors = [from_artifact(a, port, dtype) for a, port, dtype in triples]
        first = len(self.io.inputs) - len(self.io.state)
        written = {place - first: arrays[output] for output, place in self.io.state}
        self.state = [written[i] for i in range(len(written))]
        return self.program.unflatten_outputs(tensors)

    def save(self, directory: str | os.PathLike[str], name: str | None = None) -> list[Path]:
        """Write the artifact, its companions and a JSON report; returns the paths.

        Each file is written whole under a temporary name and then renamed, so that an error (a full
        disk) leaves no half-written file behind. Raises NpucError.
        """
        folder = Path(directory)
        stem = name or self.name
        files = {self.output.suffix: self.artifact, **self.output.files}
        files[".json"] = json.dumps(self.as_dict(), indent=1).encode()
        files[".mlir"] = str(self.graph).encode()
        if self.target.options.get("c_header"):
            files[".h"] = c_header(stem, self.io).encode()
        if self.io.state:
            files[".state.npz"] = self._state_file()
        written: list[Path] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for suffix, data in files.items():
                written.append(_write(folder / (stem + suffix), data))
        except OSError as error:
            for path in written:
                path.unlink(missing_ok=True)
            raise NpucError(f"cannot write to {folder}", why=error.strerror or str(error)) from None
        return written

    def _state_file(self) -> bytes:
        """The initial state as an .npz with an array per input, under its name."""
        first = len(self.io.inputs) - len(self.io.state)
        names = [port.name for port in self.io.inputs[first:]]
        arrays = dict(zip(names, map(_raw, self.initial_state)))
        file = io.BytesIO()
        np.savez(file, **arrays)
        return file.getvalue()

    def as_dict(self) -> dict[str, Any]:
        """For JSON: everything but the graphs and bytes."""
        return {
            "model": self.name,
            "target": self.target.name,
            "quantization": self.quantization,
            "artifact": {"suffix": self.output.suffix, "bytes": len(self.artifact)},
            "io": {
                "form": self.io_form,
                "inputs": [p.as_dict() for p in self.io.inputs],
                "outputs": [p.as_dict() for p in self.io.outputs],
                "state": [list(s) for s in self.io.state],
                "sizes": {name: list(bounds) for name, bounds in self.io.sizes.items()},
            },
            "coverage": self.coverage.as_dict(),
            "waste": self.waste,
            "performance": _plain(self.performance),
            "check": self.check.as_dict() if self.check else None,
            "timings": self.timings,
        }


def _raw(array: np.ndarray) -> np.ndarray:
    """An array of a type that files of numpy have: bfloat16 as uint16, float8 as uint8."""
    known = array.dtype.kind in "biuf" and array.dtype.isbuiltin == 1
    return array if known else array.view(f"u{array.dtype.itemsize}")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)


def _write(path: Path, data: bytes) -> Path:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return path
