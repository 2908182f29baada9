"""What NXP's Neutron NPUs take of TFLite: chips, operators and the restrictions of each, as data.

Facts of i.MX RT700 (Neutron-C, generation N3): the restrictions that NXP's ExecuTorch backend
applies with eIQ Neutron SDK 3.2.0. NXP publishes none for the other chips: there the same are
assumed, and NXP's converter has the last word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from npuc.dialects.tflite import ChipPolicy, same_parameters
from npuc.ir import DType, Graph, Op, TensorType, Value


@dataclass(frozen=True)
class Chip:
    """A chip with a Neutron NPU. macs: per pipe, what channels are rounded up to. is_known: whether
    the restrictions here are the chip's own."""

    description: str
    subsystem: str
    macs: int = 8
    is_known: bool = False


#: name of NXP's converter for a target -> the chip
CHIPS = {
    "imxrt700": Chip("NXP i.MX RT700", "Neutron-C", is_known=True),
    "mcxn54x": Chip("NXP MCX N54x", "Neutron-C"),
    "mcxn94x": Chip("NXP MCX N94x", "Neutron-C"),
    "s32k5": Chip("NXP S32K5", "Neutron-C"),
    "imx95": Chip("NXP i.MX 95", "Neutron-S"),
    "imx943": Chip("NXP i.MX 943", "Neutron-S"),
    "imx952": Chip("NXP i.MX 952", "Neutron-S"),
    "s32n79": Chip("NXP S32N79", "Neutron-S"),
}

#: kernel, stride and dilation of convolutions and pools, per axis
MAX_WINDOW = 4096
#: kernel elements times input channels, rounded up to whole pipes
MAX_KERNEL_SIZE = 65535
MAX_TRANSPOSED_STRIDE = 2
MAX_SOFTMAX_CHANNELS, MAX_SOFTMAX_ROWS, MAX_SOFTMAX_SIZE = 2040, 4096, 524288
MAX_RESHAPE_RANK = 7
MAX_TRANSPOSE_RANK = 6
RESIZE_SCALES = (1, 2, 4, 8)
#: activations that weighted operators apply themselves
FUSED = ("NONE", "RELU", "RELU6")


@dataclass(frozen=True)
class Use:
    """One use of an operator."""

    operands: Sequence[Value]
    attrs: Mapping[str, Any]
    results: Sequence[TensorType]
    chip: Chip


Check = Callable[[Use], "str | None"]


def fusing_policy(
    name: str, operands: Sequence[Value], attrs: Mapping[str, Any], results: Sequence[TensorType]
) -> str | None:
    """Only why an operator of Neutron does not apply its activation: others may stay on the CPU."""
    if attrs.get("activation", "NONE") == "NONE" or name not in OPERATORS:
        return None
    use = Use(operands, attrs, results, CHIPS["imxrt700"])
    checks = {no_activation, fused_activation} & set(OPERATORS[name])
    return next((why for check in checks if (why := check(use)) is not None), None)


def policy_of(chip: Chip) -> ChipPolicy:
    """Why the chip refuses an op, or None."""

    def policy(
        name: str,
        operands: Sequence[Value],
        attrs: Mapping[str, Any],
        results: Sequence[TensorType],
    ) -> str | None:
        checks = OPERATORS.get(name)
        if checks is None:
            return ABSENT.get(name, "Neutron has no such operator")
        use = Use(operands, attrs, results, chip)
        return next((why for check in (int8, *checks) if (why := check(use)) is not None), None)

    return policy


def int8(use: Use) -> str | None:
    """Activations and weights have 8 bits; only a constant bias has 32."""
    types = [v.type for v in use.operands if not (v.is_const and v.type.dtype is DType.INT32)]
    for t in (*types, *use.results):
        if t.dtype is not DType.INT8:
            return f"it needs {t.dtype.name}, Neutron computes on INT8"
    return None


def one_spreads(use: Use) -> str | None:
    """Operands broadcast on one side: one of them has the shape of the result."""
    size = prod(use.results[0].ints)
    if any(v.type.size == size for v in use.operands):
        return None
    shapes = " and ".join(str(v.type.ints) for v in use.operands)
    return f"both operands broadcast ({shapes}), Neutron spreads one"


def no_activation(use: Use) -> str | None:
    """Only weighted operators apply an activation."""
    activation = use.attrs["activation"]
    return None if activation == "NONE" else f"Neutron does not fuse {activation} into it"


def fused_activation(use: Use) -> str | None:
    """Activations of weighted operators."""
    activation = use.attrs["activation"]
    if activation == "NONE":
        return None
    if use.results[0].rank not in (2, 4):
        return f"Neutron fuses no activation into a result of rank {use.results[0].rank}"
    return None if activation in FUSED else f"Neutron does not fuse {activation} into it"


def kernel(use: Use) -> str | None:
    """Size of a convolution: of the kernel per axis, and as a whole with the channels."""
    input, filter = use.operands[:2]
    return _kernel(use, filter, input.type.ints[3])


def transposed_kernel(use: Use) -> str | None:
    """Size of a transposed convolution, whose stride is small and within the kernel."""
    filter, input = use.operands[:2]
    for k, s in zip(filter.type.ints[1:3], use.attrs["stride"]):
        if s > min(k, MAX_TRANSPOSED_STRIDE):
            return f"stride {s} with kernel {k}; Neutron takes {MAX_TRANSPOSED_STRIDE}, up to the kernel"
    return _kernel(use, filter, input.type.ints[3])


def _kernel(use: Use, filter: Value, channels: int) -> str | None:
    if not all(v.is_const for v in (filter, *use.operands[2:])):
        return "weights or bias are computed, Neutron takes constants"
    height, width = filter.type.ints[1:3]
    macs = use.chip.macs
    rounded = -(-channels // macs) * macs
    if height * width * rounded > MAX_KERNEL_SIZE:
        return (
            f"kernel {height}x{width} with {channels} channels (rounded up to {rounded}) is "
            f"{height * width * rounded}, above {MAX_KERNEL_SIZE}"
        )
    return _window("kernel", (height, width)) or stride(use) or dilation(use)


def stride(use: Use) -> str | None:
    """Stride per axis."""
    return _window("stride", use.attrs["stride"])


def dilation(use: Use) -> str | None:
    """Dilation per axis."""
    return _window("dilation", use.attrs.get("dilation", (1, 1)))


def pool_kernel(use: Use) -> str | None:
    """Kernel of an average per axis."""
    return _window("kernel", use.attrs["kernel"])


def _window(what: str, sizes: Sequence[int]) -> str | None:
    largest = max(sizes)
    return f"{what} {largest} exceeds {MAX_WINDOW}" if largest > MAX_WINDOW else None


def no_multiplier(use: Use) -> str | None:
    """A depthwise convolution has one filter per channel."""
    count = use.attrs["depth_multiplier"]
    return None if count == 1 else f"{count} filters per channel, Neutron takes 1"


def whole_windows(use: Use) -> str | None:
    """An average counts its padding."""
    return None if use.attrs["padding"] == "VALID" else "padding that an average does not count"


def constant_weight(use: Use) -> str | None:
    """Weight and bias of a layer."""
    if all(v.is_const for v in use.operands[1:]):
        return None
    return "weights or bias are computed, Neutron takes constants"


def matrices(use: Use) -> str | None:
    """Products of matrices are of rank 3, their operands symmetric."""
    x, y = use.operands
    if x.type.rank != 3 or y.type.rank != 3 or x.type.ints[0] != y.type.ints[0]:
        return f"operands {x.type.ints} and {y.type.ints}, Neutron takes rank 3 and equal batches"
    zeros = [v.type.quant.zp for v in use.operands if v.type.quant is not None]
    if any(zeros):
        return f"an operand has zero point {next(z for z in zeros if z)}, Neutron takes 0"
    return None


def softmax_size(use: Use) -> str | None:
    """Channels, rows and elements of a softmax."""
    *rows, channels = use.results[0].ints
    if channels > MAX_SOFTMAX_CHANNELS:
        return f"{channels} channels exceed {MAX_SOFTMAX_CHANNELS}"
    if prod(rows) > MAX_SOFTMAX_ROWS:
        return f"{prod(rows)} rows exceed {MAX_SOFTMAX_ROWS}"
    size = prod(rows) * channels
    return f"{size} elements exceed {MAX_SOFTMAX_SIZE}" if size > MAX_SOFTMAX_SIZE else None


def scales(use: Use) -> str | None:
    """Enlargement of height and width."""
    corners = int(use.attrs["align_corners"])
    for n, o in zip(use.operands[0].type.ints[1:3], use.attrs["size"]):
        if (
            n == corners
            or (o - corners) % (n - corners)
            or (o - corners) // (n - corners) not in RESIZE_SCALES
        ):
            names = ", ".join(map(str, RESIZE_SCALES))
            how = " with aligned corners" if corners else ""
            return f"from {n} to {o}{how}, Neutron enlarges by {names}"
    return None


def corner_coordinates(use: Use) -> str | None:
    """Nearest neighbours are found from corners, not from centers."""
    if use.attrs["align_corners"] or use.attrs["half_pixel_centers"]:
        return "coordinates of centers or aligned corners"
    return None


def reflects(use: Use) -> str | None:
    """Mode of a mirrored padding."""
    mode = use.attrs["mode"]
    return None if mode == "REFLECT" else f"mode {mode}, Neutron takes REFLECT"


def reshape_rank(use: Use) -> str | None:
    """Rank of a reshaped tensor."""
    rank = use.results[0].rank
    return f"rank {rank} exceeds {MAX_RESHAPE_RANK}" if rank > MAX_RESHAPE_RANK else None


def transpose_rank(use: Use) -> str | None:
    """Rank of a transposed tensor."""
    rank = use.results[0].rank
    return f"rank {rank} exceeds {MAX_TRANSPOSE_RANK}" if rank > MAX_TRANSPOSE_RANK else None


#: TFLite operator -> its restrictions beyond INT8; what is not here Neutron does not have
OPERATORS: dict[str, tuple[Check, ...]] = {
    "CONV_2D": (kernel, fused_activation),
    "DEPTHWISE_CONV_2D": (kernel, no_multiplier, fused_activation),
    "TRANSPOSE_CONV": (transposed_kernel, no_activation),
    "FULLY_CONNECTED": (constant_weight, fused_activation),
    "BATCH_MATMUL": (matrices,),
    "AVERAGE_POOL_2D": (pool_kernel, stride, whole_windows, no_activation),
    "MAX_POOL_2D": (stride, no_activation),
    **dict.fromkeys(("ADD", "SUB", "MUL"), (one_spreads, no_activation)),
    **dict.fromkeys(("MAXIMUM", "MINIMUM", "PRELU"), (one_spreads,)),
    **dict.fromkeys(
        ("ABS", "EXP", "LOG", "RSQRT", "TANH", "LOGISTIC", "LEAKY_RELU", "HARD_SWISH", "RELU",
         "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1"), (),
    ),
    "SOFTMAX": (softmax_size,),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), ()),
    **dict.fromkeys(("SLICE", "PAD", "PADV2", "CONCATENATION"), ()),
    "MIRROR_PAD": (reflects,),
    "RESHAPE": (reshape_rank,),
    "TRANSPOSE": (transpose_rank,),
    "RESIZE_BILINEAR": (scales,),
    "RESIZE_NEAREST_NEIGHBOR": (scales, corner_coordinates),
    # INT8 to INT8: the pass `add_for_quantize` makes it an ADD
    "QUANTIZE": (),
}  # fmt: skip

#: operator -> second operand with which it changes nothing
NEUTRAL = {"ADD": 0.0, "SUB": 0.0, "MUL": 1.0}

#: why an operator that a rule falls back to is not there
ABSENT = {
    "CAST": "it needs other types or a table, Neutron has neither",
    "GATHER": "Neutron gathers nothing",
    "DEQUANTIZE": "a value is float, Neutron computes on INT8",
}


def idle(graph: Graph) -> str | None:
    """Why NXP's converter would make nothing of a graph: all it does is to hand on its inputs."""
    if all(op.kind == "const" or _hands_on(op) for op in graph.walk()):
        return "nothing is left to compute, and NXP's converter takes no such graph"
    return None


def _hands_on(op: Op) -> bool:
    """Whether an op gives the elements of its first operand as they are."""
    if op.name == "RESHAPE":
        return True
    if op.name == "TRANSPOSE":
        shape = op.operands[0].type.shape
        moved = [axis for axis in op.attrs["perms"] if shape[axis] != 1]
        return moved == sorted(moved)
    if op.name not in NEUTRAL:
        return False
    x, y = op.operands
    if not y.is_const or x.type.shape != op.results[0].type.shape or y.type.quant is None:
        return False
    same = same_parameters(x.type.quant, op.results[0].type.quant)
    return same and bool((y.type.quant.dequantize(y.array) == NEUTRAL[op.name]).all())
