"""Formulas over tensors: `(x * x + 1).log()` emits the TOSA operators that compute it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from npuc.ir import DType, Value
from npuc.lowering.tosa_builder import TosaBuilder

Number = int | float


@dataclass(frozen=True, eq=False)
class Term:
    """A float or INT32 tensor in a formula. Numbers beside it become constants of its type."""

    b: TosaBuilder
    value: Value

    @property
    def dtype(self) -> DType:
        return self.value.type.dtype

    def lift(self, other: Term | Number) -> Value:
        """The value of a term, or a number as a constant that broadcasts against this term."""
        if isinstance(other, Term):
            return other.value
        return self.b.scalar(other, self.dtype, self.value.type.rank)

    def like(self, number: Number) -> Term:
        """A number as a term."""
        return type(self)(self.b, self.lift(number))

    def _binary(self, name: str, left: Term | Number, right: Term | Number) -> Term:
        x, y = self.lift(left), self.lift(right)
        rank = max(x.type.rank, y.type.rank)
        x, y = self.b.match_rank(x, rank), self.b.match_rank(y, rank)
        more = (self.b.scalar(0, DType.INT8, 1),) if name == "MUL" else ()
        return type(self)(self.b, self.b.tosa(name, x, y, *more))

    def _unary(self, name: str) -> Term:
        return type(self)(self.b, self.b.tosa(name, self.value))

    def __add__(self, other: Term | Number) -> Term:
        return self._binary("ADD", self, other)

    def __radd__(self, other: Number) -> Term:
        return self._binary("ADD", self, other)

    def __sub__(self, other: Term | Number) -> Term:
        return self._binary("SUB", self, other)

    def __rsub__(self, other: Number) -> Term:
        return self._binary("SUB", other, self)

    def __mul__(self, other: Term | Number) -> Term:
        return self._binary("MUL", self, other)

    def __rmul__(self, other: Number) -> Term:
        return self._binary("MUL", self, other)

    def __truediv__(self, other: Term | Number) -> Term:
        """TOSA has no float division: the reciprocal is multiplied."""
        return self * (other.reciprocal() if isinstance(other, Term) else 1.0 / other)

    def __neg__(self) -> Term:
        zero = self.b.zero_point(self.value, 0)
        return type(self)(self.b, self.b.NEGATE(self.value, zero, zero))

    def __gt__(self, other: Term | Number) -> Condition:
        return self._compare("GREATER", self, other)

    def __ge__(self, other: Term | Number) -> Condition:
        return self._compare("GREATER_EQUAL", self, other)

    def __lt__(self, other: Term | Number) -> Condition:
        return self._compare("GREATER", other, self)

    def __le__(self, other: Term | Number) -> Condition:
        return self._compare("GREATER_EQUAL", other, self)

    def equals(self, other: Term | Number) -> Condition:
        return self._compare("EQUAL", self, other)

    def _compare(self, name: str, left: Term | Number, right: Term | Number) -> Condition:
        return Condition(self._binary(name, left, right), self)

    def maximum(self, other: Term | Number) -> Term:
        return self._binary("MAXIMUM", self, other)

    def minimum(self, other: Term | Number) -> Term:
        return self._binary("MINIMUM", self, other)

    def pow(self, other: Term | Number) -> Term:
        return self._binary("POW", self, other)

    def abs(self) -> Term:
        return self._unary("ABS")

    def exp(self) -> Term:
        return self._unary("EXP")

    def log(self) -> Term:
        return self._unary("LOG")

    def floor(self) -> Term:
        return self._unary("FLOOR")

    def ceil(self) -> Term:
        return self._unary("CEIL")

    def reciprocal(self) -> Term:
        return self._unary("RECIPROCAL")

    def rsqrt(self) -> Term:
        return self._unary("RSQRT")

    def sqrt(self) -> Term:
        """1/rsqrt(x): right for 0 and infinity too, where x * rsqrt(x) is NaN."""
        return self.rsqrt().reciprocal()

    def sin(self) -> Term:
        return self._unary("SIN")

    def cos(self) -> Term:
        return self._unary("COS")

    def tanh(self) -> Term:
        return self._unary("TANH")

    def sigmoid(self) -> Term:
        return self._unary("SIGMOID")

    def erf(self) -> Term:
        return self._unary("ERF")

    def clamp(self, low: Number, high: Number) -> Term:
        return type(self)(self.b, self.b.CLAMP(self.value, min_val=low, max_val=high))

    def cast(self, dtype: DType) -> Term:
        if dtype is self.dtype:
            return self
        return type(self)(self.b, self.b.CAST(self.value, dtype=dtype))

    def polynomial(self, coefficients: Sequence[float]) -> Term:
        """Horner's rule; coefficients from the constant one upwards."""
        result: Term | Number = coefficients[-1]
        for c in coefficients[-2::-1]:
            result = self * result + c
        assert isinstance(result, Term)
        return result


@dataclass(frozen=True, eq=False)
class Condition:
    """A BOOL tensor, and a term of the type that was compared."""

    bool: Term
    compared: Term

    @property
    def value(self) -> Value:
        return self.bool.value

    def select(self, yes: Term | Number, no: Term | Number) -> Term:
        """`yes` where the condition holds, else `no`."""
        b, like = self.bool.b, self.compared
        values = [self.value, like.lift(yes), like.lift(no)]
        rank = max(v.type.rank for v in values)
        return type(like)(b, b.tosa("SELECT", *[b.match_rank(v, rank) for v in values]))

    def __and__(self, other: Condition) -> Condition:
        return self._logical("LOGICAL_AND", other)

    def __or__(self, other: Condition) -> Condition:
        return self._logical("LOGICAL_OR", other)

    def __xor__(self, other: Condition) -> Condition:
        return self._logical("LOGICAL_XOR", other)

    def __invert__(self) -> Condition:
        return Condition(self.bool._unary("LOGICAL_NOT"), self.compared)

    def _logical(self, name: str, other: Condition) -> Condition:
        return Condition(self.bool._binary(name, self.bool, other.bool), self.compared)


def in_fp32(b: TosaBuilder, formula: Callable[..., Term], *values: Value) -> Value:
    """`formula` of floats, computed in FP32; the result is of the operands' own type.

    Formulas of several steps lose too much in 16 bits.
    """
    terms = [Term(b, v).cast(DType.FP32) for v in values]
    return formula(*terms).cast(values[0].type.dtype).value
