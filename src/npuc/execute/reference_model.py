"""Run a TOSA file on Arm's TOSA reference model: the oracle for every number that npuc computes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from npuc.errors import BadInput, NpucError, ToolMissing
from npuc.execute.capture_output import capture_output
from npuc.execute.tosa_signature import Port, Signature, read_signature

LEVELS = ("NONE", "EIGHTK")

# numpy has no type for these: the reference model takes and gives their bits.
_AS_BITS = {"BF16": np.uint16, "FP8E4M3": np.uint8, "FP8E5M2": np.uint8}

# The model refuses the first two as inputs, and returns an empty array, silently, for the others.
_NO_INPUT = ("INT4", "INT48")
_NO_OUTPUT = ("INT48", "SHAPE")

# Lines of its output that explain nothing.
_NOISE = ("WARNING", "Attaching debugger", "Caught signal", "Backtrace generation", "Node type")


def run_reference_model(
    tosa_bytes: bytes, arrays: Sequence[npt.NDArray[Any]], level: str = "EIGHTK"
) -> list[npt.NDArray[Any]]:
    """Execute `tosa_bytes` on `arrays` (graph input order) and return the graph's outputs.

    Arrays have the storage dtype of their input (`Port.storage`: ml_dtypes for BF16 and FP8) and
    exactly its shape; so have the results. Unknown sizes of the file are those of `arrays`.
    `level` is "EIGHTK" (limits of level 8K checked) or "NONE".

    Raises BadInput for arrays that do not fit or bytes that are no TOSA file, NpucError with the
    model's own words for an invalid graph, and NpucError when the specification leaves the result
    undefined for these inputs (UNPREDICTABLE).
    """
    if level not in LEVELS:
        raise BadInput(f"unknown TOSA level {level!r}", why=f"levels are {', '.join(LEVELS)}")
    tool = _reference_model()
    signature = read_signature(tosa_bytes)
    if any(size < 0 for port in signature.inputs for size in port.shape):
        tosa_bytes = _resolved(tosa_bytes, signature, arrays)
        signature = read_signature(tosa_bytes)
    _check_inputs(signature, arrays)
    bits = [_to_bits(port, array) for port, array in zip(signature.inputs, arrays, strict=True)]

    error: ValueError | None = None
    with capture_output() as captured, _without_debugger():
        try:
            results, status = tool.run(tosa_bytes, bits, tosa_level=level)
        except ValueError as raised:
            error = raised
    if error is not None:
        raise NpucError(f"TOSA reference model: {error}", why=explain_output(captured.text))
    if status.name != "TOSA_VALID":
        raise NpucError(
            f"TOSA reference model: {status.name}",
            why=explain_output(captured.text) or "the specification leaves the result undefined",
        )
    return [_from_bits(p, result) for p, result in zip(signature.outputs, results, strict=True)]


def _resolved(tosa_bytes: bytes, signature: Signature, arrays: Sequence[npt.NDArray[Any]]) -> bytes:
    """The file with its unknown sizes as these arrays have them."""
    from npuc.execute.infer_shapes import infer_shapes

    ports = [p.name for p in signature.inputs]
    return infer_shapes(tosa_bytes, dict(zip(ports, [a.shape for a in arrays], strict=False)))


def explain_output(text: str) -> str:
    """The lines of the model's output that say what is wrong, joined by "; "."""
    lines = [line.strip() for line in text.splitlines()]
    reasons = [
        line
        for line in lines
        if line and not line.startswith(_NOISE) and not _describes_tensor(line)
    ]
    return "; ".join(dict.fromkeys(reasons))


def _describes_tensor(line: str) -> bool:
    return line.startswith(("Input[", "Output[", "Inputs:", "Outputs:"))


def _check_inputs(signature: Signature, arrays: Sequence[npt.NDArray[Any]]) -> None:
    """The reference model compares element counts only: check everything else here."""
    if len(arrays) != len(signature.inputs):
        raise BadInput(f"{len(arrays)} arrays for a graph with {len(signature.inputs)} inputs")
    for port, array in zip(signature.inputs, arrays, strict=True):
        if port.dtype in _NO_INPUT:
            raise NpucError(
                f"input {port.name!r} is {port.dtype}",
                why="the TOSA reference model cannot take inputs of this type",
            )
        if array.dtype != port.storage or array.shape != port.shape:
            raise BadInput(
                f"input {port.name!r}",
                why=f"got {array.dtype}{list(array.shape)}, "
                f"the graph takes {port.storage}{list(port.shape)} ({port.dtype})",
            )
    for port in signature.outputs:
        if port.dtype in _NO_OUTPUT:
            raise NpucError(
                f"output {port.name!r} is {port.dtype}",
                why="the TOSA reference model returns nothing for outputs of this type",
                hint="end the graph with a RESCALE to INT32 or less",
            )


def _to_bits(port: Port, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    bits = _AS_BITS.get(port.dtype)
    contiguous = np.ascontiguousarray(array).reshape(port.shape)
    return contiguous if bits is None else contiguous.view(bits)


def _from_bits(port: Port, result: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(result).view(port.storage).reshape(port.shape)


@contextmanager
def _without_debugger() -> Iterator[None]:
    """Hide gdb: on an invalid graph the model would fork it for a backtrace, a second each time."""
    path = os.environ.get("PATH")
    os.environ["PATH"] = os.devnull
    try:
        yield
    finally:
        if path is None:
            del os.environ["PATH"]
        else:
            os.environ["PATH"] = path


def _reference_model() -> Any:
    try:
        import tosa_reference_model
    except ImportError:
        raise ToolMissing("tosa-tools", "pip install tosa-tools==2026.8.0") from None
    return tosa_reference_model
