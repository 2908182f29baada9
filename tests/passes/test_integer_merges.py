"""Merged requantizations, clamps and tables: every int8 input, and random scales."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from npuc.execute.tosa import evaluate
from npuc.ir import DType, Graph, TensorType, Value
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.cheapen_rescales import cheapen_rescales
from npuc.passes.cheapen_rescales_u55 import cheapen_rescales_u55
from npuc.passes.fold_padding import fold_padding
from npuc.passes.merge_clamps import merge_clamps
from npuc.passes.merge_rescales import merge_rescales
from npuc.passes.merge_tables import merge_tables
from npuc.passes.pipeline import Pass
from tests.passes.random_graphs import LIMITS

CODES = np.arange(-128, 128).astype(np.int8)
Make = Callable[[TosaBuilder, Value], Value]


def graph_of(make: Make, dtype: DType = DType.INT8, shape: tuple[int, ...] = (256,)) -> Graph:
    b = TosaBuilder(LIMITS)
    return b.finish([make(b, b.input(TensorType(dtype, shape), "x"))])


def count(graph: Graph, name: str) -> int:
    return sum(op.kind == f"tosa.{name}" for op in graph.ops)


def both(before: Graph, run: Pass, data: np.ndarray = CODES) -> tuple[Graph, int]:
    """The graph after the pass, and the largest difference in steps."""
    after = run(before, LIMITS)
    (a,), (b,) = evaluate(before, [data]), evaluate(after, [data])
    assert a.dtype == b.dtype and a.shape == b.shape
    return after, int(np.abs(a.astype(np.int64) - b.astype(np.int64)).max())


def accumulators(seed: int = 0) -> np.ndarray:
    """int32 values from within the range of int8 results and far beyond."""
    rng = np.random.default_rng(seed)
    near, far = rng.integers(-60_000, 60_000, 3840), rng.integers(-(2**31), 2**31, 256)
    return np.concatenate([near, far]).astype(np.int32)


@pytest.mark.parametrize("seed", range(40))
def test_two_roundings_become_one(seed: int) -> None:
    """int32 -> int8 -> int8 with outer scale <= 1: one RESCALE, at most one step of difference."""
    rng = np.random.default_rng(seed)
    inner, outer = rng.uniform(1e-3, 1e-2), rng.uniform(0.05, 1.0)
    middle, last = rng.integers(-128, 128, 2)
    before = graph_of(
        lambda b, x: b.rescale(
            b.rescale(x, inner, DType.INT8, out_zp=middle), outer, DType.INT8,
            in_zp=middle, out_zp=last,
        ), DType.INT32, (4096,),
    )  # fmt: skip
    after, steps = both(before, merge_rescales, accumulators(seed))
    assert count(after, "RESCALE") == 1 and steps <= 1


def test_saturation_of_the_inner_rescale_is_kept() -> None:
    """int8 saturates at 127; halved that is 64, far from the end of the range: a CLAMP remains."""
    before = graph_of(
        lambda b, x: b.rescale(b.rescale(x, 0.01, DType.INT8), 0.5, DType.INT8),
        DType.INT32,
        (4096,),
    )
    after, steps = both(before, merge_rescales, accumulators())
    assert (count(after, "RESCALE"), count(after, "CLAMP"), steps) == (1, 1, 1)


def test_saturation_that_the_outer_rescale_repeats_needs_no_clamp() -> None:
    before = graph_of(
        lambda b, x: b.rescale(b.rescale(x, 0.01, DType.INT16), 1.0, DType.INT8),
        DType.INT32,
        (4096,),
    )
    after, steps = both(before, merge_rescales, accumulators())
    assert (count(after, "RESCALE"), count(after, "CLAMP")) == (1, 0) and steps <= 1


@pytest.mark.parametrize(
    ("what", "inner", "outer", "dtype", "zero_points"),
    [
        ("a finer step", 0.01, 1.5, DType.INT8, (0, 0)),
        ("a wider type", 0.01, 1.0, DType.INT16, (0, 0)),
        ("other zero points", 0.01, 0.5, DType.INT8, (3, 4)),
    ],
)
def test_rescales_that_stay_two(
    what: str, inner: float, outer: float, dtype: DType, zero_points: tuple[int, int]
) -> None:
    before = graph_of(
        lambda b, x: b.rescale(
            b.rescale(x, inner, DType.INT8, out_zp=zero_points[0]), outer, dtype,
            in_zp=zero_points[1] if dtype is DType.INT8 else 0,
        ), DType.INT32, (4096,),
    )  # fmt: skip
    after, steps = both(before, merge_rescales, accumulators())
    assert count(after, "RESCALE") == 2 and steps == 0, what


def test_an_inner_rescale_with_another_reader_stays() -> None:
    def make(b: TosaBuilder, x: Value) -> Value:
        y = b.rescale(x, 0.01, DType.INT8)
        return b.CONCAT(y, b.rescale(y, 0.5, DType.INT8), axis=0)

    after, steps = both(graph_of(make, DType.INT32, (4096,)), merge_rescales, accumulators())
    assert count(after, "RESCALE") == 2 and steps == 0


@pytest.mark.parametrize("k", [0, 1, 7, 19])
@pytest.mark.parametrize("scale", [0.3, 0.75e-3, 1.0])
def test_widening_by_a_power_of_two_merges_exactly(k: int, scale: float) -> None:
    before = graph_of(
        lambda b, x: b.rescale(
            b.rescale(x, 2.0**k, DType.INT32, in_zp=-7), scale, DType.INT8, out_zp=11
        )
    )
    after, steps = both(before, merge_rescales)
    assert count(after, "RESCALE") == 1 and steps == 0


def test_per_channel_scales_merge() -> None:
    scales = [0.001, 0.002, 0.004, 0.008]
    before = graph_of(
        lambda b, x: b.rescale(b.rescale(x, scales, DType.INT8), 0.9, DType.INT8),
        DType.INT32,
        (64, 4),
    )
    data = np.random.default_rng(0).integers(-(10**5), 10**5, (64, 4)).astype(np.int32)
    after, steps = both(before, merge_rescales, data)
    assert count(after, "RESCALE") == 1 and steps <= 1


@pytest.mark.parametrize(
    "move",
    [
        lambda b, x: b.TRANSPOSE(x, perms=(0, 2, 1, 3)),
        lambda b, x: b.RESHAPE(x, (1, 16, 1, 4)),
        lambda b, x: b.SLICE(x, (0, 1, 0, 0), (1, 2, 4, 4)),
        lambda b, x: b.MAX_POOL2D(x, kernel=(2, 2), stride=(2, 2)),
        lambda b, x: b.CLAMP(x, min_val=-20, max_val=20),
    ],
    ids=["TRANSPOSE", "RESHAPE", "SLICE", "MAX_POOL2D", "CLAMP"],
)
def test_rescales_merge_across(move: Make) -> None:
    before = graph_of(
        lambda b, x: b.rescale(move(b, b.rescale(x, 0.01, DType.INT8)), 0.8, DType.INT8),
        DType.INT32, (1, 4, 4, 4),
    )  # fmt: skip
    data = np.random.default_rng(0).integers(-(10**5), 10**5, (1, 4, 4, 4)).astype(np.int32)
    after, steps = both(before, merge_rescales, data)
    assert count(after, "RESCALE") == 1 and steps <= 1


FUNCTIONS: dict[str, Make] = {
    "table": lambda b, x: b.TABLE(x, b.const((CODES.astype(int) ** 2 % 251 - 125).astype(np.int8))),
    "rescale": lambda b, x: b.rescale(x, 1.7, DType.INT8, in_zp=5, out_zp=-9),
    "clamp": lambda b, x: b.CLAMP(x, min_val=-50, max_val=31),
    "negate": lambda b, x: b.NEGATE(x, b.scalar(3, DType.INT8, 1), b.scalar(-2, DType.INT8, 1)),
}


@pytest.mark.parametrize("first", FUNCTIONS)
@pytest.mark.parametrize("last", FUNCTIONS)
def test_functions_join_a_table(first: str, last: str) -> None:
    """Exact for all 256 inputs; chains without a TABLE stay as they are."""
    before = graph_of(lambda b, x: FUNCTIONS[last](b, FUNCTIONS[first](b, x)))
    after, steps = both(before, merge_tables)
    assert steps == 0
    ops = [op for op in after.ops if op.kind != "const"]
    assert len(ops) == (1 if "table" in (first, last) else 2)


def test_a_long_chain_is_one_table() -> None:
    def make(b: TosaBuilder, x: Value) -> Value:
        for name in ("rescale", "clamp", "table", "rescale", "table", "negate"):
            x = FUNCTIONS[name](b, x)
        return x

    after, steps = both(graph_of(make), merge_tables)
    assert steps == 0
    assert [op.name for op in after.ops if op.kind != "const"] == ["TABLE"]


def test_a_table_with_two_readers_stays() -> None:
    def make(b: TosaBuilder, x: Value) -> Value:
        y = FUNCTIONS["table"](b, x)
        return b.CONCAT(FUNCTIONS["clamp"](b, y), y, axis=0)

    after, steps = both(graph_of(make), merge_tables)
    assert steps == 0 and count(after, "CLAMP") == 1


@pytest.mark.parametrize(
    ("outer", "expected"), [((-10, 99), 1), ((-128, 127), 1), ((30, 40), 1), ((-5, 5), 1)]
)
def test_clamp_of_clamp(outer: tuple[int, int], expected: int) -> None:
    before = graph_of(
        lambda b, x: b.CLAMP(
            b.CLAMP(x, min_val=-20, max_val=20), min_val=outer[0], max_val=outer[1]
        )
    )
    after, steps = both(before, merge_clamps)
    assert steps == 0 and count(after, "CLAMP") == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda b, x: b.CLAMP(x, min_val=-128, max_val=127),
        lambda b, x: b.CLAMP(
            b.TABLE(x, b.const((CODES // 2).astype(np.int8))), min_val=-64, max_val=99
        ),
        lambda b, x: b.CLAMP(
            b.CONCAT(
                b.TABLE(x, b.const((CODES // 2).astype(np.int8))),
                b.TABLE(x, b.const((CODES // 4).astype(np.int8))), axis=0,
            ), min_val=-64, max_val=64,
        ),
    ],
    ids=["whole range", "range of a table", "range of two tables"],
)  # fmt: skip
def test_a_clamp_that_limits_nothing_goes(make: Make) -> None:
    after, steps = both(graph_of(make), merge_clamps)
    assert steps == 0 and count(after, "CLAMP") == 0


@pytest.mark.parametrize("mode", ["PROPAGATE", "IGNORE"])
def test_float_clamps_and_nan(mode: str) -> None:
    """A CLAMP above SIGMOID limits nothing, but with IGNORE it turns NaN into a number."""
    before = graph_of(
        lambda b, x: b.CLAMP(b.SIGMOID(x), min_val=0.0, max_val=1.0, nan_mode=mode),
        DType.FP32,
        (4,),
    )
    data = np.array([np.nan, -1, 0, 5], np.float32)
    after = merge_clamps(before, LIMITS)
    np.testing.assert_array_equal(evaluate(before, [data])[0], evaluate(after, [data])[0])
    assert count(after, "CLAMP") == (mode == "IGNORE")


@pytest.mark.parametrize("name", ["MAXIMUM", "MINIMUM"])
def test_maximum_with_a_number_is_a_clamp(name: str) -> None:
    def make(b: TosaBuilder, x: Value) -> Value:
        return getattr(b, name)(b.scalar(0.5, DType.FP32, 1), x)  # type: ignore[no-any-return]

    before = graph_of(make, DType.FP32, (5,))
    data = np.array([np.nan, -np.inf, np.inf, 0.25, 3], np.float32)
    after = merge_clamps(before, LIMITS)
    np.testing.assert_array_equal(evaluate(before, [data])[0], evaluate(after, [data])[0])
    assert (count(after, "CLAMP"), count(after, name)) == (1, 0)


@pytest.mark.parametrize("run", [cheapen_rescales, cheapen_rescales_u55])
@pytest.mark.parametrize("rounding", ["SINGLE_ROUND", "DOUBLE_ROUND"])
@pytest.mark.parametrize(
    "make",
    [
        lambda b, x, **k: b.rescale(x, 1.3, DType.INT8, in_zp=-7, out_zp=4, **k),
        lambda b, x, **k: b.rescale(x, 37.7, DType.INT16, in_zp=-7, **k),
        lambda b, x, **k: b.rescale(
            b.MAX_POOL2D(x, kernel=(1, 1), stride=(1, 1)), 1.3, DType.INT8, in_zp=-7, **k
        ),
    ],
    ids=["int8", "int16", "behind a pool"],
)
def test_cheap_requantization_is_bit_identical(run: Pass, rounding: str, make: Make) -> None:
    limits_before = TosaBuilder(LIMITS).limits.extensions
    limits = type(LIMITS)(extensions=limits_before | {"EXT-DOUBLEROUND"})
    b = TosaBuilder(limits)
    x = b.input(TensorType(DType.INT8, (1, 16, 16, 1)), "x")
    before = b.finish([make(b, x, rounding_mode=rounding)])  # type: ignore[call-arg]
    after = run(before, limits)
    data = CODES.reshape(1, 16, 16, 1)
    np.testing.assert_array_equal(evaluate(before, [data])[0], evaluate(after, [data])[0])
    assert all(
        op.operands[0].type.dtype is DType.INT32 or op.results[0].type.dtype is DType.INT32
        for op in after.ops if op.kind == "tosa.RESCALE"
    )  # fmt: skip


def test_padding_by_the_zero_point_is_the_convolutions_own() -> None:
    """A PAD by another constant stays: folding it would pad with the zero point."""
    for constant, pads in ((3, 0), (0, 1)):

        def make(b: TosaBuilder, x: Value, constant: int = constant) -> Value:
            y = b.PAD(x, (0, 0, 1, 2, 0, 1, 0, 0), b.scalar(constant, DType.INT8, 1))
            weight = b.const(np.ones((1, 2, 2, 1), np.int8))
            bias = b.const(np.zeros(1, np.int32))
            zero = b.scalar(0, DType.INT8, 1)
            return b.CONV2D(  # type: ignore[no-any-return]
                y,
                weight,
                bias,
                b.scalar(3, DType.INT8, 1),
                zero,
                pad=(0, 0, 1, 0),
                acc_type=DType.INT32,
            )

        data = np.arange(16, dtype=np.int8).reshape(1, 4, 4, 1)
        after, steps = both(graph_of(make, shape=(1, 4, 4, 1)), fold_padding, data)
        assert steps == 0 and count(after, "PAD") == pads


def test_zero_padding_before_max_pool_folds_behind_a_relu() -> None:
    """No element is below 0, so padding by 0 and by nothing give the same largest element."""

    def make(relu: bool) -> Make:
        def build(b: TosaBuilder, x: Value) -> Value:
            y = b.CLAMP(x, min_val=0, max_val=127) if relu else x
            y = b.PAD(y, (0, 0, 1, 1, 1, 1, 0, 0), b.scalar(0, DType.INT8, 1))
            return b.MAX_POOL2D(y, kernel=(2, 2), stride=(2, 2))  # type: ignore[no-any-return]

        return build

    data = CODES.reshape(1, 16, 16, 1)
    for relu in (True, False):
        after, steps = both(graph_of(make(relu), shape=(1, 16, 16, 1)), fold_padding, data)
        assert steps == 0 and count(after, "PAD") == (not relu)
