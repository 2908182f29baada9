"""What a graph spends on moving and rescaling data, for reports."""

from __future__ import annotations

from collections import Counter

from npuc.ir import DType, Graph, Op

#: operators that compute nothing
MOVES = ("TRANSPOSE", "RESHAPE", "SLICE", "PAD", "TILE", "REVERSE", "CONCAT", "IDENTITY",
         "STRIDED_SLICE", "PADV2", "REVERSE_V2", "CONCATENATION")  # fmt: skip


def count_waste(graph: Graph) -> dict[str, int]:
    """Counts and bytes of what computes nothing.

    `transposes` move data (those of axes of size 1 count as reshapes), `transposed_bytes` what they
    move. `rescales` are all, `lone_rescales` those from int8 or int16 to int8 or int16, which no
    NPU fuses with what computed their operand. Further keys: the other operators that move data.
    """
    found: Counter[str] = Counter({"transposes": 0, "transposed_bytes": 0, "rescales": 0})
    found.update({"lone_rescales": 0, **{name.lower(): 0 for name in MOVES[1:]}})
    for op in graph.walk():
        if not op.kind.startswith(("tosa.", "tflite.")):
            continue
        if op.name == "TRANSPOSE" and moves_data(op):
            found["transposes"] += 1
            type = op.results[0].type
            found["transposed_bytes"] += type.nbytes if type.is_static else 0
        elif op.name == "TRANSPOSE":
            found["reshape"] += 1
        elif op.name == "RESCALE" or (op.name == "QUANTIZE" and not reads_floats(op)):
            found["rescales"] += 1
            found["lone_rescales"] += is_lone(op)
        elif op.name in MOVES:
            found[op.name.lower()] += 1
    return dict(found)


def moves_data(transpose: Op) -> bool:
    """Whether a TRANSPOSE moves an axis that is not of size 1."""
    shape = transpose.operands[0].type.shape
    hard = [p for p in transpose.attrs["perms"] if shape[p] != 1]
    return hard != sorted(hard)


def reads_floats(op: Op) -> bool:
    return op.operands[0].type.dtype.is_float


def is_lone(rescale: Op) -> bool:
    """Whether a RESCALE goes from a narrow type to a narrow one: a pass over the tensor."""
    narrow = (DType.INT8, DType.INT16)
    return rescale.operands[0].type.dtype in narrow and rescale.results[0].type.dtype in narrow
