"""RESIZE along axes whose size is known only at run time.

The parameters are symbolic where the enlargement is no fixed ratio. They are right if they sample
where PyTorch does for every size in the bounds: all of them are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from npuc.ir import SymDim
from npuc.ir.size_terms import symbols_of
from npuc.ir.symbolic import describe
from npuc.lowering.aten_to_tosa.resize_axis import MAX_NUMERATOR, AxisResize
from npuc.lowering.aten_to_tosa.sampling import linear_positions, nearest_index
from npuc.lowering.tosa_builder import TosaBuilder

#: whether parameters are right for an axis of this size and number of results
IsRight = Callable[[AxisResize, int, int], bool]


def is_open(*sizes: int) -> bool:
    """Whether a size is known only at run time."""
    return any(isinstance(n, SymDim) for n in sizes)


def nearest_of(b: TosaBuilder, size: int, out: int, scale: float | None, exact: bool) -> AxisResize:
    """RESIZE parameters that pick what PyTorch picks. Raises Unsupported where there are none."""

    def picks(axis: AxisResize, n: int, o: int) -> bool:
        # whether PyTorch looks at the scale when o is n or 2 n depends on the whole image
        scales = (scale, None) if o in (n, 2 * n) and not exact else (scale,)
        return axis.fits(n, o) and all(
            np.array_equal(axis.nearest(n, o), nearest_index(n, o, s, exact)) for s in scales
        )

    wanted = [
        (2 * p, 2 * q, offset)
        for p, q in _ratios(size, out, scale)
        for offset in (1 - p, q - p)
    ]  # fmt: skip
    return _first_right(b, size, out, wanted, picks)


def linear_of(
    b: TosaBuilder, size: int, out: int, align_corners: bool, scale: float | None
) -> AxisResize:
    """RESIZE parameters that sample where PyTorch does. Raises Unsupported where there are none."""

    def samples(axis: AxisResize, n: int, o: int) -> bool:
        want = linear_positions(n, o, align_corners, scale)
        return axis.fits(n, o) and axis.samples_at(want, n)

    wanted = [(2 * p, 2 * q, q - p) for p, q in _ratios(size, out, scale)]
    if align_corners:
        wanted = [(out - 1, size - 1, 0)]
    return _first_right(b, size, out, wanted, samples)


def _ratios(size: int, out: int, scale: float | None) -> list[tuple[int, int]]:
    """Enlargements p / q that may stand behind the sizes and the given scale."""
    given = [Fraction(scale).limit_denominator(MAX_NUMERATOR // 2)] if scale else []
    lowest = {s.name: s.lo for s in (*symbols_of(size), *symbols_of(out))}
    first = Fraction(_at(out, lowest), _at(size, lowest))
    if out * first.denominator == size * first.numerator:
        given.append(first)
    return [*((f.numerator, f.denominator) for f in given), (out, size)]


def _first_right(
    b: TosaBuilder, size: int, out: int, wanted: Sequence[tuple[int, int, int]], is_right: IsRight
) -> AxisResize:
    """The first of the (num, den, offset) that are right for every size."""
    symbols = tuple(dict.fromkeys((*symbols_of(size), *symbols_of(out))))
    b.require(
        len(symbols) <= 1 and all(s.hi is not None for s in symbols),
        f"a resize of {size} positions to {out}; one size with an upper bound has to decide it",
        "give torch.export.Dim(max=) and resize by a scale_factor",
    )
    tried: list[dict[str, int]] = [{}]
    for symbol in symbols:
        tried = [{symbol.name: n} for n in range(symbol.hi or 0, symbol.lo - 1, -1)]
    for numbers in wanted:
        axis = AxisResize.of(size, out, *numbers)
        if all(is_right(_axis_at(axis, s), _at(size, s), _at(out, s)) for s in tried):
            return axis
    named = f" for every {describe(symbols[0])}" if symbols else ""
    b.refuse(f"RESIZE of {size} positions to {out} does not sample where PyTorch does{named}")
    raise AssertionError


def _axis_at(axis: AxisResize, sizes: dict[str, int]) -> AxisResize:
    return AxisResize(*(_at(n, sizes) for n in (axis.num, axis.den, axis.offset, axis.border)))


def _at(size: int, sizes: dict[str, int]) -> int:
    return size.at(sizes) if isinstance(size, SymDim) else size
