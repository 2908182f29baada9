"""Any form of a PyTorch model -> Program: one flat functional FX graph and its signature."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule, Node

from npuc.errors import BadInput, Reason, Unsupported
from npuc.frontend.aliases import Cell
from npuc.frontend.export_guards import with_guards
from npuc.frontend.export_module import export_module, quiet
from npuc.frontend.functional_copy import FunctionalCopy
from npuc.frontend.fx_targets import aten_op
from npuc.frontend.name_sizes import renamed, symbols_of
from npuc.frontend.program import Input, Output, Program, State
from npuc.frontend.random_inputs import random_inputs
from npuc.frontend.sink_constants import sink_constants
from npuc.frontend.splice import fetch, kind_of
from npuc.ir import Dim

#: ops whose result depends on the strides of their operand
_NEEDS_LAYOUT = ("aten.as_strided", "aten.view.dtype", "aten.view_as_complex")


def capture(
    model: Any,
    example_inputs: Any = None,
    dynamic_shapes: Any = None,
    like: Program | None = None,
) -> Program:
    """Capture `model` as one flat functional FX graph. Weights are shared with the model.

    model: nn.Module (exported here), torch.export.ExportedProgram of any IR (training, decomposed,
        edge), a GraphModule of ATen ops (PT2E-converted; taken as it is) or the path of a .pt2.
    example_inputs: tuple of the positional arguments, a dict of keyword arguments or a pair
        (args, kwargs); needed for an nn.Module only.
    dynamic_shapes: as torch.export takes it; for an nn.Module only.
    like: `model` is `like.graph_module` after quantization: inputs, outputs and states are its.

    Raises BadInput for what the user gave, Unsupported for inputs that no target takes.
    """
    if like is not None:
        return _with_graph(like, model)
    name = type(model).__name__
    if dynamic_shapes is not None and not _is_exported_here(model):
        raise BadInput(
            f"dynamic_shapes for a model of type {name}",
            why="only the export of an nn.Module takes them",
            hint="give dynamic_shapes to torch.export.export; sizes={name: number} fixes a size",
        )
    if isinstance(model, (str, os.PathLike)):
        name, model = Path(model).stem, load(model)
    if isinstance(model, GraphModule) and any(map(_is_observer, model.modules())):
        raise BadInput("the model is prepared for quantization", hint="call convert_pt2e first")
    exported = model if isinstance(model, ExportedProgram) else None
    if exported is not None:
        program = _from_exported(exported, name if name != "ExportedProgram" else "")
        given = example_inputs if example_inputs is not None else exported.example_inputs
    elif isinstance(model, GraphModule) and is_exported_graph(model):
        program, given = _from_graph(model, name), example_inputs
    elif isinstance(model, torch.nn.Module):
        exported = export_module(model, example_inputs, dynamic_shapes)
        program, given = _from_exported(exported, name), exported.example_inputs
    else:
        raise BadInput(
            f"a model of type {type(model).__name__}",
            hint="give an nn.Module, an ExportedProgram, a PT2E-converted GraphModule or the "
            "path of a .pt2 file",
        )
    if not any(output.place is not None for output in program.outputs) and not program.states:
        raise BadInput(f"{name} returns no tensor", hint="return what is to be computed")
    program = _with_examples(program, given)
    if dynamic_shapes is not None:
        _name_sizes(program, dynamic_shapes, model.forward, given)
    if exported is not None and program.symbols:
        program.symbols = with_guards(exported, program.symbols)
    return program


def _is_observer(module: torch.nn.Module) -> bool:
    """Whether a module is of torchao's or torch's, which watch or round values in training."""
    return type(module).__name__.endswith(("Observer", "FakeQuantize"))


def _is_exported_here(model: Any) -> bool:
    graph = isinstance(model, GraphModule) and is_exported_graph(model)
    return isinstance(model, torch.nn.Module) and not graph


def _name_sizes(program: Program, dynamic_shapes: Any, forward: Any, inputs: Any) -> None:
    """Give open sizes the names of the user's Dims. `inputs`: (args, kwargs) of the export."""
    tensors = program.flatten_inputs(program.example_inputs)
    values = [n.meta["val"] for n in program.placeholders]
    program.symbols = renamed(program.symbols, dynamic_shapes, forward, inputs, tensors, values)


def load(path: str | os.PathLike[str]) -> ExportedProgram:
    """The program of a .pt2 file; BadInput when it is missing, unreadable or something else."""
    file = Path(path)
    if not file.exists():
        raise BadInput(f"{file} does not exist", hint="write it with torch.export.save")
    if file.is_dir():
        raise BadInput(f"{file} is a directory, not a .pt2 file")
    try:
        with quiet():
            return torch.export.load(file)
    except Exception as error:
        first = str(error).strip().splitlines() or [type(error).__name__]
        why = first[0].split(" Please check the warnings")[0]
        raise BadInput(
            f"{file} is not a readable .pt2 program",
            why=why[:200].rstrip("."),
            hint=f"write it with torch.export.save of PyTorch {torch.__version__} or older",
        ) from None


def is_exported_graph(gm: GraphModule) -> bool:
    """Whether a GraphModule holds ATen ops (exported, perhaps quantized), not module calls."""
    calls = [n for n in gm.graph.nodes if n.op in ("call_function", "call_module", "call_method")]
    ops = (torch._ops.OpOverload, torch._ops.HigherOrderOperator)
    return any(isinstance(aten_op(n.target), ops) for n in calls) and all(
        n.op == "call_function" or (n.op == "call_module" and not n.users) for n in calls
    )


# the forms -----------------------------------------------------------------------------------


def _from_exported(exported: ExportedProgram, name: str) -> Program:
    """A program whose parameters are placeholders: they become `get_attr` nodes."""
    copy = _new_copy(exported.graph_module)
    signature = exported.graph_signature
    specs = {_argument_name(s): s for s in signature.input_specs}
    env: dict[Node, Any] = {}
    inputs, cells = [], []
    for node in exported.graph_module.graph.nodes:
        if node.op != "placeholder":
            break
        spec = specs[node.name]
        if spec.kind is InputKind.USER_INPUT:
            inputs.append(_input(node))
            env[node] = copy.input(node.name, node.meta) if inputs[-1].is_tensor else None
            cells.append((node, env[node], inputs[-1]))
        elif spec.kind is InputKind.CUSTOM_OBJ or spec.kind is InputKind.TOKEN:
            env[node] = exported.constants.get(spec.target)
        else:
            tensor = _tensor_of(exported, spec.target)
            env[node] = copy.constant(spec.target, tensor, node.meta)
    results = copy.copy(exported.graph_module, env)
    user, states, mutated = [], {}, {}
    for spec, cell in zip(signature.output_specs, results, strict=True):
        if spec.kind is OutputKind.BUFFER_MUTATION or spec.kind is OutputKind.PARAMETER_MUTATION:
            states[spec.target] = cell
        elif spec.kind is OutputKind.USER_INPUT_MUTATION:
            mutated[spec.target] = cell
        elif spec.kind is OutputKind.USER_OUTPUT or spec.kind is OutputKind.LOSS_OUTPUT:
            user.append(cell)
    spec = exported.call_spec
    draft = _Draft(copy, cells, user, states, mutated)
    symbols = symbols_of(exported.graph_module, exported.range_constraints)
    return draft.finish(name, inputs, spec.in_spec, spec.out_spec, symbols)


def _from_graph(gm: GraphModule, name: str) -> Program:
    """A GraphModule that reads its parameters itself."""
    copy = _new_copy(gm)
    places = [n for n in gm.graph.nodes if n.op == "placeholder"]
    inputs = [_input(n) for n in places]
    env = {
        n: copy.input(n.name, n.meta) if i.is_tensor else None
        for n, i in zip(places, inputs, strict=True)
    }
    cells = [(n, env[n], i) for n, i in zip(places, inputs, strict=True)]
    results = copy.copy(gm, env)
    info = getattr(gm.graph._codegen, "pytree_info", None)
    in_spec = info.in_spec if info else pytree.tree_structure((tuple(range(len(places))), {}))
    if info is not None and info.out_spec is not None:
        out_spec, user = info.out_spec, results if isinstance(results, list) else [results]
    else:
        user, out_spec = pytree.tree_flatten(_original_structure(gm, results))
    return _Draft(copy, cells, list(user), {}, {}).finish(
        name, inputs, in_spec, out_spec, symbols_of(gm, {})
    )


def _with_graph(like: Program, gm: GraphModule) -> Program:
    """`like` with the graph of its module after quantization."""
    copy = _new_copy(gm)
    env = {n: copy.input(n.name, n.meta) for n in gm.graph.nodes if n.op == "placeholder"}
    for node, old in zip(env, like.placeholders, strict=True):
        env[node].node.meta = {**old.meta, **node.meta}
    results = copy.copy(gm, dict(env))
    graph_module = copy.finish(list(results), like.graph_module.__class__.__name__)
    return dataclasses.replace(like, graph_module=graph_module, dtypes=like.output_dtypes())


def _new_copy(gm: GraphModule) -> FunctionalCopy:
    copy = FunctionalCopy()
    copy.keeps_layout = any(
        kind_of(aten_op(n.target)) in _NEEDS_LAYOUT
        for n in gm.graph.nodes
        if n.op == "call_function"
    )
    return copy


class _Draft:
    """The parts of a program from which its graph and signature are finished."""

    def __init__(
        self, copy: FunctionalCopy, cells: Sequence[tuple[Node, Any, Input]],
        user: list[Any], states: dict[str, Any], mutated: dict[str, Any],
    ) -> None:  # fmt: skip
        self.copy = copy
        self.cells = cells
        self.user = user
        self.states = states
        self.mutated = mutated

    def finish(
        self, name: str, inputs: list[Input], in_spec: Any, out_spec: Any, symbols: dict[str, Dim]
    ) -> Program:
        copy = self.copy
        returned: list[Any] = []
        outputs = self._outputs(returned, out_spec)
        tensors = [cell for _, cell, spec in self.cells if spec.is_tensor]
        names = [node.name for node, _, spec in self.cells if spec.is_tensor]
        mutated = []
        for place, (cell, name_) in enumerate(zip(tensors, names, strict=True)):
            new = self.mutated.get(name_, cell if cell.version else None)
            if new is None:
                continue
            # `x.tanh_()` returns what it leaves in x: one output
            found = [i for i, other in enumerate(returned) if other is new]
            if not found:
                returned.append(new)
            mutated.append((place, found[0] if found else len(returned) - 1))
        states = self._states(returned, len(tensors))
        module = copy.finish(returned, re.sub(r"\W", "_", name) or "Program")
        sink_constants(module)
        return Program(
            module, name or "model", inputs, outputs, in_spec, out_spec, None,
            states, mutated, symbols,
        )  # fmt: skip

    def _outputs(self, returned: list[Any], out_spec: Any) -> list[Output]:
        outputs = []
        for cell, name in zip(self.user, _leaf_names(out_spec), strict=True):
            value = self.copy.value(cell.node) if isinstance(cell, Cell) else cell
            if isinstance(cell, Cell) and not _is_number(value):
                outputs.append(Output(name or self.copy.read(cell).name, len(returned)))
                returned.append(cell)
            else:
                outputs.append(Output(name, None, value))
        return outputs

    def _states(self, returned: list[Any], first: int) -> list[State]:
        """Turn the mutated buffers into inputs and outputs."""
        copy = self.copy
        states: list[State] = []
        places = [n for n in copy.graph.nodes if n.op == "placeholder"]
        for name, cell in list(copy.constants.items()):
            new = self.states.get(name, cell if cell.version else None)
            if new is None:
                continue
            reader = next(n for n in copy.graph.nodes if n.op == "get_attr" and n.target == name)
            with (
                copy.graph.inserting_after(places[-1]) if places else copy.graph.inserting_before()
            ):
                node = copy.graph.placeholder(re.sub(r"\W", "_", name))
            node.meta = dict(reader.meta)
            node.meta["val"] = copy.value(reader)
            reader.replace_all_uses_with(node)
            for other in (new, cell):
                if isinstance(other, Cell) and other.node is reader:
                    other.node = node
            places.append(node)
            states.append(State(name, copy.root[name], first + len(states), len(returned)))
            returned.append(new)
        return states


# leaves --------------------------------------------------------------------------------------


def _input(node: Node) -> Input:
    """The description of a user input; Unsupported for element types that no target stores."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return Input(node.name, False, value)
    if value.dtype.is_complex or value.dtype is torch.float64:
        kind = str(value.dtype).removeprefix("torch.")
        raise Unsupported(
            Reason(f"input {node.name}", "", f"it is {kind}, which no target stores",
                   "use float32 inputs (model.float())")
        )  # fmt: skip
    if any(isinstance(size, int) and size == 0 for size in value.shape):
        raise Unsupported(
            Reason(f"input {node.name}", "", f"its shape {tuple(value.shape)} has no elements",
                   "give example inputs of the sizes that the model runs with")
        )  # fmt: skip
    return Input(node.name)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, torch.SymInt, torch.SymFloat, torch.SymBool))


def _argument_name(spec: Any) -> str:
    return str(spec.arg.name)


def _tensor_of(exported: ExportedProgram, target: str) -> torch.Tensor:
    found = exported.state_dict.get(target)
    return found if found is not None else exported.constants[target]


def _leaf_names(spec: Any) -> list[str]:
    """A name per leaf of an output structure: keys and field names; empty for plain tuples."""
    tree = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    paths, _ = pytree.tree_flatten_with_path(tree)
    names = []
    for path, _ in paths:
        words = [str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", "")))) for k in path]
        named = any(hasattr(k, "key") or hasattr(k, "name") for k in path)
        names.append("_".join(words) if named else "")
    return names


def _original_structure(gm: GraphModule, results: Any) -> Any:
    """Cells in the structure of the output node (lists were made of its tuples)."""
    output: Any = gm.graph.output_node().args[0]
    leaves, spec = pytree.tree_flatten(output)
    cells = pytree.tree_leaves(results, is_leaf=lambda x: isinstance(x, Cell) or x is None)
    return pytree.tree_unflatten(cells, spec) if len(cells) == len(leaves) else results


def _with_examples(program: Program, given: Any) -> Program:
    """The program with the user's example inputs, checked; random ones where there are none."""
    if given is None:
        program.example_inputs = random_inputs(program)
        return program
    if isinstance(given, torch.Tensor):
        given = (given,)
    if _is_pair_without_keywords(given):
        given = given[0]
    tensors = program.flatten_inputs(given)
    for tensor, node in zip(tensors, program.placeholders, strict=False):
        expected = node.meta["val"].dtype
        if tensor.dtype != expected:
            raise BadInput(
                f"example input {node.name} is {_short(tensor.dtype)}",
                why=f"the program takes {_short(expected)}",
            )
    program.example_inputs = dict(given) if isinstance(given, Mapping) else tuple(given)
    return program


def _is_pair_without_keywords(given: Any) -> bool:
    """Whether inputs are (args, {}) as ExportedProgram.example_inputs has them."""
    pair = isinstance(given, (tuple, list)) and len(given) == 2
    return pair and isinstance(given[0], (tuple, list)) and given[1] == {}


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


__all__ = ["Program", "capture", "fetch", "is_exported_graph", "load"]
