"""What the self-check found: figures per op and end to end, and the one-line verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class OpCheck:
    """One op of the model against PyTorch on the operand values that the artifact itself produced.

    `error` is in steps of the quantized result, which has `bits`, or for floats relative to the
    largest value.
    """

    name: str
    where: str
    error: float
    steps: bool
    bits: int = 8


@dataclass(frozen=True)
class OutputCheck:
    """One output against the quantized PyTorch graph (`steps`, `sqnr`) and the float model."""

    name: str
    max_steps: float | None
    max_error: float
    sqnr: float
    sqnr_float: float | None


@dataclass
class CheckReport:
    """What was compared with what. `exact`: every integer equals PyTorch's. `other_path`: rounding
    makes the artifact take another branch than PyTorch, or another of elements that are equal, so
    that outputs are not comparable."""

    ops: list[OpCheck] = field(default_factory=list)
    outputs: list[OutputCheck] = field(default_factory=list)
    samples: int = 0
    tolerance: str = ""
    unobserved: int = 0
    other_path: bool = False

    @property
    def worst_op(self) -> OpCheck | None:
        return max(self.ops, key=lambda o: o.error, default=None)

    @property
    def exact(self) -> bool:
        return all(o.error == 0 for o in self.ops)

    def summary(self) -> str:
        """`exact`, `within 1 step` or the float error, and the SQNR where it is finite."""
        worst = self.worst_op
        if worst is None:
            errors = [o.max_error for o in self.outputs]
            return f"outputs within {max(errors):.1e}" if errors else "nothing to compare"
        if any(o.steps for o in self.ops):
            steps = max(o.error for o in self.ops if o.steps)
            text = (
                "exact" if self.exact else f"within {steps:g} step{'s' if steps > 1 else ''} per op"
            )
        else:
            text = f"float error {worst.error:.1e} per op"
        sqnr = [o.sqnr_float for o in self.outputs if o.sqnr_float is not None]
        finite = [s for s in sqnr if math.isfinite(s)]
        if self.other_path:
            return (
                text
                + ", outputs not compared: PyTorch takes another branch or other equal elements"
            )
        return text + (f", {min(finite):.1f} dB against float" if finite else "")

    def _steps(self) -> str:
        narrow = max((o.error for o in self.ops if o.steps and o.bits <= 8), default=0)
        wide = max((o.error for o in self.ops if o.steps and o.bits > 8), default=0)
        text = f"within {max(narrow, 1):g} step"
        return text + (f" ({wide:g} of 65,536 where 16 bits)" if wide > 1 else "")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        worst = self.worst_op
        return {
            "summary": self.summary(),
            "samples": self.samples,
            "ops_compared": len(self.ops),
            "ops_unobserved": self.unobserved,
            "tolerance": self.tolerance,
            "worst_op": vars(worst) if worst else None,
            "outputs": [vars(o) for o in self.outputs],
        }


def sqnr_db(got: Any, want: Any) -> float:
    """Signal to quantization noise in dB of float arrays: 10 log10(sum want^2 / sum (got-want)^2)."""
    import numpy as np

    want = np.asarray(want, np.float64)
    got = np.asarray(got, np.float64)
    ok = np.isfinite(want) & np.isfinite(got)
    noise = float(np.sum((got[ok] - want[ok]) ** 2))
    signal = float(np.sum(want[ok] ** 2))
    if noise == 0:
        return math.inf
    return 10 * math.log10(max(signal, 1e-30) / noise)
