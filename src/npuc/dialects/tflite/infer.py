"""Result types of TFLite operators: element types from the signatures, shapes from rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from npuc.dialects.tflite.definition import DEFINITIONS
from npuc.ir import DType, TensorType, Value

Attrs = Mapping[str, Any]
Sizes = tuple[int, ...]


class InvalidOp(Exception):
    """An op that breaks its definition: operands, attributes or shapes do not fit each other."""


def infer(
    name: str, operands: Sequence[Value], attrs: Attrs, dtype: DType | None = None
) -> tuple[TensorType, ...]:
    """Result types of operator `name` without quantization.

    `dtype` decides where the operands leave it open (CAST, QUANTIZE). Raises InvalidOp.
    """
    types = [v.type for v in operands]
    element = dtype or result_dtype(name, [t.dtype for t in types])
    shapes = [t.ints for t in types]
    if name == "TOPK_V2":
        shape = (*shapes[0][:-1], attrs["k"][0])
        return TensorType(types[0].dtype, shape), TensorType(DType.INT32, shape)
    rule = SHAPES.get(name)
    return (TensorType(element, rule(shapes, attrs) if rule else broadcast(*shapes)),)


def result_dtype(name: str, dtypes: Sequence[DType]) -> DType:
    """The element type of the result; that of the first operand where there is no such signature.

    (Limits refuse it then with a reason.)
    """
    definition = DEFINITIONS[name]
    count = 1 if definition.is_variadic else len(dtypes)
    found = {
        result for operands, result in definition.signatures
        if operands[:count] == tuple(dtypes[:count])
    }  # fmt: skip
    return next(iter(found)) if len(found) == 1 else dtypes[0]


def broadcast(*shapes: Sizes) -> Sizes:
    """The broadcast of shapes, aligned at their ends."""
    result = []
    for dims in zip_longest(*[s[::-1] for s in shapes], fillvalue=1):
        wide = {d for d in dims if d != 1}
        if len(wide) > 1:
            raise InvalidOp(f"shapes {', '.join(map(str, shapes))} do not broadcast")
        result.append(wide.pop() if wide else 1)
    return tuple(result[::-1])


def window_size(size: int, kernel: int, stride: int, dilation: int, padding: str) -> int:
    """Number of positions of a window on an axis: SAME covers all, VALID only whole windows."""
    extent = (kernel - 1) * dilation + 1
    if padding == "SAME":
        return -(-size // stride)
    if size < extent:
        raise InvalidOp(f"kernel {kernel} with dilation {dilation} exceeds the size {size}")
    return (size - extent) // stride + 1


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """(before, after) that SAME stands for on an axis."""
    total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def _windows(sizes: Sizes, kernel: Sizes, attrs: Attrs) -> Sizes:
    dilation = attrs.get("dilation", (1,) * len(sizes))
    rows = zip(sizes, kernel, attrs["stride"], dilation, strict=True)
    return tuple(window_size(*row, attrs["padding"]) for row in rows)


def _conv_2d(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    (n, h, w, c), (o, kh, kw, i) = shapes[:2]
    if c % i or o % (c // i):
        raise InvalidOp(f"input has {c} channels, filter {o}x{i}")
    return (n, *_windows((h, w), (kh, kw), attrs), o)


def _depthwise(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    (n, h, w, c), (_, kh, kw, o) = shapes[:2]
    if o != c * attrs["depth_multiplier"]:
        raise InvalidOp(f"{c} channels times {attrs['depth_multiplier']} are not {o}")
    return (n, *_windows((h, w), (kh, kw), attrs), o)


def _conv_3d(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    (n, *sizes, c), (*kernel, i, o) = shapes[:2]
    if c != i:
        raise InvalidOp(f"input has {c} channels, filter {i}")
    return (n, *_windows(tuple(sizes), tuple(kernel), attrs), o)


def _transpose_conv(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    (o, kh, kw, i), (n, h, w, c) = shapes[:2]
    result: Sizes = tuple(attrs["output_shape"])
    if c != i or result[0] != n or result[3] != o:
        raise InvalidOp(f"output {result} of input {shapes[1]} and filter {shapes[0]}")
    for size, kernel, stride, wanted in zip(
        (h, w), (kh, kw), attrs["stride"], result[1:3], strict=True
    ):
        if window_size(wanted, kernel, stride, 1, attrs["padding"]) != size:
            raise InvalidOp(f"output size {wanted} does not come from {size} at stride {stride}")
    return result


def _fully_connected(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    x, (out, inner) = shapes[0], shapes[1]
    if attrs["keep_num_dims"]:
        if x[-1] != inner:
            raise InvalidOp(f"input {x} does not end in {inner}")
        return (*x[:-1], out)
    if math.prod(x) % inner:
        raise InvalidOp(f"input {x} is not rows of {inner}")
    return (math.prod(x) // inner, out)


def _batch_matmul(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    x, y = shapes
    rows, k = x[-2:][:: -1 if attrs["adj_x"] else 1]
    inner, columns = y[-2:][:: -1 if attrs["adj_y"] else 1]
    if k != inner:
        raise InvalidOp(f"{x} x {y} do not fit")
    return (*broadcast(x[:-2], y[:-2]), rows, columns)


def _pool(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    n, h, w, c = shapes[0]
    return (n, *_windows((h, w), attrs["kernel"], attrs), c)


def _same(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    return shapes[0]


def _reduce(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    axes, keep = set(attrs["axes"]), attrs["keep_dims"]
    if any(not 0 <= a < len(shapes[0]) for a in axes):
        raise InvalidOp(f"axes {sorted(axes)} are outside rank {len(shapes[0])}")
    return tuple(1 if i in axes else d for i, d in enumerate(shapes[0]) if keep or i not in axes)


def _arg(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    return tuple(d for i, d in enumerate(shapes[0]) if i != attrs["axis"])


def _reshape(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    if math.prod(attrs["shape"]) != math.prod(shapes[0]):
        raise InvalidOp(f"{shapes[0]} as {attrs['shape']}: other number of elements")
    return tuple(attrs["shape"])


def _transpose(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    if sorted(attrs["perms"]) != list(range(len(shapes[0]))):
        raise InvalidOp(f"perms {attrs['perms']} of rank {len(shapes[0])}")
    return tuple(shapes[0][p] for p in attrs["perms"])


def _slice(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    for begin, size, d in zip(attrs["begin"], attrs["size"], shapes[0], strict=True):
        if begin < 0 or size < 1 or begin + size > d:
            raise InvalidOp(f"slice {attrs['begin']}, {attrs['size']} of {shapes[0]}")
    return tuple(attrs["size"])


def _strided_slice(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    rows = zip(attrs["begin"], attrs["end"], attrs["strides"], shapes[0], strict=True)
    return tuple(len(range(b, min(e, d), s)) for b, e, s, d in rows)


def _concatenation(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    axis = attrs["axis"]
    rest = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
    if len(rest) > 1:
        raise InvalidOp(f"shapes {', '.join(map(str, shapes))} differ off axis {axis}")
    return (*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :])


def _pad(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    pads = attrs["paddings"]
    if len(pads) != 2 * len(shapes[0]) or min(pads, default=0) < 0:
        raise InvalidOp(f"padding {pads} does not fit shape {shapes[0]}")
    return tuple(d + a + b for d, a, b in zip(shapes[0], pads[::2], pads[1::2], strict=True))


def _gather(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    params, indices = shapes
    axis, batch = attrs["axis"], attrs["batch_dims"]
    if params[:batch] != indices[:batch]:
        raise InvalidOp(f"batches of {params} and {indices} differ")
    return (*params[:axis], *indices[batch:], *params[axis + 1 :])


def _gather_nd(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    params, indices = shapes
    return (*indices[:-1], *params[indices[-1] :])


def _resize(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    n, _, _, c = shapes[0]
    return (n, *attrs["size"], c)


def _space_to_depth(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    (n, h, w, c), block = shapes[0], attrs["block_size"]
    if h % block or w % block:
        raise InvalidOp(f"{h}x{w} is not blocks of {block}")
    return (n, h // block, w // block, c * block * block)


def _depth_to_space(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    (n, h, w, c), block = shapes[0], attrs["block_size"]
    if c % (block * block):
        raise InvalidOp(f"{c} channels are not blocks of {block}x{block}")
    return (n, h * block, w * block, c // (block * block))


def _given_shape(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    return tuple(attrs["shape"])


def _tile(shapes: Sequence[Sizes], attrs: Attrs) -> Sizes:
    return tuple(d * m for d, m in zip(shapes[0], attrs["multiples"], strict=True))


SHAPES: dict[str, Callable[[Sequence[Sizes], Attrs], Sizes]] = {
    "CONV_2D": _conv_2d, "DEPTHWISE_CONV_2D": _depthwise, "CONV_3D": _conv_3d,
    "TRANSPOSE_CONV": _transpose_conv, "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul, "AVERAGE_POOL_2D": _pool, "MAX_POOL_2D": _pool,
    "ARG_MAX": _arg, "ARG_MIN": _arg, "RESHAPE": _reshape, "TRANSPOSE": _transpose,
    "SLICE": _slice, "STRIDED_SLICE": _strided_slice, "CONCATENATION": _concatenation,
    "PAD": _pad, "PADV2": _pad, "MIRROR_PAD": _pad, "GATHER": _gather, "GATHER_ND": _gather_nd,
    "RESIZE_BILINEAR": _resize, "RESIZE_NEAREST_NEIGHBOR": _resize,
    "SPACE_TO_DEPTH": _space_to_depth, "DEPTH_TO_SPACE": _depth_to_space,
    "BROADCAST_TO": _given_shape, "SCATTER_ND": _given_shape, "TILE": _tile,
    **dict.fromkeys(
        ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"),
        _reduce,
    ),
}  # fmt: skip
for _name, _d in DEFINITIONS.items():
    if len(_d.operands) == 1 and not _d.is_variadic and _name not in SHAPES:
        SHAPES[_name] = _same
