"""Sizes known only at run time: integer expressions of symbols, with bounds.

A `SymDim` computes like an int: sums, products, floor division and remainders give expressions in
one canonical form, so that equal sizes compare equal however they came about. Questions that the
bounds of the symbols answer (`h > 1` of 4..64) are answered; every other use as a number raises
`SymbolicShape`, which names the symbols. So code that computes with sizes works for symbolic
ones or refuses by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NoReturn

from npuc.errors import Reason, Unsupported
from npuc.ir.size_bounds import NO_BOUND, lower_bound
from npuc.ir.size_terms import (
    Atom,
    Maximum,
    Monomial,
    Quotient,
    Symbol,
    Terms,
    multiplied,
    order,
    symbols_of,
    terms_of,
    written,
)


class SymbolicShape(Unsupported):
    """A number was needed of a size that is known only at run time."""


class SymDim:
    """A size that is a polynomial of atoms with integer coefficients. Immutable, hashable.

    `SymDim(name, lo, hi)` makes a symbol; arithmetic makes the rest, and gives an int where the
    result is one.
    """

    def __init__(self, name: str, lo: int = 1, hi: int | None = None) -> None:
        self.terms: Terms = {(Symbol(name, lo, hi),): 1}
        self._key = frozenset(self.terms.items())

    # -- what it is -------------------------------------------------------------------------

    @cached_property
    def name(self) -> str:
        """The expression as text, what is added first."""
        order = sorted(self.terms.items(), key=lambda t: (t[1] < 0, -len(t[0]), str(t[0])))
        (head, factor), *rest = order
        text = written(head, factor) if factor > 0 else f"-{written(head, -factor)}"
        more = [f" {'-' if c < 0 else '+'} {written(m, abs(c))}" for m, c in rest]
        return "".join([text, *more])

    @cached_property
    def lo(self) -> int:
        """A lower bound (very low where none is known)."""
        bound = lower_bound(self.terms)
        return NO_BOUND if bound is None else bound

    @cached_property
    def hi(self) -> int | None:
        """An upper bound; None where there is none."""
        bound = lower_bound({m: -c for m, c in self.terms.items()})
        return None if bound is None else -bound

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols in it, sorted by name."""
        return tuple(sorted(set(symbols_of(self)), key=lambda s: s.name))

    @property
    def symbol(self) -> Symbol | None:
        """The symbol that it is alone."""
        ((monomial, factor), *more) = self.terms.items()
        alone = not more and factor == 1 and len(monomial) == 1
        return monomial[0] if alone and isinstance(monomial[0], Symbol) else None

    def at(self, sizes: Mapping[str, int]) -> Dim:
        """Its value where symbols have these sizes; an expression of those without one."""
        return substitute(self, lambda s: sizes.get(s.name))

    # -- arithmetic -------------------------------------------------------------------------

    def _with(self, other: Any, compute: Callable[[Any], Any]) -> Any:
        if isinstance(other, float):
            other = int(other) if other.is_integer() else self._needed()
        return compute(other) if _is_size(other) else NotImplemented

    def __add__(self, other: Any) -> Any:
        return self._with(other, lambda o: _sum(self, o))

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda o: _sum(self, o, -1))

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda o: _sum(o, self, -1))

    def __mul__(self, other: Any) -> Any:
        return self._with(other, lambda o: _product(self, o))

    def __floordiv__(self, other: Any) -> Any:
        return self._with(other, lambda o: floor_divide(self, o))

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with(other, lambda o: floor_divide(o, self))

    def __mod__(self, other: Any) -> Any:
        return self._with(other, lambda o: self - o * (self // o))

    def __rmod__(self, other: Any) -> Any:
        return self._with(other, lambda o: o - self * (o // self))

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __neg__(self) -> Dim:
        return _product(self, -1)

    def __pos__(self) -> SymDim:
        return self

    def __pow__(self, exponent: Any) -> Any:
        if not isinstance(exponent, int) or exponent < 0:
            self._needed()
        return math.prod([self] * exponent)

    __radd__, __rmul__ = __add__, __mul__

    # -- comparison -------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymDim) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __lt__(self, other: Any) -> bool:
        return _decide(other - self, f"{self} < {other}")

    def __gt__(self, other: Any) -> bool:
        return _decide(self - other, f"{self} > {other}")

    def __le__(self, other: Any) -> bool:
        return _decide(other - self + 1, f"{self} <= {other}")

    def __ge__(self, other: Any) -> bool:
        return _decide(self - other + 1, f"{self} >= {other}")

    def __bool__(self) -> bool:
        if self.lo > 0 or (self.hi is not None and self.hi < 0):
            return True
        return self._needed()

    # -- where a number is needed -------------------------------------------------------------

    def _needed(self, *_: Any, **__: Any) -> NoReturn:
        """Raise SymbolicShape."""
        raise open_size(f"it needs the number {self}", self)

    __int__ = __index__ = __float__ = __round__ = __trunc__ = _needed
    __truediv__ = __rtruediv__ = __rpow__ = __array__ = bit_length = _needed

    def __array_ufunc__(self, function: Any, method: str, *operands: Any, **options: Any) -> Any:
        """numpy's integers beside a size count as ints."""
        plain = [o.item() if getattr(o, "ndim", None) == 0 else o for o in operands]
        compute = _UFUNCS.get(getattr(function, "__name__", ""))
        if method != "__call__" or compute is None or not all(map(_is_size, plain)):
            self._needed()
        return compute(*plain)

    def __repr__(self) -> str:
        return self.name


Dim = int | SymDim

_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "floor_divide": lambda a, b: a // b, "remainder": lambda a, b: a % b,
    "equal": lambda a, b: a == b, "not_equal": lambda a, b: a != b, "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b, "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b, "negative": lambda a: -a,
}  # fmt: skip


def open_size(why: str, *sizes: Dim) -> SymbolicShape:
    """The refusal of what needs the numbers of `sizes`; names their symbols and bounds."""
    symbols = dict.fromkeys(s for size in sizes for s in symbols_of(size))
    named = " and ".join(describe(s) for s in symbols) + (" is" if len(symbols) == 1 else " are")
    hint = "give closer bounds (torch.export.Dim(min=, max=)) or compile for fixed sizes"
    return SymbolicShape(Reason("", "", f"{why}, and {named} known only at run time", hint))


def describe(symbol: Symbol) -> str:
    """`height (4..64)`."""
    return f"{symbol.name} ({bounds_of(symbol)})"


def bounds_of(symbol: Symbol) -> str:
    """`4..64`."""
    return f"{symbol.lo}..{'' if symbol.hi is None else symbol.hi}"


def size_of(number: Any) -> Dim:
    """A size from an int, an integer of numpy, or a size."""
    return number if isinstance(number, SymDim) else int(number)


def size_of_atom(atom: Atom) -> Dim:
    """The size that an atom is alone."""
    return _of({(atom,): 1})


def largest(size: Dim) -> int:
    """The upper bound of a size; SymbolicShape where it has none."""
    if isinstance(size, int):
        return size
    if size.hi is None:
        raise open_size(f"it needs an upper bound of {size}", size)
    return size.hi


def smallest(size: Dim) -> int:
    """The lower bound of a size."""
    return size if isinstance(size, int) else size.lo


def at_least(a: Dim, b: Dim) -> Dim:
    """The larger of two sizes, decided where the bounds allow."""
    if smallest(a - b) >= 0:
        return a
    if smallest(b - a) >= 0:
        return b
    first, second = sorted((a, b), key=str)
    return _of({(Maximum(first, second),): 1})


def at_most(a: Dim, b: Dim) -> Dim:
    """The smaller of two sizes, decided where the bounds allow."""
    return a + b - at_least(a, b)


def floor_divide(a: Dim, b: Dim) -> Dim:
    """floor(a / b) for b > 0, in canonical form."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if not isinstance(b, int):
        return _divide_by_expression(a, b)
    if b <= 0:
        raise ZeroDivisionError(f"{a} // {b}")
    a, b = _flat(a, b)
    whole: Terms = {}
    rest: Terms = {}
    for monomial, factor in terms_of(a).items():
        whole[monomial], rest[monomial] = divmod(factor, b)
    return _sum(_of(whole), _quotient(_of(rest), b))


def substitute(size: Dim, value: Callable[[Symbol], Dim | None]) -> Dim:
    """`size` with symbols replaced by what `value` gives for them (None: they stay)."""
    if isinstance(size, int):
        return size
    total: Dim = 0
    for monomial, factor in size.terms.items():
        total += math.prod([_replaced(atom, value) for atom in monomial], start=factor)
    return total


def _replaced(atom: Atom, value: Callable[[Symbol], Dim | None]) -> Dim:
    if isinstance(atom, Symbol):
        found = value(atom)
        return _of({(atom,): 1}) if found is None else found
    if isinstance(atom, Quotient):
        return floor_divide(substitute(atom.numerator, value), substitute(atom.divisor, value))
    return at_least(substitute(atom.a, value), substitute(atom.b, value))


# -- canonical forms ----------------------------------------------------------------------------


def _quotient(rest: Dim, b: int) -> Dim:
    """floor(rest / b) where all coefficients of `rest` are in 0..b-1."""
    if isinstance(rest, int):
        return 0
    if rest.lo >= 0 and rest.hi is not None and rest.hi < b:
        return 0
    terms = dict(rest.terms)
    constant = terms.pop((), 0)
    common = math.gcd(b, *terms.values())
    if common > 1:
        reduced = {m: c // common for m, c in terms.items()} | {(): constant // common}
        return floor_divide(_of(reduced), b // common)
    # floor(r/b) = sum(m) - floor((b-1-r')/b) with r' of the coefficients b - c: one of the two
    ordered = sorted(terms, key=order)
    mirrored = {m: b - terms[m] for m in ordered} | {(): b - 1 - constant}
    mine = [*(terms[m] for m in ordered), constant]
    theirs = [*(mirrored[m] for m in ordered), mirrored[()]]
    if theirs < mine:
        whole = _of(dict.fromkeys(terms, 1))
        return _sum(whole, _of({(Quotient(_of(mirrored), b),): 1}), -1)
    return _of({(Quotient(rest, b),): 1})


def _flat(a: Dim, b: int) -> tuple[Dim, int]:
    """Numerator and divisor of floor(a / b) without a quotient in the numerator: as
    floor((p + floor(q / m)) / b) is floor((m * p + q) / (m * b))."""
    terms = dict(terms_of(a))
    nested = [m for m in terms if any(isinstance(atom, Quotient) for atom in m)]
    if len(nested) != 1 or len(nested[0]) != 1 or abs(terms[nested[0]]) != 1:
        return a, b
    (inner,) = nested[0]
    if not isinstance(inner.divisor, int):  # type: ignore[union-attr]
        return a, b
    sign, m = terms.pop(nested[0]), inner.divisor  # type: ignore[union-attr]
    q: Dim = inner.numerator if sign > 0 else m - 1 - inner.numerator  # type: ignore[union-attr]
    return _flat(_sum(_product(_of(terms), m), q), m * b)


def _divide_by_expression(a: Dim, b: SymDim) -> Dim:
    """floor(a / b): what divides exactly is taken out, an atom stays for the rest."""
    if b.lo <= 0:
        raise open_size(f"it divides by {b}", b)
    whole: Dim = 0
    rest: Terms = dict(terms_of(a))
    lead, factor = min(b.terms.items(), key=lambda t: (-len(t[0]), order(t[0])))
    for monomial in sorted(rest, key=lambda m: (-len(m), order(m))):
        left = _without(monomial, lead)
        if left is None or rest.get(monomial, 0) % factor:
            continue
        part = _of({left: rest[monomial] // factor})
        remaining = _sum(_of(rest), _product(part, b), -1)
        if len(terms_of(remaining)) < len(rest):
            whole, rest = _sum(whole, part), dict(terms_of(remaining))
    left_over = _of(rest)
    for part in (0, -1):
        if smallest(left_over - part * b) >= 0 and smallest((part + 1) * b - left_over) > 0:
            return _sum(whole, part)
    return _sum(whole, _of({(Quotient(left_over, b),): 1}))


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _of(terms: Mapping[Monomial, Any]) -> Dim:
    """The size with these terms: an int where it is one."""
    kept = {m: c for m, c in terms.items() if c}
    if not kept or set(kept) == {()}:
        return int(kept.get((), 0))
    size = SymDim.__new__(SymDim)
    size.terms = kept
    size._key = frozenset(kept.items())
    return size


def _sum(a: Dim, b: Dim, sign: int = 1) -> Dim:
    terms = dict(terms_of(a))
    for monomial, factor in terms_of(b).items():
        terms[monomial] = terms.get(monomial, 0) + sign * factor
    return _of(terms)


def _product(a: Dim, b: Dim) -> Dim:
    return _of(multiplied(terms_of(a), terms_of(b)))


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, SymDim)) and not isinstance(value, bool)


def _decide(difference: Dim, question: str) -> bool:
    """Whether a difference is positive; SymbolicShape where its bounds do not tell."""
    if smallest(difference) > 0:
        return True
    if smallest(-difference) >= 0:
        return False
    raise open_size(f"it depends on whether {question}", difference)
