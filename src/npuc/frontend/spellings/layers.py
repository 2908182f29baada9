"""Spellings of normalizations, softmax, pools and resizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npuc.errors import Unsupported
from npuc.frontend.spellings.registry import add, spells
from npuc.frontend.spellings.shape import as_tuple
from npuc.frontend.spellings.speller import Speller
from npuc.ir import Dim, DType, Shape, TensorType, Value, pack

# normalizations ------------------------------------------------------------------------------


@spells("batch_norm cudnn_batch_norm miopen_batch_norm native_batch_norm", into="batch_norm")
def batch_norm(
    c: Speller, x: Value, weight: Value | None, bias: Value | None, mean: Value | None,
    var: Value | None, training: bool, momentum: float, eps: float, *_: Any,
) -> tuple[Value]:  # fmt: skip
    if training or mean is None or var is None:
        raise Unsupported("batch norm with the statistics of the batch (no running statistics)")
    return (c.make("aten.batch_norm", c.out[0], x, weight, bias, mean, var, eps),)


@spells("_native_batch_norm_legit_no_training _batch_norm_no_update", into="batch_norm")
def inference_batch_norm(
    c: Speller, x: Value, weight: Value | None, bias: Value | None, mean: Value, var: Value,
    momentum: float, eps: float,
) -> tuple[Value]:  # fmt: skip
    return (c.make("aten.batch_norm", c.out[0], x, weight, bias, mean, var, eps),)


@spells("layer_norm native_layer_norm", into="layer_norm")
def layer_norm(
    c: Speller, x: Value, shape: Any, weight: Value | None, bias: Value | None, eps: float,
    cudnn_enable: bool = True,
) -> tuple[Value]:  # fmt: skip
    return (c.make("aten.layer_norm", c.out[0], x, tuple(shape), weight, bias, eps),)


@spells("rms_norm _fused_rms_norm", into="rms_norm")
def rms_norm(
    c: Speller, x: Value, shape: Any, weight: Value | None, eps: float | None
) -> tuple[Value]:
    if eps is None:
        dtype = np.float32 if x.type.dtype is not DType.FP16 else np.float16
        eps = float(np.finfo(dtype).eps) if x.type.dtype is not DType.BF16 else 2.0**-7
    return (c.make("aten.rms_norm", c.out[0], x, tuple(shape), weight, eps),)


@spells("group_norm", into="group_norm")
def group_norm(
    c: Speller, x: Value, groups: int, weight: Value | None, bias: Value | None, eps: float,
    cudnn_enabled: bool = True,
) -> Value:  # fmt: skip
    return c.make("aten.group_norm", c.out[0], x, groups, weight, bias, eps)


@spells("native_group_norm", into="group_norm")
def native_group_norm(
    c: Speller, x: Value, weight: Value | None, bias: Value | None, batch: Any, channels: Any,
    size: Any, groups: int, eps: float,
) -> tuple[Value]:  # fmt: skip
    return (group_norm(c, x, groups, weight, bias, eps),)


@spells("instance_norm", into="group_norm")
def instance_norm(
    c: Speller, x: Value, weight: Value | None, bias: Value | None, mean: Value | None,
    var: Value | None, use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool,
) -> Value:  # fmt: skip
    if use_input_stats or mean is None or var is None:
        return group_norm(c, x, x.type.ints[1], weight, bias, eps)
    return c.make("aten.batch_norm", c.out[0], x, weight, bias, mean, var, eps)


def _softmax(kind: str) -> Callable[..., Value]:
    def respell(c: Speller, x: Value, dim: int, dtype: Any = None) -> Value:
        x = c.to(x, c.out[0].dtype)
        if x.type.rank == 0:
            x = c.view(x, (1,))
            one = c.make(kind, TensorType(c.out[0].dtype, (1,)), x, 0)
            return c.view(one, ())
        return c.make(kind, c.out[0], x, dim % x.type.rank)

    return respell


for _name in ("softmax", "log_softmax"):
    for _spelling in (f"{_name}.int", f"_{_name}", f"special_{_name}"):
        add(_spelling, _softmax(f"aten.{_name}"), _name)


# pools ---------------------------------------------------------------------------------------


def _batched(c: Speller, x: Value, out: TensorType, rank: int) -> tuple[Value, TensorType]:
    """Operand and result type with the batch dim that an unbatched pool lacks, and for 1-D pools
    with a height of 1."""
    is_1d = _is_1d(c)
    wide = c.view(x, _wide(x.type.shape, rank, is_1d))
    return wide, out.with_(shape=_wide(out.shape, rank, is_1d))


def _is_1d(c: Speller) -> bool:
    return "1d" in c.op.kind


def _wide(shape: tuple[Dim, ...], rank: int, is_1d: bool) -> tuple[Dim, ...]:
    if is_1d:
        shape = (*shape[:-1], 1, shape[-1])
    return (1,) * (rank - len(shape)) + shape


def _spatial(c: Speller, numbers: Any, count: int, neutral: int) -> tuple[int, ...]:
    """Kernel, stride, ... as `count` numbers; of a 1-D op the height's is neutral."""
    if _is_1d(c):
        return (neutral, *as_tuple(numbers, 1))
    return as_tuple(numbers, count)


@spells("max_pool1d max_pool2d max_pool3d", into="max_pool2d")
def max_pool(
    c: Speller, x: Value, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Value:
    count = 3 if "3d" in c.op.kind else 2
    wide, type = _batched(c, x, c.out[0], count + 2)
    made = c.make(
        f"aten.max_pool{count}d", type, wide,
        _spatial(c, kernel, count, 1), _spatial(c, stride or kernel, count, 1),
        _spatial(c, padding, count, 0), _spatial(c, dilation, count, 1), ceil_mode,
    )  # fmt: skip
    return c.view(made, c.out[0].shape)


@spells(
    "max_pool2d_with_indices max_pool3d_with_indices max_pool1d_with_indices",
    into="max_pool2d",
)
def max_pool_with_indices(c: Speller, x: Value, *args: Any) -> tuple[Value, ...] | None:
    if not c.is_used(1):
        return (max_pool(c, x, *args),)
    if x.type.rank != 4 or "2d" not in c.op.kind:
        return None
    kernel, stride, padding, dilation, ceil_mode = args
    pairs = [as_tuple(v, 2) for v in (kernel, stride or kernel, padding, dilation)]
    operands, attrs = pack((x, *pairs, ceil_mode), {})
    return c.emit(c.op.kind, operands, attrs, c.out)


@spells("avg_pool1d avg_pool2d avg_pool3d", into="avg_pool2d")
def avg_pool(
    c: Speller, x: Value, kernel: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor: int | None = None,
) -> Value:  # fmt: skip
    count = 3 if "3d" in c.op.kind else 2
    wide, type = _batched(c, x, c.out[0], count + 2)
    made = c.make(
        f"aten.avg_pool{count}d", type, wide,
        _spatial(c, kernel, count, 1), _spatial(c, stride or kernel, count, 1),
        _spatial(c, padding, count, 0), ceil_mode, count_include_pad, divisor,
    )  # fmt: skip
    return c.view(made, c.out[0].shape)


@spells(
    "adaptive_avg_pool1d adaptive_avg_pool2d _adaptive_avg_pool2d",
    into="avg_pool2d mean.dim",
)
def adaptive_avg_pool(c: Speller, x: Value, output_size: Any) -> Value:
    wide, type = _batched(c, x, c.out[0], 4)
    made = _adaptive(c, wide, type, "aten.mean.dim", "aten.avg_pool2d")
    if made is None:
        made = c.make("aten.adaptive_avg_pool2d", type, wide, type.shape[2:])
    return c.view(made, c.out[0].shape)


@spells("adaptive_max_pool1d adaptive_max_pool2d", into="amax max_pool2d")
def adaptive_max_pool(c: Speller, x: Value, output_size: Any) -> tuple[Value] | None:
    wide, type = _batched(c, x, c.out[0], 4)
    made = None if c.is_used(1) else _adaptive(c, wide, type, "aten.amax", "aten.max_pool2d")
    return None if made is None else (c.view(made, c.out[0].shape),)


def _adaptive(c: Speller, x: Value, type: TensorType, over_all: str, pool: str) -> Value | None:
    """An adaptive pool as a reduction or an ordinary pool; None where the size does not divide."""
    size, wanted = x.type.ints[2:], type.ints[2:]
    if x.type.ints[2:] == wanted:
        return x
    if wanted == (1, 1):
        return c.make(over_all, type, x, (2, 3), True)
    if any(s % w for s, w in zip(size, wanted, strict=True)):
        return None
    kernel = tuple(s // w for s, w in zip(size, wanted, strict=True))
    if pool == "aten.max_pool2d":
        return c.make(pool, type, x, kernel, kernel, (0, 0), (1, 1), False)
    return c.make(pool, type, x, kernel, kernel, (0, 0), False, True, None)


@spells("adaptive_avg_pool3d _adaptive_avg_pool3d", into="mean.dim")
def adaptive_avg_pool3d(c: Speller, x: Value, output_size: Any) -> Value | None:
    wide, type = _batched(c, x, c.out[0], 5)
    size, wanted = wide.type.ints[2:], type.ints[2:]
    if wanted == (1, 1, 1):
        return c.view(c.make("aten.mean.dim", type, wide, (2, 3, 4), True), c.out[0].shape)
    if any(s % w for s, w in zip(size, wanted, strict=True)):
        return None
    kernel = tuple(s // w for s, w in zip(size, wanted, strict=True))
    made = c.make("aten.avg_pool3d", type, wide, kernel, kernel, (0, 0, 0), False, True, None)
    return c.view(made, c.out[0].shape)


# resizes -------------------------------------------------------------------------------------

#: height + width up to which PyTorch's kernel for small images runs
SMALL_IMAGE = 128

_NEAREST = {
    "upsample_nearest1d": "upsample_nearest2d",
    "upsample_nearest2d": "upsample_nearest2d",
    "upsample_nearest3d": "upsample_nearest3d",
    "_upsample_nearest_exact1d": "_upsample_nearest_exact2d",
    "_upsample_nearest_exact2d": "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d": "_upsample_nearest_exact3d",
}
_SMOOTH = {
    "upsample_linear1d": "upsample_bilinear2d",
    "upsample_bilinear2d": "upsample_bilinear2d",
    "upsample_bicubic2d": "upsample_bicubic2d",
    "upsample_trilinear3d": "upsample_trilinear3d",
    "_upsample_bilinear2d_aa": "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa": "_upsample_bicubic2d_aa",
}


def _resize(canonical: str, smooth: bool, vec: bool) -> Callable[..., Value]:
    def respell(c: Speller, x: Value, output_size: Any, *rest: Any) -> Value:
        align, scales = (rest[:1], rest[1:]) if smooth else ((), rest)
        given = list(scales[0] or ()) if vec else list(scales)
        count = x.type.rank - 2
        factors = tuple(given) if len(given) == count else (None,) * count
        shape = _wide(x.type.shape, x.type.rank + _is_1d(c), _is_1d(c))
        result = _wide(c.out[0].shape, len(shape), _is_1d(c))
        if _is_1d(c):
            factors = (1.0 if factors[0] is not None else None, *factors)
        elif canonical == "aten.upsample_nearest2d":
            factors = _honoured(factors, shape[2:], result[2:])
        made = c.make(
            canonical, c.out[0].with_(shape=result), c.view(x, shape), result[2:], *align, *factors
        )
        return c.view(made, c.out[0].shape)

    return respell


def _honoured(scales: Sequence[Any], sizes: Shape, results: Shape) -> tuple[Any, ...]:
    """The scales of a 2-D nearest resize that PyTorch looks at.

    Its kernel for small images takes an axis as it is, or each element twice, where the sizes say
    so, whatever the scale (aten/src/ATen/native/UpSample.h, nearest_idx; UpSampleKernel.cpp,
    _use_vectorized_kernel_cond_2d).
    """
    if not all(isinstance(n, int) for n in (*sizes, *results)) or sum(results) > SMALL_IMAGE:
        return tuple(scales)
    return tuple(
        None if out in (size, 2 * size) else scale
        for size, out, scale in zip(sizes, results, scales, strict=True)
    )


for _table, _is_smooth in ((_NEAREST, False), (_SMOOTH, True)):
    for _name, _canonical in _table.items():
        for _overload, _vec in (("", False), (".vec", True)):
            _function = _resize(f"aten.{_canonical}", _is_smooth, _vec)
            add(f"{_name}{_overload}", _function, _canonical)
