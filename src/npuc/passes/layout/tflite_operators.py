"""How TFLite operators behave when the axes of their tensors are permuted."""

from __future__ import annotations

from npuc.ir import Op
from npuc.passes.layout.free import Free

UNARY = (
    "ABS", "CAST", "CEIL", "COS", "DEQUANTIZE", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH",
    "LEAKY_RELU", "LOG", "LOGICAL_NOT", "LOGISTIC", "NEG", "QUANTIZE", "RELU", "RELU6",
    "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "RSQRT", "SIGN", "SIN", "SQRT", "SQUARE", "TANH",
)  # fmt: skip
BINARY = (
    "ADD", "ATAN2", "BITWISE_XOR", "DIV", "EQUAL", "FLOOR_DIV", "FLOOR_MOD", "GREATER",
    "GREATER_EQUAL", "LESS", "LESS_EQUAL", "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "MUL",
    "NOT_EQUAL", "POW", "RIGHT_SHIFT", "SQUARED_DIFFERENCE", "SUB",
)  # fmt: skip
REDUCTIONS = (
    "MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM",
)  # fmt: skip

FREE: dict[str, Free] = {
    **dict.fromkeys(UNARY, Free(1)),
    **dict.fromkeys(BINARY, Free(2)),
    **dict.fromkeys(REDUCTIONS, Free(1, axes=("axes",))),
    "SELECT_V2": Free(3),
    "CONCATENATION": Free(None, axis=True),
    "REVERSE_V2": Free(1, axes=("axes",)),
    "CUMSUM": Free(1, axis=True),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), Free(1, axis=True, drops_axis=True)),
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD"), Free(1, per_axis=("paddings",))),
    "SLICE": Free(1, per_axis=("begin", "size")),
    "STRIDED_SLICE": Free(1, per_axis=("begin", "end", "strides")),
    "TILE": Free(1, per_axis=("multiples",)),
    "BROADCAST_TO": Free(1, per_axis=("shape",)),
    **dict.fromkeys(("SOFTMAX", "LOG_SOFTMAX", "PRELU", "FULLY_CONNECTED"), Free(1, last=True)),
}

IMAGE = (("nhwc",), "nhwc")
FIXED_AXES: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(
        ("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D", "RESIZE_BILINEAR",
         "RESIZE_NEAREST_NEIGHBOR", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE"), IMAGE,
    ),
    "TRANSPOSE_CONV": (("oykx", "nhwc"), "nhwc"),
    "CONV_3D": (("ndhwc",), "ndhwc"),
}  # fmt: skip


def is_free(op: Op) -> bool:
    """Whether the operator with these attributes keeps the rank that `Free` stands for."""
    if op.name in REDUCTIONS:
        return bool(op.attrs["keep_dims"])
    if op.name == "FULLY_CONNECTED":
        return bool(op.attrs["keep_num_dims"]) or op.operands[0].type.rank == 2
    if op.name == "BROADCAST_TO":
        return len(op.attrs["shape"]) == op.operands[0].type.rank
    return True


def fixed_axes(op: Op) -> tuple[tuple[str, ...], str]:
    """Letters of the axes of operands and result; those of BATCH_MATMUL depend on the rank."""
    if op.name != "BATCH_MATMUL" or op.attrs["adj_x"] or op.attrs["adj_y"]:
        return FIXED_AXES.get(op.name, ((), ""))
    batch = "abdefg"[: op.results[0].type.rank - 2]
    return (batch + "hk", batch + "kw"), batch + "hw"
