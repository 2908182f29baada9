"""The range with the least error on samples that calibration has not seen."""

from __future__ import annotations

import math

import pytest
import torch

from npuc.quantizer.observers import RangeObserver

torch.set_num_threads(1)


def observed(samples, **options) -> RangeObserver:
    observer = RangeObserver(**options)
    for sample in samples:
        observer(sample)
    return observer


def error(x: torch.Tensor, observer: RangeObserver) -> float:
    scale, zero = observer.calculate_qparams()
    codes = torch.clamp(torch.round(x / scale) + zero, observer.quant_min, observer.quant_max)
    return float(((codes - zero) * scale - x).pow(2).mean())


def walks(count: int, seed: int) -> list[torch.Tensor]:
    """Random walks: how far they reach differs much from one to the next."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(640, generator=generator).cumsum(0) for _ in range(count)]


def noise(count: int, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(20000, generator=generator) for _ in range(count)]


def test_samples_that_differ_get_a_margin_that_pays_on_unseen_ones():
    unseen = torch.cat(walks(200, seed=1))
    gains = []
    for seed in range(2, 8):
        samples = walks(8, seed)
        with_margin, without = observed(samples), observed(samples, margin=False)
        assert with_margin.range()[1] - with_margin.range()[0] > 1.1 * (
            without.range()[1] - without.range()[0]
        )
        gains.append(error(unseen, without) / error(unseen, with_margin))
    assert math.prod(gains) ** (1 / len(gains)) > 2 and min(gains) > 0.9


def test_samples_that_are_alike_get_none():
    samples = noise(8, seed=0)
    low, high = observed(samples).range()
    without = observed(samples, margin=False).range()
    assert (low, high) == pytest.approx(without, rel=0.08)


def test_one_sample_gets_none():
    samples = walks(1, seed=3)
    assert observed(samples).range() == observed(samples, margin=False).range()


def test_more_samples_need_less_margin():
    samples = [s / s.abs().max() * (1 + 0.5 * (i % 5)) for i, s in enumerate(noise(80, seed=4))]
    few, many = observed(samples[:5]).range()[1], observed(samples).range()[1]
    assert many < few


def test_a_side_that_few_samples_reach_is_open_to_others():
    """The logit of a detector whose calibration had one positive, just so."""
    logits = [torch.tensor([v]) for v in (-7.5, -5.0, -6.1, -3.0, 0.3, -4.4, -2.0, -6.6)]
    assert observed(logits, margin=False).range()[1] == pytest.approx(0.3, rel=0.01)
    assert 1.0 < observed(logits).range()[1] < 6.0
    # what cannot be negative stays so
    assert observed([s.abs() for s in noise(8, seed=5)]).range()[0] > -0.02


def test_limits_hold_and_what_is_beyond_costs_nothing():
    samples = [5 * s for s in noise(8, seed=6)]
    low, high = observed(samples, saturates=(-7.0, 7.0)).range()
    assert (low, high) == pytest.approx((-7.0, 7.0), rel=0.12) and low >= -7 and high <= 7


def test_extremes_of_other_orders_of_magnitude_do_not_open_the_range_without_end():
    samples = [s * 10.0**-i for i, s in enumerate(noise(8, seed=7))]
    assert observed(samples).range()[1] < 3 * max(float(s.max()) for s in samples)


def test_symmetric_ranges_have_the_larger_side():
    samples = [s.clamp(min=-0.5) for s in walks(8, seed=8)]
    observer = observed(samples, qscheme=torch.per_tensor_symmetric, quant_min=-127)
    low, high = observer.range()
    assert low == -high and high >= max(float(s.max()) for s in samples) * 0.9


def test_an_outlier_neither_sets_the_range_nor_its_margin():
    samples = noise(8, seed=9)
    ordinary = observed(samples).range()
    samples[3] = samples[3].clone()
    samples[3][0] = 60.0
    assert observed(samples).range()[1] < 3.1 * ordinary[1]
