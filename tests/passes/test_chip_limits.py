"""What passes emit for a chip is what the chip takes, and computes the same."""

from __future__ import annotations

import pytest

from npuc.passes.pipeline import run_passes
from npuc.targets.catalogue import find_target
from tests.passes.random_graphs import check_same, random_graph


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("name", ["ethos-u55-128", "ethos-u85-256"])
def test_every_op_is_within_the_limits(name: str, seed: int) -> None:
    target = find_target(name)
    before = random_graph(seed, 30, target.limits)
    # merging roundings changes results by a step, which later ops may enlarge: tested apart
    passes = [p for p in target.passes if p != "merge_rescales"]
    after = run_passes(before, passes, target.limits)
    for op in after.walk():
        if op.kind != "const":
            types = [r.type for r in op.results]
            assert target.limits.reason(op.name, op.operands, op.attrs, types) is None
    check_same(before, after)
