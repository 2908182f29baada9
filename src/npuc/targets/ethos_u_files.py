"""The two file forms of an Ethos-U network: ExecuTorch's payload and Vela's raw npz."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from npuc.errors import BadInput
from npuc.execute.tosa_signature import Port
from npuc.targets.vela import VelaResult, VelaTensor

# name[16], u32 length, u8 external flag, 11 reserved bytes; then the data, padded to 16.
_HEADER = struct.Struct("<16sIB11x")
_TENSOR = struct.Struct("<9i")  # 6-D shape, element size, offset, region
_FIRST, _LAST = "vela_bin_stream", "vela_end_stream"


@dataclass(frozen=True, slots=True)
class Payload:
    """What the payload of ExecuTorch's Ethos-U backend holds."""

    command_stream: bytes
    weights: bytes
    scratch_size: int
    inputs: tuple[VelaTensor, ...]
    outputs: tuple[VelaTensor, ...]


def executorch_payload(result: VelaResult, ports: Sequence[Port] = ()) -> bytes:
    """The bytes that ExecuTorch's Ethos-U backend takes as its processed data.

    `ports`: the inputs of the TOSA file. The runtime passes all of them in order, so those that
    Vela dropped, because no output depends on them, get a place behind the scratch memory.
    """
    inputs, scratch_size = _with_dropped(result, ports)
    blocks = (
        (_FIRST, b""),
        ("cmd_data", result.command_stream),
        ("weight_data", result.weights),
        ("scratch_size", struct.pack("<I", scratch_size)),
        ("inputs", _pack_tensors(inputs)),
        ("outputs", _pack_tensors(result.outputs)),
        (_LAST, b""),
    )
    return b"".join(pack_block(name, data) for name, data in blocks)


def _with_dropped(result: VelaResult, ports: Sequence[Port]) -> tuple[tuple[VelaTensor, ...], int]:
    """The inputs in the order of `ports`, and the scratch memory that holds all of them."""
    if len(ports) <= len(result.inputs):
        return result.inputs, result.scratch_size
    known = {tensor.name: tensor for tensor in result.inputs}
    size, found = result.scratch_size, []
    for port in ports:
        tensor = known.get(port.name)
        if tensor is None:
            size += -size % 16
            shape = (1,) * (6 - len(port.shape)) + port.shape
            tensor = VelaTensor(shape, port.storage.itemsize, size, result.scratch_region)
            size += math.prod(shape) * tensor.element_size
        found.append(tensor)
    return tuple(found), size


def parse_payload(payload: bytes) -> Payload:
    """The parts of a payload. Raises BadInput when a block is missing or cut."""
    blocks = read_blocks(payload)
    for name in ("cmd_data", "weight_data", "scratch_size", "inputs", "outputs"):
        if name not in blocks:
            raise BadInput("not an Ethos-U payload", why=f"block {name!r} is missing")
    if len(blocks["scratch_size"]) != 4:
        raise BadInput("not an Ethos-U payload", why="block 'scratch_size' is not 4 bytes")
    return Payload(
        blocks["cmd_data"],
        blocks["weight_data"],
        struct.unpack("<I", blocks["scratch_size"])[0],
        _unpack_tensors("inputs", blocks["inputs"]),
        _unpack_tensors("outputs", blocks["outputs"]),
    )


def raw_npz(result: VelaResult) -> bytes:
    """The file that `vela --output-format=raw` writes, same keys and arrays.

    Like Vela it keeps the quantization as pickled dictionaries (`allow_pickle` reads them).
    """
    import numpy as np

    buffer = io.BytesIO()
    np.savez(buffer, **_raw_fields(result))
    return buffer.getvalue()


def _raw_fields(result: VelaResult) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "cmd_data": result.command_stream,
        "weight_data": result.weights,
        "weight_region": result.weights_region,
        "scratch_shape": [result.scratch_size],
        "scratch_region": result.scratch_region,
        "scratch_size": result.scratch_size,
        "scratch_fast_shape": [result.scratch_fast_size],
        "scratch_fast_region": result.scratch_fast_region,
        "scratch_fast_size": result.scratch_fast_size,
    }
    groups = {"input": result.inputs, "output": result.outputs, "variable": result.variables}
    for kind, tensors in groups.items():
        fields[f"{kind}_shape"] = [list(t.shape) for t in tensors]
        fields[f"{kind}_elem_size"] = [t.element_size for t in tensors]
        fields[f"{kind}_region"] = [t.region for t in tensors]
        fields[f"{kind}_offset"] = [t.offset for t in tensors]
    for kind, tensors in groups.items():
        fields[f"{kind}_quantization"] = [_quantization(t) for t in tensors]
    return fields


def _quantization(tensor: VelaTensor) -> dict[str, Any]:
    """Vela's entry for one tensor; a per-tensor entry has one value of each."""
    import numpy as np

    kind, scale, zero_point = tensor.quantization
    kind = kind.lower() if scale and zero_point else "none"
    if kind == "none":
        scale, zero_point = (), ()
    if kind not in ("none", "per_channel"):
        scale, zero_point = scale[:1], zero_point[:1]
    return {
        "quant_type": kind,
        "scale": np.array(scale, np.float32),
        "zero_point": np.array(zero_point, np.int32),
    }


def pack_block(name: str, data: bytes, external: bool = False) -> bytes:
    """One block. An external one holds the key under which its data is stored elsewhere."""
    padding = bytes(-len(data) % 16)
    return _HEADER.pack(name.encode(), len(data), external) + data + padding


def _pack_tensors(tensors: tuple[VelaTensor, ...]) -> bytes:
    records = [_TENSOR.pack(*t.shape, t.element_size, t.offset, t.region) for t in tensors]
    return struct.pack("<i", len(tensors)) + b"".join(records)


def _unpack_tensors(name: str, data: bytes) -> tuple[VelaTensor, ...]:
    count = struct.unpack_from("<i", data)[0] if len(data) >= 4 else -1
    if len(data) != 4 + count * _TENSOR.size:
        raise BadInput("not an Ethos-U payload", why=f"block {name!r} has {len(data)} bytes")
    records = [_TENSOR.unpack_from(data, 4 + i * _TENSOR.size) for i in range(count)]
    return tuple(VelaTensor(tuple(r[:6]), r[6], r[7], r[8]) for r in records)


def read_blocks(payload: bytes) -> dict[str, bytes]:
    """Name -> data of every block up to the end mark. Raises BadInput for a damaged payload."""
    blocks: dict[str, bytes] = {}
    position = 0
    while position + _HEADER.size <= len(payload):
        raw_name, length, _ = _HEADER.unpack_from(payload, position)
        name = raw_name.rstrip(b"\0").decode(errors="replace")
        if not blocks and name != _FIRST:
            raise BadInput("not an Ethos-U payload", why=f"starts with {raw_name!r}")
        start = position + _HEADER.size
        if start + length > len(payload):
            raise BadInput("the Ethos-U payload is cut off", why=f"inside block {name!r}")
        blocks[name] = payload[start : start + length]
        if name == _LAST:
            return blocks
        position = start + length + -length % 16
    raise BadInput("not an Ethos-U payload", why=f"no block {_LAST!r}")
