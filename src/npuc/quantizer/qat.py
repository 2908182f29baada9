"""Quantization-aware training with the recipes and the policy of `quantize`."""

from __future__ import annotations

from dataclasses import replace
from types import MethodType
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

from npuc.errors import BadInput
from npuc.frontend.fold_batch_norm import fold_batch_norm
from npuc.frontend.splice import kind_of
from npuc.quantizer.annotate import NpucQuantizer
from npuc.quantizer.recipe import Recipe


def prepare_qat(
    model: torch.nn.Module, example_inputs: tuple[Any, ...], recipe: Recipe | str = "int8"
) -> GraphModule:
    """A float model -> a trainable graph with fake quantizers.

    Its weights stay parameters: give `graph.parameters()` to an optimizer, train, then call
    `convert_qat`. `train()` and `eval()` work on it. Batch norms behind a convolution train;
    others are frozen and fold into the layer in front, which trains.

    Args:
        model: nn.Module, or a GraphModule that torch.export made of one in training mode.
        example_inputs: positional arguments, with a batch size that training will use.
    """
    recipe = Recipe.named(recipe) if isinstance(recipe, str) else recipe
    if not isinstance(model, torch.nn.Module):
        raise BadInput(f"training a {type(model).__name__}", hint="pass an nn.Module")
    gm = model
    if not isinstance(model, GraphModule):
        exported = torch.export.export(model.train(), tuple(example_inputs), strict=False)
        gm = exported.module(check_guards=False)
    _freeze_lone_norms(gm)
    quantizer = NpucQuantizer(replace(recipe, is_qat=True))
    prepared = prepare_qat_pt2e(gm, quantizer)
    prepared.train = MethodType(_set_training, prepared)  # type: ignore[method-assign]
    prepared.eval = MethodType(_set_inference, prepared)  # type: ignore[method-assign]
    return prepared


def convert_qat(trained: GraphModule) -> GraphModule:
    """A trained graph -> the converted PT2E graph, for `npuc.compile`."""
    _set_training(trained, False)
    return convert_pt2e(trained)


# Position of the training flag. (torchao's own switch sets every dropout's probability to 0.5.)
_TRAINING_FLAG = {"aten.dropout": 2, "aten.feature_dropout": 2, "aten.batch_norm": 5}


def _set_training(gm: GraphModule, mode: bool = True) -> GraphModule:
    """Switch dropouts and batch norms of an exported graph between training and inference."""
    for node in gm.graph.nodes:
        flag = _TRAINING_FLAG.get(kind_of(node.target)) if node.op == "call_function" else None
        if flag is not None:
            node.args = (*node.args[:flag], mode, *node.args[flag + 1 :])
    torch.nn.Module.train(gm, mode)
    gm.recompile()
    return gm


def _set_inference(gm: GraphModule) -> GraphModule:
    return _set_training(gm, False)


def _freeze_lone_norms(gm: GraphModule) -> None:
    """Freeze and fold the batch norms that torchao cannot train with a convolution."""
    for node in gm.graph.nodes:
        is_norm = node.op == "call_function" and kind_of(node.target) == "aten.batch_norm"
        if is_norm and not _follows_convolution(node):
            node.args = (*node.args[:5], False, *node.args[6:])
    fold_batch_norm(gm)


def _follows_convolution(norm: Node) -> bool:
    layer = norm.args[0]
    return (
        isinstance(layer, Node)
        and layer.op == "call_function"
        and kind_of(layer.target).startswith(("aten.conv1d", "aten.conv2d", "aten.conv_transpose"))
        and len(layer.users) == 1
    )
