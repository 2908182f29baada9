"""Runs TFLite files in the LiteRT interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npuc.errors import BadInput, NpucError, ToolMissing
from npuc.execute.capture_output import capture_output

INSTALL = "pip install ai-edge-litert==2.3.0"
#: kernels -> op resolver: LiteRT's optimized kernels without delegates (results do not depend on
#: what XNNPACK takes), its reference kernels, or what an application gets by default
KERNELS = {
    "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "reference": "BUILTIN_REF",
    "default": "AUTO",
}


def run_tflite(
    data: bytes, inputs: Sequence[np.ndarray], kernels: str = "builtin"
) -> list[np.ndarray]:
    """Outputs of the TFLite file `data` for arrays of its own types and shapes.

    Raises BadInput for inputs that do not fit, ToolMissing without LiteRT, NpucError with LiteRT's
    words where it refuses the file.
    """
    interpreter = _invoked(data, inputs, kernels, False)
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def run_tflite_all(
    data: bytes, inputs: Sequence[np.ndarray], tensors: Sequence[int], kernels: str = "builtin"
) -> list[np.ndarray]:
    """The tensors with these indices after a run: every intermediate result is kept."""
    interpreter = _invoked(data, inputs, kernels, True)
    return [interpreter.get_tensor(index) for index in tensors]


def _invoked(data: bytes, inputs: Sequence[np.ndarray], kernels: str, keep_all: bool) -> Any:
    """An interpreter that ran once. What LiteRT prints is kept for its errors."""
    if kernels not in KERNELS:
        raise BadInput(f"unknown LiteRT kernels {kernels!r}", hint=f"one of {', '.join(KERNELS)}")
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError:
        raise ToolMissing("LiteRT (ai-edge-litert)", INSTALL) from None
    error: Exception | None = None
    with capture_output() as printed:
        try:
            interpreter = Interpreter(
                model_content=bytes(data),
                num_threads=1,
                experimental_op_resolver_type=OpResolverType[KERNELS[kernels]],
                experimental_preserve_all_tensors=keep_all,
            )
            interpreter.allocate_tensors()
            _set_inputs(interpreter, inputs)
            interpreter.invoke()
        except (RuntimeError, ValueError) as refused:
            error = refused
    if error is not None:
        lines = [line.strip() for line in (*str(error).splitlines(), *printed.text.splitlines())]
        why = "; ".join(dict.fromkeys(line for line in lines if line and "INFO:" not in line))
        raise NpucError("LiteRT does not run this file", why=why) from None
    return interpreter


def _set_inputs(interpreter: Any, inputs: Sequence[np.ndarray]) -> None:
    details = interpreter.get_input_details()
    if len(details) != len(inputs):
        raise BadInput(f"{len(inputs)} inputs given, the file takes {len(details)}")
    for detail, array in zip(details, inputs, strict=True):
        if tuple(detail["shape"]) != array.shape or detail["dtype"] != array.dtype:
            want = f"{np.dtype(detail['dtype']).name} {tuple(detail['shape'])}"
            raise BadInput(
                f"input {detail['name']} is {array.dtype.name} {array.shape}, expected {want}"
            )
        interpreter.set_tensor(detail["index"], array)
