"""The self-check of a compilation: each op on the values that the artifact produced, and end to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npuc.check.report import CheckReport, OutputCheck, sqnr_db
from npuc.errors import CheckFailed
from npuc.ir import TensorType

if TYPE_CHECKING:
    from npuc.compilation import Compilation

#: a compiled quantized graph may lose this much SQNR against the quantized PyTorch graph, in dB,
#: before it counts as wrong; rounding alone loses fractions of one
ALLOWED_LOSS_DB = 6.0
#: above this SQNR against the quantized graph the loss is not looked at
GOOD_DB = 25.0
#: end-to-end error of float graphs, relative to the output's norm
FLOAT_TOLERANCE = {"float32": 1e-3, "float16": 3e-2, "bfloat16": 1e-1}


def check_compilation(c: Compilation, inputs: Sequence[Any], float_program: Any) -> CheckReport:
    """Check `c` on `inputs` (the model's). Raises CheckFailed naming the first op that departs.

    `float_program` is the model before quantization; its outputs give the SQNR against float.
    """
    import torch

    from npuc.check.per_op import CheckingInterpreter, observe
    from npuc.execute.tosa import evaluate_all

    report = CheckReport(samples=1)
    with torch.no_grad():
        arrays = c.input_arrays(inputs)
        values = evaluate_all(c.graph, arrays)
        observed = observe(values, c.graph.origins)
        module = c.program.reference_module()
        where = {v.name: str(v.loc) for v in c.coverage}
        interpreter = CheckingInterpreter(module, observed, where)
        interpreter.run(*c.program.module_inputs(inputs))
        report.ops, report.unobserved = interpreter.found, interpreter.unobserved
        got = [values[v] for v in c.graph.outputs]
        _check_outputs(c, inputs, float_program, got, report)
    return report


def _check_outputs(
    c: Compilation, inputs: Sequence[Any], float_program: Any, got: list[np.ndarray],
    report: CheckReport,
) -> None:  # fmt: skip
    from npuc.check.per_op import as_numpy

    want = [as_numpy(t) for t in c.program.run_reference(inputs)]
    real = want
    if float_program is not c.program:
        real = [as_numpy(t) for t in float_program.run_reference(inputs)]
    for port, value, array, w, f in zip(c.io.outputs, c.graph.outputs, got, want, real):
        array = _in_model_layout(array, port.layout)
        found = _compare(port.name, array, value.type, w, f, c.quantization is not None)
        report.outputs.append(found)
        _judge(found, value.type, w, f)


def _in_model_layout(array: np.ndarray, layout: str) -> np.ndarray:
    return array.transpose(0, 3, 1, 2) if layout == "channels_last" else array


def _compare(
    name: str, array: np.ndarray, type: TensorType, want: np.ndarray, real: np.ndarray,
    quantized: bool,
) -> OutputCheck:  # fmt: skip
    from npuc.check.per_op import quantized as to_codes

    if tuple(array.shape) != tuple(want.shape):
        raise CheckFailed(f"output {name}", why=f"shape {array.shape} instead of {want.shape}")
    steps = None
    got: Any = array
    if type.quant is not None:
        got = type.quant.dequantize(array)
        if want.dtype.kind == "f":
            steps = float(np.abs(array.astype(np.int64) - to_codes(type.quant, want)).max(initial=0))
        else:
            got = array
    error = np.abs(got.astype(np.float64) - want.astype(np.float64))
    finite = error[np.isfinite(error)]
    against_float = sqnr_db(got, real) if quantized else None
    return OutputCheck(name, steps, float(finite.max(initial=0)), sqnr_db(got, want), against_float)


def _judge(found: OutputCheck, type: TensorType, want: np.ndarray, real: np.ndarray) -> None:
    """Raise CheckFailed when an output is worse than rounding explains."""
    if type.quant is None and type.dtype.is_float:
        limit = FLOAT_TOLERANCE.get(type.dtype.numpy.name, 0.3)
        if found.sqnr < -20 * np.log10(limit) and found.max_error > 1e-6:
            raise CheckFailed(
                f"output {found.name} departs from the model",
                why=f"{found.sqnr:.1f} dB where {-20 * np.log10(limit):.0f} dB are expected",
            )
        return
    if found.sqnr_float is None or found.sqnr >= GOOD_DB:
        return
    quantized_graph = sqnr_db(want, real)
    if found.sqnr_float < quantized_graph - ALLOWED_LOSS_DB:
        raise CheckFailed(
            f"output {found.name} departs from the quantized model",
            why=f"{found.sqnr_float:.1f} dB against float where PyTorch's quantized graph "
            f"has {quantized_graph:.1f} dB",
        )
