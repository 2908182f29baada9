"""How the quantization parameters of an operator's tensors relate, as the TFLite kernels demand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuc.dialects.tflite.definition import DEFINITIONS, Definition
from npuc.dialects.tflite.infer import InvalidOp
from npuc.ir import DType, Quant, TensorType

#: types whose stored values mean nothing without parameters
QUANTIZED = (DType.INT8, DType.UINT8, DType.INT16)
#: largest relative difference of a bias scale from input scale times weight scale
BIAS_TOLERANCE = 1e-5


def fixed_quant(name: str, dtype: DType) -> Quant | None:
    """The parameters that the result of `name` must have; None where the operator leaves them open.

    8 bits: 256 steps over the range of the function. 16 bits: symmetric, 32768 steps.
    """
    kind, *ends = DEFINITIONS[name].quant.split(":")
    if kind != "fixed" or dtype not in QUANTIZED:
        return None
    low, high = map(float, ends)
    qmin, qmax = dtype.range
    if dtype is DType.INT16:
        return Quant(max(-low, high) / 2**15, 0, None, qmin, qmax)
    scale = (high - low) / 256
    return Quant(scale, min(round(qmin - low / scale), qmax), None, qmin, qmax)


def check_quantization(
    name: str, operands: Sequence[TensorType], results: Sequence[TensorType]
) -> None:
    """Raise InvalidOp where parameters break the rule of operator `name`."""
    definition = DEFINITIONS[name]
    kind, _, argument = definition.quant.partition(":")
    if kind == "same":
        _check_same(definition, operands, results)
    elif kind in ("own", "alike", "fixed"):
        for t in (*operands, *results[: kind != "alike"]):
            _check_per_tensor(name, t)
    elif kind == "weights":
        _check_weights(definition, operands, results[0], int(argument))
    elif kind == "convert":
        for t in (operands[0], results[0]):
            _check_per_tensor(name, t)
    want = fixed_quant(name, results[0].dtype)
    if want is not None and not same_parameters(results[0].quant, want):
        raise InvalidOp(f"{name}: its result has {results[0].quant}, the kernel gives {want}")


def same_parameters(a: Quant | None, b: Quant | None) -> bool:
    """Whether scale and zero point are equal (what a file can say)."""
    if a is None or b is None:
        return a is b
    return (
        a.axis == b.axis
        and np.array_equal(a.scale.astype(np.float32), b.scale.astype(np.float32))
        and np.array_equal(a.zero_point, b.zero_point)
    )


def _check_per_tensor(name: str, t: TensorType) -> None:
    if t.dtype not in QUANTIZED:
        return
    if t.quant is None or t.quant.per_channel:
        how = "not quantized" if t.quant is None else "quantized per channel"
        raise InvalidOp(f"{name}: {t.dtype.name} tensor is {how}")
    if t.dtype is DType.INT16 and t.quant.zp:
        raise InvalidOp(f"{name}: INT16 tensor has zero point {t.quant.zp}, kernels take 0")


def _check_same(
    definition: Definition, operands: Sequence[TensorType], results: Sequence[TensorType]
) -> None:
    dtype = results[0].dtype
    values = [t for t in operands if t.dtype is dtype] if dtype in QUANTIZED else []
    for t in values:
        if not same_parameters(t.quant, results[0].quant):
            raise InvalidOp(
                f"{definition.name}: {t.quant} and {results[0].quant} have to be the same"
            )


def _check_weights(
    definition: Definition, operands: Sequence[TensorType], result: TensorType, axis: int
) -> None:
    names = definition.operands
    x = operands[names.index("input")]
    weight = operands[names.index("filter")]
    if x.dtype.is_float:
        return
    for t in (x, result):
        _check_per_tensor(definition.name, t)
    if weight.quant is None or np.any(weight.quant.zero_point):
        raise InvalidOp(f"{definition.name}: the filter has to be quantized symmetrically")
    if weight.quant.axis not in (None, axis):
        raise InvalidOp(f"{definition.name}: filter scales on axis {weight.quant.axis}, not {axis}")
    bias = operands[names.index("bias?")] if len(operands) == len(names) else None
    if bias is None:
        return
    assert x.quant is not None
    want = x.quant.s * weight.quant.scale
    if bias.quant is None or np.any(bias.quant.zero_point):
        raise InvalidOp(f"{definition.name}: the bias has no scale or a zero point")
    have = (
        np.broadcast_to(bias.quant.scale, want.shape)
        if bias.quant.scale.size == 1
        else bias.quant.scale
    )
    if have.shape != want.shape or np.any(np.abs(have - want) > BIAS_TOLERANCE * want):
        raise InvalidOp(f"{definition.name}: the bias scale is not input scale times filter scale")
