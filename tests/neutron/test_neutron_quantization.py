"""What Neutron demands of quantization, and that ranges are real where ExecuTorch's are not."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from npuc.quantizer import Recipe
from npuc.targets.neutron import DEMANDS
from tests.neutron.test_neutron_target import IMAGE, Of, compiled, operators, sqnr

POSITIVE = IMAGE.abs() + 0.5
#: function, inputs, dB that is reached at least (ExecuTorch's backend: mul 0.7, mul by 3 0.2, div 1.8,
#: exp 4.9, mean 19.8, sum 32.7)
RANGES: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...], float]] = {
    "mul": (lambda a, b: a * b, (IMAGE, IMAGE.flip(1)), 30),
    "mul by a number": (lambda a: a * 3.0, (IMAGE,), 39),
    "div by a number": (lambda a: a / 4, (IMAGE,), 39),
    "exp": (lambda a: torch.exp(a / 2), (IMAGE,), 30),
    "mean": (lambda a: a.mean((2, 3)), (IMAGE,), 37),
    "sum": (lambda a: a.sum((2, 3)), (IMAGE,), 37),
    "neg": (lambda a: -a, (IMAGE.abs(),), 42),
    "rsqrt": (torch.rsqrt, (POSITIVE,), 40),
    "log": (torch.log, (POSITIVE,), 33),
}


@pytest.mark.parametrize("name", RANGES)
def test_real_ranges(name: str) -> None:
    function, inputs, least = RANGES[name]
    assert sqnr(compiled(Of(function), *inputs)) > least


class Attention(nn.Module):
    """Queries, keys and values of one input."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / 4, -1)
        return weights @ self.v(x)


def test_products_are_symmetric_and_nothing_else_is() -> None:
    torch.manual_seed(0)
    c = compiled(Attention(), torch.randn(2, 8, 16) + 1)
    assert operators(c)["BATCH_MATMUL"] == 2
    for op in c.graph.ops:
        if op.kind == "tflite.BATCH_MATMUL":
            assert [v.type.quant.zp for v in op.operands] == [0, 0]
        if op.kind == "tflite.SOFTMAX":
            quant = op.results[0].type.quant
            assert (quant.s, quant.zp) == (1 / 256, -128)
    assert c.io.inputs[0].zero_point != 0, (
        "the input of a layer with constant weights is not symmetric"
    )
    assert sqnr(c) > 28


def test_demands_hold_for_every_recipe() -> None:
    inner = Recipe(ranges="minmax")
    recipe = Recipe(module_names={"a": inner, "b": None, "c": "int8"}).demanding(DEMANDS)
    recipes = [recipe, recipe.module_names["a"], recipe.module_names["c"]]
    for found in recipes:
        assert isinstance(found, Recipe)
        assert {k: getattr(found, k) for k in DEMANDS} == DEMANDS
    assert recipe.module_names["b"] is None and recipe.module_names["a"].ranges == "minmax"
    assert not inner.symmetric_products, "the user's own recipe is not changed"


def strict(model: nn.Module, x: tuple[Tensor, ...]) -> Any:
    """A strict export."""
    return torch.export.export(model, x, strict=True)


def not_strict(model: nn.Module, x: tuple[Tensor, ...]) -> Any:
    """One that is not."""
    return torch.export.export(model, x, strict=False)


def reloaded(model: nn.Module, x: tuple[Tensor, ...]) -> Any:
    """A program that was saved and loaded."""
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(model, x, strict=False), buffer)
    buffer.seek(0)
    return torch.export.load(buffer)


@pytest.mark.parametrize("export", [strict, not_strict, reloaded])
def test_every_kind_of_program(export: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(1568, 3)
    )
    program = export(model.eval(), (IMAGE,))
    import npuc

    with pytest.warns(UserWarning, match="eiq_neutron_sdk"):
        c = npuc.compile(
            program, (IMAGE,), target="neutron-imxrt700", quantization="int8", calibration=[(IMAGE,)],
            progress=False,
        )  # fmt: skip
    assert operators(c)["CONV_2D"] == 2 and sqnr(c) > 30
