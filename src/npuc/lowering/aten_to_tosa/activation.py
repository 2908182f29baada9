"""Activation functions of floats as formulas; quantized each is one TABLE."""

from __future__ import annotations

import math

from npuc.ir import TensorType, Value
from npuc.lowering.aten_to_tosa.arithmetic import multiply
from npuc.lowering.aten_to_tosa.elementary import expm1, small_log1p
from npuc.lowering.aten_to_tosa.formula import Number, Term
from npuc.lowering.aten_to_tosa.table import tabulate
from npuc.lowering.aten_to_tosa.unary import unary
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

#: the threshold above which softplus(x) and x are the same float
SAME_AS_SOFTPLUS = 17.0


@unary("aten.gelu")
def gelu(x: Term, *, approximate: str = "none") -> Term:
    """gelu -> x/2 * (1 + ERF(x/sqrt 2)), or the tanh form; quantized: TABLE."""
    if approximate == "none":
        return x * 0.5 * ((x * math.sqrt(0.5)).erf() + 1.0)
    inner = (x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)
    return x * 0.5 * (inner.tanh() + 1.0)


@unary("aten.silu", native=True)
def silu(x: Term) -> Term:
    """silu -> x * SIGMOID(x); quantized: TABLE."""
    return x * x.sigmoid()


@unary("aten.mish")
def mish(x: Term) -> Term:
    """mish -> x * n/(n + 2), n = e*(e + 2), e = EXP(min(x, 20)): tanh(softplus(x)) without loss."""
    e = x.minimum(20.0).exp()
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))


@unary("aten.softplus")
def softplus(x: Term, beta: Number = 1, threshold: Number = 20) -> Term:
    """softplus -> max(z, 0) + log1p(EXP(-|z|)), z = beta*x: never overflows; quantized: TABLE."""
    z = x if beta == 1 else x * beta
    result = z.maximum(0.0) + small_log1p((-z.abs()).exp())
    result = result if beta == 1 else result / beta
    return result if threshold >= SAME_AS_SOFTPLUS else (z > threshold).select(x, result)


@unary("aten.log_sigmoid")
def log_sigmoid(x: Term) -> Term:
    """log_sigmoid -> min(x, 0) - log1p(EXP(-|x|)); quantized: TABLE."""
    return x.minimum(0.0) - small_log1p((-x.abs()).exp())


@unary("aten.elu")
def elu(x: Term, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Term:
    """elu, selu, celu -> scale * (max(x, 0) + alpha * expm1(input_scale * min(x, 0)))."""
    below = x.minimum(0.0)
    below = below if input_scale == 1 else below * input_scale
    result = x.maximum(0.0) + expm1(below) * alpha
    return result if scale == 1 else result * scale


@unary("aten.leaky_relu", native=True)
def leaky_relu(x: Term, slope: Number = 0.01) -> Term:
    """leaky_relu -> MAXIMUM(x, slope*x), or SELECT for slopes outside 0..1; quantized: TABLE."""
    if 0 <= slope <= 1:
        return x.maximum(x * slope)
    return (x > 0.0).select(x, x * slope)


@unary("aten.hardsigmoid", native=True)
def hardsigmoid(x: Term) -> Term:
    """hardsigmoid -> CLAMP(x + 3, 0, 6) / 6; quantized: TABLE."""
    return (x + 3.0).clamp(0.0, 6.0) / 6.0


@unary("aten.hardswish", native=True)
def hardswish(x: Term) -> Term:
    """hardswish -> x * CLAMP(x + 3, 0, 6) / 6; quantized: TABLE."""
    return x * ((x + 3.0).clamp(0.0, 6.0) / 6.0)


@unary("aten.hardshrink", native=True)
def hardshrink(x: Term, lambd: Number = 0.5) -> Term:
    """hardshrink -> 0 where |x| <= lambda, else x; quantized: TABLE."""
    return (x.abs() <= lambd).select(0.0, x)


@unary("aten.softshrink", native=True)
def softshrink(x: Term, lambd: Number = 0.5) -> Term:
    """softshrink -> x - CLAMP(x, -lambda, lambda); quantized: TABLE."""
    return x - x.clamp(-lambd, lambd)


def _integer_threshold(x: Term, threshold: Number, value: Number) -> Term:
    return (x <= math.floor(threshold)).select(int(value), x)


@unary("aten.threshold", native=True, integer=_integer_threshold)
def threshold(x: Term, threshold: Number, value: Number) -> Term:
    """threshold -> SELECT(x <= threshold, value, x); quantized: TABLE."""
    return (x <= threshold).select(value, x)


@lowers("aten.glu")
def glu(b: TosaBuilder, x: Value, dim: int = -1) -> Value:
    """glu -> first half * SIGMOID(second half); quantized: TABLE of the second half, MUL."""
    import numpy as np

    from npuc.ir import DType, Quant

    dim %= x.type.rank
    half = list(x.type.ints)
    half[dim] //= 2
    start = [0] * x.type.rank
    first = b.slice(x, start, half)
    start[dim] = half[dim]
    second = b.slice(x, start, half)
    if b.out[0].quant is None:
        return (Term(b, first) * Term(b, second).sigmoid()).value
    wide = x.type.dtype is DType.INT16
    gate = Quant(2.0**-15, 0, None, -(2**15), 2**15 - 1) if wide else Quant(2.0**-8, -128)
    type = TensorType(x.type.dtype, tuple(half), gate)
    sigmoid = tabulate(b, second, lambda real: 1 / (1 + np.exp(-real)), type)
    return multiply(b, first, sigmoid, b.out[0])
