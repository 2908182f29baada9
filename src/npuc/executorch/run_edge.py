"""Executes a lowered edge program here: delegates in npuc's evaluator, the rest in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from npuc.executorch.edge_program import order_of
from npuc.ir import Graph

#: what a backend leaves in a lowered module's meta
RECORD = "_delegate_info_meta"


@dataclass(frozen=True)
class DelegateRecord:
    """What a delegate computes: its graph; memory order of its inputs, and of its outputs with
    their types."""

    graph: Graph
    inputs: tuple[tuple[int, ...] | None, ...]
    outputs: tuple[tuple[tuple[int, ...] | None, torch.dtype], ...]

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Outputs for inputs in the program's own layout."""
        from npuc.execute.tosa import evaluate

        given = zip(tensors, self.inputs, self.graph.inputs, strict=True)
        arrays = [to_array(x, o).astype(v.type.dtype.numpy, copy=False) for x, o, v in given]
        results = evaluate(self.graph, arrays)
        return [to_tensor(y, o).to(t) for y, (o, t) in zip(results, self.outputs, strict=True)]


def record_of(part: Any, graph: Graph) -> DelegateRecord:
    """The record of a partition's nodes that cross its boundary, and its graph."""
    return DelegateRecord(
        graph,
        tuple(order_of(n.meta["val"]) for n in part.inputs),
        tuple((order_of(n.meta["val"]), n.meta["val"].dtype) for n in part.outputs),
    )


def run_edge(
    program: Any, inputs: Sequence[torch.Tensor], state: dict[str, torch.Tensor]
) -> list[Any]:
    """The user's outputs. `state`: name -> value of the mutated buffers; it is updated."""
    signature = program.graph_signature
    constants = {**program.state_dict, **program.constants}
    targets = {
        **signature.inputs_to_parameters, **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }  # fmt: skip
    given = iter(inputs)
    arguments: list[Any] = []
    for node in program.graph.nodes:
        if node.op != "placeholder":
            break
        target = targets.get(node.name)
        arguments.append(
            next(given) if target is None else state.get(target, constants.get(target))
        )
    with torch.no_grad():
        results = _Interpreter(program.graph_module).run(*arguments)
    found: list[Any] = []
    for spec, result in zip(signature.output_specs, results, strict=True):
        if spec.kind is torch.export.graph_signature.OutputKind.BUFFER_MUTATION:
            state[spec.target] = result.detach().clone()
        elif spec.kind is torch.export.graph_signature.OutputKind.USER_OUTPUT:
            found.append(result)
    return found


class _Interpreter(torch.fx.Interpreter):
    """Runs a graph; a call of a delegate runs its record."""

    def run_node(self, n: Node) -> Any:
        if n.op == "call_function" and getattr(n.target, "_name", "") == "executorch_call_delegate":
            lowered, *tensors = self.fetch_args_kwargs_from_env(n)[0]
            return lowered.meta[RECORD].run(tensors)
        return super().run_node(n)


def to_array(x: torch.Tensor, order: tuple[int, ...] | None) -> np.ndarray:
    """A tensor as it lies in memory, in this order of its axes."""
    from npuc.frontend.torch_arrays import as_array

    x = x.detach() if order is None else x.detach().permute(order)
    return as_array(x.contiguous())


def to_tensor(y: np.ndarray, order: tuple[int, ...] | None) -> torch.Tensor:
    """The tensor that lies in memory like this, in this order of its axes."""
    import ml_dtypes

    if y.dtype == ml_dtypes.bfloat16:
        tensor = torch.from_numpy(y.view(np.uint16).copy()).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(np.array(y, order="C"))
    if order is None:
        return tensor
    return tensor.permute([order.index(axis) for axis in range(len(order))])
