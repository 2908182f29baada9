"""Ops that are quantized step by step for Neutron, whose values have 8 bits: what they become, and
how near they are to the model in float."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import npuc
from npuc.lowering.registry import known_kinds, quantized_kinds
from tests.neutron.test_neutron_target import IMAGE, Of, compiled, operators, sqnr

ROWS = torch.randn(1, 64, 128, generator=torch.Generator().manual_seed(1))
POSITIVE = IMAGE.abs() + 0.3
SPREAD = ROWS * torch.logspace(-2, 0, 64)[:, None]


def layer(module: nn.Module) -> nn.Module:
    """A norm with weights that are not 1."""
    torch.manual_seed(2)
    for name, parameter in module.named_parameters():
        with torch.no_grad():
            parameter.uniform_(0.5, 1.5) if name == "weight" else parameter.normal_(0, 0.3)
    return module


NORMS: list[tuple[str, Callable[[], nn.Module], Tensor, float]] = [
    ("layer norm", lambda: layer(nn.LayerNorm(128)), ROWS, 32),
    ("layer norm of two axes", lambda: layer(nn.LayerNorm((16, 16))), IMAGE, 32),
    ("rms norm", lambda: layer(nn.RMSNorm(128)), ROWS, 35),
    ("group norm", lambda: layer(nn.GroupNorm(4, 8)), IMAGE, 32),
    ("instance norm", lambda: layer(nn.InstanceNorm2d(8, affine=True)), IMAGE, 32),
]


@pytest.mark.parametrize(("name", "make", "x", "least"), NORMS, ids=[n[0] for n in NORMS])
def test_norms(name: str, make: Callable[[], nn.Module], x: Tensor, least: float) -> None:
    c = compiled(make(), x)
    assert operators(c)["RSQRT"] == 1
    assert sqnr(c) > least


STEPS: list[tuple[str, Callable[..., Tensor], tuple[Tensor, ...], float]] = [
    ("quotient", lambda a, b: a / b, (IMAGE, POSITIVE), 30),
    ("quotient by a constant tensor", lambda a: a / torch.linspace(1, 4, 16), (IMAGE,), 34),
    ("softsign", F.softsign, (IMAGE,), 36),
    ("log of softmax", lambda a: F.log_softmax(a, 1), (IMAGE,), 38),
    ("length", lambda a, b: (a**2 + b * b).sqrt(), (SPREAD, SPREAD.flip(2)), 34),
    ("variance", lambda a: a.var(1), (IMAGE,), 36),
    ("biased", lambda a: a.var((2, 3), unbiased=False), (IMAGE,), 36),
    ("deviation", lambda a: a.std((2, 3), keepdim=True), (IMAGE,), 38),
    ("of everything", lambda a: a.std(), (IMAGE,), 38),
    ("normalized", lambda a: F.normalize(a, dim=1), (IMAGE,), 34),
]


@pytest.mark.parametrize(("name", "function", "inputs", "least"), STEPS, ids=[s[0] for s in STEPS])
def test_steps(
    name: str, function: Callable[..., Tensor], inputs: tuple[Tensor, ...], least: float
) -> None:
    c = compiled(Of(function), *inputs)
    operators(c)
    assert sqnr(c) > least


def test_a_transformer_block() -> None:
    torch.manual_seed(0)
    block = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu")
    c = compiled(block, torch.randn(1, 10, 32))
    found = operators(c)
    assert found["BATCH_MATMUL"] == 2 and found["SOFTMAX"] == 1 and found["RSQRT"] == 2
    assert sqnr(c) > 25


def test_other_targets_keep_them_whole() -> None:
    assert "aten.layer_norm" in known_kinds("tflite")
    assert "aten.layer_norm" in quantized_kinds("tflite", ("tflite",))
    assert "aten.native_layer_norm" not in quantized_kinds("tflite", ("neutron",))
    x = (ROWS,)
    c = npuc.compile(nn.LayerNorm(128), x, target="tflite", quantization="int8", calibration=[x],
                     progress=False)  # fmt: skip
    assert "RSQRT" not in c.performance["operators"]


def test_a_deviation_is_the_root_of_a_variance_as_a_whole_elsewhere() -> None:
    x = (IMAGE,)
    c = npuc.compile(Of(lambda a: a.std(1)), x, target="tosa-1.0+int", quantization="int8",
                     calibration=[x], progress=False)  # fmt: skip
    assert [v.kind for v in c.coverage] == ["aten.var.correction", "aten.sqrt"]
