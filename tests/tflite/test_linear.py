"""Linear layers and matrix products on LiteRT."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.lowering.harness import constant, given, quant_for, weight_quant
from tests.tflite.harness import check_tflite, names

rng = np.random.default_rng(1)


@pytest.mark.parametrize("shape", [(3, 8), (2, 5, 8), (2, 2, 3, 8)])
@pytest.mark.parametrize("bits", [0, 8, 16])
@pytest.mark.parametrize("axis", [0, None])
def test_linear(shape: tuple[int, ...], bits: int, axis: int | None) -> None:
    x = rng.normal(0, 1, shape).astype(np.float32)
    w, bias = rng.normal(0, 0.4, (6, 8)).astype(np.float32), rng.normal(0, 1, 6).astype(np.float32)
    if not bits:
        check_tflite(
            "aten.linear", (given(x), constant(w), constant(bias)), torch.nn.functional.linear
        )
        return
    out = torch.nn.functional.linear(*map(torch.from_numpy, (x, w, bias))).numpy()
    graph = check_tflite(
        "aten.linear", (given(x, quant_for(x, bits)), constant(w, weight_quant(w, axis)), constant(bias)),
        torch.nn.functional.linear, out_quant=quant_for(out, bits), steps=1 if bits == 8 else 3,
    )  # fmt: skip
    assert names(graph) == ["FULLY_CONNECTED"]


@pytest.mark.parametrize(
    "shapes",
    [((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (1, 5, 4, 2)), ((1, 2, 2, 2, 3, 4), (1, 2, 2, 2, 4, 2))],
)  # fmt: skip
@pytest.mark.parametrize("bits", [0, 8, 16])
def test_matmul(shapes: tuple[tuple[int, ...], ...], bits: int) -> None:
    x, y = (rng.normal(0, 1, s).astype(np.float32) for s in shapes)
    if not bits:
        check_tflite("aten.matmul", (given(x), given(y)), torch.matmul)
        return
    args = (given(x, quant_for(x, bits)), given(y, quant_for(y, bits)))
    check_tflite("aten.matmul", args, torch.matmul, out_quant=quant_for(x @ y, bits),
                 steps=1 if bits == 8 else 3)  # fmt: skip


def test_matmul_of_mixed_widths() -> None:
    x, y = (rng.normal(0, 1, s).astype(np.float32) for s in ((2, 3, 4), (2, 4, 5)))
    args = (given(x, quant_for(x, 16)), given(y, quant_for(y, 8)))
    check_tflite("aten.matmul", args, torch.matmul, out_quant=quant_for(x @ y, 16), steps=3)


@pytest.mark.parametrize("widths", [(8, 16), (16, 8)])
def test_linear_of_mixed_widths(widths: tuple[int, int]) -> None:
    x, w = (
        rng.normal(0, 1, (3, 8)).astype(np.float32),
        rng.normal(0, 0.4, (6, 8)).astype(np.float32),
    )
    args = (given(x, quant_for(x, widths[0])), constant(w, weight_quant(w)), None)
    check_tflite("aten.linear", args, torch.nn.functional.linear,
                 out_quant=quant_for(x @ w.T, widths[1]), steps=1 if widths[1] == 8 else 3)  # fmt: skip
