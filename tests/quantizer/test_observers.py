"""Ranges that observers choose, with the numbers."""

from __future__ import annotations

import pytest
import torch

from npuc.quantizer.observers import (
    FunctionObserver,
    PoolObserver,
    RangeObserver,
    WeightObserver,
    qparams,
)

torch.set_num_threads(1)


def error(x: torch.Tensor, observer) -> float:
    """Mean squared error of quantizing x with what an observer chose."""
    scale, zero = observer.calculate_qparams()
    q = torch.clamp(torch.round(x / scale) + zero, observer.quant_min, observer.quant_max)
    return float(((q - zero) * scale - x).pow(2).mean())


def observe(observer, *batches):
    for batch in batches:
        observer(batch)
    return observer


def test_minmax_covers_all_and_includes_zero():
    assert observe(RangeObserver(ranges="minmax"), torch.tensor([1.0, 3.0])).range() == (0.0, 3.0)
    assert observe(RangeObserver(ranges="minmax"), torch.tensor([-1.0, 3.0])).range() == (-1.0, 3.0)


def test_one_outlier_does_not_set_the_range():
    torch.manual_seed(0)
    batches = [torch.randn(1000) for _ in range(8)]
    ordinary = torch.cat(batches)
    batches[3][0] = 60.0
    clipped, whole = (observe(RangeObserver(ranges=r), *batches) for r in ("mse", "minmax"))
    assert clipped.range()[1] < 15 < whole.range()[1]
    assert error(ordinary, clipped) < 0.2 * error(ordinary, whole)


def test_two_batches_with_large_values_are_no_outliers():
    torch.manual_seed(0)
    batches = [torch.randn(1000) for _ in range(6)] + [20 * torch.randn(1000) for _ in range(2)]
    assert observe(RangeObserver(), *batches).range()[1] > 40


def test_rare_large_values_are_clipped_when_that_lowers_the_error():
    torch.manual_seed(0)
    batches = [torch.randn(60000) for _ in range(16)]
    batches[0][0] = batches[1][0] = 6.0
    clipped, whole = (observe(RangeObserver(ranges=r), *batches) for r in ("mse", "minmax"))
    x = torch.cat(batches)
    assert clipped.range()[1] < 5.5 and error(x, clipped) < error(x, whole)


def test_few_values_are_not_clipped():
    x = torch.tensor([0.0, 1.0, 0.5])
    assert observe(RangeObserver(), x).range()[1] == pytest.approx(1.0, rel=0.01)


def test_the_histogram_is_the_same_in_one_piece_or_many():
    torch.manual_seed(0)
    batches = [torch.randn(1000) * s for s in (0.1, 1.0, 9.0)]
    one = observe(RangeObserver(margin=False), torch.cat(batches))
    many = observe(RangeObserver(margin=False), *batches)
    assert many.counts.sum() + many.zeros == one.counts.sum() + one.zeros == 3000
    assert many.range() == pytest.approx(one.range(), rel=0.05)


def test_exact_zeros_cost_nothing():
    torch.manual_seed(0)
    dense = torch.randn(4000).abs()
    sparse = torch.cat([dense, torch.zeros(40000)])
    assert observe(RangeObserver(), sparse).range() == pytest.approx(
        observe(RangeObserver(), dense).range(), rel=0.02
    )


def test_large_tensors_are_sampled_but_their_extremes_are_exact():
    x = torch.zeros(1 << 18)
    x[12345] = 3.0
    observer = observe(RangeObserver(), x)
    assert observer.high == 3.0
    assert float(observer.counts.sum()) + observer.zeros == pytest.approx(x.numel(), rel=0.01)


def test_infinite_values_do_not_count():
    x = torch.tensor([-torch.inf, -3e38, 1.0, -2.0, torch.nan])
    observer = observe(RangeObserver(ranges="minmax"), x)
    assert observer.range() == (-2.0, 1.0)
    assert observe(RangeObserver(), torch.full((3,), -torch.inf)).range() == (0.0, 0.0)


def test_values_far_below_the_rows_maximum_do_not_count_in_front_of_a_softmax():
    x = torch.tensor([[0.0, 5.0, -3e38], [2.0, -90.0, 1.0]])
    observer = observe(RangeObserver(ranges="minmax", depth=10.0, axis=-1), x)
    assert observer.range() == (-8.0, 5.0)
    whole_row = torch.tensor([[-torch.inf, -torch.inf]])
    assert observe(observer, whole_row).range() == (-8.0, 5.0)


def test_values_where_a_function_has_saturated_do_not_count():
    x = torch.tensor([-21.0, -9.0, -3.0, 2.0])
    for ranges in ("minmax", "mse"):
        logits = observe(RangeObserver(ranges=ranges, saturates=(-7.0, 7.0)), x)
        assert logits.range() == pytest.approx((-7.0, 2.0), rel=0.01), ranges
    below = observe(RangeObserver(ranges="minmax", saturates=(-7.0, 7.0)), x - 10)
    assert below.range() == (-15.0, 0.0)  # seven below the largest, which is what counts there


def test_sixteen_bits_leave_room_but_not_beyond_a_functions_bend():
    """Twice the range, as far as it makes a difference; the largest value is the code 2**14."""
    wide = {"dtype": torch.int16, "quant_min": -32768, "quant_max": 32767,
            "qscheme": torch.per_tensor_symmetric}  # fmt: skip
    x = torch.linspace(-4, 4, 1000)
    for options, end in (
        ({}, 4.0 * 32767 / 2**14),
        ({"margin": False}, 4.0),
        ({"ranges": "minmax"}, 4.0),
        ({"saturates": (-6.0, 6.0)}, 6.0),
    ):
        found = observe(RangeObserver(**wide, **options), x, x).range()
        assert found == pytest.approx((-end, end)), options


def test_a_mask_is_cut_off():
    x = torch.tensor([0.0, -1e9, -torch.inf])
    assert observe(RangeObserver(ranges="minmax", floor=-64.0), x).range() == (-64.0, 0.0)


def test_the_empty_and_the_constant_tensor():
    assert RangeObserver().calculate_qparams() == (torch.tensor([1.0]), torch.tensor([0]))
    zeros = observe(RangeObserver(), torch.zeros(4))
    assert float(zeros.calculate_qparams()[0]) == 1.0
    scale, zero = observe(RangeObserver(), torch.full((4,), -3.0)).calculate_qparams()
    assert float(scale) * (-128 - int(zero)) == pytest.approx(-3.0)
    assert observe(RangeObserver(), torch.zeros(0)).range() == (0.0, 0.0)


def test_parameters_of_a_range():
    affine, symmetric = torch.per_tensor_affine, torch.per_tensor_symmetric
    assert qparams(-1.0, 1.55, -128, 127, affine) == (torch.tensor([0.01]), torch.tensor([-28]))
    scale, zero = qparams(-1.0, 0.5, -32768, 32767, symmetric)
    assert float(scale) == pytest.approx(1 / 32767) and int(zero) == 0
    assert float(qparams(0.0, 1e-30, -128, 127, affine)[0]) == 2.0**-40
    assert float(qparams(0.0, 0.0, -32768, 32767, symmetric)[0]) == pytest.approx(1 / 32767)


@pytest.mark.parametrize(
    ("ends", "options", "x", "expected"),
    [
        ((0.0, 1.0), {}, 0.9, (2.0**-8, -128)),
        ((0.0, 1.0), {}, 0.49, (0.735 * 2.0**-8, -128)),
        ((0.0, 1.0), {}, 0.51, (2.0**-8, -128)),
        ((0.0, 1.0), {}, 0.01, (0.015 * 2.0**-8, -128)),
        ((0.0, 1.0), {}, 1e-9, (2.0**-20, -128)),
        ((0.0, 1.0), {}, 0.0, (2.0**-8, -128)),
        ((0.0, 1.0), {"fixed": True}, 0.2, (2.0**-8, -128)),
        ((0.0, 1.0), {"fixed": True}, 0.01, (0.015 * 2.0**-8, -128)),
        ((-1.0, 1.0), {}, 0.9, (2.0**-7, 0)),
        ((-1.0, 1.0), {}, -0.3, (0.45 * 2.0**-7, 0)),
        (
            (0.0, 1.0),
            {"quant_min": -32768, "quant_max": 32767, "qscheme": torch.per_tensor_symmetric},
            0.9,
            (2.0**-15, 0),
        ),
        ((0.0, 1.0), {"quant_min": 0, "quant_max": 255}, 0.9, (2.0**-8, 0)),
    ],
)
def test_functions(ends, options, x, expected):
    observer = observe(FunctionObserver(ends=ends, **options), torch.tensor([0.0, x]))
    assert tuple(float(v) for v in observer.calculate_qparams()) == pytest.approx(expected)


def test_averages_follow_their_operand():
    whole = observe(RangeObserver(ranges="minmax"), torch.tensor([-4.0, 4.0]))
    for reach, follows in ((3.0, True), (0.5, False), (6.0, False)):
        pool = PoolObserver(ranges="minmax")
        pool.follow(whole)
        observe(pool, torch.tensor([-reach, reach]))
        assert (pool.calculate_qparams()[0] == whole.calculate_qparams()[0]) == follows


def test_weight_scales_per_channel_and_per_tensor():
    w = torch.tensor([[1.27, -0.3], [0.0127, 0.01]])
    scales, zeros = observe(WeightObserver(), w).calculate_qparams()
    assert torch.allclose(scales, torch.tensor([0.01, 0.0001])) and zeros.tolist() == [0, 0]
    columns, _ = observe(WeightObserver(ch_axis=1), w).calculate_qparams()
    assert torch.allclose(columns, torch.tensor([0.01, 0.3 / 127]))
    whole, _ = observe(WeightObserver(qscheme=torch.per_tensor_symmetric), w).calculate_qparams()
    assert torch.allclose(whole, torch.tensor([0.01]))


def test_a_channel_of_zeros_has_the_scale_of_the_others():
    scales, _ = observe(WeightObserver(), torch.tensor([[1.27], [0.0]])).calculate_qparams()
    assert torch.allclose(scales, torch.tensor([0.01, 0.01]))
    assert float(observe(WeightObserver(), torch.zeros(1, 4)).calculate_qparams()[0]) == 1.0


def test_four_bit_weights_clip_where_that_helps():
    torch.manual_seed(0)
    w = torch.randn(4, 400)

    def loss(ranges: str) -> float:
        observer = WeightObserver(quant_min=-7, quant_max=7, ranges=ranges)
        scales = observe(observer, w).calculate_qparams()[0][:, None]
        return float((torch.clamp(torch.round(w / scales), -7, 7) * scales - w).pow(2).sum())

    assert loss("mse") < 0.8 * loss("minmax")
