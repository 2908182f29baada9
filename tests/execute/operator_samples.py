"""Random operands and attributes for every TOSA operator and mode of the specification's table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npuc.dialects.tosa import DEFINITIONS
from npuc.ir import DType

Types = dict[str, DType]
Random = np.random.Generator


@dataclass
class Sample:
    """Operands (array, element type, whether it is a constant) and attributes of one op."""

    operands: list[tuple[np.ndarray, DType, bool]] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    dtype: DType | None = None
    #: part of the largest result that float results may differ by, beyond rounding
    tolerance: float = 2e-6

    def add(self, array: Any, dtype: DType, const: bool = False) -> Sample:
        self.operands.append((np.asarray(array).astype(dtype.numpy), dtype, const))
        return self

    def shape(self, *dims: int) -> Sample:
        return self.add(np.array(dims, np.int64), DType.SHAPE, const=True)


def draw(
    rng: Random, dtype: DType, shape: tuple[int, ...], low: float = -4, high: float = 4
) -> np.ndarray:
    """Random values: the whole range of small integers, `low`..`high` of floats."""
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_float:
        return rng.uniform(low, high, shape).astype(np.float32).astype(dtype.numpy)
    least, most = (-7, 7) if dtype is DType.INT4 else dtype.range  # TOSA's INT4 is symmetric
    limit = 2**29 if dtype is DType.INT32 else 2**46
    return rng.integers(max(least, -limit), min(most, limit), shape, endpoint=True, dtype=np.int64)


def zero_point(rng: Random, dtype: DType) -> np.ndarray:
    return draw(rng, dtype, (1,)) if dtype is DType.INT8 else np.zeros(1)


def broadcast_pair(rng: Random) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = int(rng.integers(0, 5))
    full = rng.integers(1, 5, rank)
    a, b = np.where(rng.random(rank) < 0.25, 1, full), np.where(rng.random(rank) < 0.25, 1, full)
    return tuple(map(int, a)), tuple(map(int, b))


def unary(rng: Random, types: Types, low: float = -4, high: float = 4) -> Sample:
    dtype = types.get("in_out_t") or types["in_t"]
    shape = tuple(map(int, rng.integers(1, 6, int(rng.integers(0, 5)))))
    return Sample().add(draw(rng, dtype, shape, low, high), dtype)


def binary(rng: Random, types: Types, low: float = -4, high: float = 4) -> Sample:
    dtype = types.get("in_out_t") or types["in_t"]
    a, b = broadcast_pair(rng)
    return (
        Sample()
        .add(draw(rng, dtype, a, low, high), dtype)
        .add(draw(rng, dtype, b, low, high), dtype)
    )


def shift_pair(rng: Random, types: Types) -> Sample:
    dtype = types["in_out_t"]
    a, b = broadcast_pair(rng)
    return (
        Sample().add(draw(rng, dtype, a), dtype).add(rng.integers(0, min(dtype.bits, 32), b), dtype)
    )


def nan_modes(sample: Sample, rng: Random) -> Sample:
    sample.attrs["nan_mode"] = ("PROPAGATE", "IGNORE")[int(rng.integers(2))]
    return sample


def compare(rng: Random, types: Types) -> Sample:
    sample = binary(rng, types)
    a, dtype, _ = sample.operands[0]
    b = np.broadcast_to(
        sample.operands[1][0], np.broadcast_shapes(a.shape, sample.operands[1][0].shape)
    )
    b = np.where(rng.random(b.shape) < 0.5, np.broadcast_to(a, b.shape), b)
    sample.operands[1] = (b.astype(dtype.numpy), dtype, False)
    return sample


def reduction(rng: Random, types: Types, **limits: float) -> Sample:
    dtype = types.get("in_out_t") or types["in_t"]
    shape = tuple(map(int, rng.integers(1, 7, int(rng.integers(1, 5)))))
    sample = Sample().add(draw(rng, dtype, shape, **limits), dtype)
    sample.attrs["axis"] = int(rng.integers(len(shape)))
    return sample


def reduce_sum(rng: Random, types: Types) -> Sample:
    sample = reduction(rng, types)
    x, dtype, _ = sample.operands[0]
    if dtype.is_integer:
        sample.operands[0] = ((x // 8).astype(dtype.numpy), dtype, False)
    return sample


def mul(rng: Random, types: Types) -> Sample:
    sample = binary(rng, {"in_t": types["in_t"]})
    shift = 0
    if types["in_t"] is DType.INT32:
        shift = int(rng.integers(0, 40))
        most = 2.0 ** min(29, (28 + shift) / 2)
        sample.operands = [
            (np.clip(x, -most, most).astype(np.int32), d, c) for x, d, c in sample.operands
        ]
    if types["in_t"] is DType.INT64:
        sample.operands = [(x % 2**30, d, c) for x, d, c in sample.operands]
    return sample.add([shift], DType.INT8, const=True)


def intdiv(rng: Random, types: Types) -> Sample:
    sample = binary(rng, types)
    b, dtype, _ = sample.operands[1]
    small = np.where(rng.random(b.shape) < 0.5, b % 9 - 4, b)
    sample.operands[1] = (np.where(small == 0, 3, small).astype(dtype.numpy), dtype, False)
    return sample


def power(rng: Random, types: Types) -> Sample:
    sample = binary(rng, types)
    x, dtype, _ = sample.operands[0]
    sample.operands[0] = (np.abs(x.astype(np.float32)).astype(dtype.numpy), dtype, False)
    return sample


def negate(rng: Random, types: Types) -> Sample:
    dtype = types["in_out_t"]
    sample = unary(rng, types)
    for _ in range(2):
        sample.add(zero_point(rng, dtype), dtype, const=True)
    return sample


def table(rng: Random, types: Types) -> Sample:
    sample = unary(rng, {"in_t": types["in_t"]})
    if types["in_t"] is DType.INT8:
        return sample.add(draw(rng, DType.INT8, (256,)), DType.INT8, const=True)
    steps = rng.integers(-16000, 16000, 513)
    return sample.add(steps, DType.INT16, const=True)


def select(rng: Random, types: Types) -> Sample:
    shape = tuple(map(int, rng.integers(1, 5, 3)))
    sample = Sample().add(draw(rng, DType.BOOL, (shape[0], 1, shape[2])), DType.BOOL)
    for dims in (shape, (1, shape[1], shape[2])):
        sample.add(draw(rng, types["in_out_t"], dims), types["in_out_t"])
    return sample


def clamp(rng: Random, types: Types) -> Sample:
    sample = nan_modes(unary(rng, types), rng)
    low, high = sorted(draw(rng, types["in_out_t"], (2,), -2, 2).astype(np.float64).tolist())
    kind = float if types["in_out_t"].is_float else int
    sample.attrs |= {"min_val": kind(low), "max_val": kind(high)}
    return sample


def convolution(rng: Random, types: Types, spatial: int, depthwise: bool = False) -> Sample:
    """Any kernel, stride, dilation and padding whose windows fit the input exactly."""
    channels, out = (int(v) for v in rng.integers(1, 6, 2))
    kernel, stride, dilation, pad, dims = [], [], [], [], []
    for _ in range(spatial):
        k, s, d = (int(v) for v in rng.integers(1, 4, 3))
        before, after = (int(v) for v in rng.integers(0, k + 1, 2))
        steps = int(rng.integers(0, 4))
        extent = steps * s + (k - 1) * d + 1 - before - after
        while extent < 1:
            extent += s
        kernel.append(k), stride.append(s), dilation.append(d)
        pad.extend((before, after)), dims.append(extent)
    weight = (*kernel, channels, out) if depthwise else (out, *kernel, channels)
    result = channels * out if depthwise else out
    sample = conv_operands(rng, types, (int(rng.integers(1, 3)), *dims, channels), weight, result)
    sample.attrs |= {"pad": tuple(pad), "stride": tuple(stride), "dilation": tuple(dilation)}
    return sample


def conv_operands(
    rng: Random, types: Types, x: tuple[int, ...], w: tuple[int, ...], channels: int
) -> Sample:
    in_t, weight_t, out_t = types["in_t"], types["weight_t"], types["out_t"]
    sample = Sample().add(draw(rng, in_t, x, -1, 1), in_t)
    sample.add(draw(rng, weight_t, w, -1, 1), weight_t, const=weight_t is DType.INT4)
    bias = (
        draw(rng, out_t, (channels,), -1, 1)
        if out_t.is_float
        else rng.integers(-(2**20), 2**20, int(rng.choice([1, channels])))
    )
    sample.add(bias, out_t, const=True)
    sample.add(zero_point(rng, in_t), in_t, const=True)
    sample.add(zero_point(rng, weight_t), weight_t, const=True)
    sample.attrs["acc_type"] = types["acc_t"]
    if types["acc_t"] is DType.FP16:
        sample.tolerance = 4e-3
    return sample


def transpose_conv2d(rng: Random, types: Types) -> Sample:
    n, h, w, ic, oc = (int(v) for v in rng.integers(1, 4, 5))
    kh, kw = (int(v) for v in rng.integers(1, 4, 2))
    sample = conv_operands(rng, types, (n, h, w, ic), (oc, kh, kw, ic), oc)
    stride = tuple(int(v) for v in rng.integers(1, 4, 2))
    while True:
        top, bottom = (int(v) for v in rng.integers(1 - kh, 3, 2))
        left, right = (int(v) for v in rng.integers(1 - kw, 3, 2))
        height = (h - 1) * stride[0] + top + bottom + kh
        width = (w - 1) * stride[1] + left + right + kw
        if height > 0 and width > 0:
            break
    sample.attrs |= {"out_pad": (top, bottom, left, right), "stride": stride}
    return sample


def matmul(rng: Random, types: Types, transposed: bool = False) -> Sample:
    n, h, c, w = (int(v) for v in rng.integers(1, 6, 4))
    a_t, b_t = types["A_t"], types["B_t"]
    b = (int(rng.choice([1, n])), w, c) if transposed else (n, c, w)
    sample = Sample(tolerance=4e-3 if types["out_t"] is DType.FP16 else 2e-6)
    for dims, dtype in (((n, h, c), a_t), (b, b_t)):
        x = draw(rng, dtype, dims, -1, 1)
        sample.add(x >> 3 if dtype is DType.INT16 else x, dtype)
    sample.dtype = types["out_t"]
    for dtype in (a_t, b_t):
        sample.add(zero_point(rng, dtype), dtype, const=True)
    return sample


def windows(rng: Random) -> tuple[dict[str, tuple[int, ...]], tuple[int, ...]]:
    kernel, stride, pad, dims = [], [], [], []
    for _ in range(2):
        k, s = (int(v) for v in rng.integers(1, 5, 2))
        before, after = (int(v) for v in rng.integers(0, k, 2))
        extent = int(rng.integers(0, 4)) * s + k - before - after
        while extent < 1:
            extent += s
        kernel.append(k), stride.append(s), pad.extend((before, after)), dims.append(extent)
    shape = (int(rng.integers(1, 3)), *dims, int(rng.integers(1, 5)))
    return {"kernel": tuple(kernel), "stride": tuple(stride), "pad": tuple(pad)}, shape


def pool(rng: Random, types: Types, average: bool, adaptive: bool) -> Sample:
    attrs, shape = windows(rng)
    dtype = types["in_out_t"]
    sample = Sample().add(draw(rng, dtype, shape), dtype)
    if average:
        for _ in range(2):
            sample.add(zero_point(rng, dtype), dtype, const=True)
        sample.attrs["acc_type"] = types["acc_t"]
        if types["acc_t"] is DType.FP16:
            sample.tolerance = 4e-3
    else:
        nan_modes(sample, rng)
    if adaptive:
        for name in ("kernel", "stride", "pad"):
            sample.shape(*attrs[name])
    else:
        sample.attrs |= attrs
    return sample


def any_shape(rng: Random, least: int = 1) -> tuple[int, ...]:
    return tuple(map(int, rng.integers(1, 5, int(rng.integers(least, 5)))))


def concat(rng: Random, types: Types) -> Sample:
    shape = list(any_shape(rng))
    axis = int(rng.integers(len(shape)))
    sample = Sample(attrs={"axis": axis})
    for _ in range(int(rng.integers(1, 4))):
        shape[axis] = int(rng.integers(1, 4))
        sample.add(draw(rng, types["in_out_t"], tuple(shape)), types["in_out_t"])
    return sample


def pad(rng: Random, types: Types) -> Sample:
    dtype, shape = types["in_out_t"], any_shape(rng)
    sample = Sample().add(draw(rng, dtype, shape), dtype)
    sample.shape(*map(int, rng.integers(0, 3, 2 * len(shape))))
    return sample.add(draw(rng, dtype, (1,)), dtype, const=True)


def reshape(rng: Random, types: Types) -> Sample:
    dtype, shape = types["in_out_t"], any_shape(rng)
    target = (
        [int(np.prod(shape[:-1])), 1, shape[-1]] if rng.random() < 0.7 else [int(np.prod(shape))]
    )
    return Sample().add(draw(rng, dtype, shape), dtype).shape(*target)


def reverse(rng: Random, types: Types) -> Sample:
    return reduction(rng, types)


def take_slice(rng: Random, types: Types) -> Sample:
    dtype, shape = types["in_out_t"], any_shape(rng)
    start = [int(rng.integers(0, d)) for d in shape]
    size = [int(rng.integers(1, d - s + 1)) for d, s in zip(shape, start, strict=True)]
    return Sample().add(draw(rng, dtype, shape), dtype).shape(*start).shape(*size)


def tile(rng: Random, types: Types) -> Sample:
    dtype, shape = types["in_out_t"], any_shape(rng)
    return (
        Sample()
        .add(draw(rng, dtype, shape), dtype)
        .shape(*map(int, rng.integers(1, 4, len(shape))))
    )


def transpose(rng: Random, types: Types) -> Sample:
    dtype, shape = types["in_out_t"], any_shape(rng)
    perms = tuple(int(p) for p in rng.permutation(len(shape)))
    return Sample(attrs={"perms": perms}).add(draw(rng, dtype, shape), dtype)


def gather(rng: Random, types: Types) -> Sample:
    n, k, c, w = (int(v) for v in rng.integers(1, 5, 4))
    dtype, index = types["in_out_t"], types["index_t"]
    return Sample().add(draw(rng, dtype, (n, k, c)), dtype).add(rng.integers(0, k, (n, w)), index)


def row_gather(rng: Random, types: Types) -> Sample:
    types = {"in_out_t": DType.INT16, "index_t": DType.INT32} | types
    sample = gather(rng, types)
    rows, k = int(rng.integers(1, 3)), sample.operands[0][0].shape[1]
    indices, dtype, _ = sample.operands[1]
    sample.operands[1] = (np.minimum(indices, max(k - rows, 0)), dtype, False)
    return sample.add([min(rows, k)], DType.INT32, const=True)


def scatter(rng: Random, types: Types) -> Sample:
    n, k, c = (int(v) for v in rng.integers(1, 5, 3))
    w = int(rng.integers(1, k + 1))
    dtype, index = types["in_out_t"], types["index_t"]
    rows = np.stack([rng.permutation(k)[:w] for _ in range(n)])
    sample = Sample().add(draw(rng, dtype, (n, k, c)), dtype).add(rows, index)
    return sample.add(draw(rng, dtype, (n, w, c)), dtype)


def resize(rng: Random, types: Types) -> Sample:
    in_t, out_t = types["in_t"], types["out_t"]
    nearest = in_t is out_t and (not in_t.is_float or rng.random() < 0.5)
    scale, offsets, borders, dims = [], [], [], []
    for _ in range(2):
        numerator, denominator = int(rng.integers(1, 9)), int(rng.integers(1, 9))
        size = int(rng.integers(1, 6))
        offset = int(rng.integers(-numerator, numerator))
        span = (size - 1) * numerator - offset
        border = -span % denominator
        if border >= numerator or span + border < 0:
            return resize(rng, types)
        scale.extend((numerator, denominator)), offsets.append(offset)
        borders.append(border), dims.append(size)
    shape = (int(rng.integers(1, 3)), *dims, int(rng.integers(1, 4)))
    sample = Sample(dtype=out_t).add(draw(rng, in_t, shape), in_t)
    sample.shape(*scale).shape(*offsets).shape(*borders)
    sample.attrs["mode"] = "NEAREST_NEIGHBOR" if nearest else "BILINEAR"
    return sample


def rescale(rng: Random, types: Types) -> Sample:
    """Multipliers and shifts that keep every value within 32 bits, as the specification demands."""
    in_t, out_t = types["in_t"], types["out_t"]
    shape = any_shape(rng)
    scale32 = in_t is not DType.INT48 and bool(rng.integers(2))
    per_channel = bool(rng.integers(2))
    unsigned = str(rng.choice(["", "input", "output"]))
    input_unsigned = unsigned == "input" and in_t.bits <= 16 and out_t is not DType.INT32
    output_unsigned = unsigned == "output" and out_t.bits <= 16 and in_t.bits <= 16
    channels = shape[-1] if per_channel else 1
    mul_t = DType.INT32 if scale32 else DType.INT16
    places = 31 if scale32 else 15
    multiplier = rng.integers(2 ** (places - 1), 2**places, channels)
    shift = rng.integers(places - 1, min(places + 20, 62), channels)
    if in_t is DType.INT48:
        shift = rng.integers(places + 16, places + 30, channels)
    sample = Sample(dtype=out_t).add(draw(rng, in_t, shape), in_t)
    sample.add(multiplier, mul_t, const=True).add(shift, DType.INT8, const=True)
    for dtype, flag in ((in_t, input_unsigned), (out_t, output_unsigned)):
        zero = zero_point(rng, dtype)
        if dtype is DType.INT16 and flag:
            zero = np.array([int(rng.choice([0, -32768]))])
        sample.add(zero, dtype, const=True)
    rounding = "DOUBLE_ROUND" if scale32 and rng.random() < 0.5 else "SINGLE_ROUND"
    sample.attrs |= {
        "scale32": scale32, "per_channel": per_channel, "rounding_mode": rounding,
        "input_unsigned": input_unsigned, "output_unsigned": output_unsigned,
    }  # fmt: skip
    return sample


def cast(rng: Random, types: Types) -> Sample:
    sample = unary(rng, {"in_t": types["in_t"]}, -300, 300)
    sample.dtype = types["out_t"]
    return sample


def fft2d(rng: Random, types: Types, real: bool = False) -> Sample:
    n, h, w = int(rng.integers(1, 3)), 2 ** int(rng.integers(0, 4)), 2 ** int(rng.integers(0, 4))
    sample = Sample(attrs={} if real else {"inverse": bool(rng.integers(2))}, tolerance=2e-5)
    for _ in range(1 if real else 2):
        sample.add(draw(rng, DType.FP32, (n, h, w)), DType.FP32)
    return sample


def argmax(rng: Random, types: Types) -> Sample:
    sample = nan_modes(reduction(rng, {"in_t": types["in_t"]}), rng)
    sample.dtype = types["out_t"]
    return sample


SAMPLES: dict[str, Callable[[Random, Types], Sample]] = {
    "ARGMAX": argmax,
    "AVG_POOL2D": lambda r, t: pool(r, t, True, False),
    "AVG_POOL2D_ADAPTIVE": lambda r, t: pool(r, t, True, True),
    "MAX_POOL2D": lambda r, t: pool(r, t, False, False),
    "MAX_POOL2D_ADAPTIVE": lambda r, t: pool(r, t, False, True),
    "CONV2D": lambda r, t: convolution(r, t, 2),
    "CONV3D": lambda r, t: convolution(r, t, 3),
    "DEPTHWISE_CONV2D": lambda r, t: convolution(r, t, 2, depthwise=True),
    "TRANSPOSE_CONV2D": transpose_conv2d,
    "FFT2D": fft2d,
    "RFFT2D": lambda r, t: fft2d(r, t, real=True),
    "MATMUL": matmul,
    "MATMUL_T": lambda r, t: matmul(r, t, transposed=True),
    "CLAMP": clamp,
    "ARITHMETIC_RIGHT_SHIFT": lambda r, t: _with(shift_pair(r, t), round=bool(r.integers(2))),
    "LOGICAL_LEFT_SHIFT": shift_pair,
    "LOGICAL_RIGHT_SHIFT": shift_pair,
    "INTDIV": intdiv,
    "MUL": mul,
    "POW": power,
    "MAXIMUM": lambda r, t: nan_modes(binary(r, t), r),
    "MINIMUM": lambda r, t: nan_modes(binary(r, t), r),
    "TABLE": table,
    "NEGATE": negate,
    "LOG": lambda r, t: unary(r, t, 0.01, 100),
    "RSQRT": lambda r, t: unary(r, t, 0.01, 100),
    "RECIPROCAL": lambda r, t: unary(r, t, 0.1, 100),
    "SELECT": select,
    "EQUAL": compare,
    "GREATER": compare,
    "GREATER_EQUAL": compare,
    "REDUCE_ALL": reduction,
    "REDUCE_ANY": reduction,
    "REDUCE_MAX": lambda r, t: nan_modes(reduction(r, t), r),
    "REDUCE_MIN": lambda r, t: nan_modes(reduction(r, t), r),
    "REDUCE_PRODUCT": reduction,
    "REDUCE_SUM": reduce_sum,
    "CONCAT": concat,
    "PAD": pad,
    "RESHAPE": reshape,
    "REVERSE": reverse,
    "SLICE": take_slice,
    "TILE": tile,
    "TRANSPOSE": transpose,
    "GATHER": gather,
    "ROW_GATHER": row_gather,
    "SCATTER": scatter,
    "RESIZE": resize,
    "CAST": cast,
    "RESCALE": rescale,
    "IDENTITY": unary,
}
SAMPLES |= {
    name: {"elementwise-unary": unary, "activation": unary, "elementwise-binary": binary}[d.group]
    for name, d in DEFINITIONS.items()
    if name not in SAMPLES and d.group in ("elementwise-unary", "activation", "elementwise-binary")
}


def _with(sample: Sample, **attrs: Any) -> Sample:
    sample.attrs |= attrs
    return sample


CASTS = """
BOOL: INT8 INT16 INT32 INT64 FP32; INT8: BOOL INT16 INT32 FP16 FP32 BF16
INT16: BOOL INT8 INT32 FP16 FP32 BF16; INT32: BOOL INT8 INT16 INT64 FP16 FP32 BF16
INT64: BOOL INT32; FP16: INT8 INT16 INT32 FP32 FP8E4M3 FP8E5M2
BF16: INT8 INT16 INT32 FP32 FP8E4M3 FP8E5M2; FP32: BOOL INT8 INT16 INT32 FP16 BF16 FP8E4M3 FP8E5M2
FP8E4M3: FP16 FP32 BF16; FP8E5M2: FP16 FP32 BF16
"""


def modes(name: str) -> Iterator[Types]:
    """The combinations of element types of an operator that the reference model takes."""
    if name == "CAST":
        for row in CASTS.replace("\n", ";").split(";"):
            source, _, targets = row.strip().partition(":")
            for target in targets.split():
                yield {"in_t": DType[source], "out_t": DType[target]}
        return
    for mode in DEFINITIONS[name].modes:
        yield dict(mode.types)
