"""Random well-typed models: chains and joins of layers over maps and over sequences."""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from torch import nn

UNARY = [
    F.relu, F.relu6, F.hardswish, F.silu, F.gelu, torch.sigmoid, torch.tanh, F.elu, F.softplus,
    F.leaky_relu, F.mish, torch.abs, lambda x: x.clamp(-0.7, 0.9), lambda x: x * 0.5 + 0.25,
    lambda x: (x * x + 0.1).sqrt(), lambda x: torch.exp(x.clamp(max=1.0)), F.hardsigmoid,
    lambda x: 1.0 - x, lambda x: x / 3.0, lambda x: x.neg(),
]  # fmt: skip


class RandomModel(nn.Module):
    """`steps` random layers on a [1, C, H, W] map; each result may be an operand of a later one."""

    def __init__(self, seed: int, steps: int = 8) -> None:
        super().__init__()
        self.rng = random.Random(seed)
        torch.manual_seed(seed)
        self.channels = self.rng.choice([1, 3, 4, 8])
        self.size = (self.rng.choice([6, 8, 9, 12]), self.rng.choice([6, 8, 11]))
        self.layers = nn.ModuleList()
        self.plan: list[tuple[str, object]] = []
        shape = (1, self.channels, *self.size)
        self.kept: dict[tuple[int, ...], list[int]] = {shape: [0]}
        for step in range(steps):
            shape = self._add(shape)
            self.kept.setdefault(shape, []).append(step + 1)
        self.plan.append(self._head(shape))

    def example(self, seed: int) -> tuple[torch.Tensor, ...]:
        g = torch.Generator().manual_seed(seed)
        return (torch.randn(1, self.channels, *self.size, generator=g),)

    def _module(self, name: str, module: nn.Module, *rest: object) -> None:
        self.layers.append(module)
        self.plan.append((name, (len(self.layers) - 1, *rest)))

    def _add(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        _, c, h, w = shape
        kinds = ["conv", "conv", "depthwise", "unary", "unary", "join", "concat", "norm", "pool",
                 "slice", "scale", "flip", "resize", "softmax", "pad", "gate"]  # fmt: skip
        kind = self.rng.choice(kinds)
        return getattr(self, "_" + kind)(c, h, w) or shape

    def _conv(self, c: int, h: int, w: int) -> tuple[int, ...]:
        o, k = self.rng.choice([2, 4, 8]), self.rng.choice([1, 3])
        stride = self.rng.choice([1, 1, 2]) if min(h, w) > 4 else 1
        conv = nn.Conv2d(c, o, k, stride, k // 2, bias=self.rng.random() < 0.7)
        self._module(
            "module", nn.Sequential(conv, nn.BatchNorm2d(o)) if self.rng.random() < 0.4 else conv
        )
        size = [(d + 2 * (k // 2) - k) // stride + 1 for d in (h, w)]
        return (1, o, *size)

    def _depthwise(self, c: int, h: int, w: int) -> None:
        self._module("module", nn.Conv2d(c, c, 3, padding=1, groups=c))

    def _unary(self, c: int, h: int, w: int) -> None:
        self.plan.append(("call", self.rng.choice(UNARY)))

    def _join(self, c: int, h: int, w: int) -> None:
        other = self.rng.choice(self.kept[1, c, h, w])
        op = self.rng.choice([torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum])
        self.plan.append(("join", (op, other)))

    def _concat(self, c: int, h: int, w: int) -> tuple[int, ...] | None:
        if c > 16:
            return self._conv(c, h, w)
        self.plan.append(("concat", self.rng.choice(self.kept[1, c, h, w])))
        return (1, 2 * c, h, w)

    def _norm(self, c: int, h: int, w: int) -> None:
        choices = [nn.InstanceNorm2d(c, affine=True), nn.LayerNorm((h, w)), nn.BatchNorm2d(c)]
        if c % 2 == 0:
            choices.append(nn.GroupNorm(2, c))
        self._module("module", self.rng.choice(choices))

    def _pool(self, c: int, h: int, w: int) -> tuple[int, ...] | None:
        if min(h, w) < 4:
            return self._unary(c, h, w)
        ceil = self.rng.random() < 0.3
        pool = self.rng.choice([nn.MaxPool2d, nn.AvgPool2d])(2, ceil_mode=ceil)
        self._module("module", pool)
        return (1, c, *((d + 1) // 2 if ceil else d // 2 for d in (h, w)))

    def _slice(self, c: int, h: int, w: int) -> tuple[int, ...] | None:
        if h < 4:
            return self._unary(c, h, w)
        start = self.rng.randrange(0, h // 2)
        self.plan.append(("call", lambda x: x[:, :, start : start + h // 2]))
        return (1, c, h // 2, w)

    def _scale(self, c: int, h: int, w: int) -> None:
        self.layers.append(nn.Conv2d(c, c, 1))
        self.plan.append(("squeeze-excite", len(self.layers) - 1))

    def _flip(self, c: int, h: int, w: int) -> None:
        self.plan.append(("call", lambda x: torch.flip(x, (self.flip_axis(x),))))

    @staticmethod
    def flip_axis(x: torch.Tensor) -> int:
        return 2 if x.shape[2] % 2 else 3

    def _resize(self, c: int, h: int, w: int) -> tuple[int, ...] | None:
        if max(h, w) > 12:
            return self._unary(c, h, w)
        self.plan.append(("call", lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest")))
        return (1, c, 2 * h, 2 * w)

    def _softmax(self, c: int, h: int, w: int) -> None:
        dim = self.rng.choice([1, 3])
        self.plan.append(("call", lambda x: F.softmax(x, dim=dim)))

    def _pad(self, c: int, h: int, w: int) -> tuple[int, ...]:
        mode = self.rng.choice(["constant", "reflect", "replicate"])
        if min(h, w) < 3:
            mode = "constant"
        self.plan.append(("call", lambda x: F.pad(x, (1, 1, 2, 0), mode=mode)))
        return (1, c, h + 2, w + 2)

    def _gate(self, c: int, h: int, w: int) -> None:
        self.plan.append(("call", lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True))))

    def _head(self, shape: tuple[int, ...]) -> tuple[str, object]:
        _, c, h, w = shape
        head = self.rng.choice(["map", "linear", "tokens"])
        if head == "linear":
            self.layers.append(nn.Linear(c * h * w, 5))
        if head == "tokens":
            self.layers.append(nn.MultiheadAttention(c, 1, batch_first=True))
        return head, len(self.layers) - 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = [x]
        for kind, detail in self.plan[:-1]:
            values.append(self._step(kind, detail, values))
        head, index = self.plan[-1]
        x = values[-1]
        if head == "linear":
            return self.layers[index](x.flatten(1))
        if head == "tokens":
            t = x.flatten(2).transpose(1, 2)
            return self.layers[index](t, t, t, need_weights=False)[0]
        return x

    def _step(self, kind: str, detail, values: list[torch.Tensor]) -> torch.Tensor:
        x = values[-1]
        if kind == "module":
            return self.layers[detail[0]](x)
        if kind == "call":
            return detail(x)
        if kind == "join":
            return detail[0](x, values[detail[1]])
        if kind == "concat":
            return torch.cat([x, values[detail]], 1)
        return x * torch.sigmoid(self.layers[detail](x.mean((2, 3), keepdim=True)))
