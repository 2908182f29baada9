"""16-bit operands of functions with an 8-bit result, on targets with 8-bit tables only."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from npuc.ir import Quant
from npuc.lowering.aten_to_tosa.table_segments import BAD, MOST, segments_of
from tests.lowering.harness import TOSA_INT, check_op, given, int16, lowered, ops, refuses
from tests.lowering.test_unary_float import FUNCTIONS, schema
from tests.lowering.test_unary_quantized import operand, result_quant

aten = torch.ops.aten
CODES = np.arange(-(2**15), 2**15)


class Refuser:
    """What `segments_of` needs of a builder."""

    def require(self, condition: bool, reason: str, hint: str) -> None:
        assert condition, reason


@pytest.mark.parametrize("kind", [k for k in FUNCTIONS if k not in ("frac", "tan")])
def test_functions_are_within_a_step(kind: str) -> None:
    x = operand(kind, 16, 4001)
    args, kwargs = schema(kind)
    check_op(
        f"aten.{kind}", (x, *args), getattr(aten, kind), kwargs=kwargs, limits=TOSA_INT,
        out_quant=result_quant(kind, x, 8), steps=1, wrong=0.6,
    )  # fmt: skip


def test_a_root_tells_small_values_apart() -> None:
    """8 bits of the operand would give one result for the first 128 codes."""
    with np.errstate(invalid="ignore"):
        root = np.sqrt(CODES) / 181 * 255 - 128
    segments = segments_of(Refuser(), root)  # type: ignore[arg-type]
    assert segments[0].step == 128 and len(segments) <= 6
    finest = min(segments, key=lambda s: s.step)
    assert (finest.step, finest.first) == (1, 0)
    assert len(set(finest.evaluate(np.arange(finest.last + 1)))) > 10
    x = given(np.arange(0, 32000, 100) / 1000, quant=int16(1 / 1000))
    graph = check_op(
        "aten.sqrt", (x,), aten.sqrt, limits=TOSA_INT, out_quant=Quant(0.0225, -128), steps=1,
        wrong=0.3,
    )  # fmt: skip
    assert ops(graph).count("TABLE") == ops(graph).count("SELECT") + 1 <= 6


def test_what_one_table_can_do_is_one_table() -> None:
    x = given(np.linspace(-30, 30, 901), quant=int16(1 / 1000))
    for kind, out in (("tanh", Quant(1 / 4)), ("neg", Quant(1.0))):
        graph = lowered(f"aten.{kind}", (x,), getattr(aten, kind), limits=TOSA_INT, out_quant=out)
        assert ops(graph) == ["RESCALE", "RESCALE", "TABLE"], kind


@pytest.mark.parametrize("power", [0.25, 0.5, 1.0, 3.0])
def test_few_tables_follow_powers(power: float) -> None:
    with np.errstate(invalid="ignore"):
        curve = np.clip((CODES / 32767) ** power * 255 - 128, -128, 127)
    segments = segments_of(Refuser(), curve)  # type: ignore[arg-type]
    now = np.zeros(CODES.size)
    for s in segments:
        inside = (s.first <= CODES) & (s.last >= CODES) if s is not segments[0] else CODES > -99999
        now[inside] = s.evaluate(CODES[inside])
    assert np.nanmax(np.abs(now - curve)) <= BAD and len(segments) <= MOST


def test_what_no_table_can_follow_is_refused() -> None:
    refuses(
        "aten.sin", (given(np.linspace(-3000, 3000, 901), quant=int16(0.1)),), aten.sin,
        "8-bit tables of a 16-bit operand are off by up to", limits=TOSA_INT,
        out_quant=Quant(1 / 127),
    )  # fmt: skip
