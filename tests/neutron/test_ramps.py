"""Functions without tables: sums of ramps, against the exact table code by code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from npuc.errors import Unsupported
from npuc.execute.tflite import run_tflite
from npuc.ir import DType, Quant, TensorType
from npuc.lowering.aten_to_tflite.ramps import ramps_of
from npuc.lowering.tflite_builder import TfliteBuilder
from npuc.serialize.tflite_flatbuffer import serialize
from npuc.targets.neutron import neutron_target
from tests.neutron.test_neutron_target import IMAGE, Of, compiled, operators, sqnr

CODES = np.arange(-128, 128)
Function = Callable[[np.ndarray], np.ndarray]


def quant_over(low: float, high: float) -> Quant:
    """INT8 parameters for a range."""
    scale = (high - low) / 255
    return Quant(scale, round(-128 - low / scale), None, -128, 127)


def noise(x: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).normal(size=x.shape)


FUNCTIONS: dict[str, tuple[Function, Quant, Quant]] = {
    "root": (lambda x: np.sqrt(np.maximum(x, 0)), quant_over(0, 9), quant_over(0, 3)),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(x)), quant_over(-5, 5), quant_over(-1, 5)),
    "sine": (np.sin, quant_over(-6, 6), quant_over(-1, 1)),
    "clipped": (lambda x: x**3, quant_over(-3, 3), quant_over(-4, 9)),
    "pole": (lambda x: 1 / np.where(x == 0, 1e-9, x), quant_over(-4, 4), quant_over(-3, 3)),
    "step": (lambda x: (x > 0.3) * 1.0, quant_over(-2, 2), quant_over(0, 1)),
    "noise": (noise, quant_over(-1, 1), quant_over(-3, 3)),
    "constant": (lambda x: x * 0 + 0.5, quant_over(-1, 1), quant_over(-1, 1)),
    "identity": (lambda x: x, quant_over(-1, 1), quant_over(-1, 1)),
    "falling": (lambda x: -x, quant_over(-1, 3), quant_over(-3, 1)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_codes_in_litert(name: str) -> None:
    function, given, result = FUNCTIONS[name]
    b = TfliteBuilder(neutron_target("neutron-imxrt700").limits, ("neutron",))
    x = b.input(TensorType(DType.INT8, (1, 256), given), "x")
    y = b.lookup(x, function, TensorType(DType.INT8, (1, 256), result))
    (got,) = run_tflite(serialize(b.finish([y])), [CODES[None].astype(np.int8)])
    real = (CODES - given.zp).astype(np.float32) * np.float32(given.s)
    exact = np.clip(function(real.astype(np.float64)) / result.s + result.zp, -128, 127)
    off = np.abs(got[0].astype(np.int32) - np.rint(exact))
    assert off.max() <= 1 and off.mean() < 0.25
    if name in ("step", "constant", "identity", "falling"):
        assert off.max() == 0


def test_smooth_functions_take_few_ramps() -> None:
    x = np.linspace(-4, 4, 256)
    values = F.gelu(torch.from_numpy(x)).numpy()
    steps = (values - values.min()) / np.ptp(values) * 255 - 128
    assert len(ramps_of(steps).weights) < 25
    assert len(ramps_of(np.linspace(-128, 127, 256)).weights) < 12


@pytest.mark.parametrize(
    ("function", "least"),
    [
        (F.gelu, 39), (F.elu, 38), (F.silu, 38), (F.mish, 38), (torch.sin, 34), (F.softplus, 39),
        (lambda x: torch.sqrt(x.abs()), 36), (lambda x: (x.abs() + 0.1) ** 0.7, 39),
    ],
)  # fmt: skip
def test_functions_that_neutron_does_not_have(
    function: Callable[[Tensor], Tensor], least: float
) -> None:
    c = compiled(Of(function), IMAGE)
    assert operators(c)["FULLY_CONNECTED"] == 2
    assert sqnr(c) > least


def test_between_convolutions_nothing_is_transposed() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(8, 8, 3), nn.GELU(), nn.Conv2d(8, 4, 3))
    c = compiled(net, IMAGE)
    assert operators(c) == {"TRANSPOSE": 2, "CONV_2D": 2, "RESHAPE": 2, "FULLY_CONNECTED": 2}
    assert "TRANSPOSE" not in operators(compiled(net, IMAGE, io_layout="channels_last"))


@pytest.mark.parametrize(
    ("shape", "dim", "least"),
    [((2040,), 0, 44), ((5, 4, 3, 2, 180), -1, 28), ((1, 100, 4, 4), 1, 32)],
)
def test_softmax_of_small_results(shape: tuple[int, ...], dim: int, least: float) -> None:
    """The operator's steps of 1/256 would leave zeros, or codes of one digit."""
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0)) * 2
    c = compiled(Of(lambda x: x.softmax(dim)), x)
    found = operators(c)
    assert found["FULLY_CONNECTED"] == 2 and found["EXP"] == 1 and "SOFTMAX" not in found
    assert sqnr(c) > least


def test_softmax_of_large_results_is_one_operator() -> None:
    c = compiled(Of(lambda x: x.softmax(-1)), torch.randn(4, 10))
    assert operators(c) == {"SOFTMAX": 1}


def test_wide_values_are_refused() -> None:
    b = TfliteBuilder(neutron_target("neutron-imxrt700").limits, ("neutron",))
    x = b.input(TensorType(DType.INT16, (4,), Quant(0.1, 0, None, -(2**15), 2**15 - 1)), "x")
    with pytest.raises(Unsupported, match="16-bit"):
        b.lookup(x, np.sin, TensorType(DType.INT8, (4,), quant_over(-1, 1)))
