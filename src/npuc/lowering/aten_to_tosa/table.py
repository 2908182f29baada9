"""Functions of one quantized tensor as TABLE: exact for 8 bits, within a step or two for 16."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tosa.table_segments import narrow_by_segments
from npuc.lowering.tosa_builder import TosaBuilder

#: real values (float64 array) -> real values
Function = Callable[[np.ndarray], np.ndarray]

CODES16 = np.arange(-(2**15), 2**15)


@dataclass(frozen=True)
class Tolerance:
    """Errors of tables: above `good` a further table is worth it, within a cell of the code where
    the result saturates (calibration puts that at the end) above `at_ends`; above `bad` the op is
    refused. `step` is one step of the result."""

    good: float
    at_ends: float
    bad: float
    step: float = 1.0


TO_16_BITS = Tolerance(2.0, 16.0, 32.0)
#: an 8-bit result is taken from codes times 128; below one step of it, rounding differs by one. Many
#: values lie at the foot of a root: what its results have in common adds up in a layer behind it.
TO_8_BITS = Tolerance(16.0, 16.0, 126.0, step=128.0)

#: tables that may correct the first one
CORRECTIONS = 4


def tabulate(b: TosaBuilder, x: Value, function: Function, out: TensorType) -> Value:
    """`function` of the quantized `x` as the quantized type `out`.

    8 bits: one TABLE of 256 entries, the rounded exact value for every code. 16 bits: TABLE of 513
    entries and a RESCALE by 2**-7 (one native operation on Ethos-U), which interpolates; where that
    is off by more than 2 steps, further tables correct it (`Pieces`). 16 bits to 8 on targets
    without 16-bit tables: several of 256 entries (`table_segments`).
    """
    q, r = x.type.quant, out.quant
    if q is None or r is None:
        b.refuse("a table needs a quantized operand and result")
    assert q is not None and r is not None
    b.require(not q.per_channel, "a function of per-channel quantized values has no table")
    kinds = (x.type.dtype, out.dtype)
    b.require(
        all(k in (DType.INT8, DType.INT16) for k in kinds),
        f"tables take INT8 and INT16, not {kinds[0].name} to {kinds[1].name}",
    )
    if kinds == (DType.INT8, DType.INT8):
        return _table8(b, x, codes_of(function, np.arange(-128, 128), q, r), r)
    if x.type.dtype is DType.INT8:
        return _widening(b, x, function, r)
    if out.dtype is DType.INT8:
        return _narrowing(b, x, function, r)
    return Pieces.fit(b, wanted(function, CODES16, q, r)).emit(b, x, r)


def real_values(codes: np.ndarray, quant: Quant) -> np.ndarray:
    """What codes mean, rounded to float32 as PyTorch's dequantize does: where a function jumps
    (floor, remainder) that decides the side. Codes outside qmin..qmax do not occur."""
    steps = np.clip(codes, quant.qmin, quant.qmax) - quant.zp
    return (steps.astype(np.float32) * np.float32(quant.s)).astype(np.float64)


def codes_of(function: Function, codes: np.ndarray, q: Quant, r: Quant) -> np.ndarray:
    """The code of `function` for each code of the operand. Infinity saturates; where the function
    is not defined, its nearest values take its place: an operand may be rounded to there."""
    with np.errstate(all="ignore"):
        real = function(real_values(codes, q))
    known = ~np.isnan(real)
    found = r.quantize(real)
    return np.rint(_filled(found, known)).astype(np.int64) if known.any() else found


def wanted(function: Function, codes: np.ndarray, q: Quant, r: Quant) -> np.ndarray:
    """The result in steps, not rounded, clipped to the range; NaN where there is none.

    Infinity saturates at the end of a function's domain. Between values it is NaN: a line across a
    pole keeps the slope of a table within 16 bits.
    """
    with np.errstate(all="ignore"):
        real = function(real_values(codes, q))
        steps = np.clip(real / r.s + r.zp, r.qmin, r.qmax)
    inside = np.isfinite(real[:-2]) & np.isfinite(real[2:])
    steps[1:-1][inside & np.isinf(real[1:-1])] = np.nan
    return steps


def _table8(b: TosaBuilder, x: Value, entries: np.ndarray, quant: Quant) -> Value:
    return b.TABLE(x, b.const(entries.astype(np.int8)), quant=quant)  # type: ignore[no-any-return]


def table16(b: TosaBuilder, x: Value, entries: np.ndarray, quant: Quant | None = None) -> Value:
    """TABLE of 513 entries, INT16 to INT16: entry i stands for code 128 * i - 32768."""
    wide = b.TABLE(x, b.const(entries.astype(np.int16)))
    return b.rescale(wide, 2.0**-7, DType.INT16, quant=quant)


def _widening(b: TosaBuilder, x: Value, function: Function, r: Quant) -> Value:
    """int8 -> int16: codes times 128 hit the entries exactly, nothing is interpolated."""
    assert x.type.quant is not None
    codes = np.clip(np.arange(513) - 256, -128, 127)
    entries = gentle(codes_of(function, codes, x.type.quant, r))
    return table16(b, b.rescale(x, 128.0, DType.INT16), entries, r)


def _narrowing(b: TosaBuilder, x: Value, function: Function, r: Quant) -> Value:
    """int16 -> int8: a table of codes times 128, so that interpolation costs no accuracy."""
    assert x.type.quant is not None
    steps = wanted(function, CODES16, x.type.quant, r)
    if "EXT-INT16" not in b.limits.offered:
        return narrow_by_segments(b, x, steps, r)
    fine = Pieces.fit(b, steps * 128, TO_8_BITS).emit(b, x, None)
    return b.clamp_codes(b.rescale(fine, 2.0**-7, DType.INT8, quant=r), r)


def gentle(entries: np.ndarray) -> np.ndarray:
    """Entries whose differences fit 16 bits, as the specification demands of a 16-bit table."""
    most = 2**15 - 1
    entries = np.clip(np.nan_to_num(entries), -(2**15), most).astype(np.int64)
    steep = np.flatnonzero(np.abs(np.diff(entries)) > most)
    while steep.size:
        i = int(steep[0])
        entries[i + 1] = np.clip(entries[i + 1], entries[i] - most, entries[i] + most)
        steep = np.flatnonzero(np.abs(np.diff(entries)) > most)
    return entries


@dataclass(frozen=True)
class Piece:
    """A table over the window of 2**(16 - zoom) codes around `center`."""

    center: int
    zoom: int
    entries: np.ndarray

    @staticmethod
    def over(center: int, zoom: int, curve: np.ndarray) -> Piece:
        """Entries sampled from `curve` (65,536 values)."""
        grid = Piece(center, zoom, curve).places
        entries = np.rint(curve[np.clip(grid, 0, 2**16 - 1)])
        if grid[512] == 2**16:  # one code beyond the range, to be extrapolated
            entries[512] = np.rint(2 * curve[-1] - curve[-2])
        return Piece(center, zoom, gentle(entries))

    def ending(self, left: float, right: float) -> Piece:
        """This piece with constant values beyond its window."""
        entries = self.entries.copy()
        entries[:2], entries[-2:] = left, right
        return Piece(self.center, self.zoom, gentle(entries))

    @property
    def places(self) -> np.ndarray:
        """For each entry the index of its code in CODES16."""
        return self.center + ((np.arange(513) - 256) << 7 >> self.zoom) + 2**15

    def worst(self, curve: np.ndarray) -> float:
        """The largest error against `curve`."""
        return float(np.abs(self.values - curve).max())

    @cached_property
    def values(self) -> np.ndarray:
        """The piece for each of the 65,536 codes, as TABLE and RESCALE compute it."""
        x = np.clip((CODES16 - self.center) << self.zoom, -(2**15), 2**15 - 1) + 2**15
        at, fraction = x >> 7, x & 127
        base, slope = self.entries[at], np.diff(self.entries)[at]
        return np.clip(((base << 7) + slope * fraction + 64) >> 7, -(2**15), 2**15 - 1)

    def emit(self, b: TosaBuilder, x: Value, quant: Quant | None = None) -> Value:
        if self.center:
            wide = b.SUB(
                b.rescale(x, 1.0, DType.INT32), b.scalar(self.center, DType.INT32, x.type.rank)
            )
            x = b.rescale(wide, 2.0**self.zoom, DType.INT16)
        elif self.zoom:
            x = b.rescale(x, 2.0**self.zoom, DType.INT16)
        return table16(b, x, self.entries, quant)


@dataclass(frozen=True)
class Pieces:
    """A function of 16-bit codes as the sum of tables.

    The first spans the codes between which the function changes. Each further one adds, over a
    narrower window and so with a finer grid, what is still missing there (0 outside).
    """

    pieces: tuple[Piece, ...]

    @staticmethod
    def fit(b: TosaBuilder, curve: np.ndarray, tolerance: Tolerance = TO_16_BITS) -> Pieces:
        """Fit a curve of 65,536 values; NaN: any will do. Refuses what tables cannot follow."""
        known = np.isfinite(curve)
        if not known.any():
            b.refuse("the function is nowhere finite on the operand's range")
        curve = _filled(curve, known)
        good = _worth_correcting(curve, tolerance)
        pieces = [_first(curve, good)]
        now = pieces[0].values
        while len(pieces) <= CORRECTIONS:
            piece = _correction(curve - now, known, good)
            if piece is None:
                break
            pieces.append(piece)
            now = now + piece.values
        worst = float(np.abs(np.clip(now, -(2**15), 2**15 - 1) - curve)[known].max())
        b.require(
            worst <= tolerance.bad,
            f"a 16-bit table is off by up to {worst / tolerance.step:.0f} steps on this range",
            "narrow the operand's range or quantize this op to int8",
        )
        return Pieces(tuple(pieces))

    def emit(self, b: TosaBuilder, x: Value, quant: Quant | None) -> Value:
        if len(self.pieces) == 1:
            return self.pieces[0].emit(b, x, quant)
        # CAST, not RESCALE, behind a table's RESCALE: Ethos-U keeps the pair as one operation
        total = b.CAST(self.pieces[0].emit(b, x), dtype=DType.INT32)
        for piece in self.pieces[1:]:
            total = b.ADD(total, b.CAST(piece.emit(b, x), dtype=DType.INT32))
        result = b.rescale(total, 1.0, DType.INT16, quant=quant)
        return result if quant is None else b.clamp_codes(result, quant)


def _filled(curve: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The curve with NaN replaced by a line between its known neighbours."""
    at = np.flatnonzero(known)
    return curve if at.size == curve.size else np.interp(np.arange(curve.size), at, curve[at])


def _worth_correcting(curve: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    """For each code the error above which it is worth a further table."""
    ends = np.flatnonzero(np.diff((curve == curve.min()) | (curve == curve.max())))
    good = np.full(curve.size, tolerance.good)
    for end in ends if ends.size <= 4 else ():
        good[max(end - 127, 0) : end + 129] = tolerance.at_ends
    return good


def _first(curve: np.ndarray, good: np.ndarray) -> Piece:
    """The best table over all codes, or over those between which the rounded curve changes."""
    whole = _better(Piece.over(0, 0, curve), curve)
    steps = np.rint(curve)
    changes = np.flatnonzero(np.diff(steps))
    if not changes.size or np.all(np.abs(whole.values - curve) <= good):
        return whole
    center, zoom = _window(int(changes[0]), int(changes[-1]) + 1, margin=1)
    if not zoom:
        return whole
    return _better(Piece.over(center, zoom, curve).ending(steps[0], steps[-1]), curve)


def _better(piece: Piece, curve: np.ndarray) -> Piece:
    """`piece`, or one whose entries are moved by half the sagitta of their cells if that is closer.

    Entries on a curve make every error of a cell have one sign; moved ones halve it.
    """
    middle = piece.places[:-1] + (64 >> piece.zoom)
    inside = np.clip(middle, 0, 2**16 - 1)
    sagitta = (piece.entries[:-1] + piece.entries[1:]) / 2 - curve[inside]
    shift = np.zeros(513)
    shift[1:-1] = -(sagitta[:-1] + sagitta[1:]) / 4
    exact = curve[np.clip(piece.places, 0, 2**16 - 1)]
    moved = np.rint(np.where(np.abs(exact - piece.entries) <= 0.5, exact, piece.entries) + shift)
    other = Piece(piece.center, piece.zoom, gentle(moved))
    return min(piece, other, key=lambda p: p.worst(curve))


def _correction(missing: np.ndarray, known: np.ndarray, good: np.ndarray) -> Piece | None:
    """The window over which a further table removes most of what exceeds `good`; None when
    nothing exceeds it or no window helps."""

    def excess(left: np.ndarray) -> float:
        return float((np.maximum(np.abs(left) - good, 0)[known] ** 2).sum())

    bad = np.flatnonzero(known & (np.abs(missing) > good))
    best, least = None, excess(missing) * 0.999
    worst = int(np.argmax(np.where(known, np.abs(missing) - good, 0)))
    for center, zoom in _candidates(bad, worst):
        piece = Piece.over(center, zoom, missing).ending(0, 0)
        left = excess(missing - piece.values)
        if left < least:
            best, least = piece, left
    return best


def _candidates(bad: np.ndarray, worst: int) -> list[tuple[int, int]]:
    """Windows (center, zoom) of every width around the worst code: as far left, as far right and
    as centered on the bad codes as they can be."""
    found = []
    for zoom in range(1, 8) if bad.size else ():
        half, margin = 2 ** (15 - zoom), 3 * (128 >> zoom)
        near = bad[np.abs(bad - worst) < 2 * half - 2 * margin]
        first, last = int(near[0]), int(near[-1])
        low, high = worst + margin - half, worst - margin + half
        for center in (first + half - margin, last - half + margin, (first + last) // 2):
            found.append((min(max(center, low), high) - 2**15, zoom))
    return list(dict.fromkeys(found))


def _window(first: int, last: int, margin: int) -> tuple[int, int]:
    """The narrowest window (center, zoom) that holds the codes at these places with margins."""
    for zoom in range(7, 0, -1):
        cell = 128 >> zoom
        half = 2 ** (15 - zoom)
        if last - first + 2 * (margin + 1) * cell <= 2 * half:
            return (first + last + 1) // 2 - 2**15, zoom
    return 0, 0
