"""The self-check: each op on the values that the artifact produced, and end to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npuc.boundary import IO
from npuc.check.report import CheckReport, OutputCheck, sqnr_db
from npuc.errors import CheckFailed
from npuc.ir import Graph, TensorType, Value

#: a compiled quantized graph may lose this much SQNR against the quantized PyTorch graph, in dB,
#: before it counts as wrong; rounding alone loses fractions of one
ALLOWED_LOSS_DB = 6.0
#: above this SQNR against the quantized graph the loss is not looked at
GOOD_DB = 25.0
#: end-to-end error of float graphs, relative to the output's norm
FLOAT_TOLERANCE = {"float32": 1e-3, "float16": 3e-2, "bfloat16": 1e-1}


@dataclass(frozen=True)
class Subject:
    """What is checked: a compiled graph, its boundary, and the programs that it came from.

    `program` is what was lowered, `float_program` the model before quantization (the same object
    where there was none). `types` are the types of the model's values as they were lowered (a pass
    may let one value carry two that differ only in scale); `where` their places in the model.
    """

    graph: Graph
    io: IO
    program: Any
    float_program: Any
    types: Mapping[str, TensorType]
    where: Mapping[str, str]

    @property
    def quantized(self) -> bool:
        return self.program is not self.float_program

    @property
    def rounds(self) -> bool:
        """Whether values of the model are codes: real outputs differ by their rounding then."""
        return any(t.quant is not None for t in self.types.values())


def check(
    subject: Subject, inputs: Sequence[Any], values: Mapping[Value, np.ndarray],
    undefined: Sequence[str] = (),
) -> CheckReport:  # fmt: skip
    """Compare `values`, what the compiled graph computed for the model's `inputs`, with PyTorch.

    `undefined`: ops whose result the TOSA specification leaves open on these values, where chips may
    differ. Raises CheckFailed that names the first op, in the order of the model, which departs.
    """
    import torch

    from npuc.check.per_op import CheckingInterpreter, observe

    report = CheckReport(samples=1)
    with torch.no_grad():
        observed = observe(values, subject.graph.all_origins(), subject.types)
        interpreter = CheckingInterpreter(
            subject.program.reference_module(), observed, subject.where
        )
        interpreter.run(*subject.program.module_inputs(inputs))
        report.ops, report.unobserved = interpreter.found, interpreter.unobserved
        taken = interpreter.taken
        report.other_path = interpreter.other_order or (
            bool(taken) and taken != _path_of_pytorch(subject, inputs)
        )
        if not report.other_path:
            _check_outputs(subject, inputs, [values[v] for v in subject.graph.outputs], report)
    if undefined:
        raise CheckFailed(undefined[0], why="the TOSA specification leaves this result open",
                          hint="this is a fault of npuc, please report it")  # fmt: skip
    return report


def _path_of_pytorch(subject: Subject, inputs: Sequence[Any]) -> list[tuple[str, int]]:
    """The branches and numbers of iterations of the model itself, as PyTorch runs it."""
    from npuc.check.per_op import CheckingInterpreter

    interpreter = CheckingInterpreter(subject.program.reference_module(), {}, {})
    interpreter.run(*subject.program.module_inputs(inputs))
    return interpreter.taken


def _check_outputs(
    subject: Subject, inputs: Sequence[Any], got: list[np.ndarray], report: CheckReport
) -> None:
    from npuc.check.per_op import as_numpy

    want = [as_numpy(t) for t in subject.program.run_reference(inputs)]
    real = want
    if subject.quantized:
        real = [as_numpy(t) for t in subject.float_program.run_reference(inputs)]
    for port, array, w, f in zip(subject.io.outputs, got, want, real):
        array = _in_model_layout(array, port.layout)
        found = _compare(port.name, array, port.type, w, f, subject.quantized)
        report.outputs.append(found)
        if port.type.dtype.is_float and not subject.rounds:
            _judge_float(found, port.type)
        else:
            _judge_rounded(found, w, f)


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
            steps = float(
                np.abs(array.astype(np.int64) - to_codes(type.quant, want)).max(initial=0)
            )
        else:
            got = array
    error = np.abs(got.astype(np.float64) - want.astype(np.float64))
    finite = error[np.isfinite(error)]
    against_float = sqnr_db(got, real) if quantized else None
    return OutputCheck(name, steps, float(finite.max(initial=0)), sqnr_db(got, want), against_float)


def _judge_float(found: OutputCheck, type: TensorType) -> None:
    """Raise CheckFailed when an output is worse than its element type explains."""
    limit = FLOAT_TOLERANCE.get(type.dtype.numpy.name, 0.3)
    if found.sqnr < -20 * np.log10(limit) and found.max_error > 1e-6:
        raise CheckFailed(
            f"output {found.name} departs from the model",
            why=f"{found.sqnr:.1f} dB where {-20 * np.log10(limit):.0f} dB are expected",
        )


def _judge_rounded(found: OutputCheck, want: np.ndarray, real: np.ndarray) -> None:
    """Raise CheckFailed when an output is worse than the rounding of codes explains."""
    if found.sqnr_float is None or found.sqnr >= GOOD_DB:
        return
    quantized_graph = sqnr_db(want, real)
    if found.sqnr_float < quantized_graph - ALLOWED_LOSS_DB:
        raise CheckFailed(
            f"output {found.name} departs from the quantized model",
            why=f"{found.sqnr_float:.1f} dB against float where PyTorch's quantized graph "
            f"has {quantized_graph:.1f} dB",
        )
