"""Build a graph around one operator, run it on the evaluator and on the reference model."""

from __future__ import annotations

import numpy as np

from npuc.dialects.tosa import DEFINITIONS, infer
from npuc.execute.reference_model import run_reference_model
from npuc.execute.tosa import evaluate
from npuc.ir import Builder, DType, Graph, TensorType, Value
from npuc.serialize.tosa_flatbuffer import serialize
from tests.execute.operator_samples import Sample

#: float results may differ by this many units in the last place of the largest result
EPSILON = {"FP32": 2.0**-23, "FP16": 2.0**-10, "BF16": 2.0**-7, "FP8E4M3": 0.0, "FP8E5M2": 0.0}


def graph_of(name: str, sample: Sample) -> tuple[Graph, list[np.ndarray]]:
    """A graph with one operator. INT48 results, which the reference model does not return, are
    seen through two RESCALEs: the low and the high bits."""
    b = Builder()
    operands: list[Value] = []
    arrays = []
    for array, dtype, const in sample.operands:
        if const:
            operands.append(b.const(array, dtype))
        else:
            operands.append(b.input(TensorType(dtype, array.shape)))
            arrays.append(array)
    attrs = {**DEFINITIONS[name].defaults, **sample.attrs}
    results = b.emit(f"tosa.{name}", operands, attrs, infer(name, operands, attrs, sample.dtype))
    outputs = []
    for r in results:
        if r.type.dtype is not DType.INT48:
            outputs.append(r)
            continue
        outputs += [_rescaled(b, r, 1 << 14, 14), _rescaled(b, r, 1, 16)]
    return b.finish(outputs), arrays


def _rescaled(b: Builder, x: Value, multiplier: int, shift: int) -> Value:
    operands = [
        x,
        b.const(np.full(1, multiplier, np.int16)),
        b.const(np.full(1, shift, np.int8)),
        b.const(np.zeros(1, np.int64), DType.INT48),
        b.const(np.zeros(1, np.int32)),
    ]
    attrs = {**DEFINITIONS["RESCALE"].defaults, "scale32": False}
    return b.emit("tosa.RESCALE", operands, attrs, [TensorType(DType.INT32, x.type.shape)])[0]


def assert_same(
    graph: Graph, arrays: list[np.ndarray], ulp: float = 3.0, level: str = "NONE"
) -> None:
    """Evaluator and reference model agree: integers bit for bit, floats within `ulp`."""
    expected = run_reference_model(serialize(graph, (1, 1)), arrays, level)
    results = evaluate(graph, arrays)
    assert len(results) == len(expected) == len(graph.outputs)
    for value, got, want in zip(graph.outputs, results, expected, strict=False):
        assert got.dtype == want.dtype == value.type.dtype.numpy
        assert got.shape == want.shape
        if not value.type.dtype.is_float:
            np.testing.assert_array_equal(got, want)
            continue
        got, want = got.astype(np.float64), want.astype(np.float64)
        largest = np.abs(want[np.isfinite(want)]).max(initial=0.0)
        tolerance = ulp * EPSILON[value.type.dtype.name] * largest
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance, equal_nan=True)
