"""A transposition as steps that move at most three blocks of memory each.

An NPU moves three blocks in one or two passes and anything else in many: a pixel shuffle as two
such steps costs a twentieth of the one TRANSPOSE of rank 6 (Vela 5.2, U85; an eighth on U55).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, pairwise, permutations

from npuc.dialects.tosa import OpBuilder
from npuc.ir import Value

Perm = tuple[int, ...]
#: shape of at most three blocks, and their permutation
Step = tuple[tuple[int, ...], Perm]

#: rows of this many elements are moved at full speed; writing a shorter one costs as much (U85),
#: reading one costs up to SHORT_READ times as much per element (U55)
FULL_ROW, SHORT_READ = 16, 2.5


def blocks(shape: Sequence[int], perms: Sequence[int]) -> Step:
    """The blocks that TRANSPOSE moves: no axes of size 1, those that stay neighbours as one."""
    order = [p for p in perms if shape[p] != 1]
    rank_of = {axis: i for i, axis in enumerate(sorted(order))}
    runs: list[list[int]] = []
    for axis in order:
        if runs and rank_of[axis] == rank_of[runs[-1][-1]] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    memory = sorted(range(len(runs)), key=lambda r: runs[r][0])
    sizes = tuple([math.prod(shape[a] for a in runs[r]) for r in memory])
    return sizes, tuple([memory.index(r) for r in range(len(runs))])


@lru_cache(maxsize=4096)
def plan_steps(sizes: tuple[int, ...], perm: Perm) -> tuple[Step, ...]:
    """The cheapest steps that together permute blocks of `sizes` by `perm` (Dijkstra)."""
    if 1 < len(sizes) <= 3:
        return ((sizes, perm),)
    start = tuple(range(len(sizes)))
    best: dict[Perm, float] = {start: 0.0}
    came: dict[Perm, tuple[Perm, Step]] = {}
    queue: list[tuple[float, Perm]] = [(0.0, start)]
    while queue:
        cost, state = heapq.heappop(queue)
        if state == perm:
            break
        if cost > best[state]:
            continue
        for reached, step in _steps([sizes[i] for i in state]):
            after = tuple([state[i] for i in reached])
            total = cost + _cost(step)
            if total < best.get(after, math.inf):
                best[after], came[after] = total, (state, step)
                heapq.heappush(queue, (total, after))
    found: list[Step] = []
    state = perm
    while state != start:
        state, step = came[state]
        found.append(step)
    return tuple(found[::-1])


def _steps(sizes: Sequence[int]) -> list[tuple[Perm, Step]]:
    """All moves of two or three neighbouring groups: the order they give, and the step."""
    found = []
    count = len(sizes)
    for cuts in (c for n in (1, 2) for c in combinations(range(1, count), n)):
        ends = (0, *cuts, count)
        groups = [tuple(range(a, b)) for a, b in pairwise(ends)]
        shape = tuple([math.prod(sizes[i] for i in g) for g in groups])
        for order in permutations(range(len(groups))):
            if order != tuple(range(len(groups))):
                found.append((tuple([i for g in order for i in groups[g]]), (shape, order)))
    return found


def _cost(step: Step) -> float:
    """Passes over the tensor: more for short rows, where it reads or where it writes."""
    shape, perm = step
    read, written = shape[-1], shape[perm[-1]]
    passes = 2 if perm in ((1, 2, 0), (2, 0, 1)) else 1
    return passes * max(1.0, min(FULL_ROW / read, SHORT_READ), FULL_ROW / written)


def emit_steps(b: OpBuilder, x: Value, perms: Sequence[int]) -> Value:
    """TRANSPOSE of a static `x` by `perms` as RESHAPEs and TRANSPOSEs of rank 3.

    Raises Unsupported where the target does not take one of them.
    """
    result = [x.type.ints[p] for p in perms]
    y, quant = x, x.type.transposed(perms).quant
    for shape, order in plan_steps(*blocks(x.type.ints, perms)):
        if len(shape) == 2:
            shape, order = (1, *shape), (0, order[0] + 1, order[1] + 1)
        y = b.transpose(b.reshape(y, shape), order)
    y = b.reshape(y, result)
    assert quant is None or quant.axis is None, "activations have one scale"
    return y
