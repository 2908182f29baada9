"""Parts of an ExecuTorch edge program as programs that the frontend imports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._pytree as pytree
from torch.fx import GraphModule, Node

from npuc.errors import BadInput
from npuc.frontend.functional_copy import FunctionalCopy
from npuc.frontend.name_sizes import symbols_of
from npuc.frontend.program import Input, Output, Program

if TYPE_CHECKING:
    from torch.export import ExportedProgram

#: placeholder of a constant -> its name and value
Constants = Mapping[Node, tuple[str, torch.Tensor]]

#: meta key under which an op that replaces a node keeps the node's name
ORIGIN = "npuc_origin"


@dataclass
class Part:
    """A part of an edge program, and the nodes whose values cross its boundary."""

    program: Program
    inputs: Sequence[Node]
    outputs: Sequence[Node]


def constants_of(program: ExportedProgram) -> dict[Node, tuple[str, torch.Tensor]]:
    """The placeholders of parameters, buffers and lifted constants that the program only reads.

    ExecuTorch hands partitioners a copy of the program whose parameters are fake; here they have
    their values. Raises BadInput where these cannot be found.
    """
    signature = program.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    targets = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    found, real = {}, _RealTensors()
    for node in program.graph.nodes:
        if node.op != "placeholder":
            break
        target = targets.get(node.name)
        if target is None or target in mutated:
            continue
        tensor = program.state_dict.get(target)
        if tensor is None:
            tensor = program.constants[target]
        found[node] = (target, real(target, tensor))
    return found


class _RealTensors:
    """Finds the tensor that a fake one was made from, in the memory of its fake tensor mode."""

    def __init__(self) -> None:
        self.of_mode: dict[int, dict[int, torch.Tensor]] = {}

    def __call__(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, torch._subclasses.FakeTensor):
            return tensor
        mode = tensor.fake_mode
        known = self.of_mode.get(id(mode))
        if known is None:
            known = self.of_mode[id(mode)] = _by_fake(mode)
        real = known.get(id(tensor))
        if real is None:
            raise BadInput(
                f"the value of {name} is not known",
                why="the program holds a fake tensor that was not made from a real one",
                hint="use to_edge_transform_and_lower of ExecuTorch 1.4",
            )
        return real


def _by_fake(mode: Any) -> dict[int, torch.Tensor]:
    """id of each fake tensor of a mode -> the tensor that it stands for."""
    converter = mode.fake_tensor_converter.meta_converter
    real = {number: tensor for tensor, number in converter.describer.lookup_tensor.items()}
    return {
        id(fake): real[number] for number, fake in converter.tensor_memo.items() if number in real
    }


def part_of(
    gm: GraphModule,
    constants: Constants,
    nodes: Iterable[Node],
    inputs: Sequence[Node],
    outputs: Sequence[Node],
    name: str,
) -> Part:
    """The part that computes `outputs` from `inputs` with `nodes` (in the order of the graph).

    Constants that the nodes read become its own. Inputs and outputs keep order and number.
    """
    copy = FunctionalCopy()
    env: dict[Node, Any] = {n: copy.input(n.name, n.meta) for n in inputs}
    for node in nodes:
        for operand in node.all_input_nodes:
            if operand in constants and operand not in env:
                env[operand] = copy.constant(*constants[operand], operand.meta)
        if node.op == "get_attr":
            env[node] = copy.attribute(gm, node)
        else:
            copy.call(node, env)
            _mark(env[node], node.name)
    for node in outputs:
        if node not in env:
            env[node] = copy.constant(*constants[node], node.meta)
    module = copy.finish([env[n] for n in outputs], name)
    leaves = tuple(range(len(inputs)))
    program = Program(
        module, name, [Input(n.name) for n in inputs],
        [Output(n.name, place) for place, n in enumerate(outputs)],
        pytree.tree_structure((leaves, {})), pytree.tree_structure(list(range(len(outputs)))), None,
        symbols=symbols_of(module, {}),
    )  # fmt: skip
    return Part(program, inputs, outputs)


def _mark(cells: Any, name: str) -> None:
    """Note in a new node's meta which node of the edge program it stands for."""
    for cell in cells if isinstance(cells, (tuple, list)) else [cells]:
        node = getattr(cell, "node", None)
        if node is not None and node.op == "call_function":
            node.meta.setdefault(ORIGIN, name)


def whole_of(edge_program: ExportedProgram, name: str) -> Part:
    """The whole of an edge program that ExecuTorch wants on a backend.

    Its inputs are the placeholders that are no constants of its own, in order.
    """
    constants = constants_of(edge_program)
    graph = edge_program.graph
    places = [n for n in graph.nodes if n.op == "placeholder" and n not in constants]
    nodes = [n for n in graph.nodes if n.op in ("call_function", "get_attr")]
    outputs = list(graph.output_node().args[0])
    for output in outputs:
        if not isinstance(output, Node):
            raise BadInput(f"delegate {name} returns {output!r}", why="it is no tensor")
    return part_of(edge_program.graph_module, constants, nodes, places, outputs, name)


def order_of(value: torch.Tensor) -> tuple[int, ...] | None:
    """Axes of a tensor from the outermost in memory to the innermost; None: they are in order."""
    strides = value.stride()
    if not all(isinstance(s, int) for s in strides):
        return None  # open sizes come with contiguous tensors only
    order = tuple(sorted(range(len(strides)), key=lambda axis: -strides[axis]))
    return None if order == tuple(range(len(order))) else order
