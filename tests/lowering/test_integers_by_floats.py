"""Integers on targets of the profile PRO-FP alone: every value of INT32 is exact."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

import npuc

FP = "tosa-1.0+fp"
#: the ends of INT32, of the halves that FP32 holds, of what FP32 holds, and of narrower integers
EDGES = torch.tensor(
    [2**31 - 1, -(2**31) + 1, -(2**31), 0, -1, 1, 2**24 + 1, -(2**24) - 1, 2**15, -(2**15) - 1,
     256, -256, 255, -129, 128, 127, -128], dtype=torch.int32,
)  # fmt: skip
X, Y = EDGES.reshape(-1, 1).repeat(1, 17), EDGES.repeat(17, 1)
NARROW = [
    torch.arange(-(2**15), 2**15, 16, dtype=torch.int16).reshape(2, -1),
    torch.arange(-128, 128, dtype=torch.int8).reshape(2, -1),
]


class Model(torch.nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def is_exact(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    c = npuc.compile(Model(function), inputs, target=FP, progress=False)
    got, want = c.run(*inputs), function(*inputs)
    assert got.dtype is want.dtype and torch.equal(got, want)


@pytest.mark.parametrize(
    "function",
    [torch.minimum, torch.maximum, torch.gt, torch.le, torch.eq, torch.ne,
     lambda x, y: torch.where(x > y, x, y)],
)  # fmt: skip
def test_pairs_of_any_values_and_ranks(function: Any) -> None:
    is_exact(function, X, Y)
    is_exact(function, X, EDGES)


@pytest.mark.parametrize("function", [operator.add, operator.sub, operator.mul])
def test_arithmetic_of_different_ranks_and_types(function: Any) -> None:
    x = torch.arange(-60, 60, dtype=torch.int32).reshape(4, 3, 2, 5) * 9973
    y = torch.tensor([7, -3, 0, 99, -128])
    is_exact(function, x, y.to(torch.int32))
    is_exact(function, x, y.to(torch.int8))
    is_exact(function, *[torch.full((3, 2), 100, dtype=torch.int8)] * 2)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.bool, torch.float32])
@pytest.mark.parametrize("x", [X, *NARROW], ids=lambda x: str(x.dtype))
def test_casts_wrap(x: torch.Tensor, dtype: torch.dtype) -> None:
    is_exact(lambda x: x.to(dtype), x)


@pytest.mark.parametrize(
    "function",
    [torch.abs, torch.neg, torch.sign, lambda x: x.clamp(-5, 7), torch.relu,
     lambda x: x.amax(1), lambda x: x.repeat(2, 3), lambda x: torch.cat([x, x.flip(0)]),
     lambda x: x[:, 1:].t()],
)  # fmt: skip
def test_functions_of_one_tensor(function: Any) -> None:
    for x in (X.clamp(min=-(2**31) + 1), *NARROW):
        is_exact(function, x)


def test_running_sums() -> None:
    is_exact(lambda x: x.cumsum(1), torch.arange(-12, 12, dtype=torch.int32).reshape(3, 8) * 10**7)
