"""Observers: they watch values during calibration and choose ranges.

All are torchao observers (`ObserverBase`), so `prepare_pt2e` and `convert_pt2e` use them as
their own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torchao.quantization.pt2e.observer import ObserverBase

from npuc.quantizer.choose_range import Histogram, least_error

# A value beyond this is a mask's "minus infinity", not data.
INFINITE = 1e30
# exp(-10) = 4.5e-5: a softmax operand this far below the largest of its row counts as nothing.
SOFTMAX_DEPTH = 10.0
# A value of 16 bits reaches this times as far as one expects: with a step that is small beside the
# rounding of weights, what is cut off is all that counts.
HEADROOM = 2.0
# The histogram sees at most this many values of one tensor; the extremes are always exact.
SAMPLE = 1 << 16
# A channel's weight scale is at least this part of the largest one: what is smaller cannot reach
# the result, and its requantization would leave the range of a multiplier and a shift.
FINEST = 2.0**-20


class RangeObserver(ObserverBase):
    """Chooses the range of an activation, per tensor.

    It keeps exact extremes and a histogram over [-limit, limit], where limit doubles when a
    value falls outside. The range either covers everything that was seen ("minmax"), or is that
    of the least expected error (`choose_range`; exact zeros cost nothing, they are
    representable). The range always includes zero.

    depth, axis: the values feed a softmax along `axis`; what lies more than `depth` below the
        largest of its row is raised to that, since it cannot be told apart in the result.
    floor: values below it are raised to it (an additive mask).
    saturates: the values feed a function that hardly changes beyond these ends.
    margin: whether samples to come may have larger values than those seen.
    headroom: whether values of 16 bits reach much further than those; not where a function has a
        pole, since what its operand cannot tell from the pole becomes the largest value.
    whole: all values are whole numbers, which get codes of their own where the type has enough: an
        index that is computed from them has to be exact.

    `together` are all observers of a graph. Where several values share parameters, their observer
    is called for each of them; the one called least is called once per sample.
    """

    BINS = 4096

    def __init__(
        self,
        dtype: torch.dtype = torch.int8,
        qscheme: torch.qscheme = torch.per_tensor_affine,
        quant_min: int = -128,
        quant_max: int = 127,
        ranges: str = "mse",
        depth: float | None = None,
        axis: int = -1,
        shape: tuple[int, ...] | None = None,
        floor: float | None = None,
        saturates: tuple[float, float] = (-math.inf, math.inf),
        margin: bool = True,
        headroom: bool = True,
        whole: bool = False,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme = qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.ranges = ranges
        self.depth, self.axis, self.shape, self.floor = depth, axis, shape, floor
        self.saturates, self.margin, self.whole = saturates, margin, whole
        self.headroom = headroom
        self.low, self.high = math.inf, -math.inf
        self.lows: list[float] = []  # of each call
        self.highs: list[float] = []
        self.together: list[ObserverBase] = []
        self.limit = 0.0
        self.zeros = 0.0
        self.counts = torch.zeros(self.BINS, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        """Take the values of one calibration step into account; returns x."""
        values = self._relevant(x.detach().float())
        low, high = _ends(values)
        if max(-low, high) > INFINITE or not math.isfinite(low + high):
            values = values[values.abs() < INFINITE]
            low, high = _ends(values)
        self.lows.append(low)
        self.highs.append(high)
        if values.numel() == 0:
            return x
        self.low, self.high = min(self.low, low), max(self.high, high)
        if self.ranges != "minmax":
            self._count(values.flatten())
        return x

    def _relevant(self, x: Tensor) -> Tensor:
        if self.depth is not None and x.dim() > 0 and (self.shape in (None, tuple(x.shape))):
            top = x.clamp(min=-INFINITE).amax(dim=self.axis, keepdim=True)
            seen = top > -INFINITE / 2
            return torch.where(seen, torch.maximum(x, top - self.depth), torch.zeros_like(x))
        return x if self.floor is None else x.clamp(min=self.floor)

    def _count(self, values: Tensor) -> None:
        weight = 1.0
        if values.numel() > SAMPLE:
            step = -(-values.numel() // SAMPLE)
            weight = values.numel() / values[::step].numel()
            values = values[::step]
        self._widen(max(-self.low, self.high))
        if self.limit == 0.0:
            self.zeros += weight * values.numel()
            return
        counts = torch.histc(values, self.BINS, min=-self.limit, max=self.limit)
        zeros = float((values == 0).sum())
        counts[self.BINS // 2] -= zeros
        self.zeros += weight * zeros
        self.counts += weight * counts.double()

    def _widen(self, largest: float) -> None:
        """Double the histogram's limit until it holds `largest`; pairs of bins become one."""
        if self.limit == 0.0:
            self.limit = largest * 1.001
        while self.limit < largest:
            self.limit *= 2
            merged = self.counts.reshape(-1, 2).sum(1)
            self.counts.zero_()
            quarter = self.BINS // 4
            self.counts[quarter : 3 * quarter] = merged

    def range(self) -> tuple[float, float]:
        """The chosen range, which includes zero."""
        low, high = min(self.low, 0.0), max(self.high, 0.0)
        # Where all values lie beyond the bend of a function, its result still tells them apart.
        limits = min(self.high, 0.0) + self.saturates[0], max(self.low, 0.0) + self.saturates[1]
        if self.ranges == "minmax" or low >= high or not bool(self.counts.any()):
            return max(low, limits[0]), min(high, limits[1])
        seen = Histogram(self._centers(), self.counts, *self._of_samples())
        symmetric = self.qscheme == torch.per_tensor_symmetric
        levels = self.quant_max - self.quant_min
        low, high = least_error(seen, levels, symmetric, limits, self.margin)
        if levels < 2**15 or not (self.margin and self.headroom):
            return low, high
        # what was seen last is a code: a comparison with it holds
        headroom = HEADROOM * self.quant_max / (self.quant_max + 1)
        return max(low * headroom, limits[0]), min(high * headroom, limits[1])

    def _of_samples(self) -> tuple[list[float], list[float]]:
        """Lowest and highest value of each sample, in which the observer may have several calls."""
        samples = min((o.calls for o in self.together), default=self.calls)  # type: ignore[misc]
        each, left = divmod(self.calls, max(samples, 1))
        each = each if each and not left else self.calls
        starts = range(0, self.calls, each)
        lows = [min(self.lows[i : i + each]) for i in starts]
        return lows, [max(self.highs[i : i + each]) for i in starts]

    @property
    def calls(self) -> int:
        """How often it was called."""
        return len(self.lows)

    def _centers(self) -> Tensor:
        width = 2 * self.limit / self.BINS
        return (torch.arange(self.BINS, dtype=torch.float64) + 0.5) * width - self.limit

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale (float32) and zero point (int64), one entry each."""
        zero_point = self._whole_zero_point() if self.whole else None
        if zero_point is not None:
            return torch.tensor([1.0]), torch.tensor([zero_point])
        low, high = self.range()
        return qparams(low, high, self.quant_min, self.quant_max, self.qscheme)

    def _whole_zero_point(self) -> int | None:
        """The zero point of steps of 1, with equal room on both sides; None: too few codes."""
        low, high = round(min(self.low, 0.0)), round(max(self.high, 0.0))
        symmetric = self.qscheme == torch.per_tensor_symmetric
        zero_point = 0 if symmetric else (self.quant_min + self.quant_max - low - high) // 2
        fits = self.quant_min <= low + zero_point and high + zero_point <= self.quant_max
        return zero_point if fits and self.quant_min <= zero_point <= self.quant_max else None


def _ends(values: Tensor) -> tuple[float, float]:
    if values.numel() == 0:
        return 0.0, 0.0
    low, high = torch.aminmax(values)
    return float(low), float(high)


class FunctionObserver(RangeObserver):
    """For functions with a known range, such as sigmoid and tanh.

    The range is that of the function, or the part of it that 1.5 times the calibrated values fill,
    if that is less than three quarters (`fixed`: a quarter): a softmax over 200 keys has
    probabilities near 1/200, for which steps of 1/256 are useless.
    """

    MARGIN = 1.5
    FULL, FULL_FIXED = 3 / 4, 1 / 4
    LEAST = 2.0**-12

    def __init__(
        self, ends: tuple[float, float] = (0.0, 1.0), fixed: bool = False, **options: Any
    ) -> None:
        super().__init__(**{**options, "ranges": "minmax"})
        self.ends, self.fixed = ends, fixed

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """1/256 with zero point -128 for all of [0, 1] in 8 bits."""
        levels = 2 ** round(math.log2(self.quant_max - self.quant_min + 1))
        symmetric = self.qscheme == torch.per_tensor_symmetric or self.ends[0] < 0
        part = self._part()
        scale = part * (2 / levels if symmetric else 1 / levels)
        zero_point = 0 if symmetric else self.quant_min
        return torch.tensor([scale]), torch.tensor([zero_point])

    def _part(self) -> float:
        part = self.MARGIN * max(self.high, -self.low)
        full = self.FULL_FIXED if self.fixed else self.FULL
        return max(part, self.LEAST) if 0 < part < full else 1.0


class PoolObserver(RangeObserver):
    """For averages: the parameters of the operand, where they fit well enough.

    An average has a smaller range than what it averages. Under the operand's scale it is one
    pooling operation; where it fills less than a third of the operand's range, that would cost
    more than a bit, and it gets a range of its own (sums, rescaled once).
    """

    FULL = 1 / 3

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._source: tuple[ObserverBase, ...] = ()  # in a tuple: it is no submodule

    @property
    def source(self) -> ObserverBase | None:
        """The observer of the operand."""
        return self._source[0] if self._source else None

    def follow(self, source: ObserverBase) -> None:
        """Show this observer that of the operand."""
        self._source = (source,)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale and zero point, of the source or of its own."""
        scale, zero_point = super().calculate_qparams()
        if not self._source:
            return scale, zero_point
        given = self._source[0].calculate_qparams()
        share = float(scale) / float(given[0])
        # An average with a divisor of its own may also be larger than what it averages.
        return given if self.FULL <= share <= 1.01 else (scale, zero_point)


class WeightObserver(ObserverBase):
    """Chooses symmetric weight scales, per output channel or per tensor.

    `least` holds lower bounds for the scales: below them the layer's int32 bias would overflow.
    """

    def __init__(
        self,
        dtype: torch.dtype = torch.int8,
        qscheme: torch.qscheme = torch.per_channel_symmetric,
        quant_min: int = -127,
        quant_max: int = 127,
        ch_axis: int = 0,
        ranges: str = "mse",
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme, self.ch_axis = qscheme, ch_axis
        self.quant_min, self.quant_max = quant_min, quant_max
        self.ranges = ranges
        self.least: Tensor | None = None
        self.weight: Tensor | None = None
        self.calls = 0

    def forward(self, w: Tensor) -> Tensor:
        """Remember the weight; returns it."""
        self.weight = w.detach()
        self.calls += 1
        return w

    def bound(self, least: Tensor) -> None:
        """Raise the scales to at least these; several layers may share the weight."""
        self.least = least if self.least is None else torch.maximum(self.least, least)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scales (float32) and zero points (int64, all 0), one per channel or one."""
        assert self.weight is not None, "the weight was never read during calibration"
        if self.qscheme == torch.per_channel_symmetric:
            rows = self.weight.movedim(self.ch_axis, 0).flatten(1)
        else:
            rows = self.weight.reshape(1, -1)
        scales = self._scales(rows.float())
        if self.least is not None:
            least = self.least if self.qscheme == torch.per_channel_symmetric else self.least.max()
            scales = torch.maximum(scales, least)
        return scales, torch.zeros_like(scales, dtype=torch.int64)

    def _scales(self, rows: Tensor) -> Tensor:
        full = rows.abs().amax(1) / self.quant_max
        largest = float(full.max()) or 1.0
        full = torch.where(full > 0, full, largest).clamp(min=largest * FINEST)
        if self.ranges == "minmax" or self.quant_max > 7:
            return full  # with eight bits, clipping weights biases the sums more than it gains
        best, least = full.clone(), self._error(rows, full)
        for shrink in torch.linspace(0.98, 0.5, 25).tolist():
            error = self._error(rows, full * shrink)
            better = error < least
            best[better], least[better] = (full * shrink)[better], error[better]
        return best

    def _error(self, rows: Tensor, scales: Tensor) -> Tensor:
        s = scales[:, None]
        rounded = torch.clamp(torch.round(rows / s), self.quant_min, self.quant_max) * s
        return ((rows - rounded) ** 2).sum(1)


def qparams(
    low: float, high: float, quant_min: int, quant_max: int, qscheme: torch.qscheme
) -> tuple[Tensor, Tensor]:
    """Scale and zero point of a range that includes zero.

    A range of zero width (a tensor of zeros) has scale 1, in 16 bits the range of one: a step, by
    which their tables may be off, is small there. No scale is below 2^-40, so that no product of
    scales leaves float32.
    """
    if qscheme == torch.per_tensor_symmetric:
        scale = max(-low, high) / quant_max
    else:
        scale = (high - low) / (quant_max - quant_min)
    if scale == 0 or not math.isfinite(scale):
        return torch.tensor([1.0 if quant_max < 2**8 else 1 / quant_max]), torch.tensor([0])
    scale = max(scale, 2.0**-40)
    scale = float(torch.tensor(scale, dtype=torch.float32))
    zero_point = 0
    if qscheme != torch.per_tensor_symmetric:
        zero_point = min(max(quant_min - round(low / scale), quant_min), quant_max)
    return torch.tensor([scale]), torch.tensor([zero_point])
