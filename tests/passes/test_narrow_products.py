"""Products of 8 or 16 bits without RESCALEs that only widen their factors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npuc.execute.tosa import evaluate
from npuc.ir import DType, Graph, TensorType
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.narrow_products import narrow_products
from tests.passes.random_graphs import LIMITS


def product(
    first: DType, second: DType, scale: float = 1.0, zero: int = 0, shift: int = 0
) -> Graph:
    b = TosaBuilder(LIMITS)
    x, y = b.input(TensorType(first, (4, 64)), "x"), b.input(TensorType(second, (4, 1)), "y")
    wide = b.rescale(x, scale, DType.INT32, in_zp=zero), b.rescale(y, 1.0, DType.INT32)
    return b.finish([b.MUL(*wide, b.scalar(shift, DType.INT8, 1))])


def rescales(graph: Graph) -> int:
    return sum(op.kind == "tosa.RESCALE" for op in graph.ops)


def run(graph: Graph) -> np.ndarray:
    rng = np.random.default_rng(0)
    data = []
    for v in graph.inputs:
        low, high = (int(end) for end in v.type.dtype.range)
        codes = rng.integers(low, high + 1, v.type.ints)
        codes.flat[0] = low
        data.append(codes.astype(v.type.dtype.numpy))
    return evaluate(graph, data)[0]


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16])
def test_equal_types_need_no_rescale(dtype: DType) -> None:
    before = product(dtype, dtype)
    after = narrow_products(before, LIMITS)
    assert rescales(after) == 0
    np.testing.assert_array_equal(run(before), run(after))


def test_what_changes_the_product_stays() -> None:
    i8, i16 = DType.INT8, DType.INT16
    for graph in (
        product(i8, i16), product(i8, i8, scale=2.0), product(i8, i8, zero=3),
        product(i16, i16, shift=4),
    ):  # fmt: skip
        assert rescales(narrow_products(graph, LIMITS)) == 2


def test_a_target_that_has_no_such_product_keeps_the_rescales() -> None:
    limits = replace(LIMITS, chip=lambda name, operands, attrs, results: (
        "no" if name == "MUL" and operands[0].type.dtype is DType.INT8 else None
    ), name="some-chip")  # fmt: skip
    assert rescales(narrow_products(product(DType.INT8, DType.INT8), limits)) == 2
