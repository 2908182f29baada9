"""Sizes of exported programs that are known only at run time, as `SymDim` expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import torch

from npuc.errors import Unsupported
from npuc.ir import Dim, SymDim
from npuc.ir.symbolic import at_least, at_most

#: factors of sizes are fractions with denominators up to this, or refused
_LARGEST_DENOMINATOR = 64


class Sizes:
    """What the symbols of a program are: an open size with the user's name, or a number.

    `symbols` maps torch's names ("s77"). Symbols that are not in it stay open, without bounds.
    """

    def __init__(self, symbols: Mapping[str, Dim]) -> None:
        self.symbols = dict(symbols)

    def dim(self, size: Any) -> Dim:
        """An int, or what a SymInt is. Raises Unsupported for arithmetic that TOSA has not."""
        if isinstance(size, int):
            return size
        fixed = size.node.maybe_as_int()
        return int(fixed) if fixed is not None else self.of(size.node.expr)

    def shape(self, value: torch.Tensor) -> tuple[Dim, ...]:
        """The shape of a (fake) tensor."""
        return tuple([self.dim(d) for d in value.shape])

    def bind(self, sizes: Sequence[Any], values: Sequence[int]) -> None:
        """Note the values of those sizes that are a symbol (sizes of constant selections)."""
        for size, value in zip(sizes, values, strict=False):
            if not isinstance(size, int) and size.node.expr.is_Symbol:
                self.symbols[str(size.node.expr)] = int(value)

    def of(self, expr: Any) -> Dim:
        """What a sympy expression of sizes is."""
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            name = str(expr)
            return self.symbols.get(name, SymDim(name, 0))
        compute = _INTEGERS.get(type(expr).__name__)
        if compute is not None:
            return compute(*map(self.of, expr.args))
        rounding = _ROUNDED.get(type(expr).__name__)
        if rounding is not None:
            return rounding(*self._fraction(expr.args[0]))
        raise Unsupported(f"it computes the size {expr}, for which there is no shape arithmetic")

    def _fraction(self, expr: Any) -> tuple[Dim, int]:
        """A size that is not whole, as numerator and denominator."""
        kind = type(expr).__name__
        if kind == "ToFloat":
            return self.of(expr.args[0]), 1
        if kind in ("IntTrueDiv", "FloatTrueDiv"):
            (a, b), (c, d) = map(self._fraction, expr.args)
            if isinstance(c, int):
                return a * d, b * c
        if kind in ("Mul", "FloatMul"):
            factors = [self._fraction(a) for a in expr.args]
            return prod([n for n, _ in factors]), prod([d for _, d in factors])
        if expr.is_number and kind in ("Float", "Rational", "Half"):
            fraction = Fraction(float(expr))
            if fraction.denominator <= _LARGEST_DENOMINATOR:
                return fraction.numerator, fraction.denominator
        return self.of(expr), 1


_INTEGERS: dict[str, Callable[..., Dim]] = {
    "Add": lambda *sizes: sum(sizes),
    "Mul": lambda *sizes: prod(sizes),
    "Pow": lambda a, b: prod([a] * int(b)),
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "CeilDiv": lambda a, b: -(-a // b),
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "Max": lambda first, *more: _fold(at_least, first, more),
    "Min": lambda first, *more: _fold(at_most, first, more),
    "Identity": lambda a: a,
}
#: sizes are not negative: towards zero is down
_ROUNDED: dict[str, Callable[[Dim, int], Dim]] = {
    "TruncToInt": lambda a, b: a // b,
    "FloorToInt": lambda a, b: a // b,
    "CeilToInt": lambda a, b: -(-a // b),
}


def _fold(compute: Callable[[Dim, Dim], Dim], size: Dim, more: Sequence[Dim]) -> Dim:
    for other in more:
        size = compute(size, other)
    return size


def hint_of(size: Any) -> int:
    """The size that the export saw, without fixing an open one to it (as int() would)."""
    if isinstance(size, int):
        return size
    hint = size.node.hint
    return int(hint) if hint is not None else 2
