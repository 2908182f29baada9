"""What the user gives to be quantized: the model, the recipe and the calibration samples."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from npuc.errors import BadInput
from npuc.frontend.program import Program
from npuc.frontend.splice import kind_of
from npuc.quantizer.fx_values import modules_of
from npuc.quantizer.recipe import Recipe


def require_float_model(program: Program) -> None:
    """BadInput for a model that is quantized already, or whose parameters are not numbers."""
    kinds = {kind_of(n.target) for n in program.graph_module.graph.nodes if n.op == "call_function"}
    if any(kind.startswith("quantized_decomposed.quantize_per_tensor") for kind in kinds):
        raise BadInput(f"{program.name} is quantized already",
                       hint="leave quantization out, or give the float model")  # fmt: skip
    for name, parameter in program.graph_module.named_parameters():
        if type(parameter) is not torch.nn.Parameter:
            continue  # torchao's quantized weights
        if parameter.is_floating_point() and parameter.itemsize == 1:
            raise BadInput(f"parameter {name} is {str(parameter.dtype).removeprefix('torch.')}",
                           why="PyTorch computes nothing in it that could be calibrated",
                           hint="quantize the model in float32, float16 or bfloat16")  # fmt: skip
        if parameter.is_floating_point() and not bool(parameter.isfinite().all()):
            raise BadInput(f"parameter {name}", why="it has values that are NaN or infinite",
                           hint="the checkpoint is broken, or the training diverged")  # fmt: skip


def warn_unmatched(program: Program, recipe: Recipe) -> None:
    """A warning for each override of the recipe that no part of the model has."""
    calls = [n for n in program.graph_module.graph.nodes if n.op == "call_function"]
    modules = [pair for n in calls for pair in modules_of(n)]
    kinds = {kind_of(n.target) for n in calls}
    known = {
        "module_names": {path for path, _ in modules},
        "module_types": {t for _, name in modules for t in (name, name.rpartition(".")[2])},
        "node_names": {n.name for n in calls},
        "ops": kinds | {".".join(kind.split(".")[:2]) for kind in kinds},
    }
    for field, names in known.items():
        for name in getattr(recipe, field):
            if name not in names:
                warnings.warn(f"recipe.{field}: the model has no {name!r}", stacklevel=3)


def samples_of(calibration: Iterable[Any]) -> list[Any]:
    """The calibration samples as input tuples; BadInput when they are none."""
    if isinstance(calibration, (str, bytes, Mapping)) or not isinstance(calibration, Iterable):
        raise BadInput(f"calibration is a {type(calibration).__name__}",
                       hint="give an iterable of input tuples, as the model takes them")  # fmt: skip
    batches = [(b,) if isinstance(b, torch.Tensor) else b for b in calibration]
    if not batches:
        raise BadInput("calibration data is empty", hint="give at least one input tuple")
    return batches


def checked_sample(
    program: Program, tensors: Sequence[torch.Tensor], number: int
) -> list[torch.Tensor]:
    """The inputs of a sample in the program's float types. BadInput for other types and NaN."""
    checked = []
    for tensor, node in zip(tensors, program.placeholders, strict=False):
        where, wanted = f"calibration sample {number}, input {node.name}", node.meta["val"].dtype
        if tensor.dtype != wanted and not (tensor.is_floating_point() and wanted.is_floating_point):
            names = (str(t).removeprefix("torch.") for t in (tensor.dtype, wanted))
            raise BadInput(where, why="it is {}, the model takes {}".format(*names))
        if tensor.is_floating_point() and bool(tensor.isnan().any()):
            raise BadInput(where, why="it has NaN, which has no range", hint="remove the sample")
        checked.append(tensor.to(wanted))
    return checked
