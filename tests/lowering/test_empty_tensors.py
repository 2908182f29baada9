"""Tensors without elements: no target has them, and which one it is must be said."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import npuc


class Empty(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x, x[:, :0] + 1


class Joined(torch.nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return torch.cat([x, y], 1) * 2


def test_results() -> None:
    with pytest.raises(npuc.Unsupported, match=r"SLICE: tensor \(1, 0\) is empty"):
        npuc.compile(Empty(), (torch.ones(1, 3),), target="vgf", progress=False)


def test_inputs() -> None:
    inputs = torch.ones(2, 0), torch.randn(2, 3)
    with pytest.raises(npuc.Unsupported, match=r"input x: its shape \(2, 0\) has no elements"):
        npuc.compile(Joined(), inputs, target="vgf", progress=False)
