"""A float32 graph as a float16 or bfloat16 graph: every type and constant changes, nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuc.ir import Builder, DType, Graph, Op, TensorType, Value

FLOATS = {"fp16": DType.FP16, "bf16": DType.BF16}


def cast_floats(graph: Graph, name: str) -> Graph:
    """`graph` with FP32 replaced by the type called `name` ("fp16" or "bf16"), boundary included.

    Constants beyond the range of float16 become its largest values rather than infinities, as a
    mask of -1e9 means "very small", not NaN after an addition.
    """
    dtype = FLOATS[name]
    builder = Builder()
    new: dict[Value, Value] = {v: builder.input(_cast(v.type, dtype), v.name) for v in graph.inputs}
    for op in graph.ops:
        results = _cast_op(builder, op, tuple(new[v] for v in op.operands), dtype)
        for old, value in zip(op.results, results):
            new[old] = value
            value.name = value.name or old.name
    origins = {n: (new[v], p) for n, (v, p) in graph.origins.items() if v in new}
    return builder.finish([new[v] for v in graph.outputs], graph.name, origins)


def _cast(type: TensorType, dtype: DType) -> TensorType:
    return type.with_(dtype=dtype) if type.dtype is DType.FP32 else type


def _cast_op(
    builder: Builder, op: Op, operands: tuple[Value, ...], dtype: DType
) -> tuple[Value, ...]:
    builder.loc = op.loc
    value = op.results[0] if op.kind == "const" else None
    if value is not None and value.type.dtype is DType.FP32:
        return (builder.const(_narrow(value.array, dtype), dtype, name=value.name),)
    types = [_cast(r.type, dtype) for r in op.results]
    regions = [cast_floats(r, _name(dtype)) for r in op.regions]
    return builder.emit(op.kind, operands, _attrs(op.attrs, dtype), types, regions, op.loc)


def _narrow(array: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype is DType.FP16:
        finite = np.isfinite(array)
        array = np.where(finite, np.clip(array, -65504.0, 65504.0), array)
    return array.astype(dtype.numpy)


def _attrs(attrs: Any, dtype: DType) -> Any:
    if isinstance(attrs, dict):
        return {k: _attrs(v, dtype) for k, v in attrs.items()}
    if isinstance(attrs, tuple):
        return tuple(_attrs(v, dtype) for v in attrs)
    return dtype if attrs is DType.FP32 else attrs


def _name(dtype: DType) -> str:
    return next(n for n, d in FLOATS.items() if d is dtype)
