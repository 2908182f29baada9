"""Functions of one tensor: an operator, an exact table when quantized, a formula of floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npuc.dialects.tflite import DEFINITIONS, fixed_quant, same_parameters
from npuc.ir import DType, TensorType, Value
from npuc.lowering.aten_to_tflite.formula import TfliteTerm
from npuc.lowering.aten_to_tflite.operands import wide_type
from npuc.lowering.aten_to_tosa import activation, elementary, rounding  # noqa: F401 - their formulas
from npuc.lowering.aten_to_tosa.unary import FORMULAS
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import (
    Function,
    TfliteBuilder,
    largest_magnitude,
    real_values,
    symmetric,
)

#: kind -> operator that computes it for floats
FLOAT_OPERATORS = {
    "aten.abs": "ABS", "aten.neg": "NEG", "aten.exp": "EXP", "aten.log": "LOG", "aten.sqrt": "SQRT",
    "aten.rsqrt": "RSQRT", "aten.sin": "SIN", "aten.cos": "COS", "aten.floor": "FLOOR",
    "aten.ceil": "CEIL", "aten.round": "ROUND", "aten.sign": "SIGN", "aten.sigmoid": "LOGISTIC",
    "aten.tanh": "TANH", "aten.hardswish": "HARD_SWISH",
}  # fmt: skip
#: kind -> operator that computes it for quantized values, to any parameters or to its fixed ones
QUANTIZED_OPERATORS = {
    "aten.abs": "ABS", "aten.exp": "EXP", "aten.log": "LOG", "aten.rsqrt": "RSQRT",
    "aten.sigmoid": "LOGISTIC", "aten.tanh": "TANH", "aten.hardswish": "HARD_SWISH",
}  # fmt: skip
#: element type -> scale of a result below which the 2**-15 steps of LOGISTIC are too coarse
FINE = {DType.INT8: 2.0**-10, DType.INT16: 2.0**-18}
#: largest error in steps that an 8-bit gate may bring before the product is rounded
GATE_ERROR = 0.45
#: largest error in steps of 65,536 that is taken from an operator which interpolates
GOOD_16 = 16.0


def operator_of(
    kind: str, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The operator with attributes for quantized values; ("", {}) where there is none."""
    if kind == "aten.gelu":
        return "GELU", {"approximate": kwargs.get("approximate", "none") == "tanh"}
    if kind == "aten.leaky_relu":
        return "LEAKY_RELU", {"alpha": float(args[0] if args else 0.01)}
    if kind == "aten.elu" and all(a == 1 for a in args):
        return "ELU", {}
    return QUANTIZED_OPERATORS.get(kind, ""), {}


def unary(b: TfliteBuilder, x: Value, *args: Any, **kwargs: Any) -> Value:
    """A function of one tensor."""
    assert b.op is not None
    kind, out = b.op.kind, b.out[0]
    name, attrs = operator_of(kind, args, kwargs)
    if out.quant is not None:
        return _quantized(b, b.operand(x), name, attrs, _torch_function(b, x, args, kwargs))
    b.require(x.type.quant is None, "the operand is quantized but the result is not")
    formula, integer = FORMULAS[kind]
    if not x.type.dtype.is_float:
        b.require(integer is not None, f"no form for {x.type.dtype.name} operands")
        assert integer is not None
        return integer(_term(b, x).cast(DType.INT32), *args, **kwargs).cast(out.dtype).value
    if kind in FLOAT_OPERATORS or name:
        return b.tflite(name or FLOAT_OPERATORS[kind], x, **attrs)  # type: ignore[no-any-return]
    return formula(_term(b, x), *args, **kwargs).value


def _term(b: TfliteBuilder, x: Value) -> TfliteTerm:
    return TfliteTerm(b, x)  # type: ignore[arg-type]


def _torch_function(
    b: TfliteBuilder, x: Value, args: Sequence[Any], kwargs: dict[str, Any]
) -> Function:
    """PyTorch's op of `b` as a function of real values."""
    import torch

    assert b.op is not None
    call = getattr(torch.ops.aten, b.op.name.partition(".")[0])

    def function(real: np.ndarray) -> np.ndarray:
        given = torch.from_numpy(np.ascontiguousarray(real))
        return call(given, *args, **kwargs).to(torch.float64).numpy()  # type: ignore[no-any-return]

    return function


def _quantized(
    b: TfliteBuilder, x: Value, name: str, attrs: dict[str, Any], function: Function
) -> Value:
    """The operator where LiteRT has it for this type and it gives the wanted parameters; else a
    product form or a table."""
    out = b.out[0]
    product = _product(b, x, function)
    if product is not None:
        return product
    if name:
        found = _by_operator(b, x, name, attrs, function)
        if found is not None:
            return found
    return b.lookup(x, function, out)


def _by_operator(
    b: TfliteBuilder, x: Value, name: str, attrs: dict[str, Any], function: Function
) -> Value | None:
    """The operator for the type of `x` where its result is good enough: its own parameters, or by
    INT16 other ones. None where a table is better."""
    out = b.out[0]
    assert out.quant is not None
    if b.limits.ramps and not b.takes(name, out.dtype):
        return None
    same = x.type.dtype is out.dtype and _has(name, out.dtype)
    fixed = fixed_quant(name, out.dtype)
    if fixed is None and same and _interpolation_error(x, function, out) <= GOOD_16:
        return b.tflite(name, x, quant=out.quant, **attrs)  # type: ignore[no-any-return]
    if fixed is not None and same and same_parameters(fixed, out.quant):
        return b.tflite(name, x, **attrs)  # type: ignore[no-any-return]
    wide = b.limits.int16
    if fixed is not None and out.quant.s >= (FINE[out.dtype] if wide else fixed.s):
        return b.requantize(b.tflite(name, b.widened(x) if wide else x), out)
    if fixed is None and x.type.dtype is DType.INT16 and _has(name, DType.INT16):
        result = wide_type(out)
        if _interpolation_error(x, function, result) <= GOOD_16:
            return b.requantize(b.tflite(name, x, quant=result.quant, **attrs), out)
    return None


def _interpolation_error(x: Value, function: Function, out: TensorType) -> float:
    """Largest error in steps of LiteRT's operators of INT16: tables of 513 values, interpolated."""
    quant, result = x.type.quant, out.quant
    if x.type.dtype is not DType.INT16:
        return 0.0
    assert quant is not None and result is not None
    codes = np.arange(*DType.INT16.range)
    with np.errstate(all="ignore"):
        exact = np.clip(function(quant.dequantize(codes)) / result.s, *DType.INT16.range)
        knots = np.rint(np.clip(function(quant.s * (np.arange(513) * 128.0 - 2**15)) / result.s,
                                *DType.INT16.range))  # fmt: skip
    interpolated = np.interp(codes, np.arange(513) * 128 - 2**15, knots)
    off = np.abs(interpolated - exact)
    return float(off[np.isfinite(off)].max(initial=0.0))


def _has(name: str, dtype: DType) -> bool:
    return any(s[0] is dtype for s, _ in DEFINITIONS[name].signatures)


def _product(b: TfliteBuilder, x: Value, function: Function) -> Value | None:
    """silu as MUL(x, LOGISTIC(x)) where that is within a step for every code; square as MUL."""
    out = b.out[0]
    kind = b.op.kind if b.op is not None else ""
    if kind == "aten.pow.Tensor_Scalar" and b.op is not None and b.op.attrs["args"][1] == 2:
        from npuc.lowering.aten_to_tflite.operands import binary

        return binary(b, "MUL", x, x, out)
    if b.limits.ramps and kind != "aten.silu":
        return None
    if kind == "aten.sqrt" and not b.limits.tables and x.type.dtype is DType.INT8:
        wide = b.widened(x)
        root = b.RSQRT(wide, quant=symmetric(1 / np.sqrt(_smallest(wide))))
        return b.requantize(b.MUL(wide, root, quant=wide_type(out).quant), out)
    if kind != "aten.silu":
        return None
    if x.type.dtype is out.dtype is DType.INT8 and _gate_error(x, function, out) <= GATE_ERROR:
        return b.MUL(x, b.LOGISTIC(x), quant=out.quant)  # type: ignore[no-any-return]
    if b.limits.ramps:
        return None
    wide = b.widened(x)
    product = b.MUL(wide, b.LOGISTIC(wide), quant=wide_type(out).quant)
    return b.requantize(product, out)


def _smallest(x: Value) -> float:
    """The smallest value above zero that a root is told from: 1/512 of the range."""
    assert x.type.quant is not None
    return largest_magnitude(x.type.quant) / 512


def _gate_error(x: Value, function: Function, out: TensorType) -> float:
    """Largest error in steps of x * LOGISTIC(x) when the gate has 8 bits."""
    quant, result = x.type.quant, out.quant
    assert quant is not None and result is not None
    real = quant.dequantize(np.arange(-128, 128))
    gate = fixed_quant("LOGISTIC", DType.INT8)
    assert gate is not None
    rounded = gate.dequantize(gate.quantize(1 / (1 + np.exp(-real))))
    inside = np.clip(function(real), *result.dequantize(np.array([result.qmin, result.qmax])))
    return float(np.abs(real * rounded - inside).max()) / result.s


def _neg(b: TfliteBuilder, x: Value) -> Value:
    """neg -> NEG; quantized: SUB from zero."""
    out = b.out[0]
    if out.quant is None:
        return unary(b, x)
    from npuc.lowering.aten_to_tflite.operands import binary

    x = b.operand(x)
    zero = b.real_const(np.zeros((1,) * x.type.rank), x.type.dtype, x.type.quant)
    return binary(b, "SUB", zero, x, out)


@lowers("aten.glu", dialect="tflite")
def glu(b: TfliteBuilder, x: Value, dim: int = -1) -> Value:
    """glu -> first half * LOGISTIC(second half)."""
    from npuc.lowering.aten_to_tflite.emit_convolution import strided
    from npuc.lowering.aten_to_tflite.operands import binary

    dim %= x.type.rank
    size = x.type.ints[dim]
    first, second = strided(b, x, dim, 0, size // 2, 1), strided(b, x, dim, size // 2, size, 1)
    return binary(b, "MUL", first, b.LOGISTIC(second), b.out[0])


@lowers("aten.prelu", dialect="tflite")
def prelu(b: TfliteBuilder, x: Value, weight: Value) -> Value:
    """prelu -> PRELU, its slopes along the channels; LEAKY_RELU for one slope."""
    out = b.out[0]
    b.require(weight.is_const, "prelu with computed slopes")
    real = real_values(weight).reshape(-1)
    if out.quant is not None:
        x = b.operand(x)
    if real.size == 1:
        if x.type.dtype is out.dtype:
            return b.LEAKY_RELU(x, alpha=float(real[0]), quant=out.quant)  # type: ignore[no-any-return]
        return b.lookup(x, lambda r: np.where(r > 0, r, r * real[0]), out)
    return _per_channel(b, x, real)


def _per_channel(b: TfliteBuilder, x: Value, slopes: np.ndarray) -> Value:
    out, rank = b.out[0], x.type.rank
    if out.quant is not None and (x.type.dtype is not DType.INT8 or out.dtype is not DType.INT8):
        return _split_at_zero(b, x, slopes)
    last = [0, *range(2, rank), 1] if rank > 1 else [0]
    dtype = x.type.dtype
    alpha = b.real_const(slopes.reshape((1,) * (max(rank, 2) - 2) + (-1,)), dtype)
    y = b.PRELU(b.transpose(x, last), alpha, quant=out.quant)
    back = [0, rank - 1, *range(1, rank - 1)] if rank > 1 else [0]
    return b.transpose(y, back)


def _split_at_zero(b: TfliteBuilder, x: Value, slopes: np.ndarray) -> Value:
    """max(x, 0) + slope * min(x, 0) in INT16."""
    wide, rank = b.widened(x), x.type.rank
    quant = wide.type.quant
    zero = b.real_const(np.zeros((1,) * rank), DType.INT16, quant)
    shape = [1] * rank
    shape[1 if rank > 1 else 0] = -1
    alpha = b.real_const(slopes.reshape(shape), DType.INT16)
    result = wide_type(b.out[0])
    below = b.MUL(b.MINIMUM(wide, zero), alpha, quant=result.quant)
    return b.requantize(b.ADD(b.MAXIMUM(wide, zero), below, quant=result.quant), b.out[0])


def _register() -> None:
    """The rules of all functions that have a formula; its text is theirs."""
    special: dict[str, Callable[..., Value]] = {"aten.neg": _neg}
    for kind in FORMULAS:
        rule = special.get(kind) or _rule()
        rule.__doc__ = special[kind].__doc__ if kind in special else _text(kind)
        lowers(kind, dialect="tflite")(rule)


def _rule() -> Callable[..., Value]:
    def rule(b: TfliteBuilder, x: Value, *args: Any, **kwargs: Any) -> Value:
        return unary(b, x, *args, **kwargs)

    return rule


def _text(kind: str) -> str:
    name = operator_of(kind, (), {})[0] or FLOAT_OPERATORS.get(kind)
    return f"{kind[5:]} -> {name or 'its formula of floats; quantized: GATHER from a table'}"


_register()
