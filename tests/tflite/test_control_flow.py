"""Branches and loops: IF and WHILE, and what targets without them get."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import npuc
from npuc.serialize.read_tflite import read_tflite


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: v * 2 + 1, lambda v: v - 3, (x,))


class Loop(nn.Module):
    """Doubles until the sum passes 100."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(
            lambda v, n: v.sum() < 100, lambda v, n: (v * 2.0, n + 1), (x, torch.zeros(1))
        )


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_branch(sign: float) -> None:
    x = (torch.rand(2, 3) * sign,)
    c = npuc.compile(Branch(), x, target="tflite", progress=False)
    names = [op.name for op in read_tflite(c.artifact).subgraphs[0].operators]
    assert "IF" in names and len(read_tflite(c.artifact).subgraphs) == 3
    torch.testing.assert_close(c.run(*x), Branch()(*x))
    torch.testing.assert_close(c.run(-x[0]), Branch()(-x[0]))


def test_loop() -> None:
    x = (torch.rand(2, 3) + 0.5,)
    c = npuc.compile(Loop(), x, target="tflite", progress=False)
    assert "WHILE" in [op.name for op in read_tflite(c.artifact).subgraphs[0].operators]
    for got, want in zip(c.run(*x), Loop()(*x), strict=True):
        torch.testing.assert_close(got, want)


def test_a_branch_without_control_flow_is_a_selection() -> None:
    x = (torch.rand(2, 3),)
    target = npuc.Target.named("ethos-u85-256", route="tflite")
    c = npuc.compile(Branch(), x, target=target, quantization="int8", calibration=[x, (-x[0],)],
                     progress=False)  # fmt: skip
    assert "SELECT_V2" in c.performance["operators"]
