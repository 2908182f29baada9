"""Symbolic sizes as values of shape type: DIM of the graph's inputs, and arithmetic on shapes.

Sizes are read from the graph's inputs only, so nothing else has to be kept for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from npuc.ir import Dim, DType, SymDim, Value
from npuc.ir.size_terms import Atom, Quotient, Symbol, terms_of
from npuc.ir.symbolic import open_size, size_of_atom

if TYPE_CHECKING:
    from npuc.dialects.tosa.op_builder import OpBuilder


def shape_value(b: OpBuilder, dims: Sequence[Dim]) -> Value:
    """A shape: a constant, or CONCAT_SHAPE of constants and sizes. Raises Unsupported where the
    target has no arithmetic on shapes, or a symbol is no size of an input."""
    parts: list[Value] = []
    for symbolic, run in groupby(dims, lambda d: isinstance(d, SymDim)):
        if symbolic:
            parts += [size_value(b, d) for d in run]
        else:
            parts.append(b.const(np.asarray(tuple(run), np.int64), DType.SHAPE))
    if not parts:
        return b.const(np.zeros(0, np.int64), DType.SHAPE)
    return parts[0] if len(parts) == 1 else b.CONCAT_SHAPE(*parts)  # type: ignore[no-any-return]


def size_value(b: OpBuilder, size: Dim) -> Value:
    """One size as a shape of rank 1."""
    if isinstance(size, int):
        return shape_value(b, (size,))
    direct = _read(b, size)
    if direct is not None:
        return direct
    total: Value | None = None
    terms = sorted(terms_of(size).items(), key=lambda t: t[1] < 0)  # what is added comes first
    for monomial, factor in terms:
        term = _product(b, abs(factor), monomial)
        if total is None:
            total = term if factor > 0 else b.SUB_SHAPE(shape_value(b, (0,)), term)
        else:
            total = b.ADD_SHAPE(total, term) if factor > 0 else b.SUB_SHAPE(total, term)
    assert total is not None
    return total


def _product(b: OpBuilder, factor: int, monomial: tuple[Atom, ...]) -> Value:
    values = [_atom(b, atom) for atom in monomial]
    if factor != 1 or not values:
        values.append(shape_value(b, (factor,)))
    product = values[0]
    for value in values[1:]:
        product = b.MUL_SHAPE(product, value)
    return product


def _atom(b: OpBuilder, atom: Atom) -> Value:
    if isinstance(atom, Symbol):
        return _symbol(b, atom)
    direct = _read(b, size_of_atom(atom))
    if direct is not None:
        return direct
    if isinstance(atom, Quotient):
        return b.DIV_FLOOR_SHAPE(size_value(b, atom.numerator), size_value(b, atom.divisor))  # type: ignore[no-any-return]
    return b.MAX_SHAPE(size_value(b, atom.a), size_value(b, atom.b))  # type: ignore[no-any-return]


def _read(b: OpBuilder, size: Dim) -> Value | None:
    """DIM of an input that has this size."""
    for value in b.inputs:
        for axis, dim in enumerate(value.type.shape):
            if dim == size:
                return b.DIM(value, axis=axis)  # type: ignore[no-any-return]
    return None


def _symbol(b: OpBuilder, symbol: Symbol) -> Value:
    size = SymDim(symbol.name, symbol.lo, symbol.hi)
    direct = _read(b, size)
    if direct is not None:
        return direct
    for value in b.inputs:
        for axis, dim in enumerate(value.type.shape):
            terms = dict(terms_of(dim))
            offset, factor = terms.pop((), 0), terms.pop((symbol,), 0)
            if factor > 0 and not terms:  # an input of size factor * symbol + offset
                source = b.DIM(value, axis=axis)
                moved = b.SUB_SHAPE(source, shape_value(b, (offset,))) if offset else source
                return b.DIV_FLOOR_SHAPE(moved, shape_value(b, (factor,)))  # type: ignore[no-any-return]
    raise open_size(f"no input has the size {symbol.name}", size)
