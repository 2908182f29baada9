"""Remove inference batch norms: into the layer in front, else into a depthwise layer of their own.

A batch norm is y = x * factor + offset per channel. It goes into the weights of a convolution,
a transposed convolution or a linear layer when that layer's result has no other reader; torch's
own helper also folds when there is one, and changes what the other one reads. After this pass no
pattern is left that the helper would touch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from npuc.frontend.splice import Splice, fake_mode_of, fetch, kind_of, replace

aten = torch.ops.aten

# kind -> positions of weight, bias, running mean, running variance, training (or None), epsilon.
_NORMS: dict[str, tuple[int, int, int, int, int | None, int]] = {
    "aten.batch_norm": (1, 2, 3, 4, 5, 7),
    "aten.cudnn_batch_norm": (1, 2, 3, 4, 5, 7),
    "aten.miopen_batch_norm": (1, 2, 3, 4, 5, 7),
    "aten.native_batch_norm": (1, 2, 3, 4, 5, 7),
    "aten._native_batch_norm_legit": (1, 2, 3, 4, 5, 7),
    "aten._native_batch_norm_legit_no_training": (1, 2, 3, 4, None, 6),
    "aten._batch_norm_no_update": (1, 2, 3, 4, None, 6),
}
# kind -> axis of the output channels in the weight; groups come before it when transposed.
_CONVS = {
    **{f"aten.conv{n}d": 0 for n in (1, 2, 3)},
    **{f"aten.conv{n}d.padding": 0 for n in (1, 2, 3)},
    "aten.conv_transpose1d": 1,
    "aten.conv_transpose2d.input": 1,
    "aten.conv_transpose3d.input": 1,
    "aten.linear": 0,
}
_DEPTHWISE = {3: aten.conv1d.default, 4: aten.conv2d.default, 5: aten.conv3d.default}


@dataclass(frozen=True)
class Affine:
    """A batch norm as x * factor + offset, one entry per channel (float64)."""

    factor: torch.Tensor
    offset: torch.Tensor


def fold_batch_norm(gm: GraphModule) -> int:
    """Remove every inference batch norm of a functional FX graph, in place; returns how many.

    Statistics and weights must be parameters or buffers of the module. A batch norm that uses
    the statistics of its batch (training=True) is not an affine map and stays.
    """
    mode = fake_mode_of(gm)
    folded = 0
    for node in list(gm.graph.nodes):
        splice = Splice(gm, node, mode)
        norm = _affine(splice, node)
        if norm is None:
            continue
        layer = node.args[0]
        if not (isinstance(layer, Node) and _fold_into(splice, layer, norm)):
            layer = _as_layer(splice, norm)
        _replace_norm(node, layer)
        folded += 1
    if folded:
        gm.graph.eliminate_dead_code()
        gm.recompile()
    return folded


def _affine(s: Splice, node: Node) -> Affine | None:
    """The map of a batch norm whose parameters are constant; None for any other node."""
    places = _NORMS.get(kind_of(node.target)) if node.op == "call_function" else None
    if places is None:
        return None
    training, epsilon = places[4], node.args[places[5]]
    if training is not None and node.args[training]:
        return None
    weight, bias, mean, variance = (s.parameter(node.args[i]) for i in places[:4])
    if mean is None or variance is None:
        return None
    for place, value in zip(places, (weight, bias), strict=False):
        if node.args[place] is not None and value is None:
            return None
    factor = torch.rsqrt(variance.double() + epsilon)
    if weight is not None:
        factor = factor * weight.double()
    offset = -mean.double() * factor
    return Affine(factor, offset if bias is None else offset + bias.double())


def _fold_into(s: Splice, layer: Node, norm: Affine) -> bool:
    """Scale the weights of the layer in front; false when that would be wrong."""
    axis = _channel_axis(layer) if layer.op == "call_function" else None
    if axis is None or len(layer.users) != 1:
        return False
    arguments = [*layer.args, *[None] * (3 - len(layer.args))]
    weight, bias = s.parameter(arguments[1]), s.parameter(arguments[2])
    if weight is None or (bias is None and arguments[2] is not None):
        return False
    if kind_of(layer.target) == "aten.linear" and s.value(layer).ndim != 2:
        return False  # the norm's channels are dim 1, the layer's are the last dim
    before = Splice(s.gm, layer, s.mode)
    old = 0 if bias is None else bias.double()
    trains = fetch(s.gm, str(arguments[1].target)).requires_grad
    arguments[1] = before.constant(_scaled(weight, norm.factor, axis), "weight", trains)
    folded = (old * norm.factor + norm.offset).to(weight.dtype)
    arguments[2] = before.constant(folded, "bias", trains)
    layer.args = tuple(arguments)
    return True


def _channel_axis(layer: Node) -> int | None:
    """Axis of the output channels in the weight of a layer; None for any other op."""
    kind = kind_of(layer.target)
    if kind == "aten.convolution":  # decomposed programs: (x, weight, bias, ..., transposed, ...)
        return 1 if layer.args[6] else 0
    return _CONVS.get(kind)


def _scaled(weight: torch.Tensor, factor: torch.Tensor, axis: int) -> torch.Tensor:
    """The weight with its output channels multiplied by the factors."""
    if axis == 0:
        return (weight.double() * factor.reshape(-1, *[1] * (weight.dim() - 1))).to(weight.dtype)
    # Transposed: [groups * inputs, outputs, k...]; channel group * outputs + o is at [group, :, o].
    outputs = weight.shape[1]
    groups = factor.numel() // outputs
    grouped = weight.double().reshape(groups, -1, *weight.shape[1:])
    shape = (groups, 1, outputs, *[1] * (weight.dim() - 2))
    return (grouped * factor.reshape(shape)).reshape(weight.shape).to(weight.dtype)


def _as_layer(s: Splice, norm: Affine) -> Node:
    """A batch norm on its own as a 1x1 depthwise convolution, or mul and add for [N, C].

    The convolution quantizes its factors per channel, keeps the products in 32 bits and runs as
    one operation; a multiplication by a vector costs the NPU sixteen times as much.
    """
    x = s.node.args[0]
    value = s.value(x)
    channels, dtype = norm.factor.numel(), value.dtype
    if value.ndim == 2:
        wide = s(aten.view.default, x, [*value.shape, 1, 1])
        made = _depthwise(s, wide, norm, channels, dtype, 4)
        return s(aten.view.default, made, list(value.shape))
    return _depthwise(s, x, norm, channels, dtype, value.ndim)


def _depthwise(
    s: Splice, x: Node, norm: Affine, channels: int, dtype: torch.dtype, rank: int
) -> Node:
    shape = (channels, 1, *[1] * (rank - 2))
    weight = s.constant(norm.factor.to(dtype).reshape(shape), "weight")
    bias = s.constant(norm.offset.to(dtype), "bias")
    one, zero = [1] * (rank - 2), [0] * (rank - 2)
    return s(_DEPTHWISE[rank], x, weight, bias, one, zero, one, channels)


def _replace_norm(node: Node, result: Any) -> None:
    if node.target._schema.returns[1:]:  # type: ignore[union-attr]
        statistics = [None] * (len(node.target._schema.returns) - 1)  # type: ignore[union-attr]
        replace(node, (result, *statistics))
    else:
        replace(node, result)
