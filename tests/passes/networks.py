"""Convolutional networks as a lowering writes them: TRANSPOSEs around every convolution."""

from __future__ import annotations

import numpy as np

from npuc.dialects.tosa import Limits
from npuc.ir import DType, Graph, TensorType, Value
from npuc.lowering.tosa_builder import TosaBuilder

LIMITS = Limits()


class Net:
    """Float layers on NCHW values, each as the lowering rules emit it."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.b = TosaBuilder(LIMITS)
        self.rng = np.random.default_rng(0)
        self.inputs = [
            self.b.input(TensorType(DType.FP32, s), f"x{i}") for i, s in enumerate(shapes)
        ]
        self.named: dict[str, Value] = {}

    def finish(self, *outputs: Value) -> Graph:
        origins = {name: (v, None) for name, v in self.named.items()}
        return self.b.finish(outputs, origins=origins)

    def weight(self, *shape: int) -> Value:
        return self.b.const(self.rng.normal(size=shape).astype(np.float32) / 4)

    def zero(self) -> Value:
        return self.b.scalar(0, DType.FP32, 1)

    def conv(self, x: Value, out: int, k: int = 3, stride: int = 1) -> Value:
        """Convolution with a bias, padded to the same size."""
        x = self.b.nhwc(x)
        weight = self.weight(out, k, k, x.type.ints[-1])
        pad = (k // 2, (k - 1) // 2 if stride == k else k // 2) * 2
        if stride == 2 and k == 3:
            pad = (1, 0, 1, 0)
        y = self.b.CONV2D(
            x, weight, self.weight(out), self.zero(), self.zero(),
            pad=pad if k != stride else (0,) * 4, stride=(stride, stride), acc_type=DType.FP32,
        )  # fmt: skip
        return self.b.nchw(y)

    def relu(self, x: Value) -> Value:
        y = self.b.CLAMP(x, min_val=0.0, max_val=6.0)
        self.named[f"relu{len(self.named)}"] = y
        return y

    def max_pool(self, x: Value) -> Value:
        return self.b.nchw(self.b.MAX_POOL2D(self.b.nhwc(x), kernel=(2, 2), stride=(2, 2)))

    def upsample(self, x: Value) -> Value:
        y = self.b.RESIZE(self.b.nhwc(x), (4, 2, 4, 2), (-1, -1), (1, 1), mode="NEAREST_NEIGHBOR")
        return self.b.nchw(y)

    def mean(self, x: Value) -> Value:
        """[N, C, H, W] -> [N, C, 1, 1]."""
        _, _, h, w = x.type.ints
        y = self.b.REDUCE_SUM(self.b.REDUCE_SUM(x, axis=2), axis=3)
        return self.multiply(y, self.b.scalar(1 / (h * w), DType.FP32, 4))

    def multiply(self, x: Value, y: Value) -> Value:
        return self.b.MUL(x, y, self.b.scalar(0, DType.INT8, 1))

    def linear(self, x: Value, out: int) -> Value:
        """[..., C] -> [..., out] as a convolution along the width."""
        *outer, c = x.type.ints
        y = self.b.CONV2D(
            self.b.reshape(x, (1, 1, int(np.prod(outer)), c)), self.weight(out, 1, 1, c),
            self.weight(out), self.zero(), self.zero(), acc_type=DType.FP32,
        )  # fmt: skip
        return self.b.reshape(y, (*outer, out))

    def flatten(self, x: Value) -> Value:
        n = x.type.ints[0]
        return self.b.reshape(x, (n, x.type.size // n))

    def channel_bias(self, x: Value) -> Value:
        return self.b.ADD(x, self.weight(1, x.type.ints[1], 1, 1))

    def layer_norm(self, x: Value) -> Value:
        """Over the last axis."""
        y = self.b.SUB(x, self.b.REDUCE_SUM(x, axis=x.type.rank - 1))
        scale = self.weight(*(1,) * (x.type.rank - 1), x.type.ints[-1])
        return self.multiply(y, scale)


def resnet(blocks: int = 2, batch: int = 1) -> Graph:
    net = Net((batch, 3, 16, 16))
    y = net.relu(net.conv(net.inputs[0], 8))
    for i in range(blocks):
        shortcut = net.conv(y, 8, 1) if i % 2 else y
        y = net.relu(net.conv(net.relu(net.conv(y, 8)), 8))
        y = net.relu(net.b.ADD(y, shortcut))
    return net.finish(net.linear(net.flatten(net.mean(y)), 10))


def unet() -> Graph:
    net = Net((2, 3, 16, 16))
    a = net.relu(net.conv(net.inputs[0], 4))
    c = net.relu(net.conv(net.max_pool(a), 8))
    d = net.relu(net.conv(net.max_pool(c), 16))
    y = net.b.CONCAT(net.upsample(d), c, axis=1)
    y = net.b.CONCAT(net.upsample(net.relu(net.conv(y, 8))), a, axis=1)
    return net.finish(net.conv(y, 2, 1))


def densenet() -> Graph:
    net = Net((1, 3, 8, 8))
    y = net.conv(net.inputs[0], 4)
    for _ in range(4):
        y = net.b.CONCAT(y, net.conv(net.relu(net.channel_bias(y)), 4), axis=1)
    return net.finish(net.linear(net.flatten(net.mean(net.relu(y))), 5))


def squeeze_excite() -> Graph:
    net = Net((2, 3, 8, 8))
    y = net.relu(net.conv(net.inputs[0], 8))
    for _ in range(2):
        s = net.b.reshape(net.mean(y), (2, 8))
        s = net.b.SIGMOID(net.linear(net.linear(s, 4), 8))
        y = net.multiply(y, net.b.reshape(s, (2, 8, 1, 1)))
        y = net.b.ADD(y, net.conv(y, 8))
    return net.finish(net.linear(net.flatten(net.mean(y)), 5))


def convnext() -> Graph:
    net = Net((2, 3, 16, 16))
    y = net.conv(net.inputs[0], 8, 4, 4)
    for _ in range(2):
        z = net.b.transpose(net.conv(y, 8), (0, 2, 3, 1))
        z = net.linear(net.relu(net.linear(net.layer_norm(z), 16)), 8)
        y = net.b.ADD(y, net.b.transpose(z, (0, 3, 1, 2)))
    return net.finish(net.conv(y, 4, 1))


def lenet() -> Graph:
    """The classifier reads a map of 4x4 positions, not of one."""
    net = Net((2, 1, 8, 8))
    y = net.max_pool(net.relu(net.conv(net.inputs[0], 6)))
    return net.finish(net.linear(net.relu(net.linear(net.relu(net.flatten(y)), 12)), 10))


def decoder() -> Graph:
    """A linear layer whose result becomes an image."""
    net = Net((2, 12))
    y = net.b.reshape(net.relu(net.linear(net.inputs[0], 8 * 4 * 4)), (2, 8, 4, 4))
    return net.finish(net.conv(net.upsample(net.relu(y)), 3))


def vision_transformer() -> Graph:
    """Patches as [N, T, C] tokens, one mixing of tokens by MATMUL."""
    net = Net((1, 3, 16, 16))
    y = net.conv(net.inputs[0], 8, 4, 4)
    y = net.b.transpose(net.b.reshape(y, (1, 8, 16)), (0, 2, 1))
    y = net.layer_norm(net.b.ADD(y, net.weight(1, 16, 8)))
    return net.finish(net.linear(net.relu(net.linear(y, 16)), 8))


def pixel_shuffle() -> Graph:
    net = Net((1, 3, 8, 8))
    y = net.relu(net.conv(net.inputs[0], 16))
    y = net.b.reshape(y, (1, 4, 2, 2, 8, 8))
    y = net.b.reshape(net.b.transpose(y, (0, 1, 4, 2, 5, 3)), (1, 4, 16, 16))
    return net.finish(net.conv(net.relu(y), 3))


def conv1d() -> Graph:
    """[N, C, T] networks run as images of height 1."""
    net = Net((2, 3, 16))
    y = net.inputs[0]
    for out in (8, 8, 4):
        n, c, t = y.type.ints
        y = net.conv(net.b.reshape(y, (n, c, 1, t)), out, 1)
        y = net.relu(net.b.reshape(y, (n, out, t)))
    return net.finish(y)
