"""What is in a file that npuc writes: TOSA, TFLite, VGF, Ethos-U payload, Vela's npz, .pte, Neutron payload."""

from __future__ import annotations

import collections
import io
from pathlib import Path
from typing import Any

from npuc.errors import BadInput


def inspect_file(path: str) -> dict[str, Any]:
    """A nested summary of the file at `path`; BadInput when it is none that npuc knows."""
    file = Path(path)
    if not file.is_file():
        raise BadInput(f"no file {path}")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise BadInput(f"cannot read {path}", why=error.strerror or str(error)) from None
    for matches, read in _READERS:
        if matches(data):
            return {"bytes": len(data), **read(data)}
    known = (
        "TOSA (.tosa), TFLite (.tflite), VGF (.vgf), Ethos-U payload (.bin), Vela raw (.npz), "
        "Neutron payload (.neutron), ExecuTorch (.pte)"
    )
    raise BadInput(f"{path} is none of the files npuc writes", hint=f"known: {known}")


def _tosa(data: bytes) -> dict[str, Any]:
    from npuc.serialize.read_tosa import read_tosa

    graph = read_tosa(data)
    kinds = collections.Counter(op.name for op in graph.walk() if op.kind != "const")
    constants = [op.results[0].type for op in graph.walk() if op.kind == "const"]
    return {
        "kind": "TOSA flatbuffer",
        "inputs": {v.name: repr(v.type) for v in graph.inputs},
        "outputs": {v.name: repr(v.type) for v in graph.outputs},
        "operators": dict(kinds.most_common()),
        "constants": {"count": len(constants), "bytes": sum(t.nbytes for t in constants)},
    }


def _tflite(data: bytes) -> dict[str, Any]:
    from npuc.serialize.read_tflite import read_tflite, summarize

    return summarize(read_tflite(data))


def _vgf(data: bytes) -> dict[str, Any]:
    from npuc.targets.model_converter import describe_vgf

    return {"kind": "VGF", **describe_vgf(data)}


def _payload(data: bytes) -> dict[str, Any]:
    from npuc.targets.ethos_u_files import parse_payload

    p = parse_payload(data)
    tensors = {
        side: [
            {"shape": list(t.shape), "element_size": t.element_size, "offset": t.offset, "region": t.region}
            for t in getattr(p, side)
        ]
        for side in ("inputs", "outputs")
    }  # fmt: skip
    return {
        "kind": "Ethos-U payload (ExecuTorch)",
        "command_stream_bytes": len(p.command_stream),
        "weight_bytes": len(p.weights),
        "scratch_bytes": p.scratch_size,
        **tensors,
    }


def _npz(data: bytes) -> dict[str, Any]:
    import numpy as np

    try:
        archive = np.load(io.BytesIO(data), allow_pickle=False)
        names = archive.files
    except (ValueError, OSError) as error:
        raise BadInput("damaged .npz file", why=str(error)) from None
    shapes: dict[str, Any] = {}
    for name in names:
        if name.endswith("_quantization"):
            continue  # a pickled dictionary: not read from a file of unknown origin
        array = archive[name]
        shapes[name] = array.tolist() if array.size <= 16 and array.dtype.kind != "S" else (
            f"{array.dtype} {list(array.shape)}, {array.nbytes} bytes"
        )  # fmt: skip
    return {"kind": "Vela raw network", **shapes}


def _pte(data: bytes) -> dict[str, Any]:
    from npuc.serialize.pte_flatbuffer import delegates_of, kernels_of, read_pte

    program = read_pte(data)
    return {
        "kind": "ExecuTorch program",
        "methods": {plan["name"]: _method(plan) for plan in program["execution_plan"]},
        "kernels": kernels_of(program),
        "delegates": [
            {"backend": backend, "bytes": len(blob)} for backend, blob in delegates_of(program)
        ],
    }


def _method(plan: dict[str, Any]) -> dict[str, Any]:
    """Inputs and outputs of a method, and the bytes of planned memory it needs."""

    def text(index: int) -> str:
        kind, value = plan["values"][index]["val"]
        if kind != "Tensor":
            return f"{kind} {next(iter(value.values()), '')}".strip()
        return f"{value['scalar_type'].lower()} {value['sizes']}"

    return {
        "inputs": [text(i) for i in plan["inputs"]],
        "outputs": [text(i) for i in plan["outputs"]],
        "planned_bytes": sum(plan["non_const_buffer_sizes"]),
    }


def _neutron(data: bytes) -> dict[str, Any]:
    from npuc.targets.neutron_payload import describe_payload

    return describe_payload(data)


def _is_neutron(data: bytes) -> bool:
    from npuc.targets.neutron_payload import is_payload

    return is_payload(data)


_READERS = (
    (lambda d: d[4:8] == b"TOSA", _tosa),
    (lambda d: d[4:8] == b"TFL3", _tflite),
    (lambda d: d[:4] in (b"VGF1", b"1FGV"), _vgf),
    (lambda d: d[:15] == b"vela_bin_stream", _payload),
    (lambda d: d[:2] == b"PK", _npz),
    (lambda d: d[4:8] == b"ET12", _pte),
    (_is_neutron, _neutron),
)
