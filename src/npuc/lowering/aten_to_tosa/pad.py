"""Rules for pad in its four modes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuc.ir import Value
from npuc.lowering.aten_to_tosa.carry import carry
from npuc.lowering.aten_to_tosa.open_axes import padded
from npuc.lowering.aten_to_tosa.take import join, take
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

#: PyTorch's modes that repeat the data, under the names numpy has for them
MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@lowers("aten.pad")
def pad(
    b: TosaBuilder,
    x: Value,
    pads: Sequence[int],
    mode: str = "constant",
    value: float | None = None,
) -> Value:
    """pad -> PAD by a constant; other modes -> CONCAT of the tensor with slices of it, reversed
    (reflect) or repeated (replicate)."""
    if mode != "constant":
        return _padded_by_data(b, x, pads, mode)
    constant = _pad_constant(b, x, value)
    return carry(b, lambda v, c: b.PAD(v, tuple(pads), c, quant=v.type.quant), x, constant)


@lowers("aten.pad", target="ethos-u")
def pad_on_ethos_u(
    b: TosaBuilder,
    x: Value,
    pads: Sequence[int],
    mode: str = "constant",
    value: float | None = None,
) -> Value:
    """pad -> PAD, or CONCAT with constants where Vela would fuse a PAD by code 0 into a convolution
    and pad with the zero point instead."""
    quant = b.out[0].quant
    if mode == "constant" and quant is not None and quant.zp != 0:
        constant = _pad_constant(b, x, value)
        if int(constant.array[0]) == 0:
            return carry(b, lambda v: _surrounded(b, v, pads, constant), x)
    return pad(b, x, pads, mode, value)


def _pad_constant(b: TosaBuilder, x: Value, value: float | None) -> Value:
    """The value to pad with, as the result stores it."""
    out, real = b.out[0], 0 if value is None else value
    if out.quant is not None:
        b.require(not out.quant.per_channel, "pad of a per-channel quantized tensor")
        codes = out.quant.quantize(np.full(1, real, np.float64))
        return b.const(codes.astype(out.dtype.numpy), out.dtype, out.quant)
    return b.const(np.full(1, real).astype(out.dtype.numpy), out.dtype)


def _surrounded(b: TosaBuilder, x: Value, pads: Sequence[int], constant: Value) -> Value:
    """CONCAT with blocks of the constant, axis by axis."""
    for axis in range(x.type.rank):
        before, after = pads[2 * axis], pads[2 * axis + 1]
        shape = list(x.type.ints)
        blocks = []
        for size in (before, after):
            shape[axis] = size
            block = np.full(shape, constant.array[0])
            blocks.append([b.const(block, x.type.dtype, x.type.quant)] if size else [])
        x = join(b, [*blocks[0], x, *blocks[1]], axis)
    return x


def _padded_by_data(b: TosaBuilder, x: Value, pads: Sequence[int], mode: str) -> Value:
    b.require(mode in MODES, f"pad mode {mode!r} is none of constant, {', '.join(MODES)}")

    def move(v: Value) -> Value:
        for axis in range(v.type.rank):
            amount, size = (pads[2 * axis], pads[2 * axis + 1]), v.type.shape[axis]
            if amount == (0, 0):
                continue
            if isinstance(size, int):
                index = np.pad(np.arange(size), amount, mode=MODES[mode])  # type: ignore[call-overload]
                v = take(b, v, axis, index)
            else:
                v = padded(b, v, axis, *amount, mode)
        return v

    return carry(b, move, x)
