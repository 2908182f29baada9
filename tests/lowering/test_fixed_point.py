"""Functions of one integer per row, over the whole range of INT32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from npuc.dialects.tosa import Limits
from npuc.ir import DType, TensorType
from npuc.lowering.aten_to_tosa import fixed_point
from npuc.lowering.tosa_builder import TosaBuilder
from tests.lowering.harness import TOSA_INT, TOSA_INT16, label, run

RNG = np.random.default_rng(0)
V = np.unique(np.concatenate([
    np.arange(1, 3000), np.exp(RNG.uniform(0, np.log(2.0**31 - 1), 5000)).astype(np.int64),
    [2**30 - 1, 2**30, 2**31 - 1],
])).astype(np.int32)  # fmt: skip
TARGETS = pytest.mark.parametrize("limits", [TOSA_INT, TOSA_INT16], ids=label)


def results(function: Callable[..., Any], limits: Limits, *args: Any) -> list[np.ndarray]:
    b = TosaBuilder(limits)
    v = b.input(TensorType(DType.INT32, (1, V.size)), "v")
    y = function(b, v, *args)
    graph = b.finish(y if isinstance(y, tuple) else (y,))
    return [r[0].astype(np.float64) for r in run(graph, [V[None]])]


@TARGETS
def test_reciprocal(limits: Limits) -> None:
    t, n = results(fixed_point.reciprocal, limits)
    assert np.abs(t - 2.0**45 / (V * 2.0**n)).max() < 2.1
    t, n = results(fixed_point.precise_reciprocal, limits)
    assert np.abs(t / (2.0**60 / (V * 2.0**n)) - 1).max() < 1e-6 * (60 if limits is TOSA_INT else 1)


@TARGETS
def test_inverse_sqrt(limits: Limits) -> None:
    exact = 2.0**29 / np.sqrt(V)
    (r,) = results(fixed_point.inverse_sqrt, limits)
    assert np.abs(r / exact - 1).max() < 2e-4
    (r,) = results(fixed_point.precise_inverse_sqrt, limits)
    assert (np.abs(r - exact) <= 0.6 + exact * 4e-5).all()
    t, h = results(fixed_point.narrow_inverse_sqrt, limits)
    assert np.abs(t * 2.0**h / exact - 1).max() < 2e-4 and t.max() < 2**15


@TARGETS
def test_logarithm(limits: Limits) -> None:
    (y,) = results(fixed_point.logarithm, limits, 12)
    assert np.abs(y - np.log(V.astype(np.float64)) * 2**12).max() < 0.8
