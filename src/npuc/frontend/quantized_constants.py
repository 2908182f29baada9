"""Float constants beside quantized operands: which of them are quantized, and how."""

from __future__ import annotations

import numpy as np

from npuc.frontend.quantized_demand import Stored
from npuc.ir import Builder, DType, Op, Operand, Quant, Value

#: op -> arguments that may stay float constants in a quantized op
PARAMETERS = {
    "aten.batch_norm": (1, 2, 3, 4),
    "aten.layer_norm": (2, 3),
    "aten.group_norm": (2, 3),
    "aten.rms_norm": (2,),
    "aten.prelu": (1,),
}

#: ops with a weight and a bias that is added to the accumulator
LAYERS = ("aten.convolution", "aten.linear")


def is_exact(array: np.ndarray, form: Stored) -> bool:
    """Whether `form` represents every value of a constant without an error."""
    real = array.astype(np.float64)
    if not np.all(np.isfinite(real)):
        return False
    again = form.quant.dequantize(form.quant.quantize(real))
    return bool(np.allclose(again, real, rtol=1e-6, atol=float(form.quant.scale.max()) * 1e-6))


def quantized(builder: Builder, constant: Value, form: Stored) -> Value:
    """A float constant in `form`; values beyond its range saturate."""
    limit = float(np.abs(form.quant.scale).max()) * 2.0**33
    real = np.clip(constant.array.astype(np.float64), -limit, limit)
    codes = form.quant.quantize(real).astype(form.dtype.numpy)
    return builder.const(codes, form.dtype, form.quant, constant.name)


def operand_form(array: np.ndarray, beside: DType) -> Stored | None:
    """How a constant operand of a quantized arithmetic op is stored: one number exactly, several
    with the error of rounding to 255 (65,535) levels. None when it is not finite."""
    real = array.astype(np.float64)
    if real.size == 0 or not np.all(np.isfinite(real)):
        return None
    dtype = DType.INT16 if beside in (DType.INT16, DType.INT32) else DType.INT8
    high = dtype.range[1]
    low, top = min(0.0, float(real.min())), max(0.0, float(real.max()))
    if np.ptp(real) == 0 or dtype is DType.INT16:
        largest = max(-low, top) or float(high)
        return Stored(dtype, Quant(largest / high, 0, None, -high, high))
    scale = (top - low) / 255
    zero = int(np.clip(np.rint(-128 - low / scale), -128, 127))
    return Stored(dtype, Quant(scale, zero, None, -128, 127))


def quantized_bias(builder: Builder, op: Op, x: Value, weight: Value, bias: Value) -> Value | None:
    """The bias constant in steps of the accumulator: scale = x.scale * weight.scale.

    INT32 codes, INT48 beside INT16 activations. None when the weight's parameters belong to its
    input channels, so that the accumulator has no scale.
    """
    scale = _accumulator_scale(op, x, weight)
    if scale is None:
        return None
    wide = x.type.dtype is DType.INT16
    dtype = DType.INT48 if wide else DType.INT32
    low, high = dtype.range
    quant = Quant(scale, 0, 0, low, high)
    given = bias.type.quant
    if given is not None:
        own = np.broadcast_to(given.scale, scale.shape if scale.size > 1 else given.scale.shape)
        if np.allclose(own, scale, rtol=1e-5, atol=0) and not np.any(given.zero_point):
            return builder.const(bias.array.astype(dtype.numpy), dtype, quant, bias.name)
        real = given.dequantize(bias.array)
    else:
        real = bias.array.astype(np.float64)
    if not np.all(np.isfinite(real)):
        return None
    if quant.scale.size == 1:
        quant = Quant(scale, 0, None, low, high)
    return builder.const(quant.quantize(real).astype(dtype.numpy), dtype, quant, bias.name)


def _accumulator_scale(op: Op, x: Value, weight: Value) -> np.ndarray | None:
    source, factors = x.type.quant, weight.type.quant
    assert source is not None and factors is not None
    if source.per_channel:
        return None
    if not factors.per_channel:
        return source.scale * factors.scale
    args = op.attrs["args"]
    transposed = op.kind == "aten.convolution" and args[6]
    if factors.axis != (1 if transposed else 0):
        return None
    groups = args[8] if transposed else 1
    return source.scale[0] * np.tile(factors.scale, groups)


def real_constant(builder: Builder, constant: Value, dtype: DType) -> Value:
    """A quantized constant as a float one."""
    quant = constant.type.quant
    assert quant is not None
    array = np.asarray(quant.dequantize(constant.array))
    return builder.const(array.astype(dtype.numpy), dtype, name=constant.name)


def parameters_of(op: Op) -> list[int]:
    """Operands that may stay float constants."""
    given = [op.attrs["args"][place] for place in PARAMETERS.get(op.kind, ())]
    return [a.index for a in given if isinstance(a, Operand)]
