"""Choose the range of an activation: the one with the least error to be expected of unseen data.

A range costs rounding, scale^2 / 12 for every value inside, and clipping, the square of what is
cut off. Samples to come are like those that calibration saw, but larger or smaller by a factor
that is log-normal, with a bandwidth like that of a kernel density estimate (Silverman's rule) of
the samples' extremes; on a side of zero that not all samples reach they are shifted, by what is
normal. So the range gets a margin where samples differ much and are few and none where they are
alike, and rare large values are clipped where that lowers the error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

# So many samples must agree before a single one is called an outlier, by this factor.
OUTLIER_SAMPLES, OUTLIER = 4, 3.0
# Clipping errors of one layer point the same way and add up, rounding errors cancel.
CLIPPING_WEIGHS = 2.0
# Of the standard deviation. Silverman has 1.06; of half of it, three quarters and all, three quarters
# is best for unseen samples, and costs samples that were seen little.
BANDWIDTH = 0.8
# Extremes that differ by orders of magnitude say little about how far the next one reaches.
WIDEST = 0.35
# The ends within what was seen that are tried, relative to it.
_ENDS = torch.cat([torch.linspace(1.0, 0.9, 41), torch.linspace(0.89, 0.1, 80)]).double()
# Nodes and weights that stand for the normal distribution.
_NODES = torch.linspace(-3.0, 3.0, 13).double()
_WEIGHTS = torch.softmax(-(_NODES**2) / 2, 0)


class Side:
    """The values on one side of zero, as positive numbers: a histogram, and the samples' extremes.

    The values of samples to come are factor * value + shift for the equally named vectors, whose
    entries have the probabilities `_WEIGHTS`.
    """

    def __init__(
        self, values: Tensor, counts: Tensor, extremes: Sequence[float], spread: Spread
    ) -> None:
        reach = max(*extremes, 0.0)
        if all(v > 0 for v in extremes):
            bandwidth = spread.bandwidth([math.log(v) for v in extremes], 1.0)
            self.factors, self.shifts = torch.exp(_NODES * bandwidth), torch.zeros_like(_NODES)
        else:  # not all samples reach this side
            bandwidth = spread.bandwidth(extremes, spread.width)
            self.factors, self.shifts = torch.ones_like(_NODES), _NODES * bandwidth
        furthest = float(reach * self.factors[-1] + self.shifts[-1])
        steps = torch.cat([reach * _ENDS, torch.linspace(reach, furthest, 50).double()])
        self.ends = torch.clamp(steps, max=spread.limit)
        self.limit = spread.limit
        order = torch.argsort(values)
        self._values, counts = values[order], counts[order]
        moments = [counts, counts * self._values, counts * self._values**2]
        self._beyond = [torch.cat([m.flip(0).cumsum(0).flip(0), m.new_zeros(1)]) for m in moments]

    def clipping(self, ends: Tensor) -> Tensor:
        """For each end, the expected sum of the squares of what is cut off."""
        end = ends.clamp(max=self.limit)[:, None]
        cut, _ = self._squares_beyond(end, end)
        if math.isfinite(self.limit):  # what lies beyond it counts as the limit
            beyond, count = self._squares_beyond(torch.full_like(end, self.limit), end)
            cut = cut - beyond + count * (self.limit - end) ** 2
        return CLIPPING_WEIGHS * (cut * _WEIGHTS).sum(1)

    def _squares_beyond(self, start: Tensor, end: Tensor) -> tuple[Tensor, Tensor]:
        """Over the values from `start` on: sum of the squared distances from `end`, and count."""
        first = torch.searchsorted(self._values, (start - self.shifts) / self.factors)
        count, total, squares = (sums[first] for sums in self._beyond)
        shift = self.shifts - end
        squared = self.factors**2 * squares + 2 * self.factors * shift * total + shift**2 * count
        return squared, count


@dataclass(frozen=True)
class Spread:
    """What bounds the values of samples to come.

    width: of the range that was seen. limit: larger values make no difference. margin: whether
    they may be larger than those seen.
    """

    width: float
    limit: float
    margin: bool

    def bandwidth(self, extremes: Sequence[float], scale: float) -> float:
        """Of a kernel density estimate of the samples' extremes, by Silverman's rule."""
        if len(extremes) < 2 or not self.margin:
            return 0.0
        deviation = float(torch.tensor(extremes, dtype=torch.float64).std())
        return min(BANDWIDTH * deviation * len(extremes) ** -0.2, WIDEST * scale)


@dataclass(frozen=True)
class Histogram:
    """What calibration saw of a tensor: a histogram, and the lowest and highest of each sample."""

    centers: Tensor
    counts: Tensor
    lows: Sequence[float]
    highs: Sequence[float]


def least_error(
    seen: Histogram, levels: int, symmetric: bool, limits: tuple[float, float], margin: bool = True
) -> tuple[float, float]:
    """The range with the least expected error; it includes zero.

    levels: steps of the range. limits: values beyond them make no difference. margin: whether
    samples to come may reach further than those seen.
    """
    outlier = _outlier(seen)
    lows, highs = ([v for i, v in enumerate(s) if i != outlier] for s in (seen.lows, seen.highs))
    width = max(*highs, 0.0) - min(*lows, 0.0)
    if outlier is not None:
        reach = OUTLIER * max(*highs, -min(*lows))
        limits = max(limits[0], -reach), min(limits[1], reach)
    below = Side(-seen.centers, seen.counts, [-v for v in lows], Spread(width, -limits[0], margin))
    above = Side(seen.centers, seen.counts, highs, Spread(width, limits[1], margin))
    count = seen.counts.sum()
    if symmetric:
        ends = torch.maximum(below.ends, above.ends)
        cut = below.clipping(ends) + above.clipping(ends)
        best = int((cut + count * (2 * ends / levels) ** 2 / 12).argmin())
        return -float(ends[best]), float(ends[best])
    widths = below.ends[:, None] + above.ends[None, :]
    cut = below.clipping(below.ends)[:, None] + above.clipping(above.ends)[None, :]
    best = int((cut + count * (widths / levels) ** 2 / 12).argmin())
    return -float(below.ends[best // widths.shape[1]]), float(above.ends[best % widths.shape[1]])


def _outlier(seen: Histogram) -> int | None:
    """The sample that reaches three times as far as all others, when there are several."""
    reaches = [max(high, -low) for low, high in zip(seen.lows, seen.highs, strict=True)]
    if len(reaches) < OUTLIER_SAMPLES:
        return None
    *_, second, largest = sorted(reaches)
    return reaches.index(largest) if largest > OUTLIER * second else None
