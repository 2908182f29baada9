"""Payloads byte for byte: header, formats, index maps, versions, alignment; what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from npuc.errors import BadInput, NpucError
from npuc.report.inspect_file import inspect_file
from npuc.targets.neutron_payload import (
    NeutronGraph,
    Port,
    build_payload,
    is_payload,
    read_converted,
    read_payload,
    single_graph,
)
from tests.neutron.standin_converter import File, microcode


@dataclass(frozen=True)
class Case:
    """A program and what the NPU's graph takes of it; the payload that ExecuTorch's own backend
    makes of it: its header and size."""

    name: str
    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]
    graph_inputs: tuple[int, ...]
    graph_outputs: tuple[int, ...]
    sizes: tuple[int, int, int]
    header: str
    size: int
    version: int = 0


CASES = (
    Case("one in, one out", (True,), (True,), (0,), (0,), (96, 65, 7), "0101010101000000", 208),
    Case("swapped", (True, False), (False,), (1, 0), (0,), (100, 1, 1), "02010200010001000000", 160),
    Case("header of 16 bytes", (True, True, False), (False, False, True), (0, 1, 2), (2, 1, 0),
         (96, 48, 32), "03030301010001000000010202010000", 192),
    Case("unused input", (True, False), (True,), (1,), (0,), (96, 20, 20), "0101020001010000", 176),
    Case("header of 18 bytes", (False,) * 6, (True,), (0, 1, 2, 3, 4, 5), (0,), (96, 16, 16),
         "060106000000000000010001020304050000", 160),
    Case("with profile", (False,), (True,), (0,), (0,), (96, 16, 16), "0101010001000001", 144, 1),
)  # fmt: skip


def padded(data: bytes) -> bytes:
    """Zeros up to 16 bytes."""
    return data + b"\0" * (-len(data) % 16)


def ports(kind: str, flags: Sequence[bool]) -> list[Port]:
    """Inputs in0, in1, ..."""
    return [Port(f"{kind}{i}", f) for i, f in enumerate(flags)]


def converted(case: Case) -> bytes:
    """What NXP's converter makes of the case."""
    file = File(
        [p.name for p in ports("in", case.inputs)], [p.name for p in ports("out", case.outputs)], {}
    )
    micro, weights, kernels = case.sizes
    file.npu(
        [f"in{i}" for i in case.graph_inputs], [f"out{i}" for i in case.graph_outputs],
        bytes(range(weights)), case.version, bytes(range(100, 100 + kernels)), micro,
    )  # fmt: skip
    return file.bytes()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_bytes(case: Case) -> None:
    graph = single_graph(read_converted(converted(case)))
    payload = build_payload(graph, ports("in", case.inputs), ports("out", case.outputs))
    micro, weights, kernels = case.sizes
    code = microcode(micro, weights, len(case.graph_inputs), len(case.graph_outputs), case.version)
    blocks = (code, bytes(range(weights)), bytes(range(100, 100 + kernels)))
    header = bytes.fromhex(case.header)
    assert len(header) == 4 + 2 * len(case.graph_inputs) + 2 * len(case.graph_outputs) or not any(
        header[4 + 2 * len(case.graph_inputs) + 2 * len(case.graph_outputs) :]
    )
    assert payload == b"".join(map(padded, (header, *blocks)))
    assert len(payload) == case.size


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_read_again(case: Case, tmp_path: object) -> None:
    graph = single_graph(read_converted(converted(case)))
    data = build_payload(graph, ports("in", case.inputs), ports("out", case.outputs))
    assert is_payload(data)
    read = read_payload(data)
    assert read.input_places == case.graph_inputs and read.output_places == case.graph_outputs
    assert read.program_inputs == len(case.inputs) and read.version == case.version
    assert (read.microcode, read.weights) == (graph.microcode, graph.weights)
    assert read.kernels.startswith(graph.kernels)
    path = f"{tmp_path}/model.neutron"
    with open(path, "wb") as file:
        file.write(data)
    shown = inspect_file(path)
    assert shown["kind"] == "Neutron payload (ExecuTorch)"
    assert shown["microcode_bytes"] == case.sizes[0] and shown["weight_bytes"] == case.sizes[1]


def graph(**changes: object) -> NeutronGraph:
    """A graph of one input and one output."""
    given = {
        "inputs": ("a",),
        "outputs": ("b",),
        "weights": b"w" * 16,
        "kernels": b"k",
        "version": 0,
    }
    given |= changes
    given.setdefault("microcode", microcode(96, 16, len(given["inputs"]), len(given["outputs"])))
    return NeutronGraph(**given)


def test_empty_blocks() -> None:
    file = File(["a"], ["b"], {})
    file.npu(["a"], ["b"], b"", kernels=b"")
    made = single_graph(read_converted(file.bytes()))
    assert made.weights == made.kernels == b""
    assert len(build_payload(made, [Port("a")], [Port("b")])) == 16 + 96


@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_more_than_255(side: str) -> None:
    names = tuple(f"t{i}" for i in range(256))
    made = graph(**{side: names})
    many = [Port(n) for n in names]
    sides = (many, [Port("b")]) if side == "inputs" else ([Port("a")], many)
    with pytest.raises(NpucError, match=f"256 {side}.*255"):
        build_payload(made, *sides)


def test_255_are_taken() -> None:
    names = tuple(f"t{i}" for i in range(255))
    made = graph(inputs=names)
    data = build_payload(made, [Port(n) for n in names], [Port("b")])
    assert read_payload(data).input_places == tuple(range(255))


def test_other_names() -> None:
    with pytest.raises(NpucError, match=r"input 'a'.*called x"):
        build_payload(graph(), [Port("x")], [Port("b")])


def test_a_name_twice() -> None:
    with pytest.raises(NpucError, match="there twice"):
        build_payload(graph(), [Port("a")], [Port("b"), Port("b")])


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (b"\0" * 96, "microcode begins with 0x00000000"),
        (microcode(96, 40, 1, 1), "says 40 bytes of weights, there are 16"),
        (microcode(96, 16, 2, 1), "says 2 inputs and 1 outputs"),
        (b"nMCd", "4 bytes of microcode"),
    ],
)
def test_microcode_that_the_runtime_would_misread(code: bytes, why: str) -> None:
    with pytest.raises(NpucError, match=why):
        build_payload(graph(microcode=code), [Port("a")], [Port("b")])


def test_operators_left_to_the_cpu() -> None:
    file = File(["a"], ["b"], {})
    file.cpu(["a"], ["m"])
    file.npu(["m"], ["b"], b"w")
    made = read_converted(file.bytes())
    assert made.cpu_operators == ("ADD",) and len(made.graphs) == 1
    with pytest.raises(NpucError, match="one NPU graph and operators that stay on the CPU: ADD"):
        single_graph(made)


def test_damage() -> None:
    data = converted(CASES[0])
    with pytest.raises(NpucError, match="cannot read"):
        read_converted(data[:40])
    payload = build_payload(
        single_graph(read_converted(data)), *[ports(k, (True,)) for k in ("in", "out")]
    )
    with pytest.raises(BadInput, match="damaged"):
        read_payload(payload[:100])
    assert not is_payload(b"") and not is_payload(b"\xff" * 64)
