"""Spellings of quantize and dequantize: their parameters move into the types of the values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npuc.errors import Unsupported
from npuc.frontend.spellings.registry import spells
from npuc.frontend.spellings.speller import Speller
from npuc.ir import DType, Quant, TensorType, Value

QUANTIZE = "quantized_decomposed.quantize_per_tensor"
DEQUANTIZE = "quantized_decomposed.dequantize_per_tensor"
#: an integer graph input that the program dequantizes: it is a quantized value
ASSUME = "quantized_decomposed.assume"

_Q = "quantized_decomposed.quantize"
_DQ = "quantized_decomposed.dequantize"


@spells(f"{_Q}_per_tensor {_Q}_per_tensor.tensor {_Q}_per_tensor.tensor2", into=QUANTIZE)
def quantize_per_tensor(
    c: Speller, x: Value, scale: Any, zero: Any, low: Any, high: Any, dtype: Any
) -> Value:
    return _quantize(c, x, _quant(scale, zero, None, low, high))


@spells(f"{_Q}_per_channel", into=QUANTIZE)
def quantize_per_channel(
    c: Speller, x: Value, scale: Any, zero: Any, axis: int, low: Any, high: Any, dtype: Any
) -> Value:
    return _quantize(c, x, _quant(scale, zero, axis % x.type.rank, low, high))


@spells("torchao.quantize_affine", into=QUANTIZE)
def quantize_affine(
    c: Speller, x: Value, block: Sequence[int], scale: Any, zero: Any, dtype: Any,
    low: Any, high: Any,
) -> Value:  # fmt: skip
    low, high = _range(c.out[0].dtype, low, high)
    return _quantize(c, x, _quant(scale, zero, channel_axis(block, x.type.ints), low, high))


@spells(f"{_DQ}_per_tensor {_DQ}_per_tensor.tensor {_DQ}_per_tensor.tensor2", into=DEQUANTIZE)
def dequantize_per_tensor(
    c: Speller, x: Value, scale: Any, zero: Any, low: Any, high: Any, dtype: Any,
    *, out_dtype: Any = None,
) -> Value:  # fmt: skip
    return _dequantize(c, x, _quant(scale, zero, None, low, high))


@spells(f"{_DQ}_per_channel", into=DEQUANTIZE)
def dequantize_per_channel(
    c: Speller, x: Value, scale: Any, zero: Any, axis: int, low: Any, high: Any, dtype: Any,
    *, out_dtype: Any = None,
) -> Value:  # fmt: skip
    return _dequantize(c, x, _quant(scale, zero, axis % x.type.rank, low, high))


@spells("torchao.dequantize_affine", into=DEQUANTIZE)
def dequantize_affine(
    c: Speller, x: Value, block: Sequence[int], scale: Any, zero: Any, dtype: Any,
    low: Any, high: Any, output_dtype: Any,
) -> Value:  # fmt: skip
    low, high = _range(x.type.dtype, low, high)
    return _dequantize(c, x, _quant(scale, zero, channel_axis(block, x.type.ints), low, high))


@spells(
    "quantized_decomposed.choose_qparams.tensor "
    "quantized_decomposed.choose_qparams_symmetric.tensor "
    "quantized_decomposed.choose_qparams_per_token "
    "quantized_decomposed.choose_qparams_per_token_asymmetric "
    "quantized_decomposed.quantize_per_token quantized_decomposed.dequantize_per_token "
    "torchao.choose_qparams_affine",
    into="",
)
def dynamic(c: Speller, *_: Any, **__: Any) -> Value:
    raise Unsupported(
        "quantization parameters that are computed at run time (dynamic quantization); "
        "quantize statically, with calibration data"
    )


@spells(
    "fake_quantize_per_tensor_affine fake_quantize_per_channel_affine "
    "fake_quantize_per_tensor_affine.tensor_qparams "
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams "
    "fused_moving_avg_obs_fake_quant quantized_decomposed.fake_quant_per_channel",
    into="",
)
def not_converted(c: Speller, *_: Any, **__: Any) -> Value:
    raise Unsupported("a fake-quantize op of training; convert the model first (convert_pt2e)")


def channel_axis(block: Sequence[int], shape: Sequence[int]) -> int | None:
    """Axis of per-channel blocks, None for one block per tensor; Unsupported for other blocks."""
    split = [d for d, (b, s) in enumerate(zip(block, shape, strict=True)) if b not in (s, -1)]
    if not split:
        return None
    if len(split) > 1 or block[split[0]] != 1:
        raise Unsupported(f"quantization in blocks of {tuple(block)} of {tuple(shape)}")
    return split[0]


def _quant(scale: Any, zero: Any, axis: int | None, low: Any, high: Any) -> Quant:
    scales = _numbers(scale, np.float64)
    zeros = _numbers(0 if zero is None else zero, np.int64)
    return Quant(
        scales, zeros, axis, int(_numbers(low, np.int64)[0]), int(_numbers(high, np.int64)[0])
    )


def _numbers(x: Any, dtype: Any) -> np.ndarray:
    """Numbers or a constant tensor as a vector."""
    if isinstance(x, Value):
        if not x.is_const:
            return dynamic(None, None)  # type: ignore[arg-type, return-value]
        x = x.array
    return np.asarray(x, dtype).reshape(-1)


def _range(dtype: DType, low: Any, high: Any) -> tuple[Any, Any]:
    least, most = dtype.range
    return (least if low is None else low), (most if high is None else high)


def _quantize(c: Speller, x: Value, quant: Quant) -> Value:
    out = c.out[0]
    return c.make(QUANTIZE, TensorType(out.dtype, out.shape, quant), x)


def _dequantize(c: Speller, x: Value, quant: Quant) -> Value:
    out = c.out[0]
    if x.type.quant is None and x.is_const:
        x = c.const(x.array, x.type.dtype, quant, x.name)
    elif x.type.quant is None and x.op is None:
        x = c.make(ASSUME, TensorType(x.type.dtype, x.type.shape, quant), x)
    if x.type.quant == quant:
        return c.make(DEQUANTIZE, out, x)
    if x.type.quant is not None:
        raise Unsupported(f"a value quantized with {x.type.quant} is dequantized with {quant}")
    return _by_arithmetic(c, x, quant)


def _by_arithmetic(c: Speller, x: Value, quant: Quant) -> Value:
    """(x - zero point) * scale, for integers that no quantize op has made."""
    out = c.out[0]
    zero = c.const(_along(quant.zero_point, quant, out).astype(out.dtype.numpy))
    scale = c.const(_along(quant.scale, quant, out).astype(out.dtype.numpy))
    centred = c.make("aten.sub.Tensor", out, c.to(x, out.dtype), zero, alpha=1)
    return c.make("aten.mul.Tensor", out, centred, scale)


def _along(vector: np.ndarray, quant: Quant, type: TensorType) -> np.ndarray:
    """A vector of parameters in a shape that broadcasts with the tensor."""
    if quant.axis is None:
        return np.asarray(vector[0])
    shape = [1] * type.rank
    shape[quant.axis] = -1
    return vector.reshape(shape)
