"""Moves between a value of the model and the one that carries it, with sizes known at run time."""

from __future__ import annotations

import numpy as np
import pytest

from npuc.ir import Moves, SymDim, apply_moves, before_reshape, before_transpose

N, M = SymDim("n", 1, 9), SymDim("m", 1, 9)
#: of [n, 6]: as [n, 2, 3], then the last two axes swapped
MOVES: Moves = (("RESHAPE", (~0, 2, 3)), ("TRANSPOSE", (0, 2, 1)))


@pytest.mark.parametrize("n", [1, 4, 9])
def test_a_size_is_found_at_its_new_axis(n: int) -> None:
    moves = before_reshape((1, N, 6), (N, 6), MOVES)
    assert moves == (("RESHAPE", (~1, 2, 3)), ("TRANSPOSE", (0, 2, 1)))
    array = np.arange(n * 6)
    wanted = array.reshape(n, 2, 3).transpose(0, 2, 1)
    np.testing.assert_array_equal(apply_moves(array.reshape(1, n, 6), moves), wanted)


def test_a_size_that_no_axis_has_is_what_is_left() -> None:
    moves = before_reshape((2 * N, 3), (N, 6), MOVES)
    assert moves is not None and moves[0] == ("RESHAPE", (None, 2, 3))
    array = np.arange(24)
    wanted = array.reshape(4, 2, 3).transpose(0, 2, 1)
    np.testing.assert_array_equal(apply_moves(array.reshape(8, 3), moves), wanted)


def test_two_such_sizes_are_not_known() -> None:
    moves = before_reshape((N * M,), (N, M), (("TRANSPOSE", (1, 0)),))
    assert apply_moves(np.arange(12), moves) is None


def test_the_last_reshape_of_a_chain_counts() -> None:
    inner = before_reshape((N, 6), (6 * N,), (("RESHAPE", (None, 3)), ("TRANSPOSE", (1, 0))))
    assert before_reshape((1, 6 * N), (N, 6), inner) == inner
    array = np.arange(24)
    wanted = array.reshape(8, 3).transpose(1, 0)
    np.testing.assert_array_equal(apply_moves(array.reshape(1, 24), inner), wanted)
    assert before_transpose((1, 0), before_transpose((1, 0), None)) is None
