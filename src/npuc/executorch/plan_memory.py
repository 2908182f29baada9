"""Offsets of tensors in one memory, so that none overlaps another while both are alive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npuc.serialize.pte_flatbuffer import TENSOR_ALIGNMENT


@dataclass
class Tenant:
    """A tensor of `size` bytes, alive from instruction `first` to `last`, both included."""

    size: int
    first: int
    last: int
    offset: int = 0

    @property
    def end(self) -> int:
        return self.offset + max(self.size, 1)


def plan_memory(tenants: Sequence[Tenant]) -> int:
    """Set the offset of every tenant, each a multiple of TENSOR_ALIGNMENT; the bytes needed.

    Large ones first, each at the lowest place that is free during its life.
    """
    placed: list[Tenant] = []
    for tenant in sorted(tenants, key=lambda t: -t.size):
        beside = [p for p in placed if p.first <= tenant.last and tenant.first <= p.last]
        tenant.offset = 0
        for other in sorted(beside, key=lambda t: t.offset):
            if tenant.end <= other.offset:
                break
            tenant.offset = max(tenant.offset, _aligned(other.end))
        placed.append(tenant)
    return max((_aligned(t.end) for t in placed), default=0)


def _aligned(size: int) -> int:
    return size + -size % TENSOR_ALIGNMENT
