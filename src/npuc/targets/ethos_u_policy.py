"""Which TOSA operators the Ethos-U chips do not take, with the number that broke the rule.

A policy refuses an operator for one of three reasons: Vela 5.2.0 does not compile it, Arm's list of
supported operators (SUPPORTED_OPS.md of Vela) excludes it, or Vela compiles it to a wrong command
stream. What TOSA itself forbids (profiles, levels, types) is checked before a policy is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from npuc.ir import DType, TensorType, Value
from npuc.targets.ethos_u_windows import (
    MAX_AXIS,
    through_reshapes,
    u55_average,
    u55_conv2d,
    u55_conv3d,
    u55_depthwise,
    u55_pool,
    u55_transpose_conv,
    u85_conv,
    u85_conv3d,
    u85_pool,
    u85_transpose_conv,
)

Attrs = Mapping[str, Any]
Check = Callable[[Sequence[Value], Attrs, Sequence[TensorType]], "str | None"]

CONVOLUTIONS = ("CONV2D", "DEPTHWISE_CONV2D", "CONV3D", "TRANSPOSE_CONV2D")


def ethos_u55_policy(
    name: str, operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    """Why Ethos-U55 does not take an operator, or None."""
    return _u55("Ethos-U55", name, operands, attrs, results)


def ethos_u65_policy(
    name: str, operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    """Why Ethos-U65 does not take an operator, or None. Its rules are those of Ethos-U55."""
    return _u55("Ethos-U65", name, operands, attrs, results)


def ethos_u85_policy(
    name: str, operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    """Why Ethos-U85 does not take an operator, or None."""
    reason = _dynamic("Ethos-U85", operands, results)
    if reason is None and name in U85_CHECKS:
        reason = U85_CHECKS[name](operands, attrs, results)
    return reason


def _u55(
    chip: str, name: str, operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    types = [v.type for v in operands] + list(results)
    if any(t.dtype is DType.BOOL for t in types):
        return f"{chip} has no BOOL tensors"
    accepted = U55_TYPES.get(name)
    if accepted is None:
        return f"{chip} has no {name}"
    # files say UINT8 as INT8; RESCALE has flags for it, and whatever else takes it only moves it
    dtype = DType.INT8 if types[0].dtype is DType.UINT8 else types[0].dtype
    if dtype not in accepted:
        names = ", ".join(t.name for t in accepted)
        return f"{chip} has {name} for {names} only, not for {dtype.name}"
    reason = _dynamic(chip, operands, results)
    if reason is None and name in U55_CHECKS:
        reason = U55_CHECKS[name](operands, attrs, results)
    return reason


def _dynamic(chip: str, operands: Sequence[Value], results: Sequence[TensorType]) -> str | None:
    for t in [v.type for v in operands] + list(results):
        if not t.is_static:
            return f"{chip} takes static shapes only, not {t.shape}"
    return None


# -- products and reductions -----------------------------------------------------------------------


def _u55_argmax(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    shape, axis = operands[0].type.ints, attrs["axis"]
    if axis != len(shape) - 1:
        return f"ARGMAX over axis {axis} of {len(shape)}; the chip has it over the last one only"
    if shape[-1] > 127:
        return f"ARGMAX over {shape[-1]} elements exceeds 127"
    if math.prod(shape[:-3]) > 1:
        return f"ARGMAX of batches ({'x'.join(map(str, shape))})"
    if math.prod(shape[:-1]) > MAX_AXIS:
        return f"{math.prod(shape[:-1])} positions exceed {MAX_AXIS}"
    return None


def _u55_matmul(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    largest = max(max(v.type.ints) for v in operands[:2])
    return f"an axis of {largest} exceeds {MAX_AXIS}" if largest > MAX_AXIS else None


def _u55_sum(operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]) -> str | None:
    shape, axis = operands[0].type.ints, attrs["axis"]
    if axis == len(shape) - 1:
        return None
    sizes = shape[axis], math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    if max(sizes) <= MAX_AXIS:
        return None
    return f"a sum over axis {axis} of {'x'.join(map(str, shape))} moves {max(sizes)} > {MAX_AXIS}"


# -- data movement ---------------------------------------------------------------------------------


def _u55_reverse(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    rank = operands[0].type.rank
    if attrs["axis"] == rank - 1:
        return f"REVERSE of the last axis ({rank - 1}); the chip has it for the others only"
    return None


def _u55_transpose(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    shape, perms = operands[0].type.ints, tuple(attrs["perms"])
    moved = [p for p in perms if shape[p] > 1]
    if moved == sorted(moved):
        return None
    narrow = operands[0].type.dtype is not DType.INT32
    most = MAX_AXIS if narrow else 2**14
    text = f"a transposition of {'x'.join(map(str, shape))} by {perms}"
    if max(shape) > most:
        return f"{text} has an axis above {most}"
    front = len(shape) - 3
    if front <= 0 or (math.prod(shape[:front]) == 1 and perms[:front] == tuple(range(front))):
        return None  # within a plane of the image
    sizes = shape if narrow else merged_axes(shape, perms)
    if not narrow and len(sizes) > 4:
        return f"{text} moves {len(sizes)} axes, the chip at most 4 of INT32"
    count = len(sizes) - 2 if narrow else len(sizes)
    product = max(math.prod(c) for c in combinations(sizes, max(count, 1)))
    if product > most:
        return f"{text} has {count} axes whose product {product} exceeds {most}"
    return None


def merged_axes(shape: Sequence[int], perms: Sequence[int]) -> list[int]:
    """Sizes of the axes that a transposition moves: without those of size 1, neighbours merged."""
    order = [p for p in perms if shape[p] > 1]
    kept = sorted(order)
    sizes: list[int] = []
    for before, axis in zip([None, *order], order, strict=False):
        after = before is not None and kept.index(axis) == kept.index(before) + 1
        if after:
            sizes[-1] *= shape[axis]
        else:
            sizes.append(shape[axis])
    return sizes


def _u55_resize(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    """Repetition by 2, 4 or 8 on both axes, or of a single pixel."""
    if attrs["mode"] != "NEAREST_NEIGHBOR":
        return "bilinear RESIZE does not exist on the chip"
    batch, height, width, _ = operands[0].type.ints
    if (height, width) == (1, 1):
        return None
    if batch > 1:
        return f"RESIZE of a batch of {batch}"
    (yn, yd, xn, xd), offset, border = (tuple(map(int, v.array)) for v in operands[1:4])
    y, x = yn // yd, xn // xd
    still = (y == 1 and height == 1) or (x == 1 and width == 1)
    if not (y == x or still) or max(y, x) not in (2, 4, 8) or yn % yd or xn % xd:
        return f"nearest RESIZE by {yn}/{yd} x {xn}/{xd}; the chip repeats pixels 2, 4 or 8 times"
    half = all(
        (n, d, o, b) == (2 * f, 2, 1 - f, f - 1)
        for n, d, o, b, f in ((yn, yd, offset[0], border[0], y), (xn, xd, offset[1], border[1], x))
    )
    corners = (yd, xd, *offset, *border) == (1, 1, 0, 0, 0, 0)
    if half or corners:
        return None
    return f"nearest RESIZE with offset {offset} and border {border} is not the half-pixel form"


# -- integer arithmetic ----------------------------------------------------------------------------


def _u55_right_shift(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    if attrs["round"]:
        return None
    return "ARITHMETIC_RIGHT_SHIFT without rounding: the chip rounds nevertheless; set round"


def _u55_cast(operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]) -> str | None:
    source, target = operands[0].type.dtype, results[0].dtype
    if target.bits >= source.bits:
        return None
    return f"CAST from {source.name} to {target.name} saturates instead of wrapping; use RESCALE"


def _u55_rescale(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    if operands[0].type.dtype is not DType.INT48:
        return None
    source = through_reshapes(operands[0])
    if source.op is not None and source.op.name in CONVOLUTIONS:
        return None
    return "RESCALE of INT48 that does not follow a convolution"


_I8, _I16, _I32, _I48 = DType.INT8, DType.INT16, DType.INT32, DType.INT48
_8_16, _16_32, _ALL = (_I8, _I16), (_I16, _I32), (_I8, _I16, _I32)

#: operators of Ethos-U55 and U65 and the types of their first operand
U55_TYPES: dict[str, tuple[DType, ...]] = {
    "CONV2D": _8_16, "DEPTHWISE_CONV2D": _8_16, "CONV3D": _8_16, "TRANSPOSE_CONV2D": (_I8,),
    "MATMUL": (_I8,), "AVG_POOL2D": _8_16, "MAX_POOL2D": _8_16, "ARGMAX": (_I8,),
    "TABLE": _8_16, "CLAMP": _8_16, "RESIZE": _8_16, "ADD": (_I32,), "SUB": (_I32,),
    "ABS": (_I32,), "MAXIMUM": (_I32,), "MINIMUM": (_I32,), "MUL": _ALL, "NEGATE": _ALL,
    "CLZ": (_I32,), "ARITHMETIC_RIGHT_SHIFT": (_I32,), "LOGICAL_LEFT_SHIFT": (_I32,),
    "REDUCE_SUM": (_I32,), "REDUCE_MAX": _8_16, "REDUCE_MIN": _8_16, "RESCALE": (*_ALL, _I48),
    "CAST": _ALL, "CONCAT": _ALL, "PAD": _ALL, "RESHAPE": (*_ALL, _I48), "SLICE": _ALL,
    "TILE": _ALL, "IDENTITY": _ALL, "TRANSPOSE": _ALL, "REVERSE": _8_16,
}  # fmt: skip

U55_CHECKS: dict[str, Check] = {
    "CONV2D": u55_conv2d, "DEPTHWISE_CONV2D": u55_depthwise, "CONV3D": u55_conv3d,
    "TRANSPOSE_CONV2D": u55_transpose_conv, "MATMUL": _u55_matmul, "AVG_POOL2D": u55_average,
    "MAX_POOL2D": u55_pool, "ARGMAX": _u55_argmax, "RESIZE": _u55_resize,
    "ARITHMETIC_RIGHT_SHIFT": _u55_right_shift, "REDUCE_SUM": _u55_sum, "CAST": _u55_cast,
    "RESCALE": _u55_rescale, "TRANSPOSE": _u55_transpose, "REVERSE": _u55_reverse,
}  # fmt: skip


def _u85_custom(
    operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
) -> str | None:
    return "Ethos-U85 has no CUSTOM"


U85_CHECKS: dict[str, Check] = {
    "CONV2D": u85_conv, "DEPTHWISE_CONV2D": u85_conv, "CONV3D": u85_conv3d,
    "TRANSPOSE_CONV2D": u85_transpose_conv, "AVG_POOL2D": u85_pool, "MAX_POOL2D": u85_pool,
    "CUSTOM": _u85_custom,
}  # fmt: skip
