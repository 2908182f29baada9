"""The formulas of floats that all dialects share, emitted as TFLite operators."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from npuc.ir import DType, Value
from npuc.lowering.aten_to_tosa.formula import Condition, Number, Term

if TYPE_CHECKING:
    from npuc.lowering.tflite_builder import TfliteBuilder

#: erf(x) = 1 - P(t) exp(-x*x) with t = 1 / (1 + ERF_T x), x >= 0; 1.5e-7
#: (Abramowitz and Stegun, 7.1.26)
ERF_T = 0.3275911
ERF = (0.0, 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
#: erf(x) = x * P(x*x) for |x| < 0.5, its Taylor series; 2e-8
ERF_NEAR = (1.1283791671, -0.3761263890, 0.1128379167, -0.0268661706, 0.0052239776, -0.0008548327)

#: operators whose name is not TOSA's
NAMES = {"SIGMOID": "LOGISTIC", "SELECT": "SELECT_V2"}


class TfliteTerm(Term):
    """A Term whose operations are TFLite operators."""

    b: TfliteBuilder  # type: ignore[assignment]

    def emit(self, name: str, *values: Value) -> TfliteTerm:
        return type(self)(self.b, self.b.tflite(NAMES.get(name, name), *values))  # type: ignore[arg-type]

    def _binary(self, name: str, left: Term | Number, right: Term | Number) -> TfliteTerm:
        x, y = self.lift(left), self.lift(right)
        rank = max(x.type.rank, y.type.rank)
        return self.emit(name, self.b.match_rank(x, rank), self.b.match_rank(y, rank))

    def _unary(self, name: str) -> TfliteTerm:
        return self.emit(name, self.value)

    def _compare(self, name: str, left: Term | Number, right: Term | Number) -> Condition:
        return TfliteCondition(self._binary(name, left, right), self)

    def __truediv__(self, other: Term | Number) -> Term:
        return self._binary("DIV", self, other) if isinstance(other, Term) else self * (1.0 / other)

    def __neg__(self) -> Term:
        return self._unary("NEG")

    def reciprocal(self) -> Term:
        return self._binary("DIV", 1.0, self)

    def sqrt(self) -> Term:
        return self._unary("SQRT")

    def erf(self) -> Term:
        a = self.abs()
        t = (a * ERF_T + 1.0).reciprocal()
        far = 1.0 - t.polynomial(ERF) * (-(a * a)).exp()
        near = self * (a * a).minimum(0.25).polynomial(ERF_NEAR)
        return (a < 0.5).select(near, (self < 0.0).select(-far, far))

    def clamp(self, low: Number, high: Number) -> Term:
        result: Term = self
        if low != -math.inf:
            result = result.maximum(low)
        return result if high == math.inf else result.minimum(high)

    def cast(self, dtype: DType) -> Term:
        """To another type; to integers by rounding half to even, as TOSA's CAST does."""
        if dtype is self.dtype:
            return self
        x = self._unary("ROUND") if self.dtype.is_float and dtype.is_integer else self
        return type(self)(self.b, self.b.CAST(x.value, dtype=dtype))  # type: ignore[arg-type]


class TfliteCondition(Condition):
    """A Condition whose operations are TFLite operators."""

    def select(self, yes: Term | Number, no: Term | Number) -> Term:
        like: Any = self.compared
        values = [self.value, like.lift(yes), like.lift(no)]
        rank = max(v.type.rank for v in values)
        return like.emit("SELECT", *[like.b.match_rank(v, rank) for v in values])  # type: ignore[no-any-return]

    def _logical(self, name: str, other: Condition) -> Condition:
        if name == "LOGICAL_XOR":
            name = "NOT_EQUAL"
        return TfliteCondition(self.bool._binary(name, self.bool, other.bool), self.compared)

    def __invert__(self) -> Condition:
        return TfliteCondition(self.bool._unary("LOGICAL_NOT"), self.compared)
