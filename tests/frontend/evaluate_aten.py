"""Runs a canonical graph in PyTorch, op by op as the table in `canonicalize` defines them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from npuc.frontend.torch_arrays import as_tensor, torch_dtype
from npuc.ir import DType, Graph, Op, TensorType, Value, unpack

aten = torch.ops.aten


def evaluate(graph: Graph, inputs: Sequence[torch.Tensor], **keep: dict) -> list[torch.Tensor]:
    """The outputs of `graph`. Float inputs of quantized graph inputs are quantized.

    `keep["values"]` (a dict) receives every value.
    """
    values: dict[Value, torch.Tensor] = keep.get("values", {})
    for value, tensor in zip(graph.inputs, inputs, strict=True):
        values[value] = _stored(tensor, value.type)
    with torch.no_grad():
        _run(graph, values)
    return [values[v] for v in graph.outputs]


def real(value: Value, tensor: torch.Tensor) -> torch.Tensor:
    """The real value of a quantized tensor; any other as it is."""
    quant = value.type.quant
    if quant is None:
        return tensor
    return torch.from_numpy(np.asarray(quant.dequantize(tensor.numpy()), np.float64)).float()


def _stored(tensor: torch.Tensor, type: TensorType) -> torch.Tensor:
    if type.quant is None or not tensor.is_floating_point():
        return tensor
    codes = np.asarray(type.quant.quantize(tensor.double().numpy()))
    return torch.from_numpy(codes.astype(type.dtype.numpy))


def _run(graph: Graph, values: dict[Value, torch.Tensor]) -> None:
    for op in graph.ops:
        if op.kind == "const":
            array = np.ascontiguousarray(op.result.array)
            values[op.result] = as_tensor(array).reshape(op.result.type.ints)
            continue
        results = _results(op, values)
        assert len(results) == len(op.results), op
        for value, result in zip(op.results, results, strict=True):
            shape = tuple(result.shape)
            assert shape == value.type.shape, f"{op}: {shape} instead of {value.type}"
            if value.type.quant is None:
                want = torch_dtype(value.type.dtype)
                assert result.dtype == want, f"{op}: {result.dtype} instead of {want}"
            values[value] = _stored(result, value.type)


def _results(op: Op, values: dict[Value, torch.Tensor]) -> Sequence[torch.Tensor]:
    if op.kind == "aten.cond":
        return _cond(op, values)
    if op.kind == "aten.while_loop":
        return _while_loop(op, values)
    operands = [real(v, values[v]) for v in op.operands]
    dtypes = {v.type.dtype for v in op.operands if v.type.quant is None and v.type.dtype.is_float}
    assert len(dtypes) <= 1 or op.kind == "aten.to", f"{op} mixes {dtypes}"
    args, kwargs = unpack(op, operands)  # type: ignore[arg-type]
    made = (FORMULAS.get(op.kind) or _aten(op.kind))(*args, **kwargs)
    return made if isinstance(made, (tuple, list)) else (made,)


def _aten(kind: str) -> Callable[..., Any]:
    namespace, name, *overload = kind.split(".")
    assert namespace == "aten", f"no formula for {kind}"
    return getattr(getattr(aten, name), overload[0] if overload else "default")


def _cond(op: Op, values: dict[Value, torch.Tensor]) -> list[torch.Tensor]:
    condition, *inputs = (values[v] for v in op.operands)
    region = op.regions[0 if bool(condition) else 1]
    return _call(region, inputs, values)


def _while_loop(op: Op, values: dict[Value, torch.Tensor]) -> list[torch.Tensor]:
    state = [values[v] for v in op.operands]
    test, body = op.regions
    while bool(_call(test, state, values)[0]):
        state = _call(body, state, values)
    return state


def _call(
    region: Graph, inputs: Sequence[torch.Tensor], outer: dict[Value, torch.Tensor]
) -> list[torch.Tensor]:
    inner = dict(outer)
    inner.update(zip(region.inputs, inputs, strict=True))
    _run(region, inner)
    return [inner[v] for v in region.outputs]


# the ops that are not as in ATen -------------------------------------------------------------


def _convolution(x, w, bias, stride, pads, dilation, transposed, output_padding, groups):
    assert len(pads) == 2 * len(stride) == 2 * (x.dim() - 2)
    if transposed:
        assert pads[::2] == pads[1::2]
        return aten.convolution(
            x, w, bias, stride, pads[::2], dilation, True, output_padding, groups
        )
    flat = [p for d in range(len(stride) - 1, -1, -1) for p in pads[2 * d : 2 * d + 2]]
    zeros = [0] * len(stride)
    return aten.convolution(F.pad(x, flat), w, bias, stride, zeros, dilation, False, zeros, groups)


def _pad(x, pads, mode, value):
    assert len(pads) == 2 * x.dim() and min(pads) >= 0
    if mode == "constant":
        flat = [p for d in range(x.dim() - 1, -1, -1) for p in pads[2 * d : 2 * d + 2]]
        return aten.constant_pad_nd(x, flat, value)
    array = x.numpy() if x.dtype != torch.bfloat16 else x.float().numpy()
    modes = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    pairs = list(zip(pads[::2], pads[1::2], strict=True))
    return torch.from_numpy(np.pad(array, pairs, modes[mode])).to(x.dtype)


def _prod(x, dims, keepdim):
    for dim in reversed(dims):
        x = aten.prod.dim_int(x, dim, keepdim)
    return x


def _batch_norm(x, w, b, mean, var, eps):
    return F.batch_norm(x, mean, var, w, b, False, 0.0, eps)


def _index_put(x, indices, values, accumulate):
    return aten.index_put(x, list(indices), values, accumulate)


def _rfft2(x):
    made = torch.fft.rfft2(x)
    return made.real, made.imag


def _same(x):
    return x


FORMULAS: dict[str, Callable[..., Any]] = {
    "aten.view": torch.reshape,
    "aten.slice": aten.slice.Tensor,
    "aten.convolution": _convolution,
    "aten.linear": F.linear,
    "aten.batch_norm": _batch_norm,
    "aten.softmax": torch.softmax,
    "aten.log_softmax": torch.log_softmax,
    "aten.pad": _pad,
    "aten.prod.dim_int": _prod,
    "aten.where": torch.where,
    "aten.to": lambda x, dtype: x.to(torch_dtype(dtype) if isinstance(dtype, DType) else dtype),
    "aten.index_put": _index_put,
    "aten.fft_rfft2": _rfft2,
    "aten.div.Tensor": lambda a, b, rounding_mode: torch.div(a, b, rounding_mode=rounding_mode),
    "aten.mish": F.mish,
    "quantized_decomposed.quantize_per_tensor": _same,
    "quantized_decomposed.dequantize_per_tensor": _same,
    "quantized_decomposed.requantize": _same,
}
