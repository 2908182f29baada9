"""Convolutions on Ethos-U: same numbers, and Vela runs them in few operations."""

from __future__ import annotations

import numpy as np
import pytest

from npuc.dialects.tosa import Limits
from npuc.ir import DType, Graph, Op
from tests.lowering.convolutions import PLAIN, TRANSPOSED, Conv, check_quantized, conv_fn
from tests.lowering.harness import (
    U55,
    U85,
    constant,
    given,
    lowered,
    quant_for,
    refuses,
    vela,
    weight_quant,
)

#: forms that the chips run badly or not at all as they are
HARD = [
    Conv((1, 3, 32, 32), (8, 3, 4, 4), 4),
    Conv((1, 3, 33, 35), (8, 3, 7, 7), 4, (3, 3, 2, 2)),
    Conv((2, 3, 33, 35), (8, 3, 7, 5), (5, 1), (3, 3, 2, 2)),
    Conv((1, 3, 33, 35), (8, 3, 3, 3), (4, 5), (3, 3, 2, 2), 2),
    Conv((2, 2, 101), (5, 2, 10), 5, 3),
    Conv((1, 4, 19, 18), (4, 1, 3, 3), (4, 5), 1, groups=4),
    Conv((1, 4, 19, 18), (8, 1, 3, 3), pad=1, groups=4),
    Conv((1, 4, 19, 18), (6, 4, 3, 3), 1, 4, 4),
    Conv((2, 4, 19, 18), (6, 4, 3, 3), 1, (5, 2, 0, 4), (3, 4)),
    Conv((1, 4, 19, 18), (6, 4, 1, 3), 1, (0, 0, 6, 6), (1, 6)),
    Conv((1, 4, 19, 18), (6, 4, 3, 1), 1, (0, 0, 0, 0), (6, 1)),
    Conv((1, 4, 19, 18), (4, 1, 3, 3), 1, (3, 3, 5, 5), (3, 5), 4),
    Conv((1, 4, 19, 18), (4, 1, 3, 3), 1, (3, 3, 3, 3), (3, 3), 4),
    Conv((1, 4, 100), (6, 4, 3), 1, (32, 0), 16),
    Conv((2, 4, 101), (6, 4, 3), 1, 9, 9),
    Conv((1, 4, 100), (6, 4, 3), 1, (5, 0), 4),
    Conv((2, 4, 9, 8), (6, 4, 1, 1)),
    Conv((1, 4, 30, 1), (6, 4, 5, 1), (2, 1), (2, 2, 0, 0)),
    Conv((1, 2, 300), (3, 2, 400), 1, 200),
    Conv((1, 4, 5, 6), (4, 2, 4, 4), 2, 1, groups=4, transposed=True),
]
CHIPS = pytest.mark.parametrize("limits", [U55, U85], ids=lambda limits: limits.name[6:])


@CHIPS
@pytest.mark.parametrize("conv", PLAIN + TRANSPOSED + HARD, ids=str)
def test_int8_is_within_a_step_and_vela_takes_it(conv: Conv, limits: Limits) -> None:
    graph = check_quantized(conv, limits=limits)
    assert not padded_convolutions(graph)
    vela(graph, limits.name)


def padded_convolutions(graph: Graph) -> list[Op]:
    """Convolutions right behind a PAD: Vela fuses a PAD by 0, and pads with another value."""
    return [
        op for op in graph.ops
        if "CONV" in op.name and op.operands[0].op is not None and op.operands[0].op.name == "PAD"
    ]  # fmt: skip


@CHIPS
@pytest.mark.parametrize("conv", HARD[::3] + TRANSPOSED[:4], ids=str)
def test_int16_is_within_a_step_and_vela_takes_it(conv: Conv, limits: Limits) -> None:
    vela(check_quantized(conv, 16, limits=limits), limits.name)


def cycles(conv: Conv, limits: Limits, *, native: bool) -> tuple[int, int]:
    """Cycles without transpositions at the boundary, and operations, by Vela."""
    x, w, bias = conv.values()
    axis = 1 if conv.transposed else 0
    args = (given(x, quant_for(x)), constant(w, weight_quant(w, axis)),
            None if bias is None else constant(bias), *conv.arguments())  # fmt: skip
    graph = lowered("aten.convolution", args, conv_fn, out_quant=quant_for(x), limits=limits,
                    families=() if native else None)  # fmt: skip
    result = vela(graph, limits.name)
    return int(result.perf["total_cycles"]), len(result.ops)


@pytest.mark.parametrize(
    ("conv", "factor"),
    [
        (Conv((1, 3, 64, 64), (64, 3, 4, 4), 4), 5),  # one operation per patch
        (Conv((1, 16, 24, 24), (16, 16, 3, 3), 1, 6, 6), 3),
        (Conv((1, 16, 128), (16, 16, 3), 1, (32, 0), 16), 4),
        (Conv((1, 16, 16, 16), (16, 16, 3, 3), 2, 1, output_padding=1, transposed=True), 1.4),
        (Conv((1, 16, 16, 16), (32, 1, 3, 3), pad=1, groups=16), 1.5),
    ],
    ids=str,
)
@CHIPS
def test_the_rewritten_form_is_faster(conv: Conv, factor: float, limits: Limits) -> None:
    ours, _ = cycles(conv, limits, native=False)
    native, _ = cycles(conv, limits, native=True)
    assert ours * factor < native, (ours, native)


def test_computed_weights_are_refused_by_u55() -> None:
    conv = PLAIN[0]
    x, w, _ = conv.values()
    args = (given(x, quant_for(x)), given(w, quant_for(w)), None, *conv.arguments())
    refuses("aten.convolution", args, conv_fn, "weights computed at run time",
            out_quant=quant_for(x), limits=U55)  # fmt: skip


def test_4_bit_weights_on_ethos_u() -> None:
    graph = check_quantized(PLAIN[0], weight_bits=4, limits=U85)
    (conv,) = [op for op in graph.ops if op.name == "CONV2D"]
    assert conv.operands[1].type.dtype is DType.INT4
    assert np.abs(conv.operands[1].array).max() <= 7
    vela(graph, U85.name)
