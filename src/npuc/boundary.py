"""The tensors of an artifact's boundary, and how the model's tensors become them and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npuc.errors import BadInput
from npuc.ir import DType, Graph, SymDim, TensorType
from npuc.ir.fit_sizes import misfit

TO_NHWC, TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


@dataclass(frozen=True)
class TensorIO:
    """One input or output of the artifact.

    shape is the model's (NCHW where rank 4), also when layout is "channels_last". dtype is a numpy
    or ml_dtypes name. scale and zero_point are None where the tensor is not quantized.
    """

    name: str
    shape: tuple[Any, ...]
    dtype: str
    layout: str = "contiguous"
    scale: float | None = None
    zero_point: int | None = None
    #: the type as lowered, in the model's layout
    type: TensorType = field(default_factory=lambda: TensorType(DType.FP32, ()), repr=False)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {k: v for k, v in vars(self).items() if k != "type"}

    @property
    def artifact_shape(self) -> tuple[Any, ...]:
        """The shape in memory order of the artifact."""
        if self.layout == "channels_last":
            return tuple(self.shape[p] for p in TO_NHWC)
        return self.shape


@dataclass(frozen=True)
class IO:
    """Inputs and outputs of an artifact in order; `state` pairs an output with the input it feeds."""

    inputs: tuple[TensorIO, ...]
    outputs: tuple[TensorIO, ...]
    state: tuple[tuple[int, int], ...] = ()

    @property
    def sizes(self) -> dict[str, tuple[int, int | None]]:
        """Bounds of the sizes that are open, by name (None: no upper bound)."""
        dims = [d for port in self.inputs for d in port.type.shape if isinstance(d, SymDim)]
        return {s.name: (s.lo, s.hi) for d in dims for s in d.symbols}


def describe(graph: Graph, layout: str, outputs: Sequence[str]) -> IO:
    """The boundary of a lowered graph (before its layout is changed)."""
    return IO(
        tuple(_tensor(v.type, v.name, layout) for v in graph.inputs),
        tuple(_tensor(v.type, n or v.name, layout) for v, n in zip(graph.outputs, outputs)),
    )


def _tensor(type: TensorType, name: str, layout: str) -> TensorIO:
    last = layout == "channels_last" and type.rank == 4
    quant = type.quant
    return TensorIO(
        name,
        tuple(d if isinstance(d, int) else str(d) for d in type.shape),
        type.dtype.numpy.name,
        "channels_last" if last else "contiguous",
        quant.s if quant else None,
        quant.zp if quant else None,
        type,
    )


def io_orders(io: IO) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The memory order of the axes of each input and output; None where they are in order."""
    sides = (io.inputs, io.outputs)
    first, second = (
        tuple(TO_NHWC if p.layout == "channels_last" else None for p in s) for s in sides
    )
    return first, second


def to_artifact(x: Any, port: TensorIO, sizes: dict[str, int] | None = None) -> np.ndarray:
    """A tensor of the model as the artifact takes it: quantized, in its layout.

    Float tensors are quantized where the port is; integer tensors of the port's own type pass as
    they are. `sizes` collects the open sizes of all inputs. Raises BadInput for a wrong shape.
    """
    array = _array(x)
    _check_shape(array, port, {} if sizes is None else sizes)
    type = port.type
    quant = type.quant
    if quant is not None and array.dtype.kind not in "iu":
        array = quant.quantize(array)
    stored = type.dtype.numpy
    if stored.kind in "iu" and array.dtype.kind in "iu" and array.size:
        info = np.iinfo(stored)
        lo, hi = int(array.min()), int(array.max())
        if lo < info.min or hi > info.max:
            raise BadInput(f"input {port.name} has values {lo}..{hi}, {stored.name} is too small")
    array = array.astype(stored)
    if port.layout == "channels_last":
        array = array.transpose(TO_NHWC)
    return np.asarray(array, order="C")


def _check_shape(array: np.ndarray, port: TensorIO, sizes: dict[str, int]) -> None:
    why = misfit(port.type.shape, array.shape, sizes)
    if why:
        raise BadInput(f"input {port.name} has shape {array.shape}, expected {port.type.shape}",
                       why="" if why.startswith("it takes shape") else why)  # fmt: skip


def from_artifact(array: np.ndarray, port: TensorIO, dtype: Any) -> Any:
    """An output of the artifact as the tensor of the model, of torch dtype `dtype` (None: as it is)."""
    import torch

    if port.layout == "channels_last":
        array = array.transpose(TO_NCHW)
    quant = port.type.quant
    if dtype is not None and dtype.is_floating_point and quant is not None:
        array = quant.dequantize(array)
    if array.dtype.kind == "V" or array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        array = array.astype(np.float32)
    tensor = torch.from_numpy(np.array(array, order="C"))
    return tensor.to(dtype) if dtype is not None else tensor


def _array(x: Any) -> np.ndarray:
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        narrow = x.is_floating_point() and x.element_size() < 4
        return (x.float() if narrow else x).numpy()  # type: ignore[no-any-return]
    return np.asarray(x)
