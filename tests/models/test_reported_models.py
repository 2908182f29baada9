"""Models as people write them, which once were refused, wrong, or failed in npuc's own check."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import npuc

torch.set_num_threads(1)


def decibels(got: Any, want: torch.Tensor) -> float:
    """Signal to noise of a result against PyTorch's."""
    w, g = want.detach().double().numpy(), got.detach().double().numpy()
    return float(10 * np.log10((w**2).sum() / max(((g - w) ** 2).sum(), 1e-30)))


def right(model: nn.Module, inputs: tuple[Any, ...], target: str, least: float = 30.0) -> Any:
    """Compile `model` (int8 where the target has no floats) with the self-check, compare the first
    output with eager PyTorch, and return the compilation."""
    is_float = target in ("tosa-1.0+fp", "vgf")
    quantization = None if is_float else "int8"
    with torch.no_grad():
        want = model(*inputs)
    c = npuc.compile(model, inputs, target=target, quantization=quantization, progress=False,
                     calibration=None if is_float else [inputs])  # fmt: skip
    got = c.run(*inputs)
    first = (got, want) if isinstance(want, torch.Tensor) else (got[0], want[0])
    assert first[0].shape == first[1].shape and first[0].dtype == first[1].dtype
    assert decibels(*first) > (90 if is_float else least)
    return c


class InstantNorm(nn.Module):
    """DTLN's: the same difference is read with 8 bits and, squared, with 16."""

    def forward(self, x):
        x = torch.log(x + 1e-7)
        mean = x.mean(-1, keepdim=True)
        variance = torch.square(x - mean).mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + 1e-7)


@pytest.mark.parametrize("target", ["ethos-u85-256", "tflite"])
def test_each_form_of_a_value_is_checked_by_itself(target):
    torch.manual_seed(0)
    right(InstantNorm(), (torch.rand(1, 1, 24),), target)


class GruOfTanh(nn.Module):
    """RNNoise's: LiteRT's TANH has 16 bits, the value that the GRU reads has 8."""

    def __init__(self):
        super().__init__()
        self.dense, self.gru = nn.Linear(14, 12), nn.GRU(12, 12, batch_first=True)

    def forward(self, x):
        return self.gru(torch.tanh(self.dense(x)))[0]


def test_a_value_of_8_bits_between_16_bit_ones_is_rounded():
    torch.manual_seed(0)
    right(GruOfTanh().eval(), (torch.randn(1, 3, 14),), "tflite")
