"""Graphs of single operators for the chips, and what policies and Vela say to them."""

import re

import numpy as np

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import NpucError
from npuc.ir import DType, TensorType
from npuc.serialize.tosa_flatbuffer import serialize
from npuc.targets.ethos_u_policy import ethos_u55_policy, ethos_u65_policy, ethos_u85_policy
from npuc.targets.vela import compile_vela

EXTENSIONS = frozenset({"EXT-INT16", "EXT-INT4", "EXT-DOUBLEROUND"})
LIMITS = Limits((1, 0), frozenset({"PRO-INT"}), EXTENSIONS, name="integers")
CHIPS = {
    "ethos-u55-128": ethos_u55_policy,
    "ethos-u65-256": ethos_u65_policy,
    "ethos-u85-256": ethos_u85_policy,
}
#: an image
S = (1, 8, 8, 16)

I8, I16, I32, I48, BOOL = DType.INT8, DType.INT16, DType.INT32, DType.INT48, DType.BOOL


class Builder(OpBuilder):
    """OpBuilder with the operands that the operators below need."""

    def __init__(self):
        super().__init__(LIMITS)

    def given(self, shape, dtype=I8):
        return self.input(TensorType(dtype, tuple(shape)), f"x{len(self.inputs)}")

    def one(self, value=0, dtype=I8):
        return self.const(np.full(1, value).astype(dtype.numpy), dtype)

    def scaled(self, x, dtype, zp=0):
        wide = x.type.dtype is not I48
        multiplier = self.const(
            np.full(1, 1 << (30 if wide else 14), np.int32 if wide else np.int16)
        )
        return self.RESCALE(
            x,
            multiplier,
            self.const(np.full(1, 36 if wide else 20, np.int8)),
            self.one(zp, x.type.dtype),
            self.one(0, dtype),
            scale32=wide,
            dtype=dtype,
        )

    def conv(self, name, x, kernel, zp=0, out=4, weights=None, **attrs):
        """A convolution of any kind and the RESCALE behind it."""
        dtype, channels = x.type.dtype, x.type.shape[-1]
        acc = I32 if dtype is I8 else I48
        depthwise = name == "DEPTHWISE_CONV2D"
        shape = (*kernel, channels, 1) if depthwise else (out, *kernel, channels)
        weights = weights or self.const(np.ones(shape, np.int8))
        bias = self.const(np.zeros(channels if depthwise else out, acc.numpy), acc)
        y = self.tosa(
            name, x, weights, bias, self.one(zp, dtype), self.one(), acc_type=acc, **attrs
        )
        return self.scaled(y, dtype)

    def pool(self, name, x, **attrs):
        if name == "MAX_POOL2D":
            return self.MAX_POOL2D(x, **attrs)
        zero = self.one(0, x.type.dtype)
        return self.AVG_POOL2D(x, zero, zero, acc_type=I32, **attrs)


def graph_of(make):
    b = Builder()
    outputs = make(b)
    return b.finish(outputs if isinstance(outputs, (list, tuple)) else [outputs])


def refusal(graph, chip):
    """The policy's reason for the first operator that it refuses, or None."""
    reasons = (
        CHIPS[chip](op.name, op.operands, op.attrs, [r.type for r in op.results])
        for op in graph.ops
        if op.kind != "const"
    )
    return next((r for r in reasons if r), None)


def compiles(graph, chip):
    try:
        compile_vela(serialize(graph), chip)
    except NpucError:
        return False
    return True


def assert_agrees(graph, chip, what):
    reason, taken = refusal(graph, chip), compiles(graph, chip)
    assert reason is not None or taken, f"{chip}: the policy lets pass what Vela refuses: {what}"
    assert reason is None or not taken, (
        f"{chip}: the policy refuses what Vela takes: {what}: {reason}"
    )


def registers(graph, chip, name):
    """Values of a register in the command stream, in order."""
    log = compile_vela(
        serialize(graph), chip, extra_options={"verbose-register-command-stream": True}
    ).log
    return [int(v) for v in re.findall(rf"{name}\s+(-?\d+)", log)]
