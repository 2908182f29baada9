"""Truth values on Neutron, which has INT8 only: codes 0 and 1, comparisons as functions of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuc.dialects.tflite import same_parameters
from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tflite import convert
from npuc.lowering.aten_to_tflite.compare import COMPARISONS
from npuc.lowering.aten_to_tflite.operands import binary
from npuc.lowering.aten_to_tflite.reduce import reduced
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import TRUTH, TfliteBuilder, real_values

#: kind -> the comparison of real values
FUNCTIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "aten.eq.Tensor": np.equal, "aten.ne.Tensor": np.not_equal, "aten.lt.Tensor": np.less,
    "aten.le.Tensor": np.less_equal, "aten.gt.Tensor": np.greater,
    "aten.ge.Tensor": np.greater_equal,
}  # fmt: skip


@lowers(*COMPARISONS, target="neutron", dialect="tflite")
def compare(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """eq, ne, lt, le, gt, ge -> a step function of the value, or of the difference of two."""
    assert b.op is not None
    function, out = FUNCTIONS[b.op.kind], b.out[0]
    x, y = (_quantized(b, v) for v in (x, y))
    if y.is_const and y.type.size == 1:
        bound = real_values(y).reshape(())
        return b.lookup(b.match_rank(x, out.rank), lambda real: function(real, bound), out)
    if x.is_const and x.type.size == 1:
        bound = real_values(x).reshape(())
        return b.lookup(b.match_rank(y, out.rank), lambda real: function(bound, real), out)
    difference = _difference(b, x, y, out)
    return b.lookup(difference, lambda real: function(real, np.zeros(1)), out)


def _quantized(b: TfliteBuilder, x: Value) -> Value:
    """An operand: constants keep their real values, everything else has to be quantized."""
    b.require(
        x.is_const or x.type.quant is not None,
        f"a comparison of {x.type.dtype.name} values, Neutron computes on INT8",
        "compare quantized values",
    )
    return x


def _difference(b: TfliteBuilder, x: Value, y: Value, out: TensorType) -> Value:
    """x - y in the finer of both steps: where it saturates its sign is still there."""
    x, y = b.operand(x, out), b.operand(y, out)
    assert x.type.quant is not None and y.type.quant is not None
    step = min(x.type.quant.s, y.type.quant.s)
    return binary(b, "SUB", x, y, out.with_(quant=Quant(step, 0, None, -128, 127)))


@lowers("aten.where", "aten.where.self", target="neutron", dialect="tflite")
def where(b: TfliteBuilder, condition: Value, x: Value, y: Value) -> Value:
    """where, masked_fill, tril ... -> x * condition + y * (1 - condition), which is exact."""
    out = b.out[0]
    b.require(
        out.quant is not None, f"a choice of {out.dtype.name} values, Neutron computes on INT8"
    )
    held = _held(b, condition, x)
    if y.is_const and not np.any(real_values(y)) and held.type == out:
        return held
    return binary(b, "ADD", held, _held(b, _negated(b, condition), y), out)


def _held(b: TfliteBuilder, mask: Value, x: Value) -> Value:
    """`x` where the mask is 1, else zero, with the parameters of the result."""
    out = b.out[0]
    x = b.requantize(b.operand(x), out)
    if mask.is_const and x.is_const:
        return b.real_const(real_values(mask) * real_values(x), out.dtype, out.quant)
    return binary(b, "MUL", x, mask, out)


def _negated(b: TfliteBuilder, mask: Value) -> Value:
    ones = np.ones((1,) * mask.type.rank)
    if mask.is_const:
        return b.real_const(1 - real_values(mask), DType.INT8, TRUTH)
    return binary(b, "SUB", b.real_const(ones, DType.INT8, TRUTH), mask, mask.type)


def _truth(b: TfliteBuilder, x: Value) -> Value:
    """Whether quantized `x` is not zero."""
    if same_parameters(x.type.quant, TRUTH):
        return x
    return b.lookup(_quantized(b, x), lambda real: real != 0, x.type.with_(quant=TRUTH))


@lowers("aten.logical_not", target="neutron", dialect="tflite")
def logical_not(b: TfliteBuilder, x: Value) -> Value:
    """logical_not -> 1 - x."""
    return _negated(b, _truth(b, x))


@lowers("aten.logical_and", target="neutron", dialect="tflite")
def logical_and(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """logical_and -> MUL."""
    return binary(b, "MUL", _truth(b, x), _truth(b, y), b.out[0])


@lowers("aten.logical_or", target="neutron", dialect="tflite")
def logical_or(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """logical_or -> MAXIMUM."""
    return binary(b, "MAXIMUM", _truth(b, x), _truth(b, y), b.out[0])


@lowers("aten.logical_xor", target="neutron", dialect="tflite")
def logical_xor(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """logical_xor -> ABS(x - y)."""
    difference = binary(b, "SUB", _truth(b, x), _truth(b, y), b.out[0])
    return b.ABS(difference, quant=TRUTH)  # type: ignore[no-any-return]


@lowers("aten.bitwise_and.Tensor", target="neutron", dialect="tflite")
def bitwise_and(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """bitwise_and of truth values -> MUL."""
    return logical_and(b, *_truths(b, x, y))


@lowers("aten.bitwise_or.Tensor", target="neutron", dialect="tflite")
def bitwise_or(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """bitwise_or of truth values -> MAXIMUM."""
    return logical_or(b, *_truths(b, x, y))


@lowers("aten.bitwise_xor.Tensor", target="neutron", dialect="tflite")
def bitwise_xor(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """bitwise_xor of truth values -> ABS(x - y)."""
    return logical_xor(b, *_truths(b, x, y))


@lowers("aten.bitwise_not", target="neutron", dialect="tflite")
def bitwise_not(b: TfliteBuilder, x: Value) -> Value:
    """bitwise_not of truth values -> 1 - x."""
    return logical_not(b, *_truths(b, x))


def _truths(b: TfliteBuilder, *values: Value) -> tuple[Value, ...]:
    for v in values:
        b.require(v.type.quant is not None, f"bits of {v.type.dtype.name}, Neutron has none")
    return values


@lowers("aten.any.dims", "aten.all.dims", target="neutron", dialect="tflite")
def any_all(b: TfliteBuilder, x: Value, dim: tuple[int, ...], keepdim: bool) -> Value:
    """any, all -> REDUCE_MAX, REDUCE_MIN."""
    assert b.op is not None
    return reduced(b, "REDUCE_MAX" if ".any" in b.op.kind else "REDUCE_MIN", _truth(b, x), dim)


@lowers("aten.to", "aten.to.dtype", target="neutron", dialect="tflite")
def to(b: TfliteBuilder, x: Value, dtype: object = None, *_: object, **__: object) -> Value:
    """to -> a step function for truth values, else the common form."""
    assert b.op is not None
    if b.op.results[0].type.dtype is DType.BOOL and x.type.quant is not None:
        return _truth(b, x)
    return convert.to(b, x, dtype)
