"""softmax on Ethos-U: the maximum over channels is slow there, over rows it is not."""

from __future__ import annotations

from npuc.ir import Value
from npuc.lowering.aten_to_tosa.softmax import integer_log_softmax, integer_softmax
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.softmax", target="ethos-u")
def softmax(b: TosaBuilder, x: Value, dim: int) -> Value:
    """softmax -> exp table, integer sum, reciprocal; the row maximum through a TRANSPOSE."""
    return integer_softmax(b, x, dim, transposed_max)


@lowers("aten.log_softmax", target="ethos-u")
def log_softmax(b: TosaBuilder, x: Value, dim: int) -> Value:
    """log_softmax -> exp table, integer sum, logarithm; the row maximum through a TRANSPOSE."""
    return integer_log_softmax(b, x, dim, transposed_max)


def transposed_max(b: TosaBuilder, rows: Value) -> Value:
    """Largest of each row of [1, R, N]: REDUCE_MAX over axis 1 of [1, N, R]."""
    _, r, n = rows.type.ints
    columns = b.reshape(rows, (1, n, 1)) if r == 1 else b.transpose(rows, (0, 2, 1))
    return b.reshape(b.REDUCE_MAX(columns, axis=1, quant=rows.type.quant), (1, r, 1))
