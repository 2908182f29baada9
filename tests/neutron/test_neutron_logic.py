"""Comparisons, choices and truth values as INT8; elements at constant places. Inputs lie on the
quantized grid, so that comparisons have one right answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from npuc.errors import Unsupported
from tests.neutron.test_neutron_target import Of, compiled, operators

GENERATOR = torch.Generator().manual_seed(3)
X, Y = (torch.randn(1, 8, 6, 20, generator=GENERATOR) for _ in range(2))
Function = Callable[..., Any]


def on_grid(c: Any, place: int, x: Tensor) -> Tensor:
    """The values that the artifact reads for `x`."""
    io = c.io.inputs[place]
    codes = torch.clamp(torch.round(x / io.scale) + io.zero_point, -128, 127)
    return (codes - io.zero_point) * io.scale


FUNCTIONS: dict[str, Function] = {
    "kept where": lambda x: x * (x > 0.3),
    "chosen": lambda x: torch.where(x > 0.3, x, -x),
    "number": lambda x: torch.where(x <= 0.25, 1.5, x),
    "masked": lambda x: x.masked_fill(torch.ones(6, 20).triu(1).bool(), -3.0),
    "lower triangle": torch.tril,
    "and, or, not": lambda x: torch.where((x > 0) & (x < 1) | ~(x > -1), x, x * 0.5),
    "exclusive or": lambda x: ((x > 0) ^ (x > 1)).float() * x,
    "logical": lambda x: torch.where(torch.logical_and(x > 0, x.bool()), x, 0.0),
    "any": lambda x: (x > 2).any(1, keepdim=True) * x,
    "all": lambda x: (x < 2).all(1, keepdim=True) * x,
    "equal": lambda x: (F.relu(x) == 0) * x,
    "not equal": lambda x: torch.where(F.relu(x) != 0, x, x * 0.5),
    "flipped": lambda x: x.flip(1),
    "flipped along a long axis": lambda x: x.flip(3),
    "places": lambda x: x[:, [3, 4, 1, 7, 7]],
    "many places": lambda x: x[..., [*range(19, 0, -2), *range(0, 20, 2)]],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name: str) -> None:
    function = FUNCTIONS[name]
    c = compiled(Of(function), X)
    operators(c)
    x = on_grid(c, 0, X)
    assert float((c.run(x) - function(x)).abs().max()) <= 1.01 * c.io.outputs[0].scale


@pytest.mark.parametrize("compare", [torch.gt, torch.ge, torch.lt, torch.le, torch.eq, torch.ne])
def test_truth_values_are_outputs(compare: Function) -> None:
    c = compiled(Of(lambda x: compare(x, 0.5)), X)
    x = on_grid(c, 0, X)
    got = c.run(x)
    assert got.dtype is torch.bool and torch.equal(got, compare(x, 0.5))


def test_two_tensors() -> None:
    c = compiled(Of(lambda x, y: x > y), X, Y)
    x, y = on_grid(c, 0, X), on_grid(c, 1, Y)
    clear = (x - y).abs() > min(p.scale for p in c.io.inputs)
    assert torch.equal(c.run(x, y)[clear], (x > y)[clear]) and clear.float().mean() > 0.9


@pytest.mark.parametrize(
    ("function", "x", "why"),
    [
        (lambda x: x[..., 0].long() > 3, X, "INT32|FP32|float"),
        (lambda x: F.embedding(x, torch.randn(9, 4)), torch.arange(9), "gathers nothing"),
        (lambda x: x.gather(1, x[:, :2].long().clamp(0, 1)), X, "Neutron"),
    ],
)
def test_refusals(function: Function, x: Tensor, why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        compiled(Of(function), x)
