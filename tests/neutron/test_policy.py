"""What a Neutron chip takes: each restriction at its limit and one above, with the number in the reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from npuc.dialects.tflite import TfliteOpBuilder
from npuc.errors import Unsupported
from npuc.ir import DType, Quant, TensorType, Value
from npuc.targets.catalogue import targets
from npuc.targets.neutron import NAMES, neutron_target
from npuc.targets.neutron_policy import CHIPS

Q = Quant(0.05, 3, None, -128, 127)
ZERO = Quant(0.05, 0, None, -128, 127)


def builder() -> TfliteOpBuilder:
    """A builder within the limits of i.MX RT700."""
    return TfliteOpBuilder(neutron_target("neutron-imxrt700").limits)


def tensor(b: TfliteOpBuilder, *shape: int, quant: Quant = Q) -> Value:
    """An int8 input."""
    return b.input(TensorType(DType.INT8, shape, quant), "x")


def conv(kernel: tuple[int, int], channels: int, depthwise: bool = False, **attrs: object) -> None:
    """A convolution of an image that is just large enough."""
    b = builder()
    dilation = attrs.get("dilation", (1, 1))
    size = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]  # type: ignore[call-overload]
    x = tensor(b, 1, *size, channels)
    w = b.const(np.ones((1, *kernel, channels), np.int8), DType.INT8, ZERO)
    bias = b.const(np.zeros(channels if depthwise else 1, np.int32), DType.INT32,
                   Quant(0.05 * 0.05, 0, None, -(2**31), 2**31 - 1))  # fmt: skip
    emit = b.DEPTHWISE_CONV_2D if depthwise else b.CONV_2D
    emit(x, w, bias, quant=Q, **attrs)


def pool(name: str, size: int, kernel: int, stride: int, padding: str = "VALID") -> None:
    """A pool along the width."""
    b = builder()
    b.tflite(
        name, tensor(b, 1, 1, size, 1), kernel=(1, kernel), stride=(1, stride), padding=padding
    )


def pair(name: str, x: tuple[int, ...], y: tuple[int, ...], **attrs: object) -> None:
    """An operator of two operands."""
    b = builder()
    b.tflite(name, tensor(b, *x), tensor(b, *y), quant=Q, **attrs)


def matmul(x: tuple[int, ...], y: tuple[int, ...], zero: int = 0) -> None:
    """A product of matrices."""
    b = builder()
    quant = Quant(0.05, zero, None, -128, 127)
    b.BATCH_MATMUL(tensor(b, *x, quant=quant), tensor(b, *y, quant=ZERO), quant=Q)


def softmax(*shape: int) -> None:
    """A softmax."""
    b = builder()
    b.SOFTMAX(tensor(b, *shape))


def resize(name: str, size: int, out: int, **attrs: object) -> None:
    """An enlarged image."""
    b = builder()
    b.tflite(name, tensor(b, 1, size, size, 1), size=(out, out), **attrs)


def transposed(kernel: int, stride: int) -> None:
    """A transposed convolution."""
    b = builder()
    x, size = tensor(b, 1, 4, 4, 1), 3 * stride + kernel
    w = b.const(np.ones((1, kernel, kernel, 1), np.int8), DType.INT8, ZERO)
    b.TRANSPOSE_CONV(w, x, output_shape=(1, size, size, 1), stride=(stride, stride), quant=Q)


def reshape(rank: int) -> None:
    """A reshape to a rank."""
    b = builder()
    b.RESHAPE(tensor(b, 6), shape=(1,) * (rank - 1) + (6,))


def transpose(rank: int) -> None:
    """A transpose of a rank."""
    b = builder()
    b.TRANSPOSE(tensor(b, *range(1, rank + 1)), perms=tuple(range(rank))[::-1])


TAKEN: list[Callable[[], None]] = [
    lambda: conv((1, 4096), 8), lambda: conv((3, 3), 8, dilation=(1, 4096)),
    lambda: conv((41, 15), 104, True), lambda: conv((3, 3), 8, activation="RELU6"),
    lambda: pool("AVERAGE_POOL_2D", 4096, 4096, 1), lambda: pool("MAX_POOL_2D", 4097, 1, 4096),
    lambda: pair("ADD", (4, 6), (1, 6)), lambda: pair("MAXIMUM", (1,), (4, 6)),
    lambda: matmul((2, 3, 4), (2, 4, 5)), lambda: softmax(4096, 128), lambda: softmax(256, 2040),
    lambda: resize("RESIZE_BILINEAR", 4, 32), lambda: resize("RESIZE_BILINEAR", 5, 9, align_corners=True),
    lambda: transposed(2, 2), lambda: reshape(7), lambda: transpose(6),
]  # fmt: skip
REFUSED: list[tuple[Callable[[], None], str]] = [
    (lambda: conv((1, 4097), 8), "kernel 4097 exceeds 4096"),
    (lambda: conv((3, 3), 8, stride=(4097, 1)), "stride 4097 exceeds 4096"),
    (lambda: conv((3, 3), 8, dilation=(1, 4097)), "dilation 4097 exceeds 4096"),
    (lambda: conv((41, 15), 113, True), "113 channels .rounded up to 120. is 73800, above 65535"),
    (lambda: conv((3, 3), 8, activation="RELU_N1_TO_1"), "does not fuse RELU_N1_TO_1"),
    (lambda: pool("AVERAGE_POOL_2D", 4097, 4097, 1), "kernel 4097"),
    (lambda: pool("AVERAGE_POOL_2D", 8, 3, 1, "SAME"), "padding that an average does not count"),
    (lambda: pool("MAX_POOL_2D", 4098, 1, 4097), "stride 4097"),
    (lambda: pair("ADD", (4, 1), (1, 6)), r"both operands broadcast \(\(4, 1\) and \(1, 6\)\)"),
    (lambda: pair("MUL", (4, 6), (4, 6), activation="RELU"), "does not fuse RELU"),
    (lambda: matmul((3, 4), (4, 5)), "rank 3"),
    (lambda: matmul((2, 3, 4), (1, 4, 5)), "equal batches"),
    (lambda: matmul((2, 3, 4), (2, 4, 5), 7), "zero point 7"),
    (lambda: softmax(1, 2041), "2041 channels exceed 2040"),
    (lambda: softmax(4097, 2), "4097 rows exceed 4096"),
    (lambda: softmax(300, 2000), "600000 elements exceed 524288"),
    (lambda: resize("RESIZE_BILINEAR", 4, 12), "from 4 to 12"),
    (lambda: resize("RESIZE_BILINEAR", 1, 2, align_corners=True), "from 1 to 2"),
    (lambda: resize("RESIZE_NEAREST_NEIGHBOR", 4, 8, half_pixel_centers=True), "centers"),
    (lambda: transposed(1, 2), "stride 2 with kernel 1"),
    (lambda: transposed(3, 3), "stride 3 with kernel 3"),
    (lambda: reshape(8), "rank 8 exceeds 7"),
    (lambda: transpose(7), "rank 7 exceeds 6"),
]


@pytest.mark.parametrize("place", range(len(TAKEN)))
def test_at_the_limit(place: int) -> None:
    TAKEN[place]()


@pytest.mark.parametrize(("emit", "why"), REFUSED, ids=[why[:30] for _, why in REFUSED])
def test_above_the_limit(emit: Callable[[], None], why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        emit()


def test_other_types_and_operators() -> None:
    b = builder()
    wide = b.input(TensorType(DType.INT16, (4,), Quant(0.1, 0, None, -(2**15), 2**15 - 1)), "w")
    with pytest.raises(Unsupported, match="needs INT16, Neutron computes on INT8"):
        b.ADD(wide, wide, quant=wide.type.quant)
    with pytest.raises(Unsupported, match="GELU: Neutron has no such operator"):
        b.GELU(tensor(b, 4), quant=Q)
    with pytest.raises(Unsupported, match="no operators on floats"):
        b.ABS(b.input(TensorType(DType.FP32, (4,)), "f"))


def test_computed_weights() -> None:
    b = builder()
    w = tensor(b, 3, 4, quant=ZERO)
    with pytest.raises(Unsupported, match="computed"):
        b.FULLY_CONNECTED(tensor(b, 2, 4), w, quant=Q)


def test_all_chips_are_targets_and_say_what_is_assumed() -> None:
    described = targets()
    assert set(NAMES) <= set(described) and len(NAMES) == 8
    for name in NAMES:
        assumed = "assumed" in described[name]
        assert assumed != CHIPS[name.removeprefix("neutron-")].is_known
