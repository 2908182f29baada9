"""A C header that says what an artifact takes and gives."""

from __future__ import annotations

import re

from npuc.boundary import IO, TensorIO

C_TYPES = {
    "int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "int32": "int32_t",
    "int64": "int64_t", "bool": "bool", "float32": "float",
}  # fmt: skip


def c_header(name: str, io: IO) -> str:
    """Macros per tensor: NAME_INPUT_0_NAME, _TYPE, _RANK, _SHAPE, _SIZE, _LAYOUT, _SCALE and
    _ZERO_POINT.

    Shapes are in memory order. SCALE and ZERO_POINT are there where the tensor is quantized:
    real = SCALE * (stored - ZERO_POINT). NAME_STATE_0_OUTPUT and _INPUT are numbers of tensors:
    what a run gives at that output is what the next run takes at that input.
    """
    prefix = re.sub(r"\W", "_", name).upper()
    if not prefix or prefix[0].isdigit():
        prefix = f"MODEL_{prefix}"
    lines = [f"#ifndef {prefix}_IO_H", f"#define {prefix}_IO_H", ""]
    lines += ["#include <stdbool.h>", "#include <stdint.h>", ""]
    for side, tensors in (("INPUT", io.inputs), ("OUTPUT", io.outputs)):
        lines += [f"#define {prefix}_{side}_COUNT {len(tensors)}", ""]
        for i, tensor in enumerate(tensors):
            lines += [*_tensor(f"{prefix}_{side}_{i}", tensor), ""]
    if io.state:
        lines += [f"#define {prefix}_STATE_COUNT {len(io.state)}", ""]
    for i, (output, place) in enumerate(io.state):
        lines += [f"#define {prefix}_STATE_{i}_OUTPUT {output}"]
        lines += [f"#define {prefix}_STATE_{i}_INPUT {place}", ""]
    lines += [f"#endif  // {prefix}_IO_H", ""]
    return "\n".join(lines)


def _tensor(prefix: str, tensor: TensorIO) -> list[str]:
    shape = [int(d) for d in tensor.artifact_shape]
    size = 1
    for d in shape:
        size *= d
    text = tensor.name.replace("\\", "\\\\").replace('"', '\\"')
    rows = {
        "NAME": f'"{text}"',
        "TYPE": C_TYPES[tensor.dtype],
        "RANK": str(len(shape)),
        "SHAPE": "{" + ", ".join(map(str, shape)) + "}",
        "SIZE": str(size),
        "LAYOUT": f'"{_layout(tensor, len(shape))}"',
    }
    if tensor.scale is not None:
        rows["SCALE"] = f"{float(tensor.scale):.9g}".replace("inf", "INFINITY")
        if "." not in rows["SCALE"] and "e" not in rows["SCALE"]:
            rows["SCALE"] += ".0"
        rows["SCALE"] += "f"
        rows["ZERO_POINT"] = str(tensor.zero_point)
    return [f"#define {prefix}_{key} {value}" for key, value in rows.items()]


def _layout(tensor: TensorIO, rank: int) -> str:
    if tensor.layout == "channels_last":
        return "NHWC"
    return {4: "NCHW", 5: "NCDHW"}.get(rank, "contiguous")
