"""What Neutron needs in other forms: products of rank 3, averages with parameters of their own."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npuc.ir import DType, Value
from npuc.lowering.aten_to_tflite import linear, pool
from npuc.lowering.aten_to_tflite.move import broadcast_to
from npuc.lowering.aten_to_tflite.pool import Window
from npuc.lowering.registry import expands, lowers
from npuc.lowering.tflite_builder import TfliteBuilder

#: bytes of a constant matrix of means above which it is not worth it
MAX_MATRIX = 2**20

# their common forms compute in 16 bits
expands(
    "aten.layer_norm", "aten.native_layer_norm", "aten.rms_norm", "aten.group_norm",
    "aten.native_group_norm", "aten.instance_norm", "aten.div.Tensor", "aten.mul.Tensor",
    "aten.sqrt", "aten.log_softmax.int", "aten._log_softmax", "aten.var", "aten.var.dim",
    "aten.var.correction", "aten.std", "aten.std.dim", "aten.std.correction",
    target="neutron", dialect="tflite",
)  # fmt: skip


@lowers("aten.matmul", target="neutron", dialect="tflite")
def matmul(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """matmul -> BATCH_MATMUL of rank 3, equal batches."""
    out = b.out[0]
    if out.quant is None:
        return linear.matmul(b, x, y)
    x, y = b.operand(x), b.operand(y)
    batches = out.ints[:-2]
    x, y = (broadcast_to(b, v, (*batches, *v.type.ints[-2:])) for v in (x, y))
    x, y = (b.reshape(v, (prod(batches), *v.type.ints[-2:])) for v in (x, y))
    return b.as_result(b.reshape(b.BATCH_MATMUL(x, y, quant=out.quant), out.ints))


@lowers("aten.avg_pool2d", target="neutron", dialect="tflite")
def avg_pool2d(
    b: TfliteBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Value:  # fmt: skip
    """avg_pool2d -> its common form; with divisors that differ a product with the matrix of means."""
    rows, columns = pool.windows(b, x, kernel, stride, padding)
    divisors = pool.window_divisors(rows, columns, count_include_pad, divisor_override)
    if x.type.dtype is DType.INT8 and divisors.min() < divisors.max():
        return _by_matrix(b, x, rows, columns, divisors)
    return pool.avg_pool2d(
        b, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _by_matrix(
    b: TfliteBuilder, x: Value, rows: Window, columns: Window, divisors: np.ndarray
) -> Value:
    """The product with a row of weights per position."""
    n, c, h, w = x.type.ints
    size = h * w * rows.out * columns.out
    b.require(size <= MAX_MATRIX, f"an average over {h}x{w} whose divisors differ needs {size} weights "
              f"(at most {MAX_MATRIX})", "count_include_pad=True has one divisor")  # fmt: skip
    matrix = np.kron(_reach(rows), _reach(columns)) / divisors.reshape(-1, 1)
    y = b.reshape(x, (n * c, h * w))
    return b.reshape(pool.by_matrix(b, y, matrix, b.out[0].quant), b.out[0].ints)


def _reach(window: Window) -> np.ndarray:
    """[out, size]: 1 where a window covers an element."""
    first = np.arange(window.out) * window.stride - window.before
    place = np.arange(window.size)[None] - first[:, None]
    return ((place >= 0) & (place < window.kernel)).astype(np.float64)
