"""The parts of symbolic sizes: symbols, quotients, extremes, and polynomials of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npuc.ir.symbolic import Dim

#: product of atoms, sorted; () is 1
Monomial = tuple["Atom", ...]
#: monomial -> coefficient, without zeros
Terms = dict[Monomial, Any]


@dataclass(frozen=True)
class Symbol:
    """A size that the caller of the artifact chooses, within lo..hi (None: no upper bound)."""

    name: str
    lo: int = 1
    hi: int | None = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Quotient:
    """floor(numerator / divisor), divisor > 0."""

    numerator: Dim
    divisor: Dim

    def __str__(self) -> str:
        return f"{_factor(self.numerator)}//{_factor(self.divisor)}"


@dataclass(frozen=True)
class Maximum:
    """The larger of two sizes. The smaller one is a + b - max(a, b)."""

    a: Dim
    b: Dim

    def __str__(self) -> str:
        return f"max({self.a}, {self.b})"


Atom = Symbol | Quotient | Maximum


def terms_of(size: Dim) -> Terms:
    """The polynomial that a size is."""
    if isinstance(size, int):
        return {(): int(size)} if size else {}
    return size.terms


def multiplied(a: Terms, b: Terms) -> Terms:
    """The product of two polynomials."""
    terms: Terms = {}
    for m, c in a.items():
        for n, d in b.items():
            key = tuple(sorted(m + n, key=str))
            terms[key] = terms.get(key, 0) + c * d
    return terms


def order(monomial: Monomial) -> str:
    """The key by which monomials are sorted."""
    return " ".join(map(str, monomial))


def symbols_of(size: Dim) -> Iterator[Symbol]:
    """The symbols of a size, also those inside of its atoms."""
    if isinstance(size, int):
        return
    for atom in [a for monomial in size.terms for a in monomial]:
        if isinstance(atom, Symbol):
            yield atom
        else:
            yield from (s for part in vars(atom).values() for s in symbols_of(part))


def written(monomial: Monomial, factor: int) -> str:
    """`3*n*(h//2)`, for a positive factor."""
    alone = factor == 1 and len(monomial) == 1
    texts = [f"({a})" if isinstance(a, Quotient) and not alone else str(a) for a in monomial]
    return "*".join(texts if factor == 1 and texts else [str(factor), *texts])


def _factor(size: Dim) -> str:
    """The size as text, in parentheses where it is a sum or a product."""
    text = str(size)
    return text if isinstance(size, int) or text.isidentifier() else f"({text})"
