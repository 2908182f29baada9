"""Elementary functions of floats: TOSA's own operators, and formulas that stay accurate near zero.

Coefficients are relative minimax fits (Lawson iteration in float64); each states range and error.
"""

from __future__ import annotations

import math

from npuc.lowering.aten_to_tosa.formula import Number, Term
from npuc.lowering.aten_to_tosa.unary import unary

#: log1p(x) = s * P(s**2), s = x/(2+x) in -1/3..1/3, which is x in -0.5..1; 4e-9
LOG1P = (2.000000008, 0.6666631468, 0.4002491027, 0.2796060286, 0.2817833442)
#: expm1(x) = x * P(x), |x| <= 0.5; 3e-9
EXPM1 = (1.000000001, 0.5000000417, 0.1666666291, 0.0416653182, 0.008333634645, 0.001399732439,
         0.0001984119014)  # fmt: skip
#: sinh(x) = x * P(x**2), |x| <= 1; 2e-8
SINH = (0.9999999797, 0.1666673383, 0.00832991192, 0.0002039398974)
#: atan(x) = x * P(x**2), |x| <= 1; 1.5e-8
ATAN = (0.9999999848, -0.3333307334, 0.1999261937, -0.1420364425, 0.1064093319, -0.07504292741,
        0.04269149795, -0.0160686158, 0.002849886324)  # fmt: skip
#: asin(x) = x * P(x**2), |x| <= 0.5; 4e-9
ASIN = (0.9999999956, 0.1666679011, 0.07494434767, 0.04555018447, 0.02385817344, 0.04263563563)
#: erfinv(x) = x * P(w - 2.5) for w = -log(1 - x**2) < 5, else x * Q(sqrt(w) - 3): M. Giles,
#: "Approximating the erfinv function" (single precision)
ERFINV_CENTER = (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087,
                 -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08)  # fmt: skip
ERFINV_TAIL = (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773,
               -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257)  # fmt: skip


def _negated(x: Term) -> Term:
    return -x


@unary("aten.neg", native=True, integer=_negated)
def neg(x: Term) -> Term:
    """neg -> NEGATE; quantized: TABLE."""
    return -x


@unary("aten.abs", native=True, integer=Term.abs)
def abs_(x: Term) -> Term:
    """abs -> ABS; quantized: TABLE."""
    return x.abs()


@unary("aten.exp", native=True)
def exp(x: Term) -> Term:
    """exp -> EXP; quantized: TABLE."""
    return x.exp()


@unary("aten.exp2")
def exp2(x: Term) -> Term:
    """exp2 -> POW of base 2, exact for whole exponents; CLAMP: POW takes finite ones only."""
    return x.like(2.0).pow(x.clamp(-150.0, 128.0))


@unary("aten.log", native=True)
def log(x: Term) -> Term:
    """log -> LOG; quantized: TABLE."""
    return x.log()


@unary("aten.log2")
def log2(x: Term) -> Term:
    """log2 -> LOG, MUL; quantized: TABLE."""
    return x.log() * (1 / math.log(2))


@unary("aten.log10")
def log10(x: Term) -> Term:
    """log10 -> LOG, MUL; quantized: TABLE."""
    return x.log() * (1 / math.log(10))


def small_log1p(x: Term) -> Term:
    """log(1 + x) for x in -0.5..1, relative accuracy also near 0: 2 atanh(x / (2 + x))."""
    s = x / (x + 2.0)
    return s * (s * s).polynomial(LOG1P)


@unary("aten.log1p")
def log1p(x: Term) -> Term:
    """log1p -> a polynomial of x/(2+x) near 0, LOG(1 + x) elsewhere; quantized: TABLE."""
    near = small_log1p(x.clamp(-0.5, 1.0))
    return (x.abs() < 0.5).select(near, (x + 1.0).log())


@unary("aten.expm1")
def expm1(x: Term) -> Term:
    """expm1 -> a polynomial near 0, EXP(x) - 1 elsewhere; quantized: TABLE."""
    near = x * x.clamp(-0.5, 0.5).polynomial(EXPM1)
    return (x.abs() < 0.5).select(near, x.exp() - 1.0)


@unary("aten.sqrt", native=True)
def sqrt(x: Term) -> Term:
    """sqrt -> RSQRT, RECIPROCAL (right at 0 and infinity); quantized: TABLE."""
    return x.sqrt()


@unary("aten.rsqrt", native=True)
def rsqrt(x: Term) -> Term:
    """rsqrt -> RSQRT; quantized: TABLE."""
    return x.rsqrt()


@unary("aten.reciprocal", native=True)
def reciprocal(x: Term) -> Term:
    """reciprocal -> RECIPROCAL; quantized: TABLE."""
    return x.reciprocal()


@unary("aten.sin", native=True)
def sin(x: Term) -> Term:
    """sin -> SIN; quantized: TABLE."""
    return x.sin()


@unary("aten.cos", native=True)
def cos(x: Term) -> Term:
    """cos -> COS; quantized: TABLE."""
    return x.cos()


@unary("aten.tan")
def tan(x: Term) -> Term:
    """tan -> SIN / COS; quantized: TABLE."""
    return x.sin() / x.cos()


@unary("aten.sinh")
def sinh(x: Term) -> Term:
    """sinh -> a polynomial near 0, else from h = EXP(x/2): h*h/2 overflows only where sinh does."""
    near = x * (x * x).clamp(0.0, 1.0).polynomial(SINH)
    half = (x.abs() * 0.5).exp()
    far = (half * 0.5) * half - (half * half).reciprocal() * 0.5
    return (x.abs() < 1.0).select(near, (x < 0.0).select(-far, far))


@unary("aten.cosh")
def cosh(x: Term) -> Term:
    """cosh -> h*h/2 + 1/(2*h*h) with h = EXP(|x|/2), which overflows only where cosh does."""
    half = (x.abs() * 0.5).exp()
    return (half * 0.5) * half + (half * half).reciprocal() * 0.5


@unary("aten.tanh", native=True)
def tanh(x: Term) -> Term:
    """tanh -> TANH; quantized: TABLE."""
    return x.tanh()


def _copy_sign(magnitude: Term, x: Term) -> Term:
    return (x < 0.0).select(-magnitude, magnitude)


@unary("aten.asinh")
def asinh(x: Term) -> Term:
    """asinh -> sign(x) * log1p(a + a*a/(1 + sqrt(a*a + 1))), a = |x|; LOG(2a) for large a."""
    a = x.abs()
    low = a.minimum(1e4)
    square = low * low
    near = log1p(low + square / ((square + 1.0).sqrt() + 1.0))
    return _copy_sign((a > 1e4).select(a.log() + math.log(2), near), x)


@unary("aten.acosh")
def acosh(x: Term) -> Term:
    """acosh -> log1p(t + sqrt(t) * sqrt(t + 2)), t = x - 1; LOG(2x) for large x; NaN below 1."""
    t = x.minimum(1e4) - 1.0
    near = log1p(t + t.sqrt() * (t + 2.0).sqrt())
    return (x > 1e4).select(x.log() + math.log(2), near)


@unary("aten.atanh")
def atanh(x: Term) -> Term:
    """atanh -> sign(x)/2 * log1p(2a / (1 - a)), a = |x|."""
    a = x.abs()
    return _copy_sign(log1p((a * 2.0) / (1.0 - a)) * 0.5, x)


@unary("aten.atan")
def atan(x: Term) -> Term:
    """atan -> a polynomial; of 1/|x| and subtracted from pi/2 where |x| > 1."""
    a = x.abs()
    t = (a > 1.0).select(a.reciprocal(), a)
    angle = t * (t * t).polynomial(ATAN)
    return _copy_sign((a > 1.0).select(math.pi / 2 - angle, angle), x)


def _asin_parts(x: Term) -> tuple[Term, Term]:
    """|x|, and asin of |x| up to 0.5, of sqrt((1 - |x|)/2) above."""
    a = x.abs()
    root = ((1.0 - a) * 0.5).sqrt()
    t = (a > 0.5).select(root, a)
    return a, t * (t * t).polynomial(ASIN)


@unary("aten.asin")
def asin(x: Term) -> Term:
    """asin -> a polynomial up to 0.5, pi/2 - 2*asin(sqrt((1 - |x|)/2)) above; NaN outside -1..1."""
    a, part = _asin_parts(x)
    return _copy_sign((a > 0.5).select(math.pi / 2 - part * 2.0, part), x)


@unary("aten.acos")
def acos(x: Term) -> Term:
    """acos -> pi/2 - asin(x) up to 0.5, 2*asin(sqrt((1 - |x|)/2)) above: no cancellation near 1."""
    a, part = _asin_parts(x)
    outer = (x < 0.0).select(math.pi - part * 2.0, part * 2.0)
    return (a > 0.5).select(outer, math.pi / 2 - _copy_sign(part, x))


@unary("aten.erf", native=True)
def erf(x: Term) -> Term:
    """erf -> ERF; quantized: TABLE."""
    return x.erf()


@unary("aten.erfinv")
def erfinv(x: Term) -> Term:
    """erfinv -> two polynomials of w = -LOG((1 - x)(1 + x)); infinite at -1 and 1, NaN outside."""
    a = x.abs()
    w = -(((1.0 - x) * (x + 1.0)).log())
    center = (w - 2.5).polynomial(ERFINV_CENTER)
    tail = (w.sqrt() - 3.0).polynomial(ERFINV_TAIL)
    inside = x * (w < 5.0).select(center, tail)
    return a.equals(1.0).select(x * math.inf, inside)


@unary("aten.sigmoid", native=True)
def sigmoid(x: Term) -> Term:
    """sigmoid -> SIGMOID; quantized: TABLE."""
    return x.sigmoid()


@unary("aten.logit")
def logit(x: Term, eps: Number | None = None) -> Term:
    """logit -> LOG(x / (1 - x)), x clamped to eps..1-eps when eps is given; quantized: TABLE."""
    x = x if eps is None else x.clamp(eps, 1.0 - eps)
    return (x / (1.0 - x)).log()


def _integer_power(x: Term, exponent: Number) -> Term:
    x.b.require(exponent == int(exponent) and exponent >= 0, f"integer power {exponent}")
    return whole_power(x, int(exponent))


def whole_power(x: Term, n: int) -> Term:
    """x**n, n >= 0, by squaring."""
    if n == 0:
        return x.like(1) + x * 0
    result, square = None, x
    while n:
        if n & 1:
            result = square if result is None else result * square
        n >>= 1
        square = square * square if n else square
    assert result is not None
    return result


@unary("aten.pow.Tensor_Scalar", integer=_integer_power)
def pow_scalar(x: Term, exponent: Number) -> Term:
    """pow by a number -> MUL, RECIPROCAL, RSQRT where these are exact, else POW of |x| with the
    sign that a whole odd exponent keeps (POW of a negative base is undefined); quantized: TABLE."""
    n = abs(exponent)
    if exponent == 0:
        return ones(x)
    if n == 0.5:
        return x.sqrt() if exponent > 0 else x.rsqrt()
    if n == int(n) and n <= 8:
        power = whole_power(x, int(n))
        return power if exponent > 0 else power.reciprocal()
    power = x.abs().pow(n)
    if n != int(n):
        power = (x < 0.0).select(math.nan, power)
    elif n % 2:
        power = _copy_sign(power, x)
    return power if exponent > 0 else power.reciprocal()


def ones(x: Term) -> Term:
    """1 for every element of x, NaN included, as pow(x, 0) is."""
    import numpy as np

    data = np.broadcast_to(np.ones((), x.dtype.numpy), x.value.type.ints)
    return Term(x.b, x.b.const(np.ascontiguousarray(data), x.dtype))
