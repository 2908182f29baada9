"""Symbolic sizes: canonical forms, bounds, and refusal where a number is needed."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from npuc.ir import SymbolicShape, SymDim
from npuc.ir.symbolic import at_least, at_most, largest, smallest

N, H, W = SymDim("n", 1, 4), SymDim("h", 2, 9), SymDim("w", 1, 5)
POINTS = [
    dict(zip("nhw", point, strict=True))
    for point in itertools.product(range(1, 5), range(2, 10), range(1, 6))
]


def value(size, point):
    return size if isinstance(size, int) else size.at(point)


def random_size(rng, depth):
    """A size, and the function of a point that it has to be."""
    if depth == 0:
        symbol = rng.choice([N, H, W, None])
        number = rng.randint(1, 6)
        return (number, lambda p: number) if symbol is None else (symbol, lambda p: p[symbol.name])
    (a, f), (b, g) = random_size(rng, depth - 1), random_size(rng, depth - 1)
    k = rng.randint(1, 5)
    return rng.choice([
        lambda: (a + b, lambda p: f(p) + g(p)), lambda: (a - b, lambda p: f(p) - g(p)),
        lambda: (a * b, lambda p: f(p) * g(p)), lambda: (a // k, lambda p: f(p) // k),
        lambda: (a % k, lambda p: f(p) % k), lambda: (-(-a // k), lambda p: -(-f(p) // k)),
        lambda: (at_least(a, b), lambda p: max(f(p), g(p))),
        lambda: (at_most(a, b), lambda p: min(f(p), g(p))),
    ])()  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_arithmetic_and_bounds_hold_at_every_point(seed):
    rng = random.Random(seed)
    size, expected = random_size(rng, 3)
    results = [expected(p) for p in POINTS]
    assert [value(size, p) for p in POINTS] == results
    assert smallest(size) <= min(results)
    if not isinstance(size, int):
        assert size.hi is None or size.hi >= max(results)


def test_equal_sizes_are_one_size():
    assert (H + 1) // 2 == H - H // 2 == -(-H // 2)
    assert ((H - 1) // 2 + 1 - 1) // 2 + 1 == (H - 1) // 4 + 1
    assert (2 * H + 1) // 2 == H and (4 * H + 2) // 4 == (2 * H + 1) // 2
    assert N * H * W // W == N * H and (N * H + N) // (H + 1) == N
    assert N * (H // 3) * 3 % 3 == 0 and H * W == W * H and H - H == 0
    assert hash(N * H) == hash(H * N) and N * H // N is not None
    assert H != W and H != 3 and SymDim("h", 1, 9) != SymDim("h", 1, 8)


def test_bounds():
    assert (H.lo, H.hi) == (2, 9)
    rest = (H - 1) % 4
    assert (smallest(rest), largest(rest)) == (0, 3)
    assert ((H - 3) // 2 + 1).lo == 0 and ((H - 3) // 2 + 1).hi == 4
    assert smallest(H * W - H) == 0  # not lo(h * w) - hi(h)
    assert SymDim("open").hi is None and (SymDim("open", 3) * 2 - 1).lo == 5
    with pytest.raises(SymbolicShape, match=r"upper bound.*open \(1\.\.\)"):
        largest(SymDim("open"))


def test_questions_that_bounds_answer():
    assert H > 1 and H < 10 and H >= 2 and H <= 9 and not H > 9 and H // 2
    assert max(H, 1) is H and min(10, H) is H and at_least(H, 2) is H
    assert H // 10 == 0 and H % 10 == H
    with pytest.raises(SymbolicShape, match=r"whether h > 4.*h \(2\.\.9\) is known only at run"):
        _ = H > 4
    with pytest.raises(SymbolicShape, match=r"n \(1\.\.4\) and w \(1\.\.5\)|w .* and n "):
        max(N, W)


@pytest.mark.parametrize("use", [
    int, float, range, math.sqrt, np.zeros, lambda h: 1 / h, lambda h: h / 2, lambda h: [0] * h,
    lambda h: np.asarray((h, 2), np.int64), lambda h: np.arange(h), lambda h: 2.5 * h,
    lambda h: h.bit_length(), lambda h: np.float64(2) * h, lambda h: h**0.5,
])  # fmt: skip
def test_use_as_a_number_is_refused(use):
    with pytest.raises((SymbolicShape, TypeError)) as caught:
        use(H)
    assert "h (2..9)" in str(caught.value) or caught.type is TypeError


def test_numpy_integers_are_ints():
    assert np.int64(2) * H == 2 * H == H * np.int64(2)
    assert H + np.int32(1) == H + 1 and np.int64(4) - H == 4 - H
    assert str(2 * H * W - 1) == "2*h*w - 1" and str((H + 1) // 3 + 2) == "(h + 1)//3 + 2"
