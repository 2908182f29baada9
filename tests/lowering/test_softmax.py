"""softmax and log_softmax: within a step on integers, whatever the rows look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from npuc.dialects.tosa import Limits
from npuc.ir import DType, Graph, Quant
from npuc.passes.pipeline import run_passes
from tests.lowering.harness import (
    TOLERANCE,
    TOSA_BF16,
    TOSA_FP,
    TOSA_INT,
    TOSA_INT16,
    U55,
    U85,
    check_op,
    given,
    int16,
    label,
    lowered,
    ops,
    quant_for,
    refuses,
    torch_result,
    vela,
)

#: what quantizers fix for probabilities
PROBABILITY = Quant(1 / 256, -128)
#: passes of Ethos-U targets that matter for the cycles of a softmax
PASSES = (
    "narrow_products",
    "cheapen_widenings",
    "halve_maxima",
    "cheapen_reductions",
    "separate_rescales",
)
SHAPES = [
    ((64, 256), 1),
    ((2, 3, 40, 50), 3),
    ((1, 21, 8, 9), 1),
    ((10,), 0),
    ((3, 7), 0),
    ((4, 2000), 1),
]
INTEGERS = pytest.mark.parametrize("limits", [TOSA_INT, TOSA_INT16, U55, U85], ids=label)


def softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.softmax(x, dim)


def log_softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.log_softmax(x, dim)


def logits(shape: tuple[int, ...], spread: float | None = None) -> np.ndarray:
    """Rows of different widths, or all of `spread`."""
    rng = np.random.default_rng(len(shape))
    widths = rng.uniform(0.3, 4, (*shape[:-1], 1)) if spread is None else spread
    return rng.normal(size=shape) * widths


def check(
    fn: Any, shape: tuple[int, ...], dim: int, limits: Limits, out: Quant | None = None,
    spread: float | None = None, bits: int = 8, **options: Any,
) -> Graph:  # fmt: skip
    x = logits(shape, spread)
    args = (given(x, quant_for(x, bits)), dim)
    out = out or quant_for(torch_result(args, {}, fn)[0], bits)
    return check_op(f"aten.{fn.__name__}", args, fn, out_quant=out, limits=limits, **options)


@INTEGERS
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=label)
def test_int8_softmax(shape, dim: int, limits: Limits) -> None:
    few = 2 / np.prod(shape)
    check(softmax, shape, dim, limits, PROBABILITY, wrong=max(0.01, few))
    check(softmax, shape, dim, limits, wrong=max(0.03, few))  # calibrated: tiny steps for long rows


@INTEGERS
@pytest.mark.parametrize("spread", [20.0, 0.01], ids=label)
def test_int8_softmax_of_extreme_rows(spread: float, limits: Limits) -> None:
    check(softmax, (16, 200), 1, limits, PROBABILITY, spread, wrong=0.01)


@INTEGERS
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=label)
def test_int8_log_softmax(shape, dim: int, limits: Limits) -> None:
    check(log_softmax, shape, dim, limits, wrong=0.05)


@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=label)
def test_int16(shape, dim: int) -> None:
    """513 entries and 16-bit indices leave a few of 65,536 steps, most in long rows."""
    check(softmax, shape, dim, TOSA_INT16, int16(1 / 32768), bits=16, steps=24)
    check(log_softmax, shape, dim, TOSA_INT16, bits=16, steps=40)


@pytest.mark.parametrize(
    ("limits", "dtype"),
    [(TOSA_FP, DType.FP32), (TOSA_FP, DType.FP16), (TOSA_BF16, DType.BF16)],
    ids=label,
)
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=label)
def test_floats(shape, dim: int, limits: Limits, dtype: DType) -> None:
    args = (given(logits(shape, 8.0), dtype=dtype), dim)
    for fn in (softmax, log_softmax):
        check_op(f"aten.{fn.__name__}", args, fn, limits=limits, tolerance=5 * TOLERANCE[dtype])


def test_large_floats_do_not_overflow() -> None:
    args = (given(np.array([[1e30, 1e30, -1e30]], np.float32)), 1)
    check_op("aten.softmax", args, softmax)


@pytest.mark.parametrize(
    ("fn", "u55", "u85"), [(softmax, 56_000, 15_000), (log_softmax, 104_000, 34_000)], ids=label
)
def test_cycles_of_64_rows_of_256(fn: Any, u55: int, u85: int) -> None:
    """Vela's own softmax takes 298,170 and 140,156."""
    x = logits((1, 64, 256))
    args = (given(x, quant_for(x)), 2)
    out = PROBABILITY if fn is softmax else quant_for(torch_result(args, {}, fn)[0])
    for limits, most in ((U55, u55), (U85, u85)):
        graph = lowered(f"aten.{fn.__name__}", args, fn, out_quant=out, limits=limits)
        result = vela(run_passes(graph, PASSES, limits), limits.name)
        assert result.perf["total_cycles"] <= most, (limits.name, result.perf["total_cycles"])


def test_cycles_of_fine_steps() -> None:
    """DeiT's attention, where no probability is above 0.011: products of 32 bits, no RESCALE left.

    With one left they were 957,540 and 459,563.
    """
    fine = Quant(4.1e-5, -128)
    for limits, most in ((U55, 553_000), (U85, 190_000)):
        graph = check(softmax, (3, 197, 197), 2, limits, fine, spread=0.3, wrong=0.01)
        result = vela(run_passes(graph, PASSES, limits), limits.name)
        assert result.perf["total_cycles"] <= most, (limits.name, result.perf["total_cycles"])


@INTEGERS
@pytest.mark.parametrize("step", [2.0**-14.5, 1e-5, 1e-7])
def test_fine_steps(step: float, limits: Limits) -> None:
    check(softmax, (8, 300), 1, limits, Quant(step, -128), spread=0.2, wrong=0.01)


def test_one_row_needs_no_transposition_for_its_maximum() -> None:
    assert "TRANSPOSE" not in ops(check(softmax, (1, 10), 1, U55, PROBABILITY))


def test_refusals() -> None:
    x = np.zeros((1, 70000))
    args = (given(x, quant_for(x)), 1)
    refuses("aten.softmax", args, softmax, "softmax over 70000 elements; sums take 65536",
            out_quant=PROBABILITY, limits=TOSA_INT)  # fmt: skip
