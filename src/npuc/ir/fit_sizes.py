"""Whether the sizes of arrays fit symbolic shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npuc.ir.size_terms import Symbol
from npuc.ir.symbolic import Dim, SymDim, bounds_of


def misfit(shape: Sequence[Dim], sizes: Sequence[int], known: dict[str, int]) -> str:
    """Why an array of `sizes` does not fit `shape`, or nothing.

    `known` collects the sizes of symbols by name: one symbol has one size in all arrays.
    """
    if len(shape) != len(sizes):
        return f"it takes shape {tuple(shape)}, got {tuple(sizes)}"
    by_symbol = sorted(zip(shape, sizes, strict=True), key=lambda pair: _is_expression(pair[0]))
    for dim, size in by_symbol:
        symbol, found = _solve(dim, size, known)
        if symbol is None and found != size:
            return f"it takes shape {tuple(shape)}, got {tuple(sizes)}"
        if symbol is None:
            continue
        if found is None or found < symbol.lo or (symbol.hi is not None and found > symbol.hi):
            named = isinstance(dim, SymDim) and dim.symbol is not None
            allowed = "" if named else f"{symbol.name} in "
            return f"{dim} is {size}, outside {allowed}{bounds_of(symbol)}"
        if known.setdefault(symbol.name, found) != found:
            return f"{dim} is {size} here and {known[symbol.name]} in another input"
    return ""


def _is_expression(dim: Dim) -> bool:
    return not isinstance(dim, int) and dim.symbol is None


def _solve(dim: Dim, size: int, known: Mapping[str, int]) -> tuple[Symbol | None, int | None]:
    """The symbol of `dim` and its value where `dim` is `size` (None: there is none); (None, the
    value of `dim`) where its symbols are known."""
    if isinstance(dim, int):
        return None, dim
    if dim.symbol is not None:
        return dim.symbol, size
    value = dim.at(known)
    if isinstance(value, int):
        return None, value
    symbol = value.symbols[0]
    lead = value.terms.get((symbol,), 0)
    offset = value.terms.get((), 0)
    if len(value.terms) > 2 or not lead or (len(value.terms) == 2 and not offset):
        return None, size  # no line in one symbol: another input tells
    return symbol, None if (size - offset) % lead else (size - offset) // lead
