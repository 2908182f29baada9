"""Changes the types at the ends of a graph of aten ops: what the artifact takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npuc.errors import BadInput
from npuc.ir import Builder, DType, Graph, Operand, Quant, TensorType, Value, sweep_ops

IO_TYPES = {"int8": DType.INT8, "uint8": DType.UINT8, "int16": DType.INT16, "float32": DType.FP32}


def set_io_types(graph: Graph, io_type: str | None) -> Graph:
    """`graph` with quantized inputs and outputs of the type called `io_type` (None: as they are).

    int8 and uint8 mean the same values with the zero point moved by 128; float32 puts a quantize
    behind each input and a dequantize in front of each output. Tensors that are not quantized stay.
    """
    if io_type is None:
        return graph
    if io_type not in IO_TYPES:
        raise BadInput(f"io_type {io_type!r}", hint=f"one of {', '.join(IO_TYPES)}")
    builder = Builder()
    new: dict[Value, Value] = {}
    for value in graph.inputs:
        given = builder.input(_retyped(value.type, IO_TYPES[io_type]), value.name)
        new[value] = _converted(builder, given, value.type)
    sweep_ops(graph, lambda b, op, operands: None, builder, new)
    outputs = [
        _converted(builder, new[v], _retyped(v.type, IO_TYPES[io_type])) for v in graph.outputs
    ]
    origins = {n: (new[v], p) for n, (v, p) in graph.origins.items() if v in new}
    return builder.finish(outputs, graph.name, origins)


def _retyped(type: TensorType, dtype: DType) -> TensorType:
    quant = type.quant
    if quant is None or type.dtype is dtype or quant.per_channel:
        return type
    if dtype is DType.FP32:
        return TensorType(dtype, type.shape)
    low, high = dtype.range
    if type.dtype.bits == dtype.bits:
        move = low - type.dtype.range[0]
        return type.with_(dtype=dtype, quant=Quant(quant.s, quant.zp + move, None, low, high))
    if dtype is DType.INT16:
        largest = quant.s * max(quant.qmax - quant.zp, quant.zp - quant.qmin)
        return type.with_(dtype=dtype, quant=Quant(largest / high, 0, None, low, high))
    scale = quant.s * (quant.qmax - quant.qmin) / (high - low)
    zero = low + round((quant.zp - quant.qmin) * quant.s / scale)
    return type.with_(dtype=dtype, quant=Quant(scale, zero, None, low, high))


def _converted(builder: Builder, x: Value, type: TensorType) -> Value:
    if x.type == type:
        return x
    kind = "requantize"
    if x.type.quant is None:
        kind = "quantize_per_tensor"
    elif type.quant is None:
        kind = "dequantize_per_tensor"
    attrs: dict[str, Any] = {"args": (Operand(0),), "kwargs": {}}
    operands: Sequence[Value] = (x,)
    (y,) = builder.emit(f"quantized_decomposed.{kind}", operands, attrs, (type,))
    return y
