"""A function of 16-bit codes with an 8-bit result, for targets that only have 8-bit tables.

One table of 256 entries spans all codes in coarse steps; further ones span, in finer steps, the
codes where that is not good enough (the foot of a square root), and SELECT takes the finest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuc.ir import DType, Quant, Value
from npuc.lowering.tosa_builder import TosaBuilder

#: error of a result, in its steps, above which a finer table is worth it, and above which the op
#: is refused
GOOD, BAD = 0.75, 1.45
#: tables at most
MOST = 16


@dataclass(frozen=True)
class Segment:
    """A table for the codes first..last; entry i stands for the `step` codes around
    center + i * step."""

    first: int
    last: int
    step: int
    entries: np.ndarray

    @property
    def center(self) -> int:
        return self.first + 128 * self.step

    @staticmethod
    def over(first: int, last: int, curve: np.ndarray) -> Segment:
        """With the finest steps that span these codes; `curve` has a value for each of 65,536."""
        step = 1
        while 256 * step < last - first + 1:
            step *= 2
        empty = Segment(first, last, step, np.zeros(256))
        codes = np.arange(first, last + 1)
        values, places = curve[codes + 2**15], empty.places(codes)
        low, high = np.full(256, np.inf), np.full(256, -np.inf)
        np.minimum.at(low, places, values)
        np.maximum.at(high, places, values)
        used = np.flatnonzero(low <= high)
        middle = np.interp(np.arange(256), used, (low[used] + high[used]) / 2)
        return Segment(first, last, step, np.rint(middle))

    def places(self, codes: np.ndarray) -> np.ndarray:
        """For each code the place of its entry, as SUB and RESCALE compute it."""
        return np.clip((codes - self.center + self.step // 2) // self.step, -128, 127) + 128

    def evaluate(self, codes: np.ndarray) -> np.ndarray:
        return self.entries[self.places(codes)]

    def bad_parts(self, error: np.ndarray) -> list[tuple[int, int]]:
        """Of each half the codes between which the error, given for all codes, is not good."""
        middle = (self.first + self.last) // 2 + 1
        found = []
        for first, end in ((self.first, middle), (middle, self.last + 1)):
            bad = np.flatnonzero(np.abs(error[first + 2**15 : end + 2**15]) > GOOD)
            if bad.size:
                found.append((first + int(bad[0]), first + int(bad[-1])))
        return found

    def emit(self, b: TosaBuilder, wide: Value, quant: Quant) -> Value:
        """`wide`: the codes as INT32."""
        if self.center:
            wide = b.SUB(wide, b.scalar(self.center, DType.INT32, wide.type.rank))
        index = b.rescale(wide, 1 / self.step, DType.INT8)
        return b.TABLE(index, b.const(self.entries.astype(np.int8)), quant=quant)  # type: ignore[no-any-return]

    def holds(self, b: TosaBuilder, wide: Value) -> Value:
        """Where codes lie within the segment."""
        bounds = []
        if self.first > -(2**15):
            bounds.append(b.GREATER_EQUAL(wide, _number(b, wide, self.first)))
        if self.last < 2**15 - 1:
            bounds.append(b.GREATER_EQUAL(_number(b, wide, self.last), wide))
        return bounds[0] if len(bounds) == 1 else b.LOGICAL_AND(*bounds)  # type: ignore[no-any-return]


def narrow_by_segments(b: TosaBuilder, x: Value, curve: np.ndarray, quant: Quant) -> Value:
    """The 8-bit result of a function of the INT16 value `x`.

    curve: the result in steps, not rounded, for each of the 65,536 codes; NaN: any will do.
    """
    segments = segments_of(b, curve)
    wide = b.rescale(x, 1.0, DType.INT32)
    result = segments[0].emit(b, wide, quant)
    for segment in segments[1:]:
        fine = segment.emit(b, wide, quant)
        result = b.SELECT(segment.holds(b, wide), fine, result, quant=quant)
    return result


def segments_of(b: TosaBuilder, curve: np.ndarray) -> list[Segment]:
    """The segment of all codes between which the function changes, and finer ones within it."""
    codes = np.arange(-(2**15), 2**15)
    known = np.isfinite(curve)
    if not known.any():
        b.refuse("the function is nowhere finite on the operand's range")
    curve = np.interp(codes, codes[known], curve[known])
    whole = _whole(curve, known)
    segments, error = [whole], np.where(known, whole.evaluate(codes) - curve, 0)
    parts = whole.bad_parts(error)
    while parts and len(segments) < MOST:
        first, last = parts.pop(_worst(parts, error))
        finer = Segment.over(first, last, curve)
        inside = slice(first + 2**15, last + 2**15 + 1)
        error[inside] = np.where(known[inside], finer.evaluate(codes[inside]) - curve[inside], 0)
        segments.append(finer)
        parts += finer.bad_parts(error)
    worst = float(np.abs(error).max())
    b.require(
        worst <= BAD,
        f"8-bit tables of a 16-bit operand are off by up to {worst:.1f} steps on this range",
        "narrow the operand's range or quantize this op to int8",
    )
    return segments


def _whole(curve: np.ndarray, known: np.ndarray) -> Segment:
    """A segment of all codes between which the function changes, with an entry for those that
    occur on either side."""
    changes = np.flatnonzero(np.diff(np.rint(curve)))
    first, last = (int(changes[0]), int(changes[-1]) + 1) if changes.size else (2**15, 2**15)
    before, behind = bool(known[:first].any()), bool(known[last + 1 :].any())
    step = 1
    while step < 256 and (256 - before - behind) * step < last - first + 1:
        step *= 2
    first = max(first - before * step, 0) - 2**15
    last = min(last + behind * step, 2**16 - 1) - 2**15
    if -128 * step <= first and last < 128 * step:
        first, last = -128 * step, 128 * step - 1  # centered: no SUB
    return Segment.over(first, last, curve)


def _worst(parts: list[tuple[int, int]], error: np.ndarray) -> int:
    worst = [np.abs(error[first + 2**15 : last + 2**15 + 1]).max() for first, last in parts]
    return int(np.argmax(worst))


def _number(b: TosaBuilder, like: Value, value: int) -> Value:
    return b.scalar(value, DType.INT32, like.type.rank)
