"""Which axes of size 1 an op runs with: frames, and the ones worth trying.

A frame says for each axis of the new shape which axis of the old one it is; NEW is a new axis of
size 1. Axes that are not of size 1 keep their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from npuc.ir import Dim, Graph, Op, Shape, Value
from npuc.passes.layout.behaviour import Free, data_operands, free_behaviour, keeps_last_axis

Frame = tuple[int, ...]
NEW = -1
#: per axis whether it is not of size 1
Pattern = tuple[bool, ...]

#: ranks that shapes are brought to by adding or dropping axes of size 1 in front
RANKS = (4, 3, 2)
MAX_PATTERNS = 4


def in_frame(shape: Shape, frame: Frame) -> tuple[int, ...]:
    """The shape of a tensor of the op in a frame."""
    return tuple([1 if p == NEW else int(shape[p]) for p in frame])  # type: ignore[arg-type]


def wide_axes(op: Op, free: Free) -> list[int]:
    """Axes that are not of size 1 in some tensor of the op."""
    shapes = [v.type.shape for v in (*data_operands(op, free), op.results[0])]
    return [i for i in range(len(shapes[0])) if any(s[i] != 1 for s in shapes)]


def flexible_behaviour(op: Op) -> Free | None:
    """The behaviour of an op that runs with other axes of size 1 than it has; None for others."""
    free = free_behaviour(op)
    if free is None or free.drops_axis:
        return None
    tensors = (*data_operands(op, free), *op.results)
    if not all(v.type.is_static for v in tensors):
        return None
    if not free.axis and not keeps_last_axis(op):
        return free
    axis = op.attrs["axis"] if free.axis else op.results[0].type.rank - 1
    return free if axis in wide_axes(op, free) else None


def frame_for_rank(rank: int, wide: Sequence[int], wanted: int) -> Frame | None:
    """The op's own frame with axes of size 1 added or dropped in front."""
    if rank <= wanted:
        return (NEW,) * (wanted - rank) + tuple(range(rank))
    dropped = rank - wanted
    return tuple(range(dropped, rank)) if all(i >= dropped for i in wide) else None


def frame_for_pattern(wide: Sequence[int], pattern: Pattern) -> Frame | None:
    """The frame that puts the wide axes where the pattern has its."""
    if sum(pattern) != len(wide):
        return None
    axes = iter(wide)
    return tuple([next(axes) if is_wide else NEW for is_wide in pattern])


def pattern_of(value: Value) -> Pattern:
    return tuple([d != 1 for d in value.type.shape])


def common_patterns(graph: Graph, pinned: Iterable[Op]) -> list[Pattern]:
    """The patterns that ops of fixed shape and the graph's ends have most often."""
    found: Counter[Pattern] = Counter()
    ends = [*graph.inputs, *graph.outputs]
    for value in (*ends, *(v for op in pinned for v in (*op.operands, *op.results))):
        if value.type.is_static and value.type.rank > 1 and not value.is_const:
            found[pattern_of(value)] += 1
    return [pattern for pattern, _ in found.most_common(MAX_PATTERNS)]


def frames(op: Op, free: Free, patterns: Sequence[Pattern]) -> list[Frame | None]:
    """One frame per rank and per pattern; None where the op cannot run in it."""
    rank, wide = op.operands[0].type.rank, wide_axes(op, free)
    found = [frame_for_rank(rank, wide, r) for r in RANKS]
    found += [frame_for_pattern(wide, pattern) for pattern in patterns]
    if keeps_last_axis(op):
        return [f if f is not None and f[-1] == rank - 1 else None for f in found]
    return found


def renumber_entries(
    entries: Sequence[Dim], rank: int, frame: Frame, neutral: int
) -> tuple[Dim, ...]:
    """A shape operand with one or two entries per axis of `rank`; `neutral` for new axes."""
    each = len(entries) // rank
    return tuple(neutral if p == NEW else entries[p * each + k] for p in frame for k in range(each))
