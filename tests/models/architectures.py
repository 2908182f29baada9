"""Small networks with the structures of well-known architectures, seeded."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

IMAGE = (1, 3, 32, 32)


def conv(i: int, o: int, k: int = 3, s: int = 1, g: int = 1, act: bool = True, d: int = 1):
    """Convolution, batch norm, ReLU."""
    layers = [nn.Conv2d(i, o, k, s, d * (k // 2), d, g, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*layers, *([nn.ReLU()] if act else []))


class SqueezeExcite(nn.Module):
    """Channels weighted by what their means say."""

    def __init__(self, c: int, gate: nn.Module) -> None:
        super().__init__()
        self.down, self.up, self.gate = nn.Conv2d(c, c // 4, 1), nn.Conv2d(c // 4, c, 1), gate

    def forward(self, x: Tensor) -> Tensor:
        y = self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1))))
        return x * self.gate(y)


class Inverted(nn.Module):
    """Inverted residual of MobileNetV3 and EfficientNet."""

    def __init__(self, c: int, act: Callable[[], nn.Module], gate: nn.Module) -> None:
        super().__init__()
        wide = 4 * c
        self.body = nn.Sequential(
            nn.Conv2d(c, wide, 1, bias=False), nn.BatchNorm2d(wide), act(),
            nn.Conv2d(wide, wide, 3, 1, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), act(),
            SqueezeExcite(wide, gate), nn.Conv2d(wide, c, 1, bias=False), nn.BatchNorm2d(c),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Shuffle(nn.Module):
    """ShuffleNetV2 unit: halves, and a shuffle of their channels."""

    def __init__(self, c: int) -> None:
        super().__init__()
        h = c // 2
        self.body = nn.Sequential(conv(h, h, 1), conv(h, h, 3, g=h, act=False), conv(h, h, 1))

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, 1)
        y = torch.cat([a, self.body(b)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class UNet(nn.Module):
    """Down, up by transposed convolutions, skips by concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = conv(3, 16), conv(16, 32), conv(32, 64)
        self.up1, self.up2 = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
        self.d1, self.d2, self.last = conv(64, 32), conv(32, 16), nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.c(F.max_pool2d(b, 2))
        d = self.d1(torch.cat([self.up1(c), b], 1))
        return self.last(self.d2(torch.cat([self.up2(d), a], 1)))


class Detector(nn.Module):
    """SSD: heads of several sizes whose boxes and classes are joined."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = conv(3, 16, 3, 2), conv(16, 32, 3, 2)
        self.boxes = nn.ModuleList(nn.Conv2d(c, 4 * 4, 3, 1, 1) for c in (16, 32))
        self.classes = nn.ModuleList(nn.Conv2d(c, 4 * 6, 3, 1, 1) for c in (16, 32))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = self.a(x)
        maps = (a, self.b(a))
        boxes = [h(m).permute(0, 2, 3, 1).reshape(1, -1, 4) for h, m in zip(self.boxes, maps)]
        classes = [h(m).permute(0, 2, 3, 1).reshape(1, -1, 6) for h, m in zip(self.classes, maps)]
        return torch.cat(boxes, 1), torch.cat(classes, 1)


class Yolo(nn.Module):
    """YOLO: SiLU, a split bottleneck, upsampling, and the head's sigmoid by anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.SiLU())
        self.down = nn.Sequential(nn.Conv2d(16, 32, 3, 2, 1), nn.SiLU())
        self.body = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1), nn.SiLU())
        self.merge = nn.Sequential(nn.Conv2d(48, 32, 1), nn.SiLU())
        self.fuse = nn.Sequential(nn.Conv2d(48, 32, 3, 1, 1), nn.SiLU())
        self.head = nn.Conv2d(32, 3 * 7, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.stem(x)
        b = self.down(a)
        p, q = b.chunk(2, 1)
        b = self.merge(torch.cat([p, q, self.body(q)], 1))
        y = self.fuse(torch.cat([F.interpolate(b, scale_factor=2.0), a], 1))
        y = self.head(y)
        n, _, h, w = y.shape
        return torch.sigmoid(y.view(n, 3, 7, h, w).permute(0, 1, 3, 4, 2))


class ConvNeXtBlock(nn.Module):
    """Depthwise 7x7, then channels-last layer norm and linear layers."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.dw, self.norm = nn.Conv2d(c, c, 7, 1, 3, groups=c), nn.LayerNorm(c)
        self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.gamma = nn.Parameter(0.5 * torch.rand(c))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.dw(x).permute(0, 2, 3, 1))
        y = self.gamma * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


class Dense(nn.Module):
    """DenseNet: each layer reads all before it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv(3, 16)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(16 + 8 * k), nn.ReLU(), nn.Conv2d(16 + 8 * k, 8, 3, 1, 1))
            for k in range(4)
        )
        self.last = conv(48, 24, 1)

    def forward(self, x: Tensor) -> Tensor:
        found = [self.stem(x)]
        for layer in self.layers:
            found.append(layer(torch.cat(found, 1)))
        return F.avg_pool2d(self.last(torch.cat(found, 1)), 2)


class DeepLab(nn.Module):
    """Dilated convolutions and a pooled image side by side, resized."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 3, 2), conv(16, 32))
        self.rates = nn.ModuleList(conv(32, 16, 3, d=d) for d in (1, 2, 4))
        self.pool, self.merge, self.last = conv(32, 16, 1), conv(64, 32, 1), nn.Conv2d(32, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.stem(x)
        pooled = self.pool(F.adaptive_avg_pool2d(y, 1)).expand(-1, -1, y.shape[2], y.shape[3])
        y = self.last(self.merge(torch.cat([*[r(y) for r in self.rates], pooled], 1)))
        return F.interpolate(y, scale_factor=2.0, mode="nearest")


class Res2Net(nn.Module):
    """Groups of channels, each convolved with the sum of itself and the one before."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.last = conv(3, 32), conv(32, 32, 1, act=False)
        self.parts = nn.ModuleList(conv(8, 8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        first, *rest = torch.split(x, 8, 1)
        found, y = [first], None
        for part, layer in zip(rest, self.parts, strict=True):
            y = layer(part if y is None else part + y)
            found.append(y)
        return F.relu(x + self.last(torch.cat(found, 1)))


class SuperResolution(nn.Module):
    """ESPCN: channels become pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(3, 32, 5), conv(32, 32), nn.Conv2d(32, 12, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return F.pixel_shuffle(self.body(x), 2)


class Temporal(nn.Module):
    """TCN: causal dilated 1-D convolutions with residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(8, 32, 1)
        self.layers = nn.ModuleList(nn.Conv1d(32, 32, 3, dilation=2**k) for k in range(3))
        self.last = nn.Conv1d(32, 10, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for k, layer in enumerate(self.layers):
            x = x + F.relu(layer(F.pad(x, (2 * 2**k, 0))))
        return self.last(x)


class Attention(nn.Module):
    """Multi-head self-attention with one projection for queries, keys and values."""

    def __init__(self, c: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(c, 3 * c), nn.Linear(c, c)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        qkv = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*qkv.unbind(0))
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class SwinBlock(nn.Module):
    """Attention within windows, shifted by half of one."""

    def __init__(self, c: int, window: int, shift: int) -> None:
        super().__init__()
        self.window, self.shift = window, shift
        self.norm, self.attention = nn.LayerNorm(c), Attention(c, 2)
        self.norm2 = nn.LayerNorm(c)
        self.mlp = nn.Sequential(nn.Linear(c, 2 * c), nn.GELU(), nn.Linear(2 * c, c))

    def forward(self, x: Tensor) -> Tensor:
        b, h, w, c = x.shape
        k, s = self.window, self.shift
        y = torch.roll(self.norm(x), (-s, -s), (1, 2)) if s else self.norm(x)
        y = y.view(b, h // k, k, w // k, k, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, k * k, c)
        y = self.attention(y)
        y = y.view(b, h // k, w // k, k, k, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        x = x + (torch.roll(y, (s, s), (1, 2)) if s else y)
        return x + self.mlp(self.norm2(x))


class Swin(nn.Module):
    """Patches, windows, shifted windows."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, 4)
        self.blocks = nn.Sequential(SwinBlock(32, 4, 0), SwinBlock(32, 4, 2))
        self.last = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        y = self.blocks(self.patches(x).permute(0, 2, 3, 1))
        return self.last(y.mean((1, 2)))


class MobileViT(nn.Module):
    """Convolutions, and a transformer over the pixels at the same place of all patches."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.local = conv(3, 16, 3, 2), nn.Sequential(conv(16, 16), conv(16, 32, 1))
        self.attention, self.norm = Attention(32, 2), nn.LayerNorm(32)
        self.back, self.fuse = conv(32, 16, 1), conv(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.local(x)
        n, c, h, w = y.shape
        t = y.reshape(n * c * h // 2, 2, w // 2, 2).transpose(1, 2)
        t = t.reshape(n, c, h * w // 4, 4).transpose(1, 3).reshape(n * 4, h * w // 4, c)
        t = t + self.attention(self.norm(t))
        t = t.view(n, 4, h * w // 4, c).transpose(1, 3).reshape(n * c * h // 2, w // 2, 2, 2)
        y = t.transpose(1, 2).reshape(n, c, h, w)
        return self.fuse(torch.cat([x, self.back(y)], 1))


def _mobilenet_v3() -> nn.Module:
    blocks = [Inverted(16, nn.Hardswish, nn.Hardsigmoid()) for _ in range(2)]
    return nn.Sequential(conv(3, 16, 3, 2), *blocks, conv(16, 32, 1), nn.AdaptiveAvgPool2d(1))


def _efficientnet() -> nn.Module:
    blocks = [Inverted(16, nn.SiLU, nn.Sigmoid()) for _ in range(2)]
    return nn.Sequential(conv(3, 16, 3, 2), *blocks, conv(16, 32, 3, 2))


#: name -> (model, shape of its input); convolutional from end to end, outputs are maps
CONVOLUTIONAL: dict[str, Callable[[], nn.Module]] = {
    "mobilenet_v3": _mobilenet_v3, "efficientnet": _efficientnet, "unet": UNet,
    "shufflenet": lambda: nn.Sequential(conv(3, 32, 3, 2), Shuffle(32), Shuffle(32)),
    "densenet": Dense, "deeplab": DeepLab, "res2net": Res2Net, "super_resolution": SuperResolution,
    "convnext": lambda: nn.Sequential(nn.Conv2d(3, 32, 4, 4), ConvNeXtBlock(32), ConvNeXtBlock(32)),
}  # fmt: skip
#: others: what they give or compute is not laid out as images are
OTHERS: dict[str, Callable[[], nn.Module]] = {
    "detector": Detector, "yolo": Yolo, "tcn": Temporal, "swin": Swin, "mobilevit": MobileViT,
}  # fmt: skip
ARCHITECTURES = {**CONVOLUTIONAL, **OTHERS}


def model(name: str) -> tuple[nn.Module, tuple[Tensor]]:
    """The network in evaluation mode, and an input."""
    torch.manual_seed(0)
    net = ARCHITECTURES[name]().eval()
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            nn.init.uniform_(m.running_mean, -0.2, 0.2)
            nn.init.uniform_(m.running_var, 0.5, 1.5)
    shape = (1, 8, 64) if name == "tcn" else IMAGE
    return net, (torch.randn(shape),)
