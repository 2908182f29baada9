"""rfft2 against PyTorch, with and without TOSA's own operator."""

import numpy as np
import pytest
import torch

from npuc.targets.catalogue import find_target
from tests.lowering.harness import TOSA_FP, check_op, given, ops

R = np.random.default_rng(0)
FFT = find_target("tosa-1.1+fp+fft").limits


def parts(x):
    y = torch.fft.rfft2(x)
    return y.real, y.imag


@pytest.mark.parametrize(
    "shape", [(8, 16), (2, 3, 8, 16), (4, 1, 1), (3, 5, 6), (2, 7, 9)], ids=str
)
def test_rfft2_by_products(shape):
    graph = check_op("aten.fft_rfft2", (given(R.standard_normal(shape)),), parts, limits=TOSA_FP)
    assert "RFFT2D" not in ops(graph)


@pytest.mark.parametrize("shape", [(8, 16), (2, 3, 4, 2), (3, 6, 8)], ids=str)
def test_rfft2_by_the_operator(shape):
    graph = check_op("aten.fft_rfft2", (given(R.standard_normal(shape)),), parts, limits=FFT)
    assert ("RFFT2D" in ops(graph)) is (shape[-2] != 6)
