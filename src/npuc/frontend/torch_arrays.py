"""Tensors of PyTorch as numpy arrays, without a copy, and the element types of both."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from npuc.errors import Reason, Unsupported
from npuc.ir import DType

_BY_TORCH = {
    torch.bool: DType.BOOL,
    torch.int8: DType.INT8,
    torch.uint8: DType.UINT8,
    torch.int16: DType.INT16,
    torch.uint16: DType.UINT16,
    torch.int32: DType.INT32,
    torch.int64: DType.INT64,
    torch.float8_e4m3fn: DType.FP8E4M3,
    torch.float8_e5m2: DType.FP8E5M2,
    torch.bfloat16: DType.BF16,
    torch.float16: DType.FP16,
    torch.float32: DType.FP32,
    torch.float64: DType.FP64,
}
_BY_NPUC = {ours: theirs for theirs, ours in _BY_TORCH.items()}

# numpy has no such type of its own: the bytes are reinterpreted.
_VIEWED = {
    torch.bfloat16: torch.int16,
    torch.float8_e4m3fn: torch.int8,
    torch.float8_e5m2: torch.int8,
}


@cache
def dtype_of(dtype: torch.dtype) -> DType:
    """Our element type for PyTorch's; Unsupported when there is none (complex numbers, ...)."""
    found = _BY_TORCH.get(dtype)
    if found is None:
        name = str(dtype).removeprefix("torch.")
        hint = "compute with real and imaginary parts as two tensors" if dtype.is_complex else ""
        raise Unsupported(Reason("", "", f"no target stores values of type {name}", hint))
    return found


def torch_dtype(dtype: DType) -> torch.dtype:
    """PyTorch's element type for ours (INT4 and INT48 are stored in int8 and int64)."""
    found = _BY_NPUC.get(dtype)
    return found if found is not None else torch_dtype(DType.of(dtype.numpy))


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's own memory as an array (bfloat16 and float8 through ml_dtypes)."""
    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    if type(tensor) is not torch.Tensor:
        tensor = _plain(tensor)
    viewed = _VIEWED.get(tensor.dtype)
    if viewed is not None:
        return tensor.view(viewed).numpy().view(dtype_of(tensor.dtype).numpy)
    dtype_of(tensor.dtype)
    return tensor.resolve_conj().resolve_neg().numpy()


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of a subclass (a Parameter, a quantized wrapper) as a plain one."""
    if isinstance(tensor, torch.nn.Parameter):
        return tensor.data
    dequantize = getattr(tensor, "dequantize", None)
    return dequantize() if dequantize is not None else tensor.as_subclass(torch.Tensor)


def as_tensor(array: np.ndarray) -> torch.Tensor:
    """An array as a tensor that shares its memory."""
    dtype = DType.of(array.dtype)
    theirs = torch_dtype(dtype)
    viewed = _VIEWED.get(theirs)
    if viewed is not None:
        bits = np.int16 if viewed is torch.int16 else np.int8
        return torch.from_numpy(array.view(bits)).view(theirs)
    if not array.flags.writeable:
        array = array.copy()
    return torch.from_numpy(array)
