"""What the Ethos-U chips take of convolutions and pools: why not, with the number, or None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npuc.ir import TensorType, Value

Attrs = Mapping[str, Any]

#: largest axis that the hardware addresses
MAX_AXIS = 65536

#: registers of the padding: 7 bits at the top and left, 8 at the bottom and right. Vela 5.2.0 cuts
#: larger values off without a word (128 becomes 0)
MAX_PAD_BEFORE, MAX_PAD_AFTER = 127, 255


def _const_weights(operands: Sequence[Value]) -> str | None:
    for value, what in zip(operands[1:3], ("weights", "a bias"), strict=False):
        if not value.is_const:
            return f"{what} computed at run time; the chip takes constants"
    return None


def _channels(operands: Sequence[Value], results: Sequence[TensorType]) -> str | None:
    depth = operands[0].type.ints[-1]
    return f"{depth} channels exceed {MAX_AXIS}" if depth > MAX_AXIS else None


def _padding(attrs: Attrs) -> str | None:
    pad = tuple(attrs["pad"])[-4:]
    for size, side in zip(pad, ("top", "bottom", "left", "right"), strict=True):
        most = MAX_PAD_BEFORE if side in ("top", "left") else MAX_PAD_AFTER
        if size > most:
            return f"{side} padding of {size} exceeds {most}"
    return None


def _pad_of_zero(operands: Sequence[Value]) -> str | None:
    """Vela fuses a PAD by 0 into the convolution behind it, which pads with the zero point."""
    source, zero_point = through_reshapes(operands[0]), operands[3]
    if source.op is None or source.op.kind != "tosa.PAD" or not zero_point.is_const:
        return None
    constant, zero = source.op.operands[2], int(zero_point.array.flat[0])
    if zero != 0 and constant.is_const and int(constant.array.flat[0]) == 0:
        return (
            f"a PAD by 0 in front of a convolution with zero point {zero}: Vela fuses the two "
            f"and pads with {zero}"
        )
    return None


def through_reshapes(value: Value) -> Value:
    while value.op is not None and value.op.kind == "tosa.RESHAPE":
        value = value.op.operands[0]
    return value


def u85_conv(operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]) -> str | None:
    return _channels(operands, results) or _padding(attrs) or _pad_of_zero(operands)


def u85_conv3d(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    return _const_weights(operands) or u85_conv(operands, attrs, results)


def u85_transpose_conv(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    return _const_weights(operands) or _channels(operands, results)


def _kernel_of_conv(height: int, width: int) -> str | None:
    if height > 64:
        return f"kernel height {height} exceeds 64"
    if height * width > 4096:
        return f"kernel {height}x{width} has {height * width} elements, more than 4096"
    return None


def _weight_sum(weights: Value) -> str | None:
    """The accumulator holds the sum of 65536 weights of the largest magnitude."""
    array, most = weights.array, 127 * 65536
    if array.size <= 65536:
        return None
    total = int(np.abs(array.astype(np.int64)).reshape(array.shape[0], -1).sum(axis=1).max())
    return f"the weights of one channel sum up to {total}, above {most}" if total > most else None


def _u55_window(operands: Sequence[Value], attrs: Attrs, kernel: tuple[int, int]) -> str | None:
    return (
        _const_weights(operands)
        or _channels(operands, ())
        or _padding(attrs)
        or _kernel_of_conv(*kernel)
        or _pad_of_zero(operands)
    )


def u55_conv2d(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    _, height, width, _ = operands[1].type.ints
    reason = _u55_window(operands, attrs, (height, width)) or _weight_sum(operands[1])
    if reason is not None or max(attrs["stride"]) <= 3:
        return reason
    if any(attrs["pad"]) or max(attrs["dilation"]) > 1:
        stride = "x".join(map(str, attrs["stride"]))
        return f"stride {stride} exceeds 3 together with padding or dilation"
    return None


def u55_depthwise(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    height, width = operands[1].type.ints[:2]
    if max(attrs["stride"]) > 3:
        return f"stride {'x'.join(map(str, attrs['stride']))} exceeds 3"
    return _u55_window(operands, attrs, (height, width))


def u55_conv3d(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    _, depth, height, width, _ = operands[1].type.ints
    if depth > 1:
        return f"kernel depth {depth} exceeds 1"
    if max(attrs["stride"][1:]) > 3:
        return f"stride {'x'.join(map(str, attrs['stride']))} exceeds 3"
    if any(attrs["pad"][:2]):
        return f"padding of the depth by {attrs['pad'][:2]}"
    return _u55_window(operands, attrs, (height, width))


def u55_transpose_conv(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    _, height, width, _ = operands[1].type.ints
    _, in_height, in_width, _ = operands[0].type.ints
    reason = _const_weights(operands) or _channels(operands, ()) or _kernel_of_conv(height, width)
    if reason is not None:
        return reason
    y, x = attrs["stride"]
    flat_y, flat_x = (in_height, height) == (1, 1), (in_width, width) == (1, 1)
    if (y, x) in ((1, 1), (2, 2)) or (y <= 2 and flat_x) or (x <= 2 and flat_y):
        return None
    return f"stride {y}x{x} is neither 1x1 nor 2x2"


def u55_pool(operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]) -> str | None:
    height, width = attrs["kernel"]
    if height > 256 or height * width > 65536:
        return f"kernel {height}x{width} exceeds 256 rows or 65536 elements"
    if max(attrs["stride"]) > 3 and any(attrs["pad"]):
        return f"stride {'x'.join(map(str, attrs['stride']))} exceeds 3 together with padding"
    return _channels(operands, results) or _padding(attrs)


def u55_average(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    height, width = attrs["kernel"]
    if any(attrs["pad"]) and max(height, width) > 8:
        return f"a padded average over {height}x{width} exceeds 8x8"
    return u55_pool(operands, attrs, results)


def u85_pool(operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]) -> str | None:
    return _channels(operands, results) or _padding(attrs)
