"""Quantize a model: simplify, observe, choose parameters, convert. One call, or step by step."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e

from npuc.errors import BadInput
from npuc.frontend.functionalize import inline_grad_regions, make_functional
from npuc.quantizer.adjust_layers import (
    Layer,
    Means,
    adjust_layers,
    give_biases,
    weighted_layers,
)
from npuc.quantizer.annotate import NpucQuantizer
from npuc.quantizer.recipe import Recipe
from npuc.quantizer.simplify import simplify

Batch = tuple[Any, ...]


def everything(kind: str) -> bool:
    """The default of `known`: the compiler has a rule for every op."""
    return True


def quantize(
    model: Any,
    example_inputs: Batch | None,
    recipe: Recipe | str,
    calibration: Iterable[Batch] | None = None,
    *,
    known: Callable[[str], bool] = everything,
    progress: bool | None = None,
) -> GraphModule:
    """A float model -> its converted PT2E graph (dequantize, op, quantize in place of each op).

    Args:
        model: nn.Module, ExportedProgram (training IR) or an exported GraphModule.
        example_inputs: tuple of tensors; needed for an nn.Module.
        recipe: a Recipe or the name of one.
        calibration: input tuples; default: the example inputs, with a warning.
        known: tells for which kinds of op ("aten.conv2d") the compiler has a rule; others are
            expanded before they are quantized.
        progress: show a bar; None: when standard error is a terminal.
    """
    recipe = Recipe.named(recipe) if isinstance(recipe, str) else recipe
    prepared = prepare(model, example_inputs, recipe, known=known)
    run_calibration(prepared, _batches(calibration, model, example_inputs), progress)
    return convert(prepared)


@dataclass
class Prepared:
    """A graph with observers, ready for calibration (or training, for a QAT recipe)."""

    graph: GraphModule
    quantizer: NpucQuantizer
    layers: list[Layer]
    means: Means | None


def prepare(
    model: Any,
    example_inputs: Batch | None,
    recipe: Recipe,
    *,
    known: Callable[[str], bool] = everything,
) -> Prepared:
    """Simplify and annotate a model, and insert observers; arguments as in `quantize`."""
    gm = functional_graph(model, example_inputs)
    simplify(gm, known, recipe.is_qat)
    corrects = recipe.correct_bias and not recipe.is_qat
    if corrects:
        give_biases(gm)
    layers = weighted_layers(gm)
    quantizer = NpucQuantizer(recipe)
    step = prepare_qat_pt2e if recipe.is_qat else prepare_pt2e
    graph = step(gm, quantizer)
    return Prepared(graph, quantizer, layers, Means(graph, layers) if corrects else None)


def functional_graph(model: Any, example_inputs: Batch | None) -> GraphModule:
    """Export a model; the graph has no in-place ops and no gradient regions."""
    program = model
    if not isinstance(model, (torch.export.ExportedProgram, GraphModule)):
        program = _export(model, example_inputs)
    gm = program if isinstance(program, GraphModule) else program.module(check_guards=False)
    inline_grad_regions(gm)
    if make_functional(gm) is None:
        return gm
    if isinstance(program, GraphModule):
        program = _export(program, example_inputs)
    gm = program.run_decompositions({}).module(check_guards=False)
    inline_grad_regions(gm)
    return gm


def _export(model: Any, example_inputs: Batch | None) -> torch.export.ExportedProgram:
    if example_inputs is None:
        raise BadInput("example inputs are missing", hint="pass a tuple of tensors")
    return torch.export.export(model, tuple(example_inputs), strict=False)


def _batches(
    calibration: Iterable[Batch] | None, model: Any, example_inputs: Batch | None
) -> list[Batch]:
    if calibration is not None:
        batches = [tuple(b) if isinstance(b, (tuple, list)) else (b,) for b in calibration]
        if not batches:
            raise BadInput("calibration data is empty", hint="give at least one input tuple")
        return batches
    if example_inputs is None and isinstance(model, torch.export.ExportedProgram):
        example_inputs = model.example_inputs[0] if model.example_inputs else None
    if example_inputs is None:
        raise BadInput("no calibration data", hint="pass calibration= or example inputs")
    warnings.warn(
        "quantization is calibrated on the example inputs only; pass calibration= with "
        "representative inputs for a useful accuracy",
        stacklevel=3,
    )
    return [tuple(example_inputs)]


def run_calibration(
    prepared: Prepared, batches: Iterable[Batch], progress: bool | None = None
) -> None:
    """Run every batch through a prepared graph; may be called again with more."""
    batches = list(batches)
    show = sys.stderr.isatty() if progress is None else progress
    with torch.no_grad(), _bar(len(batches)) if show else nullcontext() as step:
        for batch in batches:
            if prepared.means is None:
                prepared.graph(*batch)
            else:
                prepared.means.run(*batch)
                prepared.means.runs += 1
            if step is not None:
                step()


def _bar(total: int) -> Any:
    from contextlib import contextmanager

    from rich.console import Console
    from rich.progress import Progress

    @contextmanager
    def bar() -> Any:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("calibrating", total=total)
            yield lambda: progress.advance(task)

    return bar()


def convert(prepared: Prepared) -> GraphModule:
    """Replace observers by quantize and dequantize nodes; weights become int8 constants."""
    if not prepared.quantizer.recipe.is_qat:
        observers = prepared.quantizer.observers
        adjust_layers(prepared.graph, prepared.layers, observers, prepared.means)
    return convert_pt2e(prepared.graph)
