"""What each pass makes of a small graph, as text; tosa-opt parses and verifies each text."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from npuc.dialects.tosa import Limits
from npuc.ir import DType, Graph, Quant, TensorType, Value
from npuc.ir.print_mlir import print_mlir
from npuc.lowering.tosa_builder import TosaBuilder
from npuc.passes.pipeline import find_pass, run_passes
from npuc.targets.ethos_u import PASSES
from npuc.targets.target import Target
from tests.passes.random_graphs import check_same

LIMITS = Limits(extensions=frozenset({"EXT-INT16"}))
TOSA_OPT = Path(sysconfig.get_path("purelib")) / "bin" / "tosa-opt"
Golden = Callable[[str, str], None]


def int8(b: TosaBuilder, *shape: int, zp: int = 0) -> Value:
    return b.input(TensorType(DType.INT8, shape, Quant(0.5, zp)), "x")


def conv(b: TosaBuilder, x: Value, pad: tuple[int, ...] = (0, 0, 0, 0), k: int = 1) -> Value:
    """A convolution whose input zero point is that of `x`."""
    channels = x.type.ints[-1]
    codes = np.arange(2 * k * k * channels) % 7 - 3
    weight = b.const(codes.reshape(2, k, k, channels), DType.INT8)
    bias, zero = b.const(np.zeros(2, np.int32)), b.scalar(0, DType.INT8, 1)
    return b.CONV2D(x, weight, bias, b.zero_point(x), zero, pad=pad, acc_type=DType.INT32)


def assign_layout(b: TosaBuilder) -> list[Value]:
    x = int8(b, 1, 2, 4, 4)
    y = b.rescale(b.nchw(conv(b, b.nhwc(x))), 0.5, DType.INT8)
    y = b.CONCAT(y, b.CLAMP(y, min_val=0, max_val=9), axis=1)
    return [b.rescale(b.nchw(conv(b, b.nhwc(y))), 0.5, DType.INT8)]


def cancel_transposes(b: TosaBuilder) -> list[Value]:
    x = int8(b, 2, 3, 4)
    y = b.CLAMP(b.TRANSPOSE(x, perms=(2, 0, 1)), min_val=-3, max_val=3)
    y = b.TRANSPOSE(y, perms=(1, 2, 0))
    return [b.TRANSPOSE(b.RESHAPE(y, (2, 1, 12)), perms=(1, 0, 2))]


def cancel_reshapes(b: TosaBuilder) -> list[Value]:
    x = int8(b, 2, 3, 4)
    return [b.RESHAPE(b.CLAMP(b.RESHAPE(x, (6, 4)), min_val=-3, max_val=3), (2, 3, 4))]


def assign_shapes(b: TosaBuilder) -> list[Value]:
    """A residual stream that a linear layer reads as [1, 1, N, C] and the rest as [1, N, C]."""
    x = int8(b, 1, 3, 4)
    y = b.CLAMP(x, min_val=-9, max_val=9)
    z = b.rescale(conv(b, b.RESHAPE(y, (1, 1, 3, 4))), 0.5, DType.INT8)
    tall = b.CONCAT(b.RESHAPE(z, (1, 3, 2)), b.RESHAPE(z, (1, 3, 2)), axis=2)
    total = b.rescale(b.ADD(b.to_int32(tall), b.to_int32(y)), 0.5, DType.INT8)
    return [conv(b, b.RESHAPE(total, (1, 1, 3, 4)))]


def fold_constants(b: TosaBuilder) -> list[Value]:
    x = b.input(TensorType(DType.INT32, (2, 3)), "x")
    c = b.const(np.arange(6, dtype=np.int32).reshape(3, 2))
    return [b.ADD(x, b.NEGATE(b.TRANSPOSE(c, perms=(1, 0)), b.zero_point(c), b.zero_point(c)))]


def flatten_concats(b: TosaBuilder) -> list[Value]:
    x = int8(b, 1, 2)
    inner = b.CONCAT(x, x, axis=1)
    return [b.CONCAT(inner, x, axis=1), b.CONCAT(b.CONCAT(x, inner, axis=1), x, axis=1)]


def merge_slices(b: TosaBuilder) -> list[Value]:
    x, y = int8(b, 4, 8), int8(b, 4, 8)
    first = b.SLICE(b.SLICE(x, (0, 2), (4, 6)), (1, 1), (2, 4))
    part = b.SLICE(b.CONCAT(x, y, axis=1), (0, 9), (4, 3))
    halves = b.CONCAT(b.SLICE(x, (0, 0), (4, 4)), b.SLICE(x, (0, 4), (4, 4)), axis=1)
    return [first, part, b.SLICE(halves, (0, 0), (4, 8))]


def fold_padding(b: TosaBuilder) -> list[Value]:
    x = int8(b, 1, 4, 4, 2, zp=3)
    around = (0, 0, 1, 1, 1, 1, 0, 0)
    right = b.PAD(x, around, b.scalar(3, DType.INT8, 1), quant=x.type.quant)
    wrong = b.PAD(x, around, b.scalar(0, DType.INT8, 1), quant=x.type.quant)
    lowest = b.PAD(x, around, b.scalar(-128, DType.INT8, 1))
    pool = b.MAX_POOL2D(lowest, kernel=(2, 2), stride=(2, 2))
    line = b.PAD(b.RESHAPE(x, (1, 16, 1, 2)), (0, 0, 2, 1, 0, 0, 0, 0), b.scalar(3, DType.INT8, 1))
    wide = b.RESHAPE(line, (1, 1, 19, 2))
    weight = b.const(np.ones((1, 1, 3, 2), np.int8))
    bias, zero = b.const(np.zeros(1, np.int32)), b.scalar(0, DType.INT8, 1)
    row = b.CONV2D(wide, weight, bias, b.zero_point(x), zero, acc_type=DType.INT32)
    return [conv(b, right, k=3), conv(b, wrong, k=3), pool, row]


def merge_tables(b: TosaBuilder) -> list[Value]:
    x = int8(b, 4, zp=1)
    table = b.const(np.arange(-128, 128, dtype=np.int8)[::-1], DType.INT8)
    y = b.TABLE(b.rescale(x, 0.5, DType.INT8, in_zp=1), table)
    return [b.CLAMP(y, min_val=-5, max_val=5)]


def merge_rescales(b: TosaBuilder) -> list[Value]:
    x = b.input(TensorType(DType.INT32, (1, 2, 4, 4)), "x")
    y = b.rescale(x, 0.01, DType.INT8, out_zp=-3)
    y = b.RESHAPE(b.CLAMP(y, min_val=-3, max_val=60), (1, 2, 16))
    return [b.rescale(y, 0.75, DType.INT8, in_zp=-3, out_zp=5, quant=Quant(0.1, 5))]


def merge_clamps(b: TosaBuilder) -> list[Value]:
    x = int8(b, 4)
    y = b.CLAMP(b.CLAMP(x, min_val=-20, max_val=20), min_val=-10, max_val=99)
    return [y, b.CLAMP(x, min_val=-128, max_val=127)]


def remove_identities(b: TosaBuilder) -> list[Value]:
    x = int8(b, 4, 1)
    y = b.IDENTITY(b.ABS(b.to_int32(x)))
    y = b.TILE(b.PAD(y, (0, 0, 0, 0), b.scalar(0, DType.INT32, 1)), (1, 1))
    return [b.REVERSE(b.REDUCE_SUM(y, axis=1), axis=1), b.IDENTITY(x)]


def cheapen_rescales(b: TosaBuilder) -> list[Value]:
    x = int8(b, 1, 8, 8, 2)
    pool = b.MAX_POOL2D(x, kernel=(2, 2), stride=(2, 2))
    return [b.rescale(pool, 1.5, DType.INT8), b.rescale(x, 0.7, DType.INT8)]


def cheapen_transposes(b: TosaBuilder) -> list[Value]:
    x = int8(b, 1, 3, 8, 8)
    shuffle = b.TRANSPOSE(b.RESHAPE(x, (3, 2, 4, 2, 4)), perms=(0, 2, 1, 4, 3))
    return [b.nhwc(x), shuffle]


def split_transposes(b: TosaBuilder) -> list[Value]:
    x = int8(b, 1, 3, 64 * 64)
    back = b.TRANSPOSE(b.RESHAPE(x, (1, 64 * 64, 3)), perms=(0, 2, 1))
    return [b.TRANSPOSE(x, perms=(0, 2, 1)), back]


def cheapen_reductions(b: TosaBuilder) -> list[Value]:
    x = int8(b, 1, 4, 8)
    y = b.REDUCE_SUM(b.REDUCE_SUM(b.to_int32(x), axis=0), axis=1)
    return [b.REDUCE_MAX(x, axis=2), y]


def separate_rescales(b: TosaBuilder) -> list[Value]:
    x = b.to_int32(int8(b, 4))
    return [b.rescale(b.ADD(x, b.ABS(x)), 0.5, DType.INT8)]


def sink_tiles(b: TosaBuilder) -> list[Value]:
    """The sum broadcasts by itself; the absolute values are repeated, not their operands."""
    x = b.TILE(b.to_int32(int8(b, 1, 4)), (3, 1))
    return [b.ADD(x, b.input(TensorType(DType.INT32, (3, 4)), "y")), b.ABS(x)]


def cheapen_tiles(b: TosaBuilder) -> list[Value]:
    return [b.TILE(int8(b, 1, 4), (16, 1))]


def fuse_depth_to_space(b: TosaBuilder) -> list[Value]:
    weight, zero = b.const(np.arange(8).reshape(4, 1, 1, 2), DType.INT8), b.scalar(0, DType.INT8, 1)
    bias = b.const(np.arange(4), DType.INT32)
    x = b.CONV2D(int8(b, 1, 2, 2, 2), weight, bias, zero, zero, acc_type=DType.INT32)
    x = b.rescale(x, [0.1, 0.2, 0.3, 0.4], DType.INT8)
    x = b.transpose(b.reshape(x, (1, 2, 2, 1, 2, 2)), (0, 1, 4, 2, 5, 3))
    return [b.reshape(x, (1, 4, 4, 1))]


def unchain_rescales(b: TosaBuilder) -> list[Value]:
    x = int8(b, 4)
    wide = b.rescale(b.ADD(b.to_int32(x), b.to_int32(int8(b, 4))), 64.0, DType.INT16)
    return [b.rescale(wide, 0.01, DType.INT8), wide]


def cheapen_shuffles(b: TosaBuilder) -> list[Value]:
    pairs = b.TRANSPOSE(b.reshape(int8(b, 1, 2, 2, 4), (4, 2, 2)), perms=(0, 2, 1))
    return [b.reshape(pairs, (1, 2, 2, 4))]


def cheapen_widenings(b: TosaBuilder) -> list[Value]:
    x = b.rescale(int8(b, 4), 1.0, DType.INT32)
    other = b.input(TensorType(DType.INT32, (1,)), "y")
    return [b.MUL(x, other, b.scalar(3, DType.INT8, 1))]


def narrow_products(b: TosaBuilder) -> list[Value]:
    x = b.to_int32(int8(b, 4))
    return [b.MUL(x, x, b.scalar(0, DType.INT8, 1)), b.MUL(x, x, b.scalar(3, DType.INT8, 1))]


def cheapen_sums(b: TosaBuilder) -> list[Value]:
    """Both maps come from an operator of their own; their scales are as 1 to 2."""
    x = int8(b, 1, 8, 8, 2, zp=3)
    first, second = (
        b.MAX_POOL2D(x, kernel=(k, 1), stride=(1, 1), pad=(0, k - 1, 0, 0)) for k in (1, 2)
    )
    total = b.ADD(b.to_int32(first, 2.0**18), b.to_int32(second, 2.0**19))
    return [b.rescale(total, 0.7 * 2.0**-19, DType.INT8, out_zp=-5)]


def pointwise(b: TosaBuilder, x: Value, channels: int) -> Value:
    """A 1x1 convolution."""
    kernel = np.arange(channels * x.type.ints[-1]).reshape(channels, 1, 1, -1) % 7 - 3
    weight, zero = b.const(kernel, DType.INT8), b.scalar(0, DType.INT8, 1)
    bias = b.const(np.arange(channels), DType.INT32)
    return b.rescale(b.CONV2D(x, weight, bias, zero, zero, acc_type=DType.INT32), 0.1, DType.INT8)


def split_heads(b: TosaBuilder) -> list[Value]:
    y = b.reshape(pointwise(b, int8(b, 1, 1, 3, 2), 32), (3, 2, 16))
    return [b.TRANSPOSE(y, perms=(1, 0, 2))]


def merge_heads(b: TosaBuilder) -> list[Value]:
    x = b.reshape(b.TRANSPOSE(int8(b, 2, 3, 16), perms=(1, 0, 2)), (1, 1, 3, 32))
    return [pointwise(b, x, 4)]


def cast_widenings(b: TosaBuilder) -> list[Value]:
    x = int8(b, 4, zp=3)
    return [b.to_int32(x), b.rescale(x, 1.0, DType.INT32)]


def cheapen_concats(b: TosaBuilder) -> list[Value]:
    x = b.MAX_POOL2D(int8(b, 1, 8, 8, 16), kernel=(1, 1), stride=(1, 1))
    return [b.CONCAT(x, b.CLAMP(x, min_val=0, max_val=9), axis=3)]


def halve_maxima(b: TosaBuilder) -> list[Value]:
    return [b.REDUCE_MAX(int8(b, 1, 24, 63), axis=2)]


def halve_sums(b: TosaBuilder) -> list[Value]:
    return [b.REDUCE_SUM(b.to_int32(int8(b, 1, 5, 64, zp=-128)), axis=1)]


def interleave_planes(b: TosaBuilder) -> list[Value]:
    return [b.TRANSPOSE(int8(b, 1, 2, 128), perms=(0, 2, 1))]


def copy_outputs(b: TosaBuilder) -> list[Value]:
    y = b.CLAMP(int8(b, 1, 3, 4, 4), min_val=-3, max_val=3)
    return [y, b.TRANSPOSE(b.RESHAPE(y, (1, 3, 16)), perms=(0, 2, 1))]


def lower_slice_ranks(b: TosaBuilder) -> list[Value]:
    return [
        b.RESHAPE(b.SLICE(int8(b, 1, 4, 3, 5, 6), (0, 0, 0, 1, 0), (1, 4, 3, 2, 6)), (4, 3, 2, 6))
    ]


PASSES_WITH_EXAMPLES = [
    assign_layout, assign_shapes, cancel_transposes, cancel_reshapes, fold_constants,
    flatten_concats, merge_slices, fold_padding, merge_tables, merge_rescales, merge_clamps,
    remove_identities, cheapen_rescales, cheapen_transposes, split_transposes, cheapen_reductions,
    separate_rescales, sink_tiles, cheapen_tiles, fuse_depth_to_space, narrow_products,
    split_heads, merge_heads, cheapen_shuffles, cheapen_widenings, unchain_rescales, cast_widenings, cheapen_concats, cheapen_sums, halve_maxima,
    halve_sums, interleave_planes, copy_outputs, lower_slice_ranks,
]  # fmt: skip
EXAMPLES = {make.__name__: make for make in PASSES_WITH_EXAMPLES}
EXAMPLES["cheapen_rescales_u55"] = cheapen_rescales


def example(make: Callable[[TosaBuilder], list[Value]]) -> Graph:
    b = TosaBuilder(LIMITS)
    return b.finish(make(b))


@pytest.mark.parametrize("name", EXAMPLES)
def test_golden(name: str, golden: Golden) -> None:
    before = example(EXAMPLES[name])
    after = find_pass(name)(before, LIMITS)
    check_same(before, after, steps=name == "merge_rescales")
    golden(f"passes/{name}.mlir", f"// before\n{print_mlir(before)}\n// after\n{print_mlir(after)}")


@pytest.mark.skipif(not TOSA_OPT.exists(), reason="tosa-tools is not installed")
@pytest.mark.parametrize("name", EXAMPLES)
def test_golden_is_valid_mlir(name: str, tmp_path: Path) -> None:
    """The text after the pass, read by LLVM's own TOSA dialect."""
    text = (Path(__file__).parent.parent / "goldens" / "passes" / f"{name}.mlir").read_text()
    file = tmp_path / "after.mlir"
    file.write_text(text.split("// after\n")[1])
    done = subprocess.run([TOSA_OPT, file], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_pass_of_a_target_has_a_golden() -> None:
    used = {*Target.named("tosa-1.0+int").passes, *PASSES["EthosU55"], *PASSES["EthosU85"]}
    elsewhere = {"hoist_transposes"}  # needs branches: tests/lowering/test_control_flow.py
    assert used == set(EXAMPLES) | elsewhere


def test_unknown_pass() -> None:
    with pytest.raises(LookupError, match="there is no pass 'fold_everything'"):
        run_passes(example(merge_clamps), ["fold_everything"], LIMITS)
