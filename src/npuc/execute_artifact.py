"""Executes what was compiled, on the executor that the caller names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from npuc.errors import BadInput
from npuc.ir import Op, Value

if TYPE_CHECKING:
    from npuc.compilation import Compilation

EXECUTORS = ("evaluator", "reference-model", "vulkan", "litert", "litert-xnnpack", "executorch")
#: LiteRT executors -> its kernels
LITERT = {"litert": "builtin", "litert-xnnpack": "default"}
#: dialect of the compiled graph -> who executes it when nothing is said
DEFAULT = {"tosa": "evaluator", "tflite": "litert"}


def execute_all(
    c: Compilation, arrays: list[np.ndarray], undefined: Callable[[Op, str], None]
) -> Mapping[Value, np.ndarray]:
    """Every value of the compiled graph for the artifact's inputs, on the default executor."""
    if c.graph_dialect == "tosa":
        from npuc.execute.tosa import evaluate_all

        return evaluate_all(c.graph, arrays, undefined)
    from npuc.execute.tflite import run_tflite_all
    from npuc.serialize.tflite_flatbuffer import tensor_numbers

    numbers = tensor_numbers(c.graph)
    return dict(zip(numbers, run_tflite_all(_tflite(c), arrays, list(numbers.values()))))


def _signed(x: np.ndarray) -> np.ndarray:
    return x.view(f"i{x.itemsize}") if x.dtype.kind == "u" else x


def _tflite(c: Compilation) -> bytes:
    data = c.artifact if c.output.suffix == ".tflite" else c.output.files.get(".tflite")
    if data is None:
        raise BadInput(f"a {c.output.suffix} file does not run in LiteRT", hint="use target tflite")
    return data


def execute_artifact(
    c: Compilation, arrays: list[np.ndarray], on: str | None = None
) -> list[np.ndarray]:
    """Outputs of the artifact for its own inputs. BadInput for an executor it cannot run on."""
    on = on or DEFAULT[c.graph_dialect]
    if on in ("evaluator", "reference-model") and c.graph_dialect != "tosa":
        raise BadInput(f"a TFLite graph does not run on {on}", hint="use litert")
    if on in LITERT:
        from npuc.execute.tflite import run_tflite

        return run_tflite(_tflite(c), arrays, LITERT[on])
    if on == "evaluator":
        from npuc.execute.tosa import evaluate

        return evaluate(c.graph, arrays)
    if on == "reference-model":
        from npuc.execute.reference_model import run_reference_model

        # a TOSA file has signed types only; an array of a type without a sign has the same bytes
        results = run_reference_model(c.output.tosa, [_signed(x) for x in arrays])
        return [y.view(port.type.dtype.numpy) for y, port in zip(results, c.io.outputs)]
    if on == "vulkan":
        vgf = c.artifact if c.output.suffix == ".vgf" else c.output.files.get(".vgf")
        if vgf is None:
            raise BadInput(
                f"a {c.output.suffix} file does not run on Vulkan", hint="use target vgf"
            )
        from npuc.execute.vgf import run_vgf

        return run_vgf(vgf, arrays)
    raise BadInput(f"unknown executor {on!r}", hint=f"known: {', '.join(EXECUTORS)}")
