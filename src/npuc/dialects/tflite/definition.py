"""TFLite builtin operators: operands, attributes, element types that LiteRT has kernels for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from npuc.ir import DType

#: letters of signatures
LETTERS = {
    "f": DType.FP32, "b": DType.INT8, "u": DType.UINT8, "h": DType.INT16, "i": DType.INT32,
    "l": DType.INT64, "o": DType.BOOL, "n": DType.INT4,
}  # fmt: skip


@dataclass(frozen=True)
class Definition:
    """A builtin operator.

    inputs: names of its tensors in the order of the file. One that starts with '#' is an attribute
    here and becomes a constant INT32 tensor in the file; one that ends with '?' may be missing,
    with '*' it stands for any number. attributes: name -> default (`...`: must be given).
    signatures: element types of the operands and of the first result.
    quant: how parameters relate, see `quantization.py`. max_rank: of the operands.
    """

    name: str
    options: str | None
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    signatures: frozenset[tuple[tuple[DType, ...], DType]]
    quant: str = ""
    max_rank: int = 8
    results: int = 1
    tensors: tuple[str, ...] = field(default=(), compare=False)

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the inputs that are operands here."""
        return tuple(n for n in self.inputs if not n.startswith("#"))

    @property
    def is_variadic(self) -> bool:
        return self.inputs[-1].endswith("*") if self.inputs else False


DEFINITIONS: dict[str, Definition] = {}

Signature = tuple[tuple[DType, ...], DType]


def _signatures(text: str) -> frozenset[Signature]:
    """ "ff>f bb>b": one word per signature."""
    found = set()
    for word in text.split():
        operands, _, result = word.partition(">")
        found.add((tuple(LETTERS[c] for c in operands), LETTERS[result]))
    return frozenset(found)


def _op(
    names: str, inputs: str, types: str, options: str | None = None, quant: str = "",
    max_rank: int = 8, results: int = 1, **attributes: Any,
) -> None:  # fmt: skip
    """Define operators. `types` without '>' are letters of types that all tensors share.

    `options` with a '*' takes the operator's own name: "*Options" of ABS is AbsOptions.
    """
    operands = [n for n in inputs.split() if not n.startswith("#")]
    if ">" not in types:
        types = " ".join(f"{c * len(operands)}>{c}" for c in types)
    for name in names.split():
        camel = "".join(part.capitalize() for part in name.split("_"))
        kind = options.replace("*", camel) if options else None
        shapes = {n[1:]: ... for n in inputs.split() if n.startswith("#")}
        DEFINITIONS[name] = Definition(
            name, kind, tuple(inputs.split()), {**shapes, **attributes}, _signatures(types),
            quant, max_rank, results, tuple(shapes),
        )  # fmt: skip


CONV = "fff>f bbi>b bni>b hbl>h"
WINDOW: dict[str, Any] = {"padding": "VALID", "stride": (1, 1), "activation": "NONE"}

# -- weights
_op("CONV_2D", "input filter bias?", CONV, "Conv2DOptions", "weights:0",
    **WINDOW, dilation=(1, 1))  # fmt: skip
_op("DEPTHWISE_CONV_2D", "input filter bias?", CONV, "DepthwiseConv2DOptions", "weights:3",
    **WINDOW, dilation=(1, 1), depth_multiplier=1)  # fmt: skip
_op("TRANSPOSE_CONV", "#output_shape filter input bias?", "fff>f bbi>b bhl>h",
    "TransposeConvOptions", "weights:0", **WINDOW)  # fmt: skip
_op("CONV_3D", "input filter bias?", "fff>f", "Conv3DOptions", "", padding="VALID",
    stride=(1, 1, 1), dilation=(1, 1, 1), activation="NONE")  # fmt: skip
_op("FULLY_CONNECTED", "input filter bias?", CONV, "FullyConnectedOptions", "weights:0",
    activation="NONE", keep_num_dims=False)  # fmt: skip
_op("BATCH_MATMUL", "x y", "fbh", "BatchMatMulOptions", "own", 5, adj_x=False, adj_y=False)

# -- windows
_op("AVERAGE_POOL_2D MAX_POOL_2D", "input", "fbuh", "Pool2DOptions", "same", kernel=..., **WINDOW)
_op("RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR", "images #size", "fbuh", "*Options", "same",
    align_corners=False, half_pixel_centers=False)  # fmt: skip

# -- two operands
_op("ADD SUB MUL", "x y", "fbuhil", "*Options", "own", activation="NONE")
_op("DIV", "x y", "fi", "*Options", "own", activation="NONE")
_op("MAXIMUM MINIMUM", "x y", "fbuhil", "MaximumMinimumOptions", "same")
_op("FLOOR_DIV", "x y", "fbhi", "*Options", "raw")
_op("FLOOR_MOD", "x y", "fbhil", "*Options", "raw")
_op("SQUARED_DIFFERENCE", "x y", "fbi", "*Options", "own")
_op("POW", "x y", "fi", "*Options", "")
_op("ATAN2", "x y", "f", "ATan2Options", "")
_op("BITWISE_XOR RIGHT_SHIFT", "x y", "bhi", "*Options", "raw")
_op("EQUAL NOT_EQUAL", "x y", "ff>o bb>o uu>o hh>o ii>o ll>o oo>o", "*Options", "alike")
_op("LESS LESS_EQUAL GREATER GREATER_EQUAL", "x y", "ff>o bb>o uu>o hh>o ii>o ll>o", "*Options",
    "alike")  # fmt: skip
_op("LOGICAL_AND LOGICAL_OR", "x y", "o", "*Options", "")
_op("LOGICAL_NOT", "x", "o", "*Options")
_op("SELECT_V2", "condition x y", "off>f obb>b ouu>u ohh>h oii>i oll>l ooo>o", "SelectV2Options",
    "same")  # fmt: skip

# -- one operand
_op("ABS", "x", "fbhi", "*Options", "own")
_op("NEG", "x", "fil", "*Options")
_op("EXP", "x", "fbh", "*Options", "own")
_op("SQUARE", "x", "f", "*Options")
_op("SIGN", "x", "fi", "*Options")
_op("COS", "x", "f", "*Options")
_op("SIN SQRT FLOOR CEIL ROUND", "x", "f")
_op("LOG RSQRT", "x", "fbh", None, "own")
_op("ELU", "x", "fb", None, "own")
_op("GELU", "x", "fb", "GeluOptions", "own", approximate=False)
_op("HARD_SWISH", "x", "fb", "*Options", "own")
_op("LOGISTIC", "x", "fbuh", None, "fixed:0:1")
_op("TANH", "x", "fbuh", None, "fixed:-1:1")
_op("RELU RELU6", "x", "fbuh", None, "own")
_op("RELU_N1_TO_1 RELU_0_TO_1", "x", "fbu", None, "own")
_op("LEAKY_RELU", "x", "fbuh", "*Options", "own", alpha=...)
_op("PRELU", "x alpha", "fbu", None, "own")
_op("SOFTMAX", "x", "fbuh", "*Options", "fixed:0:1", beta=1.0)
_op("LOG_SOFTMAX", "x", "fb", "*Options", "fixed:-16:0")
_op("L2_NORMALIZATION", "x", "fb", "L2NormOptions", "fixed:-1:1", activation="NONE")

# -- reductions
_op("MEAN", "x #axes", "fbuhil", "ReducerOptions", "own", keep_dims=False)
_op("SUM", "x #axes", "fbuhil", "ReducerOptions", "own", keep_dims=False)
_op("REDUCE_MAX REDUCE_MIN", "x #axes", "fbuhil", "ReducerOptions", "same", keep_dims=False)
_op("REDUCE_PROD", "x #axes", "fil", "ReducerOptions", "", keep_dims=False)
_op("REDUCE_ANY REDUCE_ALL", "x #axes", "o", "ReducerOptions", "", keep_dims=False)
_op("ARG_MAX ARG_MIN", "x #axis", "f>i b>i u>i i>i o>i", "*Options")
_op("CUMSUM", "x #axis", "fil", "*Options", exclusive=False, reverse=False)
_op("TOPK_V2", "x #k", "fbhil", "TopKV2Options", "same", results=2)

# -- data movement
_op("RESHAPE", "x #shape", "fbuhilon", "*Options", "same")
_op("TRANSPOSE", "x #perms", "fbuhilo", "*Options", "same")
_op("SLICE", "x #begin #size", "fbuhilo", "*Options", "same")
_op("STRIDED_SLICE", "x #begin #end #strides", "fbuhilo", "*Options", "same")
_op("CONCATENATION", "values*", "fbuhilo", "*Options", "same", axis=...)
_op("PAD", "x #paddings", "fbuhilo", "*Options", "same", 5)
_op("PADV2", "x #paddings value", "fbuhilo", "PadV2Options", "same", 5)
_op("MIRROR_PAD", "x #paddings", "fbuhilo", "*Options", "same", mode="REFLECT")
_op("TILE", "x #multiples", "fbuhilo", "*Options", "same")
_op("BROADCAST_TO", "x #shape", "fbuhilo", "*Options", "same")
_op("REVERSE_V2", "x #axes", "fbuhilo", "ReverseV2Options", "same")
_op("GATHER", "params indices", "fi>f bi>b ui>u hi>h ii>i li>l oi>o", "*Options", "same",
    axis=0, batch_dims=0)  # fmt: skip
_op("GATHER_ND", "params indices", "fi>f bi>b ui>u hi>h ii>i li>l oi>o", "GatherNdOptions", "same")
_op("SCATTER_ND", "indices updates #shape", "if>f ib>b iu>u ii>i il>l io>o", "ScatterNdOptions",
    "same")  # fmt: skip
_op("SPACE_TO_DEPTH DEPTH_TO_SPACE", "x", "fbuil", "*Options", "same", 4, block_size=...)

# -- types
_op("CAST", "x", " ".join(f"{a}>{b}" for a in "fbuhilo" for b in "fbuhilo" if a != b), "*Options",
    "raw")  # fmt: skip
_op("QUANTIZE", "x", "f>b f>u f>h b>b u>u b>u u>b h>h h>b b>h i>b i>h", "*Options", "convert")
_op("DEQUANTIZE", "x", "b>f u>f h>f", "*Options", "convert")

# -- control flow: operands and results are whatever the regions take and give
_op("IF", "condition inputs*", "", "IfOptions")
_op("WHILE", "inputs*", "", "WhileOptions")
