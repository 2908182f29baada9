"""Quantize a model: simplify, observe, choose parameters, convert. One call, or step by step."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from npuc.errors import BadInput
from npuc.frontend.capture import capture
from npuc.frontend.program import Program
from npuc.frontend.source_location import loc_of
from npuc.frontend.splice import kind_of
from npuc.quantizer.adjust_layers import (
    Layer,
    Means,
    adjust_layers,
    give_biases,
    weighted_layers,
)
from npuc.quantizer.annotate import NpucQuantizer
from npuc.quantizer.check_given import (
    checked_sample,
    require_float_model,
    samples_of,
    warn_unmatched,
)
from npuc.quantizer.control_flow import Flow, hide, show
from npuc.quantizer.left_float import left_float
from npuc.quantizer.recipe import Recipe
from npuc.quantizer.simplify import simplify
from npuc.quantizer.unify_observers import unify_observers


def everything(kind: str) -> bool:
    """The default of `known`: the compiler has a rule for every op."""
    return True


def quantize(
    model: Any,
    example_inputs: Any,
    recipe: Recipe | str,
    calibration: Iterable[Any] | None = None,
    progress: bool | None = None,
    *,
    known: Callable[[str], bool] = everything,
    tables16: bool = True,
) -> GraphModule:
    """A float model -> its converted PT2E graph: dequantize, op, quantize in place of each op.

    Args:
        model: a captured Program, or whatever `capture` takes; it is not changed.
        example_inputs: positional arguments; needed for an nn.Module.
        recipe: a Recipe or the name of one.
        calibration: input tuples; default: the example inputs, with a warning.
        progress: show a bar; None: when standard error is a terminal.
        known: tells for which kinds of op ("aten.conv2d") the compiler has a rule; others are
            expanded before they are quantized.
        tables16: the target has table lookups and clamps of 16-bit values.

    The graph has the placeholders and outputs of `Program.graph_module`.
    """
    program = model if isinstance(model, Program) else capture(model, example_inputs)
    recipe = Recipe.named(recipe) if isinstance(recipe, str) else recipe
    if recipe.is_qat:
        raise BadInput(
            "the recipe is for quantization-aware training",
            hint="train with npuc.quantizer.qat.prepare_qat, convert, and compile the result",
        )
    if calibration is None:
        warnings.warn(
            "quantization is calibrated on the example inputs only; pass calibration= with "
            "representative inputs for a useful accuracy",
            stacklevel=2,
        )
        calibration = [program.example_inputs]
    require_float_model(program)
    warn_unmatched(program, recipe)
    prepared = prepare(program, recipe, known=known, tables16=tables16)
    run_calibration(prepared, samples_of(calibration), progress)
    return convert(prepared)


@dataclass
class Prepared:
    """A graph with observers, ready for calibration. `program`: None for a branch or loop body."""

    program: Program | None
    graph: GraphModule
    quantizer: NpucQuantizer
    layers: list[Layer]
    means: Means
    flows: list[Flow]


def prepare(
    program: Program,
    recipe: Recipe,
    *,
    known: Callable[[str], bool] = everything,
    tables16: bool = True,
) -> Prepared:
    """Simplify and annotate a copy of the program's graph, and insert observers."""
    gm = copy_graph(program.graph_module)
    _tie_states(gm, program)
    prepared = _prepare_graph(gm, recipe, known, tables16)
    prepared.program = program
    unify_observers(prepared)
    return prepared


def _prepare_graph(
    gm: GraphModule, recipe: Recipe, known: Callable[[str], bool], tables16: bool
) -> Prepared:
    """Annotate a graph and those of its branches and loops, in place."""
    inner = replace(recipe, io=None)
    flows = hide(gm, lambda body: _prepare_graph(copy_graph(body), inner, known, tables16))
    simplify(gm, known, tables16=tables16)
    if recipe.correct_bias:
        give_biases(gm)
    layers = weighted_layers(gm)
    quantizer = NpucQuantizer(recipe, tables16=tables16, is_simple=True)
    graph = prepare_pt2e(gm, quantizer)
    return Prepared(None, graph, quantizer, layers, Means(graph, layers), flows)


def copy_graph(gm: GraphModule) -> GraphModule:
    """A GraphModule with a copy of the graph and the same tensors."""
    graph = Graph()
    ours: dict[Node, Node] = {}
    result = graph.graph_copy(gm.graph, ours)
    graph.output(result)
    return GraphModule(gm, graph)


def _tie_states(gm: GraphModule, program: Program) -> None:
    """A buffer that the model mutates has the same parameters when it comes in and goes out."""
    places = [node for node in gm.graph.nodes if node.op == "placeholder"]
    results: Any = gm.graph.output_node().args[0]
    for state in program.states:
        for node in (places[state.place], results[state.result]):
            node.meta["quant_group"] = f"state {state.name}"


def run_calibration(
    prepared: Prepared, batches: Sequence[Any], progress: bool | None = None
) -> None:
    """Run input tuples through a prepared graph; may be called again with more.

    They are steps of one sequence for the model's state (its mutated buffers), as they would be in
    PyTorch: it begins with the initial values, and each step reads what the one before it wrote.
    """
    show = sys.stderr.isatty() if progress is None else progress
    program = prepared.program
    assert program is not None
    state = program.initial_state()
    with torch.no_grad(), _bar(len(batches)) if show else nullcontext() as step:
        for number, batch in enumerate(batches):
            inputs = checked_sample(program, program.flatten_inputs(batch), number)
            results = prepared.means.run(*inputs, *state)
            state = [results[s.result] for s in program.states]
            if step is not None:
                step()


@contextmanager
def _bar(total: int) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=console.is_terminal) as progress:
        task = progress.add_task("calibrating", total=total)
        yield lambda: progress.advance(task)


def convert(prepared: Prepared) -> GraphModule:
    """Replace observers by quantize and dequantize nodes; weights become int8 constants."""
    with torch.no_grad():
        for flow in prepared.flows:
            flow.cover()
    left: list[Node] = []
    converted = _convert_graph(prepared, left)
    _tell_left_float(left)
    return converted


def _convert_graph(prepared: Prepared, left: list[Node]) -> GraphModule:
    """Convert a graph and those of its branches and loops; `left` takes what stays float."""
    quantizer = prepared.quantizer
    means = prepared.means if quantizer.recipe.correct_bias else None
    adjust_layers(prepared.graph, prepared.layers, quantizer.observers, means)
    converted = convert_pt2e(prepared.graph)
    left += [node for node in left_float(converted) if node.name not in quantizer.left_float]
    show(converted, lambda body: _convert_graph(body, left))
    return converted


def _tell_left_float(left: Sequence[Node]) -> None:
    """Warn about ops that stay float although the recipe does not ask for it."""
    if left:
        first = left[0]
        kind = kind_of(first.target)
        where = loc_of(first.meta, first.name, kind)
        warnings.warn(
            f"{len(left)} ops are not quantized and compute in float, the first is {kind} at "
            f"{where}",
            stacklevel=3,
        )
