"""The networks that are measured: the examples, and depthwise nets of growing depth."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))

import varied  # noqa: E402
from signals import generator, image, samples, settle  # noqa: E402

NAMES = [
    "dscnn_kws", "mobilenetv1_vww", "resnet8_cifar", "autoencoder_ad", "mobilenet_v2", "resnet18",
    "vit_blocks", "text_transformer", "nss", "voice_activity", "pitch",
]  # fmt: skip
DEPTHS = (4, 16, 64, 256)
#: accuracy is the mean over these seeds of calibration samples,
CALIBRATIONS = (77, 78, 79)
#: measured on so many samples of a seed that no calibration has
UNSEEN = (16, 501)


class DepthwiseBlock(nn.Module):
    def __init__(self, c: int) -> None:
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(c, c, 1), nn.BatchNorm2d(c)
        self.c2, self.b2 = nn.Conv2d(c, c, 3, padding=1, groups=c), nn.BatchNorm2d(c)
        self.act = nn.ReLU6()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.b2(self.c2(self.act(self.b1(self.c1(x)))))


class DepthwiseNet(nn.Module):
    """Stem, `n` blocks (1x1 conv, batch norm, ReLU6, 3x3 depthwise, batch norm, add), head."""

    def __init__(self, n: int, c: int = 32) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(*[DepthwiseBlock(c) for _ in range(n)])
        self.fc = nn.Linear(c, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.fc(self.blocks(self.stem(x)).mean((2, 3))), -1)


def get(name: str) -> tuple[nn.Module, tuple[Any, ...], Callable[..., list[tuple[Any, ...]]]]:
    """(model, example inputs, calibration function) of an example, a network of `varied.py` or
    `dwnet_<blocks>`. The calibration function takes the number of samples and their seed."""
    if name.startswith("dwnet_"):
        blocks = int(name.removeprefix("dwnet_"))

        def inputs(g: torch.Generator) -> tuple[torch.Tensor, ...]:
            return (image((1, 3, 64, 64), g),)

        torch.manual_seed(1234)
        model = settle(DepthwiseNet(blocks), inputs)
        return model, inputs(generator(1236)), lambda n=4, seed=77: samples(inputs, n, seed)
    if name in varied.NETWORKS:
        model, draw = varied.make(name)
        return model, draw(generator(1236)), lambda n=8, seed=77: samples(draw, n, seed)
    module = importlib.import_module(name)
    model, example = module.model()
    return model, example, module.calibration


def mean_sqnr(
    model: nn.Module, calibration: Callable[..., Any], quantized: Callable[[Any], Any]
) -> list[float]:
    """The mean SQNR per output of `quantized(samples)`, a function, over several calibrations."""
    unseen = calibration(*UNSEEN)
    found = []
    for seed in CALIBRATIONS:
        found.append(sqnr(model, quantized(calibration(seed=seed)), unseen))
    return [sum(f) / len(f) for f in zip(*found)]


def sqnr(
    model: nn.Module, other: Callable[..., Any], samples: Sequence[tuple[Any, ...]]
) -> list[float]:
    """Signal to noise in dB of each float output of `other` against `model`, over all samples."""
    with torch.no_grad():
        want, got = ([pytree.tree_leaves(f(*x)) for x in samples] for f in (model, other))
    found = []
    for w, g in zip(zip(*want), zip(*got), strict=True):
        if w[0].is_floating_point():
            signal, noise = torch.stack(w).double(), (torch.stack(w) - torch.stack(g)).double()
            power = noise.pow(2).sum().clamp(min=1e-30)
            found.append(float(10 * torch.log10(signal.pow(2).sum() / power)))
    return found


def timed(seconds, name, work):
    """What `work` returns; its CPU seconds go to `seconds[name]`."""
    start = time.process_time()
    result = work()
    seconds[name] = time.process_time() - start
    return result
