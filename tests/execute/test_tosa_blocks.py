"""Block-scaled (MX) operators against the reference model."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from npuc.ir import Builder, DType, TensorType, Value
from tests.execute.compare import assert_same

FLOATS = [DType.FP4E2M1, DType.FP6E2M3, DType.FP6E3M2, DType.FP8E4M3, DType.FP8E5M2]
MX = [*FLOATS, DType.MXINT8]
SIZE = {"block_size": 32}


def to_blocks(b: Builder, x: Value, dtype: DType) -> tuple[Value, Value]:
    scales = (*x.type.ints[:-1], x.type.ints[-1] // 32)
    types = [TensorType(dtype, x.type.shape), TensorType(DType.FP8UE8M0, scales)]
    return b.emit("tosa.CAST_TO_BLOCK_SCALED", [x], SIZE, types)  # type: ignore[return-value]


def from_blocks(b: Builder, data: Value, scale: Value, dtype: DType = DType.FP32) -> Value:
    result = [TensorType(dtype, data.type.shape)]
    return b.emit("tosa.CAST_FROM_BLOCK_SCALED", [data, scale], SIZE, result)[0]


def values(*shape: int) -> np.ndarray:
    """Blocks of very different magnitude."""
    rng = np.random.default_rng(0)
    spread = np.exp(4 * rng.normal(size=(*shape[:-1], 1)))
    return (rng.normal(size=shape) * spread).astype(np.float32)


@pytest.mark.parametrize("source", [DType.FP32, DType.BF16])
@pytest.mark.parametrize("dtype", MX)
def test_cast_there_and_back(dtype: DType, source: DType) -> None:
    b = Builder()
    x = b.input(TensorType(source, (16, 96)))
    y = from_blocks(b, *to_blocks(b, x, dtype), source)
    assert_same(b.finish([y]), [values(16, 96).astype(source.numpy)], ulp=0.0)


@pytest.mark.parametrize("dtype", MX)
def test_scale_of_blocks_at_the_edges(dtype: DType) -> None:
    """Zero, NaN, infinity, subnormal, and elements around the largest number of the type."""
    if dtype is DType.MXINT8:
        top, tiny, bits = 127 / 64, 1 / 64, 6
    else:
        info = ml_dtypes.finfo(dtype.numpy)
        top, tiny, bits = float(info.max), float(info.smallest_subnormal), info.nmant
    half_step = np.ldexp(1.0, int(np.floor(np.log2(top))) - bits - 1)
    largest = [0, np.nan, np.inf, 1e-45, 1e-38, 3e38, top, top + half_step, 2 * top]
    largest += [top + half_step * 0.99, top + half_step * 1.01, top + half_step * 2]
    if dtype is DType.MXINT8:
        # the reference model rounds subnormals of float32 up to 1/64
        largest = [v for v in largest if v not in (1e-45, 1e-38)]
    rows = np.full((len(largest), 32), tiny, np.float32)
    rows[:, 0] = largest
    rows[0] = 0
    b = Builder()
    x = b.input(TensorType(DType.FP32, rows.shape))
    assert_same(b.finish([from_blocks(b, *to_blocks(b, x, dtype))]), [rows], ulp=0.0)


@pytest.mark.parametrize("dtype", MX)
@pytest.mark.parametrize("batch", [1, 2])
def test_matmul_t_block_scaled(dtype: DType, batch: int) -> None:
    b = Builder()
    x = b.input(TensorType(DType.FP32, (2, 3, 64)))
    w = b.input(TensorType(DType.FP32, (batch, 5, 64)))
    operands = [*to_blocks(b, x, dtype), *to_blocks(b, w, dtype)]
    result = [TensorType(DType.FP32, (2, 3, 5))]
    (y,) = b.emit("tosa.MATMUL_T_BLOCK_SCALED", operands, SIZE, result)
    assert_same(b.finish([y]), [values(2, 3, 64), values(batch, 5, 64)])


@pytest.mark.parametrize("dtype", FLOATS)
def test_conv2d_block_scaled(dtype: DType) -> None:
    b = Builder()
    x = b.input(TensorType(DType.FP32, (1, 5, 5, 32)))
    w = b.input(TensorType(DType.FP32, (4, 3, 3, 32)))
    bias = b.const(np.arange(4, dtype=np.float32))
    window = [b.const(np.array(v), DType.SHAPE) for v in ((1, 1, 0, 1), (1, 1), (1, 1))]
    operands = [*to_blocks(b, x, dtype), *to_blocks(b, w, dtype), bias, *window]
    result = [TensorType(DType.FP32, (1, 5, 4, 4))]
    (y,) = b.emit("tosa.CONV2D_BLOCK_SCALED", operands, SIZE, result)
    assert_same(b.finish([y]), [values(1, 5, 5, 32), values(4, 3, 3, 32)])


@pytest.mark.parametrize("dtype", MX)
def test_constants_are_packed(dtype: DType) -> None:
    """Elements of 4, 6 and 8 bits as constants of the file."""
    b = Builder()
    codes = np.arange(64, dtype=np.uint8).reshape(2, 32) & np.uint8(2**dtype.bits - 1)
    scale = np.array([[0.25], [8]], np.float32).astype(ml_dtypes.float8_e8m0fnu)
    data = b.const(codes.view(dtype.numpy), dtype)
    x = b.input(TensorType(DType.FP32, (2, 32)))
    y = from_blocks(b, data, b.const(scale, DType.FP8UE8M0))
    (z,) = b.emit("tosa.ADD", [x, y], {}, [x.type])
    assert_same(b.finish([z]), [np.zeros((2, 32), np.float32)], ulp=0.0)


@pytest.mark.parametrize("dtype", [DType.FP8E4M3, DType.FP4E2M1])
def test_reshape_and_row_gather_block_scaled(dtype: DType) -> None:
    b = Builder()
    x = b.input(TensorType(DType.FP32, (4, 64)))
    data, scale = to_blocks(b, x, dtype)
    shape = b.const(np.array((2, 4, 32)), DType.SHAPE)
    types = [TensorType(dtype, (2, 4, 32)), TensorType(DType.FP8UE8M0, (2, 4, 1))]
    data, scale = b.emit("tosa.RESHAPE_BLOCK_SCALED", [data, scale, shape], SIZE, types)
    indices = b.const(np.array([[2, 0], [1, 1]], np.int32))
    rows = b.const(np.array([2], np.int32))
    types = [TensorType(dtype, (2, 4, 32)), TensorType(DType.FP8UE8M0, (2, 4, 1))]
    parts = b.emit("tosa.ROW_GATHER_BLOCK_SCALED", [data, scale, indices, rows], SIZE, types)
    assert_same(b.finish([from_blocks(b, *parts)]), [values(4, 64)], ulp=0.0)
