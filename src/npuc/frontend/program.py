"""A captured model: a flat functional FX graph and how the model's inputs and outputs map to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.fx import GraphModule, Node

from npuc.errors import BadInput
from npuc.frontend.symbolic import Sizes
from npuc.ir import Dim, Shape
from npuc.ir.fit_sizes import misfit


@dataclass(frozen=True)
class Input:
    """A leaf of the model's inputs. One that is no tensor was fixed at `constant` by the export."""

    name: str
    is_tensor: bool = True
    constant: Any = None


@dataclass(frozen=True)
class Output:
    """A leaf of the model's outputs: output `place` of the graph, or (place None) a constant."""

    name: str
    place: int | None = None
    constant: Any = None


@dataclass(frozen=True)
class State:
    """A buffer that the model mutates: graph input `place` after the user's, output `result`."""

    name: str
    initial: torch.Tensor
    place: int
    result: int


@dataclass
class Program:
    """What `capture` returns.

    graph_module: placeholders are the tensor leaves of the user's inputs in order, then the
        states; parameters and buffers are `get_attr` nodes; it returns a flat tuple of tensors:
        the tensor leaves of the user's outputs in order (a value in two slots is there twice),
        the new values of mutated inputs that are none of these, the new values of the states.
    inputs, outputs: all leaves of the user's structures; in_spec, out_spec: those structures.
    mutated_inputs: pairs (index of the graph input, index of the output with its new value).
    symbols: torch's name of a size that is open -> it, with the user's name and bounds.
    fixed: torch's name of a size -> the number that the user compiles it for.
    dtypes: element types of the outputs of the model before it was quantized, where it was.
    """

    graph_module: GraphModule
    name: str
    inputs: list[Input]
    outputs: list[Output]
    in_spec: Any
    out_spec: Any
    example_inputs: Any
    states: list[State] = field(default_factory=list)
    mutated_inputs: list[tuple[int, int]] = field(default_factory=list)
    symbols: dict[str, Dim] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)
    dtypes: list[torch.dtype] | None = None

    @property
    def placeholders(self) -> list[Node]:
        """The graph's inputs: those of the user, then the states."""
        return [n for n in self.graph_module.graph.nodes if n.op == "placeholder"]

    @property
    def results(self) -> Sequence[Node]:
        """The nodes that the graph returns."""
        return self.graph_module.graph.output_node().args[0]  # type: ignore[return-value]

    @property
    def input_names(self) -> list[str]:
        """A name for each input of the graph: the user's argument names, then the buffers'."""
        return [i.name for i in self.inputs if i.is_tensor] + [s.name for s in self.states]

    @property
    def output_names(self) -> list[str]:
        """A name for each output of the graph; names of the user's structure where it has any."""
        names = [n.name if isinstance(n, Node) else "" for n in self.results]
        for output in self.outputs:
            if output.place is not None and output.name:
                names[output.place] = output.name
        for state in self.states:
            names[state.result] = f"{state.name}_out"
        return _unique(names)

    @property
    def sizes(self) -> Sizes:
        """What the symbolic sizes of the graph are to be compiled as."""
        return Sizes({**self.symbols, **self.fixed})

    @property
    def state_pairs(self) -> list[tuple[int, int]]:
        """(index of the output, index of the input) of each mutated buffer."""
        return [(s.result, s.place) for s in self.states]

    def initial_state(self) -> list[torch.Tensor]:
        """The buffers' values when the model was captured."""
        return [s.initial.detach().clone() for s in self.states]

    def flatten_inputs(self, inputs: Any) -> list[torch.Tensor]:
        """The tensors of the user's inputs in the order of the graph.

        `inputs` is the tuple of positional arguments; keyword arguments follow in the order of
        the export, or `inputs` is a pair (args, kwargs). Raises BadInput for another structure,
        a wrong shape, or a number that differs from the one that the export fixed.
        """
        leaves = self._leaves(inputs)
        nodes = iter(self.placeholders)
        sizes, known = Sizes(self.symbols), dict[str, int]()
        tensors = []
        for leaf, spec in zip(leaves, self.inputs, strict=True):
            if spec.is_tensor:
                shape = sizes.shape(next(nodes).meta["val"])
                tensors.append(_checked(leaf, spec.name, shape, known))
            elif leaf != spec.constant:
                raise BadInput(
                    f"input {spec.name} is {leaf!r}",
                    why=f"the program was exported for {spec.constant!r}",
                    hint="export or compile it again for the other value",
                )
        return tensors

    def unflatten_outputs(self, tensors: Sequence[Any]) -> Any:
        """The model's output structure with the graph's outputs in it."""
        leaves = [o.constant if o.place is None else tensors[o.place] for o in self.outputs]
        return pytree.tree_unflatten(leaves, self.out_spec)

    def output_dtypes(self) -> list[torch.dtype]:
        """The model's element type of each output of the graph."""
        if self.dtypes is not None:
            return list(self.dtypes)
        found = []
        for node in self.results:
            value = node.meta.get("val") if isinstance(node, Node) else None
            found.append(value.dtype if isinstance(value, torch.Tensor) else torch.float32)
        return found

    def reference_module(self) -> GraphModule:
        """The graph as PyTorch runs it: the reference of the self-check."""
        return self.graph_module

    def module_inputs(self, inputs: Any) -> list[torch.Tensor]:
        """The tensors that `reference_module` takes, with the states' initial values."""
        return [*self.flatten_inputs(inputs), *self.initial_state()]

    def run_reference(self, inputs: Any) -> list[torch.Tensor]:
        """All outputs of the graph, computed by PyTorch from the states' initial values."""
        with torch.no_grad():
            return list(self.graph_module(*self.module_inputs(inputs)))

    def _leaves(self, inputs: Any) -> list[Any]:
        args, kwargs = self._split(inputs)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self.in_spec and len(leaves) != len(self.inputs):
            raise BadInput(
                f"{len(leaves)} input tensors given",
                why=f"{self.name} takes {len(self.inputs)}: "
                + ", ".join(i.name for i in self.inputs),
            )
        if spec != self.in_spec and not _only_containers_differ(spec, self.in_spec):
            raise BadInput(
                f"inputs of the structure {_brief(spec)}",
                why=f"{self.name} takes {_brief(self.in_spec)}",
            )
        return leaves

    def _split(self, inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments in the order of the export."""
        names = keyword_names(self.in_spec)
        count = len(_children(_children(self.in_spec)[0])) if names else None
        if isinstance(inputs, torch.Tensor):
            inputs = (inputs,)
        if isinstance(inputs, Mapping):
            args, kwargs = (), dict(inputs)
        elif is_args_and_kwargs(inputs, names):
            args, kwargs = tuple(inputs[0]), dict(inputs[1])
        else:
            args, behind = tuple(inputs[:count]), inputs[count:] if names else ()
            if len(behind) > len(names):
                raise BadInput(f"{len(inputs)} inputs given",
                               why=f"{self.name} takes {count} and {', '.join(names)}")  # fmt: skip
            kwargs = dict(zip(names, behind, strict=False))
        missing = [n for n in names if n not in kwargs]
        if missing or len(kwargs) > len(names):
            raise BadInput(f"keyword inputs {', '.join(kwargs) or 'none'}",
                           why=f"{self.name} takes {', '.join(names) or 'none'}")  # fmt: skip
        return args, {n: kwargs[n] for n in names}


def _unique(names: Sequence[str]) -> list[str]:
    """The names with a number behind those that were there before."""
    seen: dict[str, int] = {}
    unique = []
    for name in names:
        seen[name] = count = seen.get(name, -1) + 1
        unique.append(f"{name}_{count}" if count else name)
    return unique


def is_args_and_kwargs(inputs: Any, names: Sequence[str]) -> bool:
    """Whether inputs are a pair (args, kwargs) for a model with these keyword arguments."""
    return (
        isinstance(inputs, (tuple, list))
        and len(inputs) == 2
        and isinstance(inputs[0], (tuple, list))
        and isinstance(inputs[1], Mapping)
        and bool(inputs[1])
        and all(k in names for k in inputs[1])
    )


def keyword_names(in_spec: Any) -> list[str]:
    """Names of the keyword arguments of an input structure (args, kwargs)."""
    children = _children(in_spec)
    if len(children) == 2 and children[1].type is dict:
        return list(children[1].context)
    return []


def _children(spec: Any) -> list[Any]:
    if spec is None or spec.is_leaf():
        return []
    children = getattr(spec, "children", None)
    return list(children() if children is not None else spec.children_specs)


def _only_containers_differ(a: Any, b: Any) -> bool:
    """Whether two structures have the same shape, list or tuple aside."""
    if a.is_leaf() or b.is_leaf():
        return bool(a.is_leaf() and b.is_leaf())
    sequences = {tuple, list}
    if a.type is not b.type and not {a.type, b.type} <= sequences:
        return False
    mine, theirs = _children(a), _children(b)
    return len(mine) == len(theirs) and all(map(_only_containers_differ, mine, theirs))


def _brief(spec: Any) -> str:
    return str(pytree.tree_unflatten(["*"] * spec.num_leaves, spec)).replace("'*'", "*")


def _checked(leaf: Any, name: str, shape: Shape, known: dict[str, int]) -> torch.Tensor:
    """The input as a tensor of the shape that the graph takes; `known`: sizes of earlier inputs."""
    tensor = leaf if isinstance(leaf, torch.Tensor) else _to_tensor(leaf, name)
    why = misfit(shape, tensor.shape, known)
    if why:
        text = f"the model was captured for {shape}"
        why = text if why.startswith("it takes shape") else f"{text}: {why}"
        raise BadInput(f"input {name} has shape {tuple(tensor.shape)}", why=why)
    return tensor


def _to_tensor(leaf: Any, name: str) -> torch.Tensor:
    try:
        return torch.as_tensor(leaf)
    except (TypeError, ValueError, RuntimeError):
        raise BadInput(
            f"input {name} is a {type(leaf).__name__}", hint="give a tensor or an array"
        ) from None
