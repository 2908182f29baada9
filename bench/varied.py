"""Small networks of many kinds, with seeded weights: what the examples do not have."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from signals import image, settle
from torch import Tensor, nn

Inputs = tuple[Tensor, ...]
Draw = Callable[[torch.Generator], Inputs]


def sequence(length: int, size: int) -> Draw:
    """Sequences [1, length, size] that change slowly, of varying loudness."""

    def draw(g: torch.Generator) -> Inputs:
        x = torch.randn(1, length, size, generator=g).cumsum(1) / 2
        return (x * (0.5 + torch.rand((), generator=g)),)

    return draw


def picture(size: int, channels: int = 3) -> Draw:
    """Natural-like pictures [1, channels, size, size]."""
    return lambda g: (image((1, channels, size, size), g),)


def tokens(length: int, words: int) -> Draw:
    """Token numbers [1, length]."""
    return lambda g: (torch.randint(0, words, (1, length), generator=g),)


class Call(nn.Module):
    """A network from its parts and a function of them and the inputs."""

    def __init__(self, forward: Callable[..., object], **parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleDict(parts)
        self.function = forward

    def forward(self, *inputs: Tensor) -> object:
        return self.function(self.parts, *inputs)


def conv_block(i: int, o: int, act: nn.Module | None = None, **options: int) -> nn.Sequential:
    layer = nn.Conv2d(i, o, 3, padding=options.pop("padding", 1), bias=False, **options)
    return nn.Sequential(layer, nn.BatchNorm2d(o), act or nn.ReLU())


def recurrent(kind: type[nn.RNNBase], **options: object) -> nn.Module:
    """A classifier of sequences."""
    layer = kind(16, 32, batch_first=True, **options)
    width = 64 if layer.bidirectional else 32
    return Call(lambda p, x: p["head"](p["rnn"](x)[0][:, -1]), rnn=layer, head=nn.Linear(width, 5))


class UNet(nn.Module):
    """Two levels down and up, with skips."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = conv_block(3, 16), conv_block(16, 32), conv_block(32, 64)
        self.up1 = nn.ConvTranspose2d(64, 32, 2, stride=2)
        self.up2 = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.d, self.e, self.out = conv_block(64, 32), conv_block(32, 16), nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        c = self.c(F.max_pool2d(b, 2))
        d = self.d(torch.cat([self.up1(c), b], 1))
        return torch.sigmoid(self.out(self.e(torch.cat([self.up2(d), a], 1))))


class TemporalBlock(nn.Module):
    """Dilated causal convolutions, gated, with a residual."""

    def __init__(self, c: int, dilation: int) -> None:
        super().__init__()
        self.pad = 2 * dilation
        self.f = nn.Conv1d(c, c, 3, dilation=dilation)
        self.g = nn.Conv1d(c, c, 3, dilation=dilation)
        self.out = nn.Conv1d(c, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.pad(x, (self.pad, 0))
        return x + self.out(torch.tanh(self.f(y)) * torch.sigmoid(self.g(y)))


class SqueezeExcite(nn.Module):
    """A residual of a depthwise convolution with a gate per channel (MobileNetV3)."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.wide = conv_block(c, 2 * c, nn.Hardswish())
        self.deep = conv_block(2 * c, 2 * c, nn.Hardswish(), groups=2 * c)
        self.down, self.up = nn.Conv2d(2 * c, c // 2, 1), nn.Conv2d(c // 2, 2 * c, 1)
        self.out = nn.Sequential(nn.Conv2d(2 * c, c, 1, bias=False), nn.BatchNorm2d(c))

    def forward(self, x: Tensor) -> Tensor:
        y = self.deep(self.wide(x))
        gate = F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(y, 1)))))
        return x + self.out(y * gate)


class Llama(nn.Module):
    """A decoder block: RMS norm, rotary positions, causal attention, SwiGLU."""

    def __init__(self, size: int = 64, heads: int = 4, length: int = 16) -> None:
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.RMSNorm(size), nn.RMSNorm(size)
        self.qkv = nn.Linear(size, 3 * size, bias=False)
        self.out = nn.Linear(size, size, bias=False)
        self.gate = nn.Linear(size, 3 * size, bias=False)
        self.up = nn.Linear(size, 3 * size, bias=False)
        self.down = nn.Linear(3 * size, size, bias=False)
        half = size // heads // 2
        angles = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))
        mask = torch.full((length, length), -math.inf).triu(1)
        self.register_buffer("mask", mask)

    def rotate(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, x: Tensor) -> Tensor:
        b, n, size = x.shape
        parts = self.qkv(self.n1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = self.rotate(parts[0]), self.rotate(parts[1]), parts[2]
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + self.mask
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, size))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Translator(nn.Module):
    """A transformer encoder and a decoder that attends to it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
        self.decoder = nn.TransformerDecoderLayer(32, 4, 64, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1])
        return self.head(self.decoder(y, self.encoder(x), tgt_mask=mask))


class Detector(nn.Module):
    """Boxes with exp, sigmoid and a grid, and scores (YOLO)."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(conv_block(3, 16, nn.SiLU(), stride=2),
                                  conv_block(16, 32, nn.SiLU(), stride=2))  # fmt: skip
        self.head = nn.Conv2d(32, 7, 1)
        y, x = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
        self.register_buffer("grid", torch.stack([x, y])[None])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.head(self.body(x))
        center = (torch.sigmoid(y[:, :2]) + self.grid) * 4
        return center, torch.exp(y[:, 2:4]), torch.sigmoid(y[:, 4:])


class Stylizer(nn.Module):
    """Style transfer: reflection pads, instance norms, residuals, nearest upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.na = nn.Conv2d(3, 16, 3), nn.InstanceNorm2d(16, affine=True)
        self.b = nn.Conv2d(16, 32, 3, stride=2)
        self.nb = nn.InstanceNorm2d(32, affine=True)
        self.r, self.nr = nn.Conv2d(32, 32, 3), nn.InstanceNorm2d(32, affine=True)
        self.c, self.nc = nn.Conv2d(32, 16, 3), nn.InstanceNorm2d(16, affine=True)
        self.out = nn.Conv2d(16, 3, 3)

    def forward(self, x: Tensor) -> Tensor:
        def pad(t: Tensor) -> Tensor:
            return F.pad(t, (1, 1, 1, 1), mode="reflect")

        x = F.relu(self.na(self.a(pad(x))))
        x = F.relu(self.nb(self.b(pad(x))))
        x = x + self.nr(self.r(pad(x)))
        x = F.relu(self.nc(self.c(pad(F.interpolate(x, scale_factor=2.0)))))
        return self.out(pad(x))


def generator_net() -> nn.Module:
    """A GAN's generator, from a latent vector to a picture."""
    return nn.Sequential(
        nn.Linear(32, 64 * 16), nn.Unflatten(1, (64, 4, 4)),
        nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2),
        nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip


def mlp_mixer() -> nn.Module:
    """Mixing of patches and channels, with GELU and layer norms."""

    def mix(p: nn.ModuleDict, x: Tensor) -> Tensor:
        x = p["patch"](x).flatten(2).transpose(1, 2)
        x = x + p["t2"](F.gelu(p["t1"](p["n1"](x).transpose(1, 2)))).transpose(1, 2)
        x = x + p["c2"](F.gelu(p["c1"](p["n2"](x))))
        return p["head"](p["n3"](x).mean(1))  # type: ignore[no-any-return]

    return Call(
        mix, patch=nn.Conv2d(3, 32, 4, 4), n1=nn.LayerNorm(32), n2=nn.LayerNorm(32),
        n3=nn.LayerNorm(32), t1=nn.Linear(64, 128), t2=nn.Linear(128, 64), c1=nn.Linear(32, 128),
        c2=nn.Linear(128, 32), head=nn.Linear(32, 10),
    )  # fmt: skip


def spectrogram() -> nn.Module:
    """Log power of a filter bank, and a convolutional classifier."""

    def run(p: nn.ModuleDict, x: Tensor) -> Tensor:
        parts = p["bank"](x)
        power = parts[:, :32] ** 2 + parts[:, 32:] ** 2
        return p["net"](torch.log(power + 1e-3).unsqueeze(1))  # type: ignore[no-any-return]

    net = nn.Sequential(conv_block(1, 16, stride=2), conv_block(16, 16), nn.AdaptiveAvgPool2d(1),
                        nn.Flatten(), nn.Linear(16, 8))  # fmt: skip
    return Call(run, bank=nn.Conv1d(1, 64, 64, stride=32, bias=False), net=net)


def decoder() -> nn.Module:
    """Two transformer layers over token embeddings, with a causal mask of minus infinity."""

    def run(p: nn.ModuleDict, ids: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return p["head"](p["norm"](p["body"](p["words"](ids), mask=mask)))  # type: ignore[no-any-return]

    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, activation="gelu")
    body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return Call(run, words=nn.Embedding(50, 32), body=body, norm=nn.LayerNorm(32),
                head=nn.Linear(32, 50))  # fmt: skip


def head(net: nn.Module, channels: int) -> nn.Module:
    return nn.Sequential(net, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def sounds(g: torch.Generator) -> Inputs:
    t = torch.arange(1024) / 1024
    pitch = 20 + 80 * torch.rand((), generator=g)
    tone = torch.sin(2 * math.pi * pitch * t) + 0.1 * torch.randn(1024, generator=g)
    return (tone[None, None] * (0.2 + torch.rand((), generator=g)),)


def two_sequences(g: torch.Generator) -> Inputs:
    return torch.randn(1, 12, 32, generator=g), torch.randn(1, 8, 32, generator=g)


def stack(block: Callable[[], nn.Module], n: int) -> list[nn.Module]:
    return [block() for _ in range(n)]


class Dense(nn.Module):
    """Two layers whose results are concatenated to what they read (DenseNet)."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.a, self.b = conv_block(c, 8), conv_block(c + 8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x, self.a(x)], 1)
        return torch.cat([x, self.b(x)], 1)


class Shuffle(nn.Module):
    """Half the channels through a branch, then channels are shuffled (ShuffleNet)."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(conv_block(c // 2, c // 2), conv_block(c // 2, c // 2))

    def forward(self, x: Tensor) -> Tensor:
        a, b = x.chunk(2, 1)
        return F.channel_shuffle(torch.cat([a, self.branch(b)], 1), 2)


class ConvNext(nn.Module):
    """Depthwise 7x7, layer norm, and an inverted bottleneck with GELU."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.deep = nn.Conv2d(c, c, 7, padding=3, groups=c)
        self.norm, self.a, self.b = nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.scale = nn.Parameter(torch.full((c,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.b(F.gelu(self.a(y)))).permute(0, 3, 1, 2)


class Highway(nn.Module):
    """A gate between a layer's result and its operand."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.gate, self.layer = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(x))
        return gate * F.relu(self.layer(x)) + (1 - gate) * x


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Draw]] = {
    "lstm": (lambda: recurrent(nn.LSTM), sequence(12, 16)),
    "lstm_two_ways": (lambda: recurrent(nn.LSTM, bidirectional=True), sequence(8, 16)),
    "gru": (lambda: recurrent(nn.GRU, num_layers=2), sequence(8, 16)),
    "rnn": (lambda: recurrent(nn.RNN), sequence(12, 16)),
    "unet": (UNet, picture(32)),
    "tcn": (
        lambda: nn.Sequential(nn.Conv1d(16, 16, 1), *[TemporalBlock(16, d) for d in (1, 2, 4)],
                              nn.Conv1d(16, 4, 1)),
        lambda g: (sequence(32, 16)(g)[0].transpose(1, 2),),
    ),
    "squeeze_excite": (
        lambda: head(nn.Sequential(conv_block(3, 16, nn.Hardswish(), stride=2),
                                   *stack(lambda: SqueezeExcite(16), 3)), 16),
        picture(32),
    ),
    "generator": (generator_net, lambda g: (torch.randn(1, 32, generator=g),)),
    "detector": (Detector, picture(32)),
    "llama": (lambda: nn.Sequential(Llama(), Llama(), nn.Linear(64, 40)), sequence(16, 64)),
    "translator": (Translator, two_sequences),
    "decoder": (decoder, tokens(12, 50)),
    "stylizer": (Stylizer, picture(32)),
    "mlp_mixer": (mlp_mixer, picture(32)),
    "spectrogram": (spectrogram, sounds),
    "densenet": (
        lambda: head(nn.Sequential(conv_block(3, 8), Dense(8), nn.AvgPool2d(2), Dense(24)), 40),
        picture(32),
    ),
    "shuffle": (lambda: head(nn.Sequential(conv_block(3, 16, stride=2), Shuffle(16),
                                           Shuffle(16)), 16), picture(32)),
    "convnext": (lambda: head(nn.Sequential(nn.Conv2d(3, 32, 4, 4), ConvNext(32), ConvNext(32)),
                              32), picture(32)),
    "super_resolution": (
        lambda: nn.Sequential(conv_block(3, 16, nn.PReLU()), conv_block(16, 16, nn.PReLU()),
                              nn.Conv2d(16, 12, 3, padding=1), nn.PixelShuffle(2)),
        picture(24),
    ),
    "group_norm": (
        lambda: head(nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU(),
                                   nn.Conv2d(16, 16, 3, padding=1), nn.GroupNorm(4, 16),
                                   nn.Mish()), 16),
        picture(32),
    ),
    "elu_mlp": (
        lambda: nn.Sequential(nn.Linear(24, 64), nn.ELU(), nn.Linear(64, 64), nn.SELU(),
                              nn.Linear(64, 32), nn.Softplus(), nn.Linear(32, 4)),
        lambda g: (torch.randn(1, 24, generator=g),),
    ),
    "autoencoder": (
        lambda: nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Linear(32, 8),
                              nn.Tanh(), nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 64)),
        lambda g: (torch.randn(1, 64, generator=g),),
    ),
    "cosine": (
        lambda: Call(lambda p, x: F.normalize(p["net"](x), dim=-1) @ F.normalize(
            p["proto"].weight, dim=-1).T, net=head(conv_block(3, 16, stride=2), 16),
            proto=nn.Linear(10, 6)),
        picture(32),
    ),
    "highway": (lambda: nn.Sequential(nn.Linear(24, 32), *stack(lambda: Highway(32), 3),
                                      nn.Linear(32, 6)),
                lambda g: (torch.randn(1, 24, generator=g),)),
    "segmenter": (
        lambda: nn.Sequential(conv_block(3, 16, stride=2), conv_block(16, 24, stride=2),
                              conv_block(24, 24, dilation=2, padding=2), nn.Conv2d(24, 4, 1),
                              nn.Upsample(scale_factor=4, mode="bilinear"), nn.LogSoftmax(1)),
        picture(32),
    ),
    "keywords": (
        lambda: head(nn.Sequential(conv_block(1, 16, nn.ReLU6(), stride=2),
                                   conv_block(16, 16, nn.ReLU6(), groups=16),
                                   conv_block(16, 16, nn.ReLU6())), 16),
        picture(32, 1),
    ),
}  # fmt: skip


def make(name: str) -> tuple[nn.Module, Draw]:
    """The network in eval mode, its batch norms settled, and what draws inputs."""
    build, draw = NETWORKS[name]
    torch.manual_seed(1234)
    return settle(build(), draw), draw
