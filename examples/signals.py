"""Natural-like signals and settled batch norms for the examples, so that int8 ranges are realistic."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

Inputs = tuple[torch.Tensor, ...]


def generator(seed: int) -> torch.Generator:
    """A seeded generator: every run of an example sees the same data."""
    return torch.Generator().manual_seed(seed)


def image(shape: tuple[int, int, int, int], g: torch.Generator) -> torch.Tensor:
    """Image-like noise: a 1/f spectrum with a few soft blobs, zero mean, unit variance per channel."""
    _, _, h, w = shape
    fy, fx = torch.fft.fftfreq(h)[:, None], torch.fft.rfftfreq(w)[None, :]
    amplitude = 1.0 / torch.clamp((fy**2 + fx**2).sqrt(), min=1.0 / max(h, w))
    base = torch.randn((shape[0], 1, h, w), generator=g)
    noise = 0.8 * base + 0.4 * torch.randn(shape, generator=g)
    picture = torch.fft.irfft2(torch.fft.rfft2(noise) * amplitude, s=(h, w))
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
    picture = picture / picture.std(dim=(2, 3), keepdim=True).clamp(min=1e-6)
    for _ in range(3):
        cy, cx, r = (torch.rand(3, generator=g) * 2 - 1).tolist()
        colour = torch.randn((shape[0], shape[1], 1, 1), generator=g) * 1.5
        r = 0.1 + 0.3 * abs(r)
        picture = picture + colour * torch.sigmoid((r * r - (yy - cy) ** 2 - (xx - cx) ** 2) * 40)
    centred = picture - picture.mean(dim=(2, 3), keepdim=True)
    return centred / picture.std(dim=(2, 3), keepdim=True).clamp(min=1e-6)


def voice(samples: int, g: torch.Generator, rate: int = 16000) -> torch.Tensor:
    """Voice-like audio [1, samples] in -0.25..0.25: gliding harmonics, pauses and a little noise."""
    t = torch.arange(samples) / rate
    f0 = 90 + 160 * torch.rand((), generator=g)
    glide = 1 + 0.15 * torch.sin(2 * math.pi * 3 * t + 6 * torch.rand((), generator=g))
    phase = torch.cumsum(2 * math.pi * f0 * glide / rate, 0)
    out = torch.zeros(samples)
    for k in range(1, 16):
        out += torch.rand((), generator=g) * torch.sin(k * phase) / k
    out *= 0.5 + 0.5 * torch.sin(2 * math.pi * 4 * t + 6 * torch.rand((), generator=g))
    out += 0.02 * torch.randn(samples, generator=g)
    return (0.25 * out / out.abs().max().clamp(min=1e-6))[None]


def settle(model: nn.Module, inputs: Callable[[torch.Generator], Inputs]) -> nn.Module:
    """Give seeded batch norms running statistics from natural-like data; returns the model in eval mode."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    model.eval()
    g = generator(1235)
    with torch.no_grad():
        for m in norms:
            m.reset_running_stats()
            m.momentum = None
            m.weight.uniform_(0.6, 1.4)
            m.bias.normal_(0, 0.2)
            m.train()
        for _ in range(6 if norms else 0):
            parts = [inputs(g) for _ in range(4)]
            model(*[torch.cat(x, 0) for x in zip(*parts)])
    return model.eval().requires_grad_(False)


def samples(inputs: Callable[[torch.Generator], Inputs], n: int, seed: int) -> list[Inputs]:
    """`n` samples for calibration or evaluation."""
    g = generator(seed)
    return [inputs(g) for _ in range(n)]
