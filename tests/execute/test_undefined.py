"""What the specification leaves undefined is reported, exactly where the reference model does."""

from __future__ import annotations

import re

import numpy as np
import pytest

from npuc.errors import NpucError
from npuc.execute.reference_model import run_reference_model
from npuc.execute.tosa import evaluate
from npuc.execute.undefined import CHECKS
from npuc.ir import DType, Op
from npuc.serialize.tosa_flatbuffer import serialize
from tests.execute.compare import graph_of
from tests.execute.operator_samples import SAMPLES, Sample, modes

LARGEST, SMALLEST = 2**31 - 1, -(2**31)
FLAGS = {
    "scale32": True, "rounding_mode": "SINGLE_ROUND", "per_channel": False,
    "input_unsigned": False, "output_unsigned": False,
}  # fmt: skip


def int32(*operands: object) -> Sample:
    sample = Sample()
    for values in operands:
        sample.add(values, DType.INT32)
    return sample


def rescale(value: int, multiplier: int, shift: int, zero: int = 0) -> Sample:
    sample = Sample(dtype=DType.INT8, attrs=FLAGS).add([value], DType.INT32)
    for v, dtype in ((multiplier, "INT32"), (shift, "INT8"), (0, "INT32"), (zero, "INT8")):
        sample.add([v], DType[dtype], const=True)
    return sample


def dense(channels: int) -> Sample:
    window = {"pad": (0, 0, 0, 0), "stride": (1, 1), "dilation": (1, 1), "acc_type": DType.INT32}
    sample = Sample(attrs=window).add(np.full((1, 1, 1, channels), 127), DType.INT8)
    sample.add(np.full((1, 1, 1, channels), 127), DType.INT8)
    sample.add([LARGEST - 127 * 127 * (channels - 1)], DType.INT32, const=True)
    return sample.add([0], DType.INT8, const=True).add([0], DType.INT8, const=True)


CASES = [
    ("ADD", int32([LARGEST, 1], [1, 1]), "1 values overflow INT32"),
    ("SUB", int32([SMALLEST], [1]), "1 values overflow INT32"),
    ("ABS", int32([SMALLEST]), "1 values overflow INT32"),
    ("INTDIV", int32([SMALLEST], [-1]), "1 values overflow INT32"),
    ("MUL", int32([LARGEST], [7]).add([0], DType.INT8, const=True), r"values 15032385529.*INT32"),
    ("NEGATE", int32([SMALLEST]).add([0], DType.INT32, True).add([0], DType.INT32, True), "INT32"),
    ("ARITHMETIC_RIGHT_SHIFT", int32([1], [32]), r"shifts 32..32 are not all in 0..31"),
    ("LOGICAL_RIGHT_SHIFT", int32([1], [-1]), r"shifts -1..-1 are not all in 0..31"),
    ("LOGICAL_LEFT_SHIFT", int32([1], [32]), r"shifts 32..32 are not all in 0..31"),
    ("REDUCE_SUM", Sample(attrs={"axis": 0}).add([LARGEST, 1], DType.INT32), "overflow INT32"),
    ("CONV2D", dense(3), "overflow INT32"),
    ("RESCALE", rescale(2**20, 1 << 30, 11), "values 1048576..1048576 exceed what shift 11 allows"),
    ("RESCALE", rescale(2**21, LARGEST, 20), "values 2097152..2097152 exceed"),
    ("POW", Sample().add([-2.0], DType.FP32).add([2.0], DType.FP32), "a base is negative"),
]


#: the specification demands these too, but the reference model lets them wrap
SILENT = {"MUL", "CONV2D"}


@pytest.mark.parametrize(("name", "sample", "reason"), CASES, ids=[c[0] for c in CASES])
def test_undefined_results(name: str, sample: Sample, reason: str) -> None:
    graph, arrays = graph_of(name, sample)
    if name not in SILENT:
        with pytest.raises(NpucError, match="UNPREDICTABLE"):
            run_reference_model(serialize(graph), arrays, "NONE")
    found: list[tuple[Op, str]] = []
    evaluate(graph, arrays, undefined=lambda op, why: found.append((op, why)))
    ((op, why),) = found
    assert op.name == name
    assert re.search(reason, why), why


def test_scatter_of_one_row_twice() -> None:
    sample = Sample().add(np.zeros((1, 3, 1)), DType.INT8).add([[1, 1]], DType.INT32)
    graph, arrays = graph_of("SCATTER", sample.add(np.ones((1, 2, 1)), DType.INT8))
    found: list[str] = []
    evaluate(graph, arrays, undefined=lambda op, why: found.append(why))
    assert found == ["an index is written twice"]


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_nothing_is_reported_where_the_reference_model_is_content(name: str) -> None:
    """The samples of test_tosa_operators.py are all TOSA_VALID."""
    for types in modes(name):
        for seed in range(3):
            sample = SAMPLES[name](np.random.default_rng(seed), types)
            graph, arrays = graph_of(name, sample)
            found: list[tuple[Op, str]] = []
            evaluate(graph, arrays, undefined=lambda op, why, f=found: f.append((op, why)))
            assert not found
