"""How the elements of a value of the model lie in the value of a graph that carries them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npuc.ir.types import Shape

#: ("TRANSPOSE", perms) and ("RESHAPE", shape), to be done in order: they make the elements of the
#: model's value, which may still be in another shape, of the value in the graph. In a shape, ~axis
#: is a size known at run time that this axis has before, None one that no axis has. `Moves` are
#: None where there is nothing to do.
Moves = tuple[tuple[str, tuple[Any, ...]], ...] | None


def before_transpose(perms: Sequence[int], moves: Moves) -> Moves:
    """The moves of the operand of a TRANSPOSE whose result has `moves`."""
    perms, rest = tuple(perms), moves or ()
    if rest and rest[0][0] == "TRANSPOSE":
        perms, rest = tuple([perms[i] for i in rest[0][1]]), rest[1:]
    if perms == tuple(range(len(perms))):
        return rest or None
    return (("TRANSPOSE", perms), *rest)


def before_reshape(old: Shape, new: Shape, moves: Moves) -> Moves:
    """The moves of a value of shape `old` that, as one of shape `new`, has `moves`.

    With nothing to do behind it a reshape goes without saying.
    """
    if not moves or old == new:
        return moves
    wanted: Sequence[Any] = new
    if moves[0][0] == "RESHAPE":
        wanted = [d if d is None or d >= 0 else new[~d] for d in moves[0][1]]
        moves = moves[1:]
    axes = {d: ~axis for axis, d in enumerate(old) if not isinstance(d, int)}
    return (("RESHAPE", tuple([d if isinstance(d, int) else axes.get(d) for d in wanted])), *moves)


def apply_moves(array: np.ndarray, moves: Moves) -> np.ndarray | None:
    """The elements of the model's value, of those of the value that carries it.

    None where a shape has several sizes that no axis had before.
    """
    for kind, numbers in moves or ():
        if kind == "TRANSPOSE":
            array = array.transpose(numbers)
        elif numbers.count(None) > 1:
            return None
        else:
            sizes = [-1 if d is None else array.shape[~d] if d < 0 else d for d in numbers]
            array = array.reshape(sizes)
    return array
