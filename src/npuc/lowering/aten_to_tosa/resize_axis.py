"""Parameters of RESIZE along one axis that sample where PyTorch does, if there are any."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from npuc.lowering.aten_to_tosa.sampling import linear_positions

#: limits of RESIZE that the specification states outside of its levels
MAX_NUMERATOR, MAX_SIZE = 2048, 16384


@dataclass(frozen=True)
class AxisResize:
    """RESIZE along one axis: output o samples at (o * den + offset) / num."""

    num: int
    den: int
    offset: int
    border: int

    @classmethod
    def of(cls, size: int, out: int, num: int, den: int, offset: int) -> AxisResize:
        """The parameters with the border that gives `out` positions."""
        return cls(num, den, offset, (out - 1) * den - (size - 1) * num + offset)

    def fits(self, size: int, out: int) -> bool:
        """Whether RESIZE takes them."""
        return (
            self.num <= MAX_NUMERATOR
            and max(size, out) < MAX_SIZE
            and self.den < 16 * self.num
            and -self.num <= self.offset < 16 * self.num
            and -16 * self.num <= self.border < self.num
        )

    def nearest(self, size: int, out: int) -> npt.NDArray[np.int64]:
        """The positions that NEAREST_NEIGHBOR picks."""
        at = (np.arange(out) * self.den + self.offset + self.num // 2) // self.num
        return np.clip(at, 0, size - 1)

    def samples_at(self, want: npt.NDArray[np.float64], size: int) -> bool:
        """Whether BILINEAR samples at these positions."""
        at = np.clip((np.arange(want.size) * self.den + self.offset) / self.num, 0, size - 1)
        return np.allclose(at, want, rtol=0, atol=1e-4)


def axis_resize(size: int, out: int, num: int, den: int, offset: int) -> AxisResize | None:
    """The axis parameters with the border that gives `out` positions, if RESIZE takes them."""
    found = AxisResize.of(size, out, num, den, offset)
    return found if found.fits(size, out) else None


def ratios_of(size: int, out: int, scale: float | None) -> list[Fraction]:
    """Enlargements that may stand behind the sizes and the given scale."""
    found = [Fraction(out, size)]
    if scale:
        found.insert(0, Fraction(scale).limit_denominator(MAX_NUMERATOR // 2))
    return found


def nearest_axis(index: npt.NDArray[np.int64], size: int, scale: float | None) -> AxisResize | None:
    """RESIZE parameters that pick exactly the positions `index` of an axis, if there are any."""
    out = index.size
    for ratio in ratios_of(size, out, scale):
        p, q = ratio.numerator, ratio.denominator
        # floor(o q / p), a quarter step away from the neighbours; then rounded half-pixel centres
        for offset in (1 - p, q - p):
            found = axis_resize(size, out, 2 * p, 2 * q, offset)
            if found is not None and np.array_equal(found.nearest(size, out), index):
                return found
    return None


def linear_axis(size: int, out: int, align_corners: bool, scale: float | None) -> AxisResize | None:
    """RESIZE parameters that sample an axis where PyTorch does, if there are any."""
    want = linear_positions(size, out, align_corners, scale)
    if size == 1:
        return axis_resize(1, out, out, 1, 0)
    if align_corners:
        ratios = [Fraction(out - 1, size - 1)] if out > 1 else [Fraction(1)]
    else:
        ratios = ratios_of(size, out, scale)
    for ratio in ratios:
        p, q = ratio.numerator, ratio.denominator
        num, den, offset = (p, q, 0) if align_corners else (2 * p, 2 * q, q - p)
        found = axis_resize(size, out, num, den, offset)
        if found is not None and found.samples_at(want, size):
            return found
    return None
