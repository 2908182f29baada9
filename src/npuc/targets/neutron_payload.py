"""The payload of ExecuTorch's NeutronBackend: taken from what NXP's converter made, written, read.

A payload is a header, microcode, weights and kernels, each filled up with zeros to 16 bytes. Header:
number of inputs and outputs of the NPU's graph, of inputs of the program; a format per input and
output (1: channels are last in memory); which tensor of the program each input and output is; the
version. It has no sizes: the microcode's words 6 and 7 say them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from npuc.errors import BadInput, NpucError
from npuc.serialize.tflite_flatbuffer import load_schema

ALIGNMENT = 16
MAX_TENSORS = 255
#: first word of microcode
MAGIC = 0x64434D6E
CUSTOM_CODE = "NeutronGraph"
#: outputs of a NeutronGraph behind those of the model, by version: scratch; also profile and debug
EXTRA_OUTPUTS = {0: 1, 1: 3}
#: words of microcode: bytes of microcode and weights, then by version of the numbers of tensors
WORD_MICROCODE, WORD_WEIGHTS = 6, 7
WORD_INPUTS = {0: 11, 1: 13}


@dataclass(frozen=True)
class Port:
    """An input or output of the program, by its name in the TFLite file."""

    name: str
    channels_last: bool = False


@dataclass(frozen=True)
class NeutronGraph:
    """One graph for the NPU: names of its inputs and outputs, and its code."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    microcode: bytes
    weights: bytes
    kernels: bytes
    version: int


@dataclass(frozen=True)
class Converted:
    """What NXP's converter made: graphs for the NPU, and the operators that it leaves to the CPU."""

    graphs: tuple[NeutronGraph, ...]
    cpu_operators: tuple[str, ...]


def read_converted(model: bytes) -> Converted:
    """The operators of a converted TFLite file. Raises NpucError for one that is damaged."""
    schema = load_schema()
    try:
        parsed = schema.ModelT.InitFromPackedBuf(model, 0)
        names = {v: k for k, v in vars(schema.BuiltinOperator).items() if not k.startswith("_")}
        graphs: list[NeutronGraph] = []
        cpu: list[str] = []
        for subgraph in parsed.subgraphs or []:
            for op in subgraph.operators or []:
                code = parsed.operatorCodes[op.opcodeIndex]
                custom = (code.customCode or b"").decode(errors="replace")
                if custom == CUSTOM_CODE:
                    graphs.append(_graph(parsed, subgraph, op))
                else:
                    number = max(code.builtinCode, code.deprecatedBuiltinCode)
                    cpu.append(custom or names.get(number, str(number)))
    except NpucError:
        raise
    except Exception as error:  # flatbuffers raises whatever a damaged offset leads to
        raise _damaged(f"{type(error).__name__}: {error}") from None
    return Converted(tuple(graphs), tuple(cpu))


def _graph(model: Any, subgraph: Any, op: Any) -> NeutronGraph:
    inputs, outputs = [int(i) for i in op.inputs], [int(i) for i in op.outputs]
    if len(inputs) < 4 or len(outputs) < 2:
        raise _damaged(f"a {CUSTOM_CODE} with {len(inputs)} inputs and {len(outputs)} outputs")
    micro, weights, kernels = [_data(model, subgraph.tensors[i]) for i in inputs[-3:]]
    given = {int(i) for i in subgraph.outputs}
    version = 1 if len(outputs) - EXTRA_OUTPUTS[1] == sum(i in given for i in outputs) else 0
    return NeutronGraph(
        tuple(_name(subgraph.tensors[i]) for i in inputs[:-3]),
        tuple(_name(subgraph.tensors[i]) for i in outputs[: -EXTRA_OUTPUTS[version]]),
        micro, weights, kernels, version,
    )  # fmt: skip


def _data(model: Any, tensor: Any) -> bytes:
    """A constant's bytes; flatbuffers returns nothing, or 0, for an empty vector."""
    data = model.buffers[tensor.buffer].data
    return b"" if data is None or isinstance(data, int) else bytes(memoryview(data))


def _name(tensor: Any) -> str:
    return tensor.name.decode() if isinstance(tensor.name, bytes) else str(tensor.name)


def _damaged(why: str) -> NpucError:
    return NpucError("NXP's converter gave a file that npuc cannot read", why=why)


def single_graph(converted: Converted) -> NeutronGraph:
    """The one graph that ExecuTorch's runtime takes; NpucError that says what there is instead."""
    count, cpu = len(converted.graphs), converted.cpu_operators
    if count == 1 and not cpu:
        return converted.graphs[0]
    what = f"{count} NPU graphs" if count != 1 else "one NPU graph"
    left = f" and operators that stay on the CPU: {', '.join(cpu)}" if cpu else ""
    raise NpucError(
        "a payload holds exactly one graph for the NPU",
        why=f"NXP's converter made {what}{left}",
        hint="leave these ops to the host, or take the converted file: option artifact=npu-tflite",
    )


def build_payload(graph: NeutronGraph, inputs: Sequence[Port], outputs: Sequence[Port]) -> bytes:
    """The payload of `graph` in a program with these inputs and outputs.

    Raises NpucError for more than 255 of them, a tensor that is no input or output of the program,
    or microcode whose sizes are not those of the blocks.
    """
    header = bytes([
        _count(graph.inputs, "inputs"), _count(graph.outputs, "outputs"), _count(inputs, "inputs"),
        *_formats(graph.inputs, inputs, "input"), *_formats(graph.outputs, outputs, "output"),
        *_places(graph.inputs, inputs), *_places(graph.outputs, outputs), graph.version,
    ])  # fmt: skip
    _check_sizes(graph)
    return b"".join(map(_padded, (header, graph.microcode, graph.weights, graph.kernels)))


def _count(tensors: Sequence[Any], what: str) -> int:
    if len(tensors) > MAX_TENSORS:
        raise NpucError(f"{len(tensors)} {what}", why=f"a Neutron payload takes {MAX_TENSORS}")
    return len(tensors)


def _formats(names: Sequence[str], ports: Sequence[Port], what: str) -> list[int]:
    known = {p.name: p.channels_last for p in ports}
    for name in names:
        if name not in known:
            raise NpucError(
                f"the NPU graph has {what} {name!r}",
                why=f"the program's are called {', '.join(known)}",
                hint="npuc needs a converter that keeps names and takes the model as one graph",
            )
    if len(known) != len(ports):
        raise NpucError(f"an {what} of the program is there twice", why="a payload names each once")
    return [int(known[name]) for name in names]


def _places(names: Sequence[str], ports: Sequence[Port]) -> list[int]:
    place = {p.name: i for i, p in enumerate(ports)}
    return [place[name] for name in names]


def _check_sizes(graph: NeutronGraph) -> None:
    """The runtime finds weights and kernels by the sizes that the microcode says."""
    words = _words(graph.microcode)
    if words[0] != MAGIC:
        raise _damaged(f"microcode begins with {words[0]:#010x}, not {MAGIC:#010x}")
    said = (words[WORD_MICROCODE], words[WORD_WEIGHTS])
    there = (len(graph.microcode), len(graph.weights))
    for name, a, b in zip(("microcode", "weights"), said, there, strict=True):
        if _up(a) != _up(b):
            raise _damaged(f"the microcode says {a} bytes of {name}, there are {b}")
    first = WORD_INPUTS[graph.version]
    counts = (words[first], words[first + 1])
    if counts != (len(graph.inputs), len(graph.outputs)):
        raise _damaged(
            f"the microcode says {counts[0]} inputs and {counts[1]} outputs, the graph has "
            f"{len(graph.inputs)} and {len(graph.outputs)}"
        )


def _words(microcode: bytes) -> tuple[int, ...]:
    needed = WORD_INPUTS[1] + 2
    if len(microcode) < 4 * needed:
        raise _damaged(f"{len(microcode)} bytes of microcode")
    return struct.unpack_from(f"<{needed}I", microcode)


def _up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _padded(block: bytes) -> bytes:
    return block.ljust(_up(len(block)), b"\0")


@dataclass(frozen=True)
class Payload:
    """What a payload says. Formats and places are those of the header."""

    input_formats: tuple[int, ...]
    output_formats: tuple[int, ...]
    input_places: tuple[int, ...]
    output_places: tuple[int, ...]
    program_inputs: int
    version: int
    microcode: bytes
    weights: bytes
    kernels: bytes


def is_payload(data: bytes) -> bool:
    """Whether bytes are a payload: microcode begins where the header ends."""
    if len(data) < 2 * ALIGNMENT:
        return False
    start = _up(4 + 2 * data[0] + 2 * data[1])
    return data[start : start + 4] == struct.pack("<I", MAGIC)


def read_payload(data: bytes) -> Payload:
    """The parts of a payload. Raises BadInput for bytes that are none."""
    if not is_payload(data):
        raise BadInput("not a Neutron payload", why="no microcode behind its header")
    n, m, program = data[:3]
    bytes_of = iter(data[3:])
    formats_in, formats_out, places_in, places_out = (
        tuple(next(bytes_of) for _ in range(count)) for count in (n, m, n, m)
    )
    version = next(bytes_of)
    start = _up(4 + 2 * n + 2 * m)
    try:
        words = _words(data[start:])
    except NpucError as error:
        raise BadInput("damaged Neutron payload", why=error.why) from None
    weights = start + _up(words[WORD_MICROCODE])
    kernels = weights + _up(words[WORD_WEIGHTS])
    if kernels > len(data):
        raise BadInput(
            "damaged Neutron payload", why=f"it ends at {len(data)}, weights at {kernels}"
        )
    return Payload(
        formats_in, formats_out, places_in, places_out, program, version,
        data[start : start + words[WORD_MICROCODE]], data[weights : weights + words[WORD_WEIGHTS]],
        data[kernels:],
    )  # fmt: skip


def describe_payload(data: bytes) -> dict[str, Any]:
    """A nested summary for `npuc inspect`."""
    p = read_payload(data)

    def tensors(formats: Sequence[int], places: Sequence[int], what: str) -> list[str]:
        order = ("as in the program", "channels last")
        return [
            f"{what} {place}: {order[f != 0]}" for f, place in zip(formats, places, strict=True)
        ]

    return {
        "kind": "Neutron payload (ExecuTorch)",
        "version": p.version,
        "inputs": tensors(p.input_formats, p.input_places, "program input"),
        "outputs": tensors(p.output_formats, p.output_places, "program output"),
        "program_inputs": p.program_inputs,
        "microcode_bytes": len(p.microcode),
        "weight_bytes": len(p.weights),
        "kernel_bytes": len(p.kernels),
    }
