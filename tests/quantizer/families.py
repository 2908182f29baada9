"""Small models, one per family of ops, for the quantizer's tests."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from npuc.frontend.capture import capture
from npuc.quantizer.calibrate import quantize
from npuc.quantizer.recipe import Recipe


class Call(nn.Module):
    """A function as a module: `function(*modules, *inputs)`."""

    def __init__(self, function, *modules):
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, *x):
        return self.function(*self.parts, *x)


def sqnr(want: torch.Tensor, got: torch.Tensor) -> float:
    """Signal to quantization noise in dB."""
    noise = (want.double() - got.double()).pow(2).sum()
    return float(10 * torch.log10(want.double().pow(2).sum() / noise)) if noise else float("inf")


def converted(
    model: nn.Module, args: tuple, recipe: Recipe | str = "int8", **options
) -> GraphModule:
    """The model, quantized on its own inputs."""
    return quantize(capture(model.eval(), args), args, recipe, [args], False, **options)


def float_outputs(model: nn.Module, args: tuple) -> list[torch.Tensor]:
    with torch.no_grad():
        return tree_leaves(model(*args))


def norm(layer: nn.Module) -> nn.Module:
    """A batch norm with settled statistics."""
    layer.running_mean.uniform_(-1, 1)
    layer.running_var.uniform_(0.5, 2)
    nn.init.uniform_(layer.weight, 0.5, 1.5)
    nn.init.uniform_(layer.bias, -0.5, 0.5)
    return layer


def conv(inputs: int = 8, outputs: int = 8, **options) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1, **options)


def without_gradients(a, b, x):
    with torch.no_grad():
        hidden = F.relu(a(x))
    return b(hidden)


def sdpa(q, k, v, x, mask=None, causal=False):
    return F.scaled_dot_product_attention(q(x), k(x), v(x), mask, is_causal=causal)


def qkv() -> list[nn.Module]:
    return [nn.Linear(16, 16) for _ in range(3)]


torch.manual_seed(0)
IMAGE, SEQUENCE, VECTOR = torch.randn(2, 8, 12, 12), torch.randn(2, 6, 16), torch.randn(4, 16)
VISIBLE = torch.ones(6, 6).tril() > 0

FAMILIES = {
    "conv relu": (Call(lambda c, x: F.relu(c(x)), conv()), (IMAGE,)),
    "functional relu6": (Call(lambda c, x: F.relu6(c(x)), conv()), (IMAGE,)),
    "batch norm first": (
        Call(lambda b, c, x: c(b(F.relu(x))), norm(nn.BatchNorm2d(8)), conv()),
        (IMAGE,),
    ),
    "batch norm of vectors": (
        Call(lambda b, x: b(F.relu(x)), norm(nn.BatchNorm1d(16))),
        (VECTOR,),
    ),
    "conv with two readers": (
        Call(lambda c, b, x: (F.relu(b(c(x))), c(x).sigmoid()), conv(), norm(nn.BatchNorm2d(8))),
        (IMAGE,),
    ),
    "linear batch norm": (
        Call(lambda m, b, x: F.relu(b(m(x))), nn.Linear(16, 16), norm(nn.BatchNorm1d(16))),
        (VECTOR,),
    ),
    "prelu": (Call(lambda c, p, x: p(c(x)), conv(), nn.PReLU(8)), (IMAGE,)),
    "softplus": (Call(lambda c, x: F.softplus(c(x)), conv()), (IMAGE,)),
    "instance norm": (Call(lambda c, x: F.instance_norm(c(x)), conv()), (IMAGE,)),
    "group norm": (Call(lambda c, g, x: F.silu(g(c(x))), conv(), nn.GroupNorm(4, 8)), (IMAGE,)),
    "layer norm": (
        Call(lambda m, n, x: n(m(x) + x), nn.Linear(16, 16), nn.LayerNorm(16)),
        (SEQUENCE,),
    ),
    "rms norm": (Call(lambda m, n, x: n(m(x) + x), nn.Linear(16, 16), nn.RMSNorm(16)), (SEQUENCE,)),
    "lstm": (Call(lambda m, x: m(x)[0], nn.LSTM(16, 12, batch_first=True)), (SEQUENCE,)),
    "bidirectional lstm": (
        Call(lambda m, x: m(x)[0], nn.LSTM(16, 6, 2, bidirectional=True)),
        (SEQUENCE,),
    ),
    "gru": (Call(lambda m, x: m(x)[0], nn.GRU(16, 12, batch_first=True)), (SEQUENCE,)),
    "rnn": (Call(lambda m, x: m(x)[0], nn.RNN(16, 12)), (SEQUENCE,)),
    "gru cell": (nn.GRUCell(16, 12), (VECTOR, torch.zeros(4, 12))),
    "attention": (Call(sdpa, *qkv()), (SEQUENCE,)),
    "causal attention": (
        Call(lambda q, k, v, x: sdpa(q, k, v, x, None, True), *qkv()),
        (SEQUENCE,),
    ),
    "bool mask": (Call(sdpa, *qkv()), (SEQUENCE, VISIBLE)),
    "float mask": (
        Call(sdpa, *qkv()),
        (SEQUENCE, torch.zeros(6, 6).masked_fill(~VISIBLE, -torch.inf)),
    ),
    "large negative mask": (
        Call(sdpa, *qkv()),
        (SEQUENCE, torch.zeros(6, 6).masked_fill(~VISIBLE, -1e9)),
    ),
    "multi-head attention": (
        Call(lambda m, x: m(x, x, x)[0], nn.MultiheadAttention(16, 4, batch_first=True)),
        (SEQUENCE,),
    ),
    "transformer layer": (nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), (SEQUENCE,)),
    "cat twice": (Call(lambda c, x: torch.cat([c(x)] * 2, 1), conv()), (IMAGE,)),
    "factories": (
        Call(
            lambda c, x: (
                torch.cat([c(x), torch.full((2, 8, 12, 12), 0.5)], 1)
                + torch.ones_like(x[:, :1]) * 2
            ),
            conv(),
        ),
        (IMAGE,),
    ),
    "pool first": (Call(lambda c, x: c(F.max_pool2d(x, 2)), conv()), (IMAGE,)),
    "view first": (
        Call(lambda m, x: m(x.reshape(2, 6, 16).transpose(0, 1)), nn.Linear(16, 4)),
        (torch.randn(2, 96),),
    ),
    "residual permute": (Call(lambda c, x: c(x) + c(x).transpose(2, 3), conv()), (IMAGE,)),
    "no_grad": (Call(without_gradients, nn.Linear(16, 16), nn.Linear(16, 4)), (VECTOR,)),
    "alpha": (
        Call(lambda c, x: torch.add(c(x), x, alpha=0.5) - torch.sub(x, c(x), alpha=2), conv()),
        (IMAGE,),
    ),
    "rsub": (Call(lambda c, x: 1 - torch.rsub(c(x), x, alpha=2), conv()), (IMAGE,)),
    "div": (Call(lambda c, x: c(x) / 3.0 / (x.abs() + 1), conv()), (IMAGE,)),
    "glu": (Call(lambda c, x: F.glu(c(x), 1), conv()), (IMAGE,)),
    "hardswish": (Call(lambda c, x: F.hardswish(c(x)) + x * F.relu6(x + 3) / 6, conv()), (IMAGE,)),
    "unary functions": (
        Call(
            lambda x: (
                F.elu(x) + F.mish(x) + torch.erf(x) + torch.exp(-x.abs()) + F.gelu(x) + F.selu(x)
            )
        ),
        (IMAGE,),
    ),
    "reductions": (
        Call(
            lambda x: (
                x.mean((2, 3)),
                x.sum(1),
                x.amax(1),
                x.var(1),
                x.std(1),
                x.cumsum(1),
                x.max(1)[0],
            )
        ),
        (IMAGE,),
    ),
    "logic": (
        Call(lambda c, x: torch.where(x > 0, x, x / 4) + c(x).masked_fill(x > 9, 0.25), conv()),
        (IMAGE,),
    ),
    "resizing": (
        Call(
            lambda x: (
                F.interpolate(x, scale_factor=2),
                F.interpolate(x, scale_factor=2, mode="bilinear"),
                F.adaptive_avg_pool2d(x, 1),
                F.avg_pool2d(x, 2),
                F.pixel_shuffle(x, 2),
                F.pad(x, (1, 1, 1, 1), mode="reflect"),
            )
        ),
        (IMAGE,),
    ),
    "transposed convs": (
        Call(
            lambda a, b, x: b(F.relu(a(x))),
            nn.ConvTranspose2d(8, 6, 3, 2, groups=2),
            nn.ConvTranspose2d(6, 4, 2, 2),
        ),
        (IMAGE,),
    ),
    "1-D and 3-D convs": (
        Call(
            lambda a, b, x: b(a(x.flatten(2)).reshape(2, 8, 4, 6, 6)),
            nn.Conv1d(8, 8, 3, padding=1),
            nn.Conv3d(8, 4, 3, padding="same"),
        ),
        (IMAGE,),
    ),
    "products": (
        Call(
            lambda m, x: (
                x @ m.weight,
                torch.addmm(m.bias, x, m.weight),
                torch.mm(x, x.t()),
                torch.mv(x, x[0]),
            ),
            nn.Linear(16, 16),
        ),
        (VECTOR,),
    ),
    "embedding": (
        Call(lambda e, m, i: m(e(i)), nn.Embedding(20, 16), nn.Linear(16, 4)),
        (torch.randint(0, 20, (2, 5)),),
    ),
    "computed weight": (nn.utils.parametrizations.weight_norm(conv()), (IMAGE,)),
    "dynamic weight": (
        Call(
            lambda x, w: F.conv2d(x, w) + F.linear(x.mean((2, 3)), w[:, :, 0, 0])[..., None, None]
        ),
        (IMAGE, torch.randn(4, 8, 3, 3)),
    ),
    "magnitude": (Call(lambda c, x: torch.sqrt(c(x) ** 2 + x**2), conv()), (IMAGE,)),
    "log spectrum": (Call(lambda m, x: torch.log(m(x) ** 2 + 1e-3), nn.Linear(16, 8)), (VECTOR,)),
    "written rms norm": (
        Call(lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)),
        (SEQUENCE,),
    ),
    "cosine": (
        Call(
            lambda m, x: (F.cosine_similarity(x, m(x), dim=-1), F.normalize(x)), nn.Linear(16, 16)
        ),
        (VECTOR,),
    ),
}
