"""Cases of convolution, shared by the tests of the common rule and of Ethos-U's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from npuc.dialects.tosa import Limits
from npuc.ir import DType, Graph, Quant
from tests.lowering.harness import (
    TOSA_BF16,
    TOSA_FP,
    TOSA_INT,
    TOSA_INT16,
    check_op,
    constant,
    given,
    quant_for,
    torch_result,
    weight_quant,
)


def conv_fn(
    x: torch.Tensor, w: torch.Tensor, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> torch.Tensor:  # fmt: skip
    """`aten.convolution` with paddings before and after."""
    n = len(stride)
    if transposed:
        fn = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
        return fn(x, w, bias, stride, padding[::2], output_padding, groups, dilation)
    pads = [p for i in reversed(range(n)) for p in padding[2 * i : 2 * i + 2]]
    fn = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    return fn(F.pad(x, pads), w, bias, stride, 0, dilation, groups)


@dataclass(frozen=True)
class Conv:
    """Shapes and arguments of one convolution."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: Any = 1
    pad: Any = 0
    dilation: Any = 1
    groups: int = 1
    transposed: bool = False
    output_padding: Any = 0
    bias: bool = True

    def arguments(self) -> tuple[Any, ...]:
        n = len(self.x) - 2

        def spread(value: Any, count: int) -> tuple[int, ...]:
            return (value,) * count if isinstance(value, int) else tuple(value)

        pad = spread(self.pad, 2 * n)
        return (spread(self.stride, n), pad, spread(self.dilation, n), self.transposed,
                spread(self.output_padding, n), self.groups)  # fmt: skip

    @property
    def channels(self) -> int:
        return self.w[1] * self.groups if self.transposed else self.w[0]

    def values(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        rng = np.random.default_rng(len(str(self)))
        w = rng.normal(size=self.w)
        axis = 1 if self.transposed else 0
        w *= rng.uniform(0.1, 1, [d if i == axis else 1 for i, d in enumerate(self.w)])
        return (
            rng.normal(size=self.x) + 0.3,
            w,
            rng.normal(size=self.channels) if self.bias else None,
        )

    def __str__(self) -> str:
        parts = ["x".join(map(str, self.x)), "x".join(map(str, self.w))]
        names = ("stride", "pad", "dilation", "groups", "transposed", "output_padding", "bias")
        parts += [
            f"{n[:4]}{getattr(self, n)}" for n in names if getattr(self, n) != getattr(Conv, n)
        ]
        return "-".join(parts).replace(" ", "")


def check_float(conv: Conv, dtype: DType = DType.FP32) -> Graph:
    """On TOSA's float profile."""
    x, w, bias = conv.values()
    args = (
        given(x, dtype=dtype), constant(w, dtype=dtype),
        None if bias is None else constant(bias, dtype=dtype), *conv.arguments(),
    )  # fmt: skip
    limits = TOSA_BF16 if dtype is DType.BF16 else TOSA_FP
    return check_op("aten.convolution", args, conv_fn, limits=limits)


def quantized(
    conv: Conv, bits: int = 8, weight_bits: int = 8, per_channel: bool = True
) -> tuple[tuple[Any, ...], Quant]:
    """The op's arguments with int32 bias, and parameters of its result."""
    x, w, bias = conv.values()
    axis = (1 if conv.transposed else 0) if per_channel else None
    qx, qw = quant_for(x, bits), weight_quant(w, axis, weight_bits)
    scale = qx.s * (np.tile(qw.scale, conv.groups) if conv.transposed and axis else qw.scale)
    qb = Quant(np.broadcast_to(scale, conv.channels), 0, 0, -(2**31), 2**31 - 1)
    args = (
        given(x, qx), constant(w, qw), None if bias is None else constant(bias, qb),
        *conv.arguments(),
    )  # fmt: skip
    return args, quant_for(torch_result(args, {}, conv_fn)[0], bits)


def check_quantized(
    conv: Conv, bits: int = 8, weight_bits: int = 8, per_channel: bool = True,
    limits: Limits | None = None,
) -> Graph:  # fmt: skip
    """Within a step of PyTorch."""
    args, out = quantized(conv, bits, weight_bits, per_channel)
    limits = limits or (TOSA_INT if bits == weight_bits == 8 else TOSA_INT16)
    return check_op("aten.convolution", args, conv_fn, out_quant=out, limits=limits)


PLAIN = [
    Conv((2, 4, 9, 8), (6, 4, 3, 3), pad=1),
    Conv((1, 4, 9, 8), (6, 4, 3, 3), stride=2, pad=(1, 1, 0, 0)),
    Conv((1, 4, 10, 8), (6, 4, 3, 3), stride=(3, 2), dilation=(2, 1), bias=False),
    Conv((1, 4, 7, 7), (3, 4, 2, 2), pad=(0, 1, 0, 1)),
    Conv((1, 4, 9, 8), (4, 1, 3, 3), pad=(1, 1, 0, 2), groups=4),
    Conv((1, 4, 9, 8), (8, 1, 3, 3), stride=2, pad=1, groups=4),
    Conv((1, 8, 9, 8), (8, 2, 3, 3), pad=1, groups=4),
    Conv((2, 4, 19), (6, 4, 5), stride=2, pad=2),
    Conv((2, 4, 19), (4, 1, 5), stride=2, pad=2, dilation=2, groups=4),
    Conv((1, 3, 6, 7, 5), (4, 3, 3, 3, 2), stride=(1, 2, 1), pad=(1, 1, 1, 1, 0, 0)),
    Conv((1, 4, 6, 7, 5), (4, 1, 3, 3, 2), pad=(1, 1, 1, 1, 0, 0), groups=4),
]
TRANSPOSED = [
    Conv((1, 4, 5, 6), (4, 6, 3, 3), 2, 1, transposed=True, output_padding=1),
    Conv((1, 4, 5, 6), (4, 6, 4, 4), 2, 1, transposed=True),
    Conv((2, 4, 5, 6), (4, 6, 2, 2), 2, transposed=True),
    Conv((1, 4, 5, 6), (4, 3, 3, 2), (2, 3), (1, 1, 0, 0), (2, 1), 2, True, (0, 1)),
    Conv((1, 4, 5, 6), (4, 2, 3, 2), (2, 3), (1, 1, 0, 0), (2, 1), 4, True, (0, 1)),
    Conv((1, 4, 5, 6), (4, 5, 3, 2), 1, (1, 1, 0, 0), (2, 1), transposed=True),
    Conv((1, 4, 7), (4, 5, 16), 8, 4, transposed=True),
    Conv((1, 4, 5, 6), (4, 2, 1, 1), 3, transposed=True, output_padding=(1, 2)),
    Conv((1, 4, 3, 4, 5), (4, 5, 2, 3, 2), (2, 1, 2), (0, 0, 1, 1, 0, 0), transposed=True),
]
