"""grid_sample in all modes against PyTorch."""

import numpy as np
import pytest
import torch

from npuc.ir import DType, Quant
from tests.lowering.harness import (
    TOSA_ALL,
    TOSA_FP,
    TOSA_INT,
    TOSA_INT16,
    U85,
    check_op,
    given,
    int16,
    quant_for,
    refuses,
)

R = np.random.default_rng(0)


def sample(x, grid, *modes):
    return torch.grid_sampler(x, grid.to(x.dtype), *modes)


def sample32(x, grid, *modes):
    """In float32, where PyTorch decides which element is the nearest."""
    return torch.grid_sampler(x.float(), grid.float(), *modes).double()


def positions(*shape):
    """Positions inside and outside, at the corners, and exactly between elements."""
    grid = R.uniform(-1.6, 1.6, (*shape, 2)).astype(np.float32)
    special = np.array([-1, 1, 0, -0.5, 0.5, 3, -3], np.float32)
    grid.reshape(-1)[: special.size] = special
    return grid


@pytest.mark.parametrize("mode", [0, 1, 2], ids=["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", [0, 1, 2], ids=["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(5, 7), (4, 1), (1, 1)], ids=str)
def test_grid_sample(mode, padding, align, size):
    x = R.standard_normal((2, 3, *size))
    args = (given(x), given(positions(2, 4, 6)), mode, padding, align)
    check_op("aten.grid_sampler_2d", args, sample, tolerance=1e-5)


def test_grid_sample_of_other_types():
    x, grid = R.standard_normal((1, 4, 6, 6)), positions(1, 3, 3)
    half = (given(x, dtype=DType.FP16), given(grid, dtype=DType.FP16), 0, 0, False)
    check_op("aten.grid_sampler_2d", half, sample, limits=TOSA_FP)
    q = quant_for(x)
    args = (given(x, quant=q), given(grid), 0, 1, False)
    check_op("aten.grid_sampler_2d", args, sample, out_quant=q, limits=TOSA_ALL)


@pytest.mark.parametrize("mode", [0, 1, 2], ids=["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", [0, 1, 2], ids=["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(5, 7), (1, 1), (3, 200)], ids=str)
def test_grid_sample_without_floats(mode, padding, align, size):
    """Positions and weights come from tables: exact elements, sums within a step."""
    x, places = R.standard_normal((2, 3, *size)), positions(2, 4, 6)
    q = quant_for(x)
    args = (given(x, quant=q), given(places, quant=quant_for(places)), mode, padding, align)
    out = quant_for(x * 1.3) if mode == 2 else q
    for limits in (TOSA_INT, U85):
        check_op("aten.grid_sampler_2d", args, sample32, out_quant=out, limits=limits)


def test_grid_sample_of_16_bit_images():
    x, places = R.standard_normal((1, 3, 6, 5)), positions(1, 4, 6)
    args = (given(x, quant=int16(2**-12)), given(places, quant=quant_for(places)), 0, 0, False)
    check_op("aten.grid_sampler_2d", args, sample, out_quant=quant_for(x), limits=TOSA_INT16)


def test_positions_of_16_bits_are_refused_without_floats():
    grid = given(positions(1, 2, 2), quant=int16(2**-13))
    refuses(
        "aten.grid_sampler_2d",
        (given(R.standard_normal((1, 2, 4, 4)), quant=Quant(0.05, 0)), grid, 0, 0, False),
        sample,
        "INT16 positions; tables take those of 8 bits",
        out_quant=Quant(0.05, 0),
        limits=TOSA_INT16,
    )
