"""Graphs deeper than Python recurses."""

from __future__ import annotations

import torch
from torch import nn

from npuc.frontend.capture import capture
from npuc.quantizer import Recipe, quantize


class Deep(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for k in range(600):
            x = (torch.sigmoid(x), x + 0.25)[k % 2]
        return x


def test_a_chain_longer_than_python_recurses() -> None:
    x = (torch.randn(1, 4),)
    graph = quantize(capture(Deep().eval(), x), x, Recipe.named("int8"), [x], False)
    assert graph is not None
