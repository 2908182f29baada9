"""A stand-in for NXP's converter, for tests only: NXP's own is not on public registries.

It computes nothing: it makes well-formed TFLite files whose operators are `NeutronGraph`, with the
interface that NXP's has. How it misbehaves is said by the environment variable NEUTRON_STANDIN:
words of "cpu" (the first operator stays on the CPU), "two" (two graphs), "none" (no graph), "lists"
(takes lists of numbers only), "crash", "hang", "raise", "rename", "old" (no profiling).
"""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

TARGETS = ("imxrt700", "imx95", "mcxn94x")
WORDS = 24
MAGIC = 0x64434D6E


def modes() -> set[str]:
    """How to misbehave."""
    return set(os.environ.get("NEUTRON_STANDIN", "").split())


@dataclass
class Npu:
    """What newer SDKs nest."""

    numMacs: int = 8
    hwVersion: int = 2


@dataclass
class TargetOptions:
    """A target."""

    name: str
    npu: Npu = field(default_factory=Npu)


class CompilationOptions:
    """Options under NXP's names."""

    def __init__(self) -> None:
        self.minNumOpsPerGraph = 0
        self.excludeGraphPasses = ""
        self.fetchConstantsToSRAM = False
        self.dumpKernelSelectionCode = False
        self.verbose = False
        self.dumpAfterImport = self.dumpAfterGenerate = ""
        if "old" not in modes():
            self.useProfiling = False


class CompilationContext:
    """What a conversion is given."""

    def __init__(self) -> None:
        self.compilationOpts = CompilationOptions()
        self.targetOpts: Any = None


def convert_model(model: Sequence[int], context: CompilationContext) -> list[int]:
    """The converted model, as NXP's converter returns it: a list of numbers."""
    how = modes()
    print("stand-in converter: converting for", context.targetOpts.name, flush=True)
    if "lists" in how and not isinstance(model, list):
        raise TypeError("convertModel(): incompatible function arguments")
    if "crash" in how:
        os.abort()
    if "hang" in how:
        time.sleep(60)
    if "raise" in how:
        raise RuntimeError("Unable to convert the model")
    options = context.compilationOpts
    for name, value in vars(options).items():
        print(f"{name} = {value}", flush=True)
    if options.dumpKernelSelectionCode:
        Path("_kernel_selection.c").write_text("/* kernels */\n")
    source = schema.ModelT.InitFromPackedBuf(bytes(model), 0)
    if getattr(options, "useProfiling", False):
        _dump(source)
    return list(_converted(source, how, options))


def _converted(source: Any, how: set[str], options: CompilationOptions) -> bytes:
    graph = source.subgraphs[0]
    names = [t.name.decode() for t in graph.tensors]
    shapes = {n: list(t.shape) for n, t in zip(names, graph.tensors, strict=True)}
    inputs, outputs = [names[i] for i in graph.inputs], [names[i] for i in graph.outputs]
    if "rename" in how:
        inputs = [f"renamed_{n}" for n in inputs]
        shapes |= {f"renamed_{n}": s for n, s in shapes.items()}
    weights = b"".join(bytes(b.data) for b in source.buffers if b.data is not None)[:100]
    version = int(getattr(options, "useProfiling", False))
    made = File(inputs, outputs, shapes)
    middle = "between"
    shapes[middle] = [1]
    if "none" in how:
        made.cpu(inputs, outputs)
    elif "cpu" in how:
        made.cpu(inputs[:1], [middle])
        made.npu([middle, *inputs[1:]], outputs, weights, version)
    elif "two" in how:
        made.npu(inputs, [middle], weights, version)
        made.npu([middle], outputs, weights, version)
    else:
        made.npu(inputs, outputs, weights, version)
    return made.bytes()


class File:
    """A TFLite file of NeutronGraph operators, and of ADDs that stay on the CPU."""

    def __init__(
        self, inputs: Sequence[str], outputs: Sequence[str], shapes: dict[str, list[int]]
    ) -> None:
        self.model = schema.ModelT(version=3, description="stand-in", buffers=[schema.BufferT()])
        self.model.operatorCodes = [
            schema.OperatorCodeT(32, b"NeutronGraph", 1, 32), schema.OperatorCodeT(0, None, 1, 0),
        ]  # fmt: skip
        self.graph = schema.SubGraphT(tensors=[], operators=[])
        self.model.subgraphs = [self.graph]
        self.shapes = shapes
        self.places: dict[str, int] = {}
        self.graph.inputs = self._tensors(inputs)
        self.graph.outputs = self._tensors(outputs)

    def npu(
        self, inputs: Sequence[str], outputs: Sequence[str], weights: bytes, version: int = 0,
        kernels: bytes = b"kernels", microcode_bytes: int = 4 * WORDS,
    ) -> None:  # fmt: skip
        """Add a graph for the NPU."""
        code = microcode(microcode_bytes, len(weights), len(inputs), len(outputs), version)
        blocks = [self._block(n, d) for n, d in
                  (("microcode", code), ("weights", weights), ("kernels", kernels))]  # fmt: skip
        extra = self._tensors([f"extra{len(self.places)}_{i}" for i in range(3 if version else 1)])
        self._operator(0, [*self._tensors(inputs), *blocks], [*self._tensors(outputs), *extra])

    def cpu(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Add an operator for the CPU."""
        self._operator(1, self._tensors(inputs), self._tensors(outputs))

    def bytes(self) -> bytes:
        """The file."""
        builder = flatbuffers.Builder(4096)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _operator(self, code: int, inputs: list[int], outputs: list[int]) -> None:
        self.graph.operators.append(
            schema.OperatorT(opcodeIndex=code, inputs=inputs, outputs=outputs)
        )

    def _tensors(self, names: Sequence[str]) -> list[int]:
        for name in names:
            if name not in self.places:
                self.places[name] = len(self.graph.tensors)
                kind = schema.TensorType.INT8
                shape = self.shapes.get(name, [16])
                self.graph.tensors.append(schema.TensorT(shape=shape, type=kind, name=name))
        return [self.places[name] for name in names]

    def _block(self, name: str, data: bytes) -> int:
        self.model.buffers.append(schema.BufferT(data=np.frombuffer(data, np.uint8)))
        self.graph.tensors.append(
            schema.TensorT(
                shape=[len(data)],
                type=schema.TensorType.UINT8,
                name=name,
                buffer=len(self.model.buffers) - 1,
            )  # fmt: skip
        )
        return len(self.graph.tensors) - 1


def microcode(size: int, weights: int, inputs: int, outputs: int, version: int = 0) -> bytes:
    """Microcode with the words that the runtime reads; the rest counts up."""
    words = [0] * WORDS
    words[0], words[6], words[7], words[9] = MAGIC, size, weights, 256
    first = 13 if version else 11
    words[first], words[first + 1] = inputs, outputs
    code = struct.pack(f"<{WORDS}I", *words)
    return code[:size] + bytes(i % 251 for i in range(max(size - len(code), 0)))


def _dump(source: Any) -> None:
    """The log that NXP's converter writes with profiling, as far as npuc reads it."""
    graph = source.subgraphs[0]
    names = [t.name.decode() for t in graph.tensors]
    codes = {v: k for k, v in vars(schema.BuiltinOperator).items() if not k.startswith("_")}
    nodes = []
    for place, op in enumerate(graph.operators):
        code = source.operatorCodes[op.opcodeIndex]
        kind = codes[max(code.builtinCode, code.deprecatedBuiltinCode)]
        lines = [f"Type: {kind}", "  Inputs:"]
        lines += [f"    [{i}]: {names[t]}" for i, t in enumerate(op.inputs)]
        lines += ["  Outputs:", *[f"    [{i}]: {names[t]}" for i, t in enumerate(op.outputs)]]
        nodes.append("\n".join([*lines, f"  Location: {place}"]))
    print("Graphs:\n" + "\n".join(nodes))
    print('= Optimize Graph =\n= Extract Graphs =\nNeutronGraph "subgraph_099":')
    for place in range(len(nodes)):
        print(f'NeutronOperator "subgraph_{place:03}":\n  Operators:\n    X\n  Kernels:\n    K\n')
    print("Generate code for NeutronGraph\nGraphs:")
    for place, node in enumerate(nodes):
        print(f"Name: subgraph_{place:03}\nInputs:\nOutputs:\nTensors:\n{node}")
    print(
        'Name: subgraph_099\nInputs:\nOutputs:\nTensors:\nStatistics for NeutronGraph "subgraph_099":'
    )
    sys.stdout.flush()
