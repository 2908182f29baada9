"""The lowest version of each operator that holds, and the runtime that first had it.

Facts: LiteRT `tools/versioning/op_version.cc` and `runtime_version.cc`. A file that asks for no
more than it needs loads in old runtimes and in TFLite Micro.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npuc.ir import DType, TensorType

Types = Sequence[TensorType]
Attrs = Mapping[str, Any]

F, B, U, H, I, L, O = (  # noqa: E741 - the letters of the signatures
    DType.FP32, DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.INT64, DType.BOOL,
)  # fmt: skip


def _each(names: str, versions: dict[DType, int]) -> dict[str, dict[DType, int]]:
    return dict.fromkeys(names.split(), versions)


#: operator -> first operand's type -> version; others have version 1
BY_TYPE: dict[str, dict[DType, int]] = {
    **_each("MAX_POOL_2D AVERAGE_POOL_2D TANH LOGISTIC", {H: 3, B: 2}),
    **_each("SOFTMAX MEAN MIRROR_PAD REDUCE_MAX REDUCE_MIN RELU6 RSQRT", {H: 3, B: 2}),
    **_each("BATCH_MATMUL CONCATENATION TOPK_V2 LESS GREATER_EQUAL", {H: 3, B: 2}),
    **_each("SPACE_TO_DEPTH DEPTH_TO_SPACE SUM LOG_SOFTMAX GREATER LESS_EQUAL", {B: 2}),
    **_each("SQUARED_DIFFERENCE NOT_EQUAL L2_NORMALIZATION", {B: 2}),
    **_each("EXP LOG REDUCE_PROD", {B: 2, H: 2}),
    **_each("ARG_MAX ARG_MIN", {O: 3, B: 2}),
    "EQUAL": {H: 4, B: 2}, "ABS": {I: 5, H: 3, B: 2, U: 2}, "RELU": {H: 3, B: 2, U: 2},
    "GELU": {B: 2, U: 2}, "LEAKY_RELU": {H: 2}, "REVERSE_V2": {B: 3, O: 2}, "TILE": {B: 3},
    "BROADCAST_TO": dict.fromkeys((F, U, I, L, O), 2) | {B: 3, H: 3}, "SIGN": {I: 2},
    "FLOOR_DIV": {H: 3, B: 3, F: 2}, "FLOOR_MOD": {H: 2, B: 2}, "DEQUANTIZE": {H: 3, B: 2},
    "GATHER_ND": {O: 5, H: 3},
    # also by more than the type, see RULES
    "GATHER": {H: 4, O: 3, B: 2}, "MUL": {L: 5, H: 4, B: 2}, "TRANSPOSE": {H: 5, O: 3, B: 2},
    "SLICE": {H: 4, B: 2}, "STRIDED_SLICE": {O: 3, B: 2}, "PAD": {O: 5, H: 3, B: 2},
    "PADV2": {O: 5, H: 3, B: 2}, "MAXIMUM": {H: 4, B: 2}, "MINIMUM": {H: 4, B: 2},
    "ADD": {L: 4, H: 3, B: 2}, "SUB": {H: 5, L: 4, B: 2}, "RESIZE_BILINEAR": {H: 4, B: 2},
    "RESIZE_NEAREST_NEIGHBOR": {H: 4, B: 2}, "CONV_2D": {B: 3}, "DEPTHWISE_CONV_2D": {B: 3},
}  # fmt: skip


def lowest_version(name: str, operands: Types, attrs: Attrs, results: Types) -> int:
    """The lowest version of operator `name` that covers these types and attributes."""
    version = BY_TYPE.get(name, {}).get(operands[0].dtype, 1) if operands else 1
    rule = RULES.get(name)
    return max(version, rule(operands, attrs, results)) if rule else version


def runtime_of(name: str, version: int) -> tuple[int, ...]:
    """The first TFLite runtime with a version of an operator, as numbers; () where unknown."""
    known = RUNTIMES.get(name, "").split()
    if not 0 < version <= len(known) or known[version - 1] == "-":
        return ()
    return tuple(map(int, known[version - 1].split(".")))


def _broadcasts_high(operands: Types, attrs: Attrs, results: Types) -> int:
    high = len(operands) > 1 and operands[0].shape != operands[1].shape
    return 3 if high and max(t.rank for t in operands) > 4 else 1


def _mul(operands: Types, attrs: Attrs, results: Types) -> int:
    x, y, out = operands[0].quant, operands[1].quant, results[0].quant
    grows = x and y and out and x.s * y.s / out.s >= 1.0
    return 3 if grows and operands[0].dtype is not DType.INT16 else 1


def _conv(operands: Types, attrs: Attrs, results: Types) -> int:
    if operands[0].shape[-1] != operands[1].shape[-1]:
        return 6
    return 7 if operands[1].dtype is DType.INT4 else 1


def _depthwise(operands: Types, attrs: Attrs, results: Types) -> int:
    if operands[1].dtype is DType.INT4:
        return 7
    return 2 if attrs["dilation"] != (1, 1) else 1


def _transpose_conv(operands: Types, attrs: Attrs, results: Types) -> int:
    if attrs["activation"] != "NONE":
        return 4
    if len(operands) == 3:
        return 3
    return 2 if operands[1].dtype is DType.INT8 else 1


def _fully_connected(operands: Types, attrs: Attrs, results: Types) -> int:
    x, weight = operands[0].dtype, operands[1].dtype
    if weight is DType.INT4:
        return 10
    if len(operands) == 2:
        return 6
    if attrs["keep_num_dims"]:
        return 5
    return 4 if x is DType.INT8 else 1


def _transpose(operands: Types, attrs: Attrs, results: Types) -> int:
    rank = operands[0].rank
    return 6 if rank > 5 else 4 if rank > 4 and operands[0].dtype is not DType.INT16 else 1


def _cast(operands: Types, attrs: Attrs, results: Types) -> int:
    return 3 if DType.INT8 in (operands[0].dtype, results[0].dtype) else 1


def _half_pixels(operands: Types, attrs: Attrs, results: Types) -> int:
    return 3 if attrs["half_pixel_centers"] else 1


def _corners(operands: Types, attrs: Attrs, results: Types) -> int:
    return 3 if attrs["half_pixel_centers"] or attrs["align_corners"] else 1


RULES: dict[str, Callable[[Types, Attrs, Types], int]] = {
    "CONV_2D": _conv, "DEPTHWISE_CONV_2D": _depthwise, "TRANSPOSE_CONV": _transpose_conv,
    "FULLY_CONNECTED": _fully_connected, "MUL": _mul, "TRANSPOSE": _transpose, "CAST": _cast,
    "MAXIMUM": _broadcasts_high, "MINIMUM": _broadcasts_high, "SUB": _broadcasts_high,
    "DIV": lambda o, a, r: 2 if _broadcasts_high(o, a, r) > 1 else 1,
    "RESIZE_BILINEAR": _half_pixels, "RESIZE_NEAREST_NEIGHBOR": _corners,
    "QUANTIZE": lambda o, a, r: 2 if r[0].dtype is DType.INT16 else 1,
    "GATHER": lambda o, a, r: 5 if a["batch_dims"] else 1,
    "SLICE": lambda o, a, r: 5 if o[0].rank > 4 else 1,
    "STRIDED_SLICE": lambda o, a, r: 4 if o[0].rank > 4 else 1,
    "PAD": lambda o, a, r: 4 if o[0].rank > 4 else 1,
    "PADV2": lambda o, a, r: 4 if o[0].rank > 4 else 1,
    "SELECT_V2": lambda o, a, r: 1,
}  # fmt: skip

#: operator -> runtime of version 1, 2, ...; "-" where the list of LiteRT has none
RUNTIMES = {
    "AVERAGE_POOL_2D": "1.5.0 1.14.0 2.3.0", "BATCH_MATMUL": "2.3.0 2.3.0 2.4.0 2.5.0",
    "BROADCAST_TO": "- 2.5.0 2.5.0",
    "CONV_2D": "1.5.0 1.14.0 1.14.0 2.3.0 2.4.0 2.9.0 2.11.0 2.15.0",
    "DEPTHWISE_CONV_2D": "1.5.0 1.12.0 1.14.0 2.2.0 2.3.0 2.3.0 2.11.0",
    "ADD": "1.5.0 1.14.0 2.4.0 2.6.0 2.13.0", "SUB": "1.6.0 1.14.0 2.3.0 2.4.0 2.4.0",
    "DIV": "1.6.0 2.3.0", "CAST": "1.5.0 2.7.0 2.8.0 2.9.0 2.12.0 2.15.0 2.17.0",
    "CONCATENATION": "1.5.0 1.14.0 2.3.0 2.14.0", "DEPTH_TO_SPACE": "2.1.0 2.5.0",
    "FULLY_CONNECTED": "1.5.0 1.10.0 1.14.0 1.14.0 2.0.0 2.1.0 2.3.0 2.3.0 2.3.0 2.11.0",
    "GATHER": "1.6.0 1.14.0 1.15.0 2.4.0 2.5.0 2.13.0",
    "GATHER_ND": "1.14.0 2.3.0 2.5.0 2.13.0 2.16.0", "L2_NORMALIZATION": "1.5.0 1.14.0",
    "MAX_POOL_2D": "1.5.0 1.14.0 2.3.0", "MAXIMUM": "1.14.0 1.14.0 2.3.0 2.3.0",
    "MINIMUM": "1.14.0 1.14.0 2.3.0 2.3.0", "MUL": "1.5.0 1.14.0 1.15.0 2.3.0 2.6.0 2.11.0 2.13.0",
    "PAD": "1.5.0 1.14.0 2.4.0 2.6.0", "TILE": "1.10.1 2.2.0 2.8.0",
    "PADV2": "1.9.0 1.14.0 2.4.0 2.6.0", "RESHAPE": "1.5.0", "SOFTMAX": "1.5.0 1.14.0 2.3.0",
    "SPACE_TO_DEPTH": "1.5.0 1.14.0", "TRANSPOSE": "1.6.0 1.14.0 1.15.0 2.3.0 2.4.0 2.12.0",
    "MEAN": "1.6.0 1.14.0 2.4.0", "SUM": "1.10.0 1.15.0", "REDUCE_MAX": "1.11.0 1.14.0 2.5.0",
    "REDUCE_MIN": "1.11.0 1.14.0 2.5.0", "REDUCE_PROD": "1.11.0 2.6.0", "REDUCE_ANY": "1.11.0",
    "REDUCE_ALL": "2.6.0", "RELU6": "1.5.0 1.14.0 2.5.0",
    "RESIZE_BILINEAR": "1.7.0 1.14.0 2.2.0 2.5.0",
    "RESIZE_NEAREST_NEIGHBOR": "1.13.1 1.14.0 2.3.0 2.4.0",
    "STRIDED_SLICE": "1.6.0 1.14.0 2.1.0 2.2.0 2.5.0 2.6.0", "TOPK_V2": "1.7.0 1.14.0 2.13.0",
    "ARG_MAX": "1.9.0 1.14.0 2.9.0", "ARG_MIN": "1.9.0 1.14.0 2.9.0",
    "TRANSPOSE_CONV": "1.9.0 2.2.0 2.3.0 2.13.0 2.15.0",
    "SLICE": "1.14.0 1.14.0 1.14.0 2.4.0 2.5.0", "TANH": "1.14.0 1.14.0 2.3.0",
    "LEAKY_RELU": "1.13.1 2.3.0", "LOGISTIC": "1.14.0 1.14.0 2.3.0", "LOG_SOFTMAX": "1.14.0 1.14.0",
    "SQUARED_DIFFERENCE": "1.13.1 2.5.0", "MIRROR_PAD": "1.13.1 2.3.0 2.12.0",
    "DEQUANTIZE": "1.13.1 1.14.0 1.15.0 2.2.0 2.7.0", "EQUAL": "1.14.0 1.14.0 2.3.0 2.13.0",
    "NOT_EQUAL": "1.14.0 1.14.0 2.3.0", "GREATER": "1.14.0 1.14.0",
    "GREATER_EQUAL": "1.14.0 1.14.0 2.13.0", "LESS": "1.14.0 1.14.0 2.13.0",
    "LESS_EQUAL": "1.14.0 1.14.0", "SCATTER_ND": "2.1.0", "SELECT_V2": "2.2.0 2.12.0",
    "IF": "1.15.0", "FLOOR_DIV": "1.14.0 1.14.0 2.13.0", "FLOOR": "1.9.0", "CEIL": "1.14.0",
    "ELU": "1.14.0", "QUANTIZE": "1.14.0 1.15.0 2.7.0", "ROUND": "1.14.0",
    "RELU": "1.5.0 2.1.0 2.5.0", "RELU_N1_TO_1": "1.5.0", "RELU_0_TO_1": "2.10.0", "PRELU": "1.8.0",
    "EXP": "1.7.0 2.12.0", "COS": "1.14.0", "NEG": "1.9.0", "POW": "1.10.0", "LOGICAL_OR": "1.11.0",
    "LOGICAL_AND": "1.11.0", "LOGICAL_NOT": "1.11.0", "FLOOR_MOD": "1.13.0 2.13.0", "SIN": "1.9.0",
    "LOG": "1.14.0 2.15.0", "SQRT": "1.10.0", "RSQRT": "1.10.0 2.5.0 2.15.0", "SQUARE": "1.12.0",
    "ABS": "1.13.0 2.4.0 2.5.0 2.6.0 2.12.0", "HARD_SWISH": "1.15.0",
    "REVERSE_V2": "1.14.0 2.2.0 2.5.0", "WHILE": "1.15.0", "CUMSUM": "2.4.0", "CONV_3D": "2.5.0",
    "GELU": "2.9.0 2.9.0", "ATAN2": "2.10.0", "SIGN": "2.11.0 2.12.0", "BITWISE_XOR": "2.13.0",
    "RIGHT_SHIFT": "2.13.0",
}  # fmt: skip
