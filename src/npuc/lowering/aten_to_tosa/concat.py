"""The rule that joins tensors."""

from __future__ import annotations

from collections.abc import Sequence

from npuc.ir import Value
from npuc.lowering.aten_to_tosa.carry import carry
from npuc.lowering.aten_to_tosa.take import join
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.cat")
def cat(b: TosaBuilder, tensors: Sequence[Value], dim: int = 0) -> Value:
    """cat -> CONCAT; operands with other quantization parameters are requantized, neighbouring
    constants are joined at once. INT16 without EXT-INT16 is joined as INT32."""
    rank = b.out[0].rank
    # torch.cat still takes empty 1-D tensors beside others, and they add nothing
    parts = [t for t in tensors if 0 not in t.type.shape]
    b.require(parts, "all operands are empty; TOSA has no tensors without elements")
    return carry(b, lambda *values: join(b, values, dim % rank), *parts, by="CONCAT")
