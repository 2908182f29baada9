"""Dimensions known only at run time: rules take them or refuse, they never fail."""

from __future__ import annotations

import numpy as np
import pytest

from npuc.dialects.tosa import Limits
from npuc.ir import Builder, DType, Quant, SymbolicShape, SymDim, TensorType, pack
from npuc.lowering.lower import lower
from tests.lowering.harness import FAMILIES, TOSA_FP, TOSA_INT, U55, U85, constant, label

N = SymDim("n", 1, 8)
W = {
    s: np.random.default_rng(0).normal(size=s)
    for s in [(6, 4, 3, 3), (4, 2, 3, 3), (5, 8), (4, 6, 2, 2)]
}
CONV = ((1, 1), (1, 1, 1, 1), (1, 1), False, (0, 0))
#: kind, shapes of x and of the result, the other arguments, taken by the float target
CASES = [
    ("convolution", (N, 4, 8, 8), (N, 6, 8, 8), (W[6, 4, 3, 3], None, *CONV, 1), True),
    ("convolution", (N, 4, 8, 8), (N, 4, 8, 8), (W[4, 2, 3, 3], None, *CONV, 2), False),
    ("convolution", (1, 4, 8, N), (1, 6, 8, N), (W[6, 4, 3, 3], None, *CONV, 1), True),
    ("convolution", (N, 4, 8, 8), (N, 6, 16, 16),
     (W[4, 6, 2, 2], None, (2, 2), (0, 0, 0, 0), (1, 1), True, (0, 0), 1), True),
    ("max_pool2d", (N, 4, 8, 8), (N, 4, 4, 4), ((2, 2), (2, 2), (0, 0), (1, 1), False), True),
    ("max_pool2d", (N, 4, 9, 9), (N, 4, 4, 4), ((2, 2), (2, 2), (0, 0), (1, 1), False), False),
    ("avg_pool2d", (N, 4, 8, 8), (N, 4, 8, 8), ((3, 3), (1, 1), (1, 1), False, True, None), True),
    ("linear", (N, 4, 8), (N, 4, 5), (W[5, 8], None), False),
    ("softmax", (N, 4, 8), (N, 4, 8), (2,), True),
    ("layer_norm", (N, 4, 8), (N, 4, 8), ((8,), None, None, 1e-5), True),
    ("group_norm", (N, 4, 8, 8), (N, 4, 8, 8), (2, None, None, 1e-5), False),
]  # fmt: skip


@pytest.mark.parametrize("limits", [TOSA_FP, TOSA_INT, U55, U85], ids=label)
@pytest.mark.parametrize(("kind", "x", "out", "rest", "taken"), CASES, ids=label)
def test_rules_take_symbolic_dimensions_or_refuse(
    kind, x, out, rest, taken, limits: Limits
) -> None:
    quantized = limits is not TOSA_FP
    dtype, quant = (DType.INT8, Quant(0.05)) if quantized else (DType.FP32, None)
    b = Builder()
    value = b.input(TensorType(dtype, x, quant), "x")

    def place(argument):
        if not isinstance(argument, np.ndarray):
            return argument
        weight = constant(
            argument, Quant(0.05) if quantized else None, None if quantized else DType.FP32
        )
        return b.const(weight.stored, weight.type.dtype, weight.type.quant)

    operands, attrs = pack((value, *map(place, rest)), {})
    graph = b.finish(b.emit("aten." + kind, operands, attrs, (TensorType(dtype, out, quant),)))
    result = lower(graph, limits, FAMILIES[limits.name])
    if limits is TOSA_FP:
        assert bool(result.reasons) != taken
    for reason in result.reasons:
        assert "n" in reason.why and reason.op == "aten." + kind


def test_numbers_of_a_symbolic_shape() -> None:
    assert TensorType(DType.INT8, (N, 3)).size == 3 * N
    with pytest.raises(SymbolicShape, match=r"number n, and n .1..8. is known only at run time"):
        int(N)
