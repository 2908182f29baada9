"""Quantization-aware training with the recipes and the policy of `quantize`."""

from __future__ import annotations

from dataclasses import replace
from types import MethodType
from typing import Any

import torch
from torch.fx import GraphModule
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

from npuc.errors import BadInput
from npuc.frontend.splice import kind_of
from npuc.quantizer.annotate import NpucQuantizer
from npuc.quantizer.recipe import Recipe
from npuc.quantizer.train_norms import fold_trained_norms, fuse_norms


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
    fuse_norms(gm)
    quantizer = NpucQuantizer(replace(recipe, is_qat=True))
    prepared = prepare_qat_pt2e(gm, quantizer)
    prepared.train = MethodType(_set_training, prepared)  # type: ignore[method-assign]
    prepared.eval = MethodType(_set_inference, prepared)  # type: ignore[method-assign]
    return prepared


def convert_qat(trained: GraphModule) -> GraphModule:
    """A trained graph -> the converted PT2E graph, for `npuc.compile`."""
    _set_training(trained, False)
    fold_trained_norms(trained)
    return convert_pt2e(trained)


# Position of the training flag. (torchao's own switch sets every dropout's probability to 0.5.)
_TRAINING_FLAG = {"aten.dropout": 2, "aten.feature_dropout": 2, "aten.native_batch_norm": 5}


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
