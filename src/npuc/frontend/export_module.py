"""nn.Module -> ExportedProgram, with the user's line in the message when that fails."""

from __future__ import annotations

import inspect
import io
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram

from npuc.errors import BadInput
from npuc.frontend.program import is_args_and_kwargs
from npuc.frontend.source_location import users_line


def export_module(
    model: torch.nn.Module, example_inputs: Any, dynamic_shapes: Any = None
) -> ExportedProgram:
    """Export `model`: non-strict, and strictly where that fails or where it has control flow.

    BadInput without example inputs, when forward raises, and when neither mode can capture it.
    """
    name = type(model).__name__
    if example_inputs is None:
        raise BadInput(
            f"no example inputs for {name}",
            why="an nn.Module is captured by running it",
            hint="pass example_inputs=(tensor, ...)",
        )
    if isinstance(model, torch.jit.ScriptModule):
        raise BadInput(
            "a TorchScript model",
            why="torch.export captures Python code only",
            hint="give the nn.Module that was scripted or traced",
        )
    args, kwargs = arguments_of(model, example_inputs)
    _require_cpu(model, args, kwargs)
    try:
        exported = _export(model, args, kwargs, dynamic_shapes, strict=False)
        return _with_lines(exported, model, args, kwargs, dynamic_shapes)
    except Exception as error:
        first = error
    _check_forward(model, args, kwargs)
    try:
        return _export(model, args, kwargs, dynamic_shapes, strict=True)
    except Exception:
        raise BadInput(
            f"torch.export cannot capture {name}",
            users_line(first.__traceback__) or _line_in(str(first)),
            f"{type(first).__name__}: {_first_line(first)}",
            _scripted(model) or _hint(first),
        ) from None


def _with_lines(
    exported: ExportedProgram, model: torch.nn.Module, args: Any, kwargs: Any, dynamic_shapes: Any
) -> ExportedProgram:
    """The program; one with branches or loops from a strict export where that works: only there
    their ops know the user's lines and modules."""
    names = {getattr(node.target, "_name", "") for node in exported.graph.nodes}
    if not names & {"cond", "while_loop"}:
        return exported
    try:
        return _export(model, args, kwargs, dynamic_shapes, strict=True)
    except Exception:
        return exported


def arguments_of(model: torch.nn.Module, inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs as positional and keyword arguments; arrays become tensors."""
    if isinstance(inputs, Mapping):
        return (), {k: _tensor(v) for k, v in inputs.items()}
    if isinstance(inputs, (torch.Tensor, np.ndarray)):
        return (_tensor(inputs),), {}
    if not isinstance(inputs, (tuple, list)):
        raise BadInput(
            f"example_inputs is a {type(inputs).__name__}", hint="give a tuple of tensors"
        )
    names = list(inspect.signature(model.forward).parameters)
    if is_args_and_kwargs(inputs, names):
        return tuple(map(_tensor, inputs[0])), {k: _tensor(v) for k, v in inputs[1].items()}
    return tuple(map(_tensor, inputs)), {}


def _tensor(value: Any) -> Any:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _export(
    model: torch.nn.Module, args: Any, kwargs: Any, dynamic_shapes: Any, strict: bool
) -> ExportedProgram:
    with quiet(), torch.no_grad(), _layers_as_written():
        return torch.export.export(
            model, args, kwargs or None, dynamic_shapes=dynamic_shapes, strict=strict
        )


@contextmanager
def _layers_as_written() -> Iterator[None]:
    """A transformer layer is its ops, not the one fused kernel that eager PyTorch has for it, and
    a mask is added as it is: PyTorch looks at its values to see whether it is the causal one."""
    from torch.nn.modules import transformer

    fused, detect = torch.backends.mha.get_fastpath_enabled(), transformer._detect_is_causal_mask
    torch.backends.mha.set_fastpath_enabled(False)
    transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: bool(is_causal)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        transformer._detect_is_causal_mask = detect


def _require_cpu(model: torch.nn.Module, args: Any, kwargs: Any) -> None:
    """BadInput for parameters and inputs on another device than the CPU."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    leaves = pytree.tree_leaves((args, kwargs))
    tensors += [(f"example input {i}", x) for i, x in enumerate(leaves)]
    for name, tensor in tensors:
        if not isinstance(tensor, torch.Tensor) or tensor.device.type == "cpu":
            continue
        no_data = tensor.device.type == "meta"
        raise BadInput(
            f"{name} is on the device {tensor.device}",
            why="it has no values there" if no_data else "models are compiled on the CPU",
            hint="load the weights first" if no_data else "use model.cpu() and inputs on the CPU",
        )


def _check_forward(model: torch.nn.Module, args: Any, kwargs: Any) -> None:
    """Run the model as it is: when it raises by itself, that is the message the user needs."""
    try:
        with torch.no_grad():
            model(*args, **kwargs)
    except Exception as error:
        raise BadInput(
            f"forward of {type(model).__name__}",
            users_line(error.__traceback__),
            f"{type(error).__name__}: {_first_line(error)}",
            "the example inputs do not fit the model, or the model has a fault",
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what torch.export warns, logs and prints off the user's terminal: errors say it."""
    loggers = [logging.getLogger(n) for n in ("torch", "torch._dynamo", "torch.export")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _first_line(error: BaseException) -> str:
    """What the message begins with; of violated constraints the first one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and lines[0].startswith("Constraints violated"):
        lines = [line[2:] for line in lines if line.startswith("- ")] or lines
    return lines[0][:300] if lines else "(no message)"


def _suggested(text: str) -> str:
    """The fixes that torch.export proposes for dynamic_shapes: "height = 2*_height"."""
    _, _, behind = text.partition("Suggested fixes:\n")
    return ", ".join(line.strip() for line in behind.split("\n\n")[0].splitlines())


def _line_in(text: str) -> str:
    """The last `File "...", line N` of the user's that torch.export wrote into its message."""
    from npuc.frontend.source_location import line_of

    file, line = line_of(text)
    return f"{file}:{line}" if file else ""


def _scripted(model: torch.nn.Module) -> str:
    """What to do about a part of the model that is TorchScript."""
    parts = [n for n, m in model.named_modules() if isinstance(m, torch.jit.ScriptModule)]
    return f"{parts[0]} is TorchScript: use the nn.Module that was scripted" if parts else ""


def _hint(error: BaseException) -> str:
    text = f"{type(error).__name__} {error}"
    if "PackedParams" in text:
        return "modules of torch.ao.quantization cannot be exported: give the float model, quantized here"
    if "DataDependent" in text or "data-dependent" in text:
        return "the control flow depends on a tensor's value: use torch.where or torch.cond there"
    if "onstraint" in text or "dynamic_shapes" in text:
        fixes = _suggested(text)
        return (
            f"use {fixes} in dynamic_shapes" if fixes else "change dynamic_shapes or leave it out"
        )
    return "make it pass torch.export.export first; strict and non-strict export both failed"
