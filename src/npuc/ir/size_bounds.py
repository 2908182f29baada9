"""Bounds of symbolic sizes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from npuc.ir.size_terms import Atom, Maximum, Quotient, Symbol, Terms, multiplied, terms_of

if TYPE_CHECKING:
    from npuc.ir.symbolic import Dim

#: the lower bound of sizes without one
NO_BOUND = -(2**62)


def lower_bound(terms: Terms) -> int | None:
    """A lower bound of a polynomial; None where it has none.

    A maximum is one of its operands: the bound is the lower of the two, or the higher one where it
    is added. Quotients are replaced by the ends of what they can be, (a - b + 1) / b and a / b: so
    `h - 2 * (h // 2)` is found to be 0 or 1. Then each atom is written as its own bound plus (or
    minus) something not negative: so `h * w - h` of positive sizes is found to be not negative.
    """
    maximum = next((a for m in terms for a in m if isinstance(a, Maximum)), None)
    if maximum is not None:
        return _of_cases(terms, maximum)
    found = [_shifted(terms, False), _shifted(terms, True)]
    relaxed = _relaxed(terms)
    if relaxed is not None:
        found += [_shifted(relaxed, False), _shifted(relaxed, True)]
    known = [math.ceil(f) for f in found if f is not None]
    return max(known) if known else None


def _of_cases(terms: Terms, maximum: Maximum) -> int | None:
    bounds = [lower_bound(_with(terms, maximum, terms_of(d))) for d in (maximum.a, maximum.b)]
    if all(c > 0 and m == (maximum,) for m, c in terms.items() if maximum in m):
        known = [b for b in bounds if b is not None]
        return max(known) if known else None
    return None if None in bounds else min(b for b in bounds if b is not None)


def _with(terms: Terms, atom: Atom, replacement: Terms) -> Terms:
    """The polynomial with an atom replaced."""
    total: Terms = {}
    for monomial, factor in terms.items():
        product: Terms = {(): factor}
        for part in monomial:
            product = multiplied(product, replacement if part == atom else {(part,): 1})
        for m, c in product.items():
            total[m] = total.get(m, 0) + c
    return {m: c for m, c in total.items() if c}


def _relaxed(terms: Terms) -> Terms | None:
    """A smaller polynomial without quotients by numbers; None where there are none."""
    changed = False
    for _ in range(8):
        result: Terms = {}
        again = False
        for monomial, factor in terms.items():
            place = next((i for i, a in enumerate(monomial) if _by_number(a)), None)
            others = () if place is None else monomial[:place] + monomial[place + 1 :]
            if place is None or any(
                (_range(a)[0] or 0) < 0 or _range(a)[0] is None for a in others
            ):
                result[monomial] = result.get(monomial, 0) + factor
                continue
            atom: Any = monomial[place]
            end = atom.numerator if factor < 0 else atom.numerator - atom.divisor + 1
            scaled = {m: Fraction(c) * factor / atom.divisor for m, c in terms_of(end).items()}
            for m, c in multiplied({others: 1}, scaled).items():
                result[m] = result.get(m, 0) + c
            again = changed = True
        terms = result
        if not again:
            break
    return terms if changed else None


def _by_number(atom: Atom) -> bool:
    return isinstance(atom, Quotient) and isinstance(atom.divisor, int)


def _shifted(terms: Terms, from_above: bool) -> Fraction | int | None:
    """The lower bound with each atom as its lower (or upper) bound and a distance from it."""
    shifted: Terms = {}
    spans: dict[Atom, Any] = {}
    for monomial, factor in terms.items():
        product: Terms = {(): factor}
        for atom in monomial:
            lo, hi = _range(atom)
            base = hi if from_above else lo
            if base is None:
                return None
            spans[atom] = None if hi is None or lo is None else hi - lo
            product = multiplied(product, {(): base, (atom,): -1 if from_above else 1})
        for m, c in product.items():
            shifted[m] = shifted.get(m, 0) + c
    bound = shifted.pop((), 0)
    for monomial, factor in shifted.items():
        if factor >= 0:
            continue
        widths = [spans[a] for a in monomial]
        if None in widths:
            return None
        bound += factor * math.prod(widths)
    return bound


def _range(atom: Atom) -> tuple[int | None, int | None]:
    """Bounds of an atom."""
    if isinstance(atom, Symbol):
        return atom.lo, atom.hi
    if isinstance(atom, Maximum):
        (al, ah), (bl, bh) = _ends(atom.a), _ends(atom.b)
        known = [b for b in (al, bl) if b is not None]
        return max(known) if known else None, None if ah is None or bh is None else max(ah, bh)
    (al, ah), (bl, bh) = _ends(atom.numerator), _ends(atom.divisor)
    if bl is None or al is None or (al < 0 and bl != bh):
        return None, None
    least = bh if al >= 0 else bl
    return (0 if least is None else al // least), None if ah is None else ah // bl


def _ends(size: Dim) -> tuple[int | None, int | None]:
    if isinstance(size, int):
        return size, size
    return (None if size.lo == NO_BOUND else size.lo), size.hi
