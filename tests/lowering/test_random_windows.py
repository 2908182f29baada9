"""Convolutions and pools of random geometry: within a step on every target, and Vela takes them."""

from __future__ import annotations

import random

import pytest
import torch

from npuc.errors import Unsupported
from tests.lowering.convolutions import Conv, check_float, check_quantized, conv_fn
from tests.lowering.harness import TOSA_FP, TOSA_INT, TOSA_INT16, U55, U85, vela
from tests.lowering.test_pool import avg_pool, max_pool, pool

TARGETS = [(TOSA_INT, 8), (TOSA_INT16, 16), (TOSA_FP, 0), (U55, 8), (U85, 8), (U55, 16), (U85, 16)]


def random_convolution(pick: random.Random) -> Conv:
    """Any shape that PyTorch takes: kernels beside the input, uneven padding, groups, dilation."""
    n, transposed, groups = (
        pick.choice((1, 2, 2, 3)),
        pick.random() < 0.35,
        pick.choice((1, 1, 2, 4)),
    )
    kernel = [pick.randint(1, 5) for _ in range(n)]
    stride, dilation = (tuple(pick.choice((1, 1, 2, 3, 5)) for _ in range(n)) for _ in range(2))
    pad = []
    for k, d in zip(kernel, dilation, strict=True):
        same = pick.randint(0, min((k - 1) * d, 4))
        pad += [same, same] if transposed else [pick.randint(0, 5), pick.randint(0, 5)]
    channels, per_group = groups * pick.randint(1, 3), pick.randint(1, 3)
    weight = (channels, per_group) if transposed else (groups * per_group, channels // groups)
    more = [pick.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation, strict=True)]
    return Conv(
        (pick.choice((1, 1, 2)), channels, *(pick.randint(1, 13) for _ in range(n))),
        (*weight, *kernel), stride, tuple(pad), dilation, groups, transposed,
        tuple(more) if transposed else 0, pick.random() < 0.8,
    )  # fmt: skip


def is_possible(conv: Conv) -> bool:
    try:
        return (
            conv_fn(torch.zeros(conv.x), torch.zeros(conv.w), None, *conv.arguments()).numel() > 0
        )
    except RuntimeError:
        return False


@pytest.mark.parametrize("seed", range(100))
def test_convolution(seed: int) -> None:
    pick = random.Random(seed)
    conv = next(c for c in iter(lambda: random_convolution(pick), None) if is_possible(c))
    limits, bits = pick.choice(TARGETS)
    if not bits:
        check_float(conv)
        return
    try:
        graph = check_quantized(conv, bits, limits=limits)
    except Unsupported as refusal:  # a result that is a constant has a step of almost 0
        assert "is outside what a multiplier and shift express" in str(refusal)
        return
    if limits in (U55, U85):
        vela(graph, limits.name)


def random_pool(pick: random.Random) -> tuple[str, tuple[int, ...], tuple[object, ...]]:
    n = pick.choice((2, 2, 3))
    kernel = tuple(pick.randint(1, 6) for _ in range(n))
    stride = tuple(pick.randint(1, 6) for _ in range(n))
    pad = tuple(pick.randint(0, k // 2) for k in kernel)
    shape = (pick.choice((1, 2)), pick.choice((1, 3)), *(pick.randint(k, 15) for k in kernel))
    ceil_mode = pick.random() < 0.5
    if pick.random() < 0.5:
        return "aten.max_pool", shape, (kernel, stride, pad, (1,) * n, ceil_mode)
    rest = (pick.random() < 0.5, pick.choice((None, None, 3)))
    return "aten.avg_pool", shape, (kernel, stride, pad, ceil_mode, *rest)


@pytest.mark.parametrize("seed", range(100))
def test_pool(seed: int) -> None:
    pick = random.Random(seed)
    kind, shape, args = random_pool(pick)
    limits, bits = pick.choice([t for t in TARGETS if t[1]])
    fn = max_pool if kind == "aten.max_pool" else avg_pool
    try:
        graph = pool(kind, shape, args, fn, limits, bits, pick.random() < 0.5)
    except Unsupported as refusal:  # averages over volumes have no form with a stride above 3
        assert limits is U55 and len(shape) == 5 and "exceeds 3" in str(refusal)
        return
    if limits in (U55, U85):
        vela(graph, limits.name)


def test_a_volume_average_with_a_wide_stride_is_refused_by_u55() -> None:
    args = ((2, 2, 2), (2, 4, 2), (0, 1, 0), False, True, None)
    with pytest.raises(Unsupported, match="stride 4x2 exceeds 3"):
        pool("aten.avg_pool", (1, 2, 4, 9, 9), args, avg_pool, U55)
