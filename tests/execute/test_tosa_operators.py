"""Every operator in every mode of the specification's table against the TOSA reference model."""

from __future__ import annotations

import numpy as np
import pytest

from npuc.dialects.tosa import DEFINITIONS
from npuc.execute.kernels import KERNELS
from npuc.execute.tosa import CONTROL
from npuc.ir import DType
from tests.execute.compare import assert_same, graph_of
from tests.execute.operator_samples import SAMPLES, Sample, modes

SEEDS = 3

#: operators with tests of their own, in test_tosa_shapes.py, test_tosa_blocks.py and test_tosa.py
ELSEWHERE = {n for n in DEFINITIONS if n.endswith(("_SHAPE", "_BLOCK_SCALED"))} | CONTROL | {"DIM"}

#: the last-place error of functions that both sides compute with their own polynomials
ULP = {"TANH": 32.0, "POW": 8.0, "FFT2D": 8.0, "RFFT2D": 8.0}


def test_every_operator_of_the_specification_can_be_evaluated() -> None:
    constants = {"CONST", "CONST_SHAPE"}
    assert set(KERNELS) | CONTROL | constants == set(DEFINITIONS)
    assert set(SAMPLES) | ELSEWHERE | constants == set(DEFINITIONS)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_operator(name: str) -> None:
    compared = 0
    for types in modes(name):
        for seed in range(SEEDS):
            sample = SAMPLES[name](np.random.default_rng(seed), types)
            if any(d in (DType.INT4, DType.INT48) and not const for _, d, const in sample.operands):
                continue  # the reference model takes no such inputs
            graph, arrays = graph_of(name, sample)
            assert_same(graph, arrays, ULP.get(name, 3.0))
            compared += 1
    assert compared >= SEEDS


SPECIAL = np.array(
    [
        [1, np.nan, 3, 2],
        [np.nan, np.nan, np.nan, np.nan],
        [-np.inf, np.nan, -np.inf, -np.inf],
        [np.inf, 1, np.nan, 0],
        [-1, 7, 7, -2],
    ]
)


@pytest.mark.parametrize("nan_mode", ["PROPAGATE", "IGNORE"])
@pytest.mark.parametrize("dtype", [DType.FP32, DType.FP16, DType.BF16])
def test_nan_modes(nan_mode: str, dtype: DType) -> None:
    window = {"kernel": (1, 2), "stride": (1, 1), "pad": (0, 0, 1, 1)}
    samples = [
        ("ARGMAX", Sample(attrs={"axis": 1}, dtype=DType.INT32).add(SPECIAL, dtype)),
        ("REDUCE_MAX", Sample(attrs={"axis": 1}).add(SPECIAL, dtype)),
        ("REDUCE_MIN", Sample(attrs={"axis": 1}).add(SPECIAL, dtype)),
        ("MAXIMUM", Sample().add(SPECIAL, dtype).add(SPECIAL[::-1], dtype)),
        ("MINIMUM", Sample().add(SPECIAL, dtype).add(SPECIAL[::-1], dtype)),
        ("CLAMP", Sample(attrs={"min_val": -0.5, "max_val": 2.0}).add(SPECIAL, dtype)),
        ("MAX_POOL2D", Sample(attrs=window).add(SPECIAL[None, ..., None], dtype)),
    ]
    for name, sample in samples:
        sample.attrs["nan_mode"] = nan_mode
        assert_same(*graph_of(name, sample))


FLOAT_EDGES = [
    np.inf, -np.inf, 1e30, -1e30, 0.5, 1.5, 2.5, -0.5, -1.5, 127.5, -128.5, 32767.5, 2147483520.0,
    3e9, 65504, 65519, 65520, 447, 448, 450, 464, 465, 470, 480, 57344, 61439, 61440, 61441, 1e-3,
    1e-4, 1.5e-5, 7.6e-6, 2.0**-10, 1 + 2.0**-8, 1 + 2.0**-9, 1 + 3 * 2.0**-8, 6e-8, 3.4e38,
]  # fmt: skip
INTEGER_EDGES = [
    -(2**31), 2**31 - 1, -128, 127, 257, 2049, 4097, 65519, 65520, 70000, 2**24 + 1, 2**24 + 3,
    33554435, 2098177,
]  # fmt: skip


@pytest.mark.parametrize(
    "types", [*modes("CAST")], ids=lambda t: f"{t['in_t'].name}-{t['out_t'].name}"
)
def test_cast_saturates_and_rounds(types: dict[str, DType]) -> None:
    source = types["in_t"]
    if source is DType.BOOL:
        values: np.ndarray = np.array([True, False])
    elif source.is_float:
        with np.errstate(over="ignore"):
            values = np.array(FLOAT_EDGES, np.float32).astype(source.numpy)
    else:
        values = np.clip(INTEGER_EDGES, *source.range)
    graph, arrays = graph_of("CAST", Sample(dtype=types["out_t"]).add(values, source))
    assert_same(graph, arrays, ulp=0.0)


def test_negate_saturates_around_the_zero_points() -> None:
    sample = Sample().add([-128, 127, 0, 5], DType.INT8)
    sample.add([5], DType.INT8, const=True).add([-100], DType.INT8, const=True)
    assert_same(*graph_of("NEGATE", sample))


@pytest.mark.parametrize("name", ["RECIPROCAL", "EXP", "CEIL", "FLOOR", "LOG", "RSQRT", "SIGMOID"])
def test_floats_at_the_ends_of_their_range(name: str) -> None:
    values = [0.0, -0.0, np.inf, -np.inf, np.nan, 100.0, -1.0]
    assert_same(*graph_of(name, Sample().add(values, DType.FP32)))
