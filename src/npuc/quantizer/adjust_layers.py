"""Adjust weighted layers between calibration and conversion.

Two things that no observer can see alone: rounding the weights shifts the mean of a layer's
result, which its bias can take back; and a bias must fit into 32 bits under the scale of the
accumulator, which bounds the weight scale of channels with tiny weights from below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from npuc.frontend.splice import Splice, fake_mode_of, fetch, kind_of
from npuc.quantizer.policy import WEIGHTED, op_name

# A bias code of at most 2^29 leaves room for what the products add to it.
_LARGEST_BIAS = 2.0**29


@dataclass(frozen=True)
class Layer:
    """A convolution or linear layer with constant weight and a bias of its own."""

    node: Node
    x: Node
    weight: Node
    bias: Node
    transposed: bool
    groups: int
    stride: int  # product of the strides


def weighted_layers(gm: GraphModule) -> list[Layer]:
    """The layers of a graph whose weight and bias are parameters."""
    found = []
    for node in gm.graph.nodes:
        name = op_name(kind_of(node.target)) if node.op == "call_function" else ""
        if name not in WEIGHTED or len(node.args) < 3:
            continue
        x, weight, bias = node.args[:3]
        if all(isinstance(v, Node) and v.op == "get_attr" for v in (weight, bias)):
            found.append(_layer(node, name, x, weight, bias))
    return found


def _layer(node: Node, name: str, x: Any, weight: Any, bias: Any) -> Layer:
    transposed = name.startswith("conv_transpose")
    rest = list(node.args[3:])
    strides = rest[0] if rest and name != "linear" else [1]
    if transposed:
        groups = rest[3] if len(rest) > 3 else 1
    else:
        groups = rest[3] if len(rest) > 3 else 1
    spatial = weight.meta["val"].dim() - 2
    strides = list(strides) * spatial if len(strides) == 1 else list(strides)
    stride = int(torch.tensor(strides).prod()) if strides else 1
    return Layer(node, x, weight, bias, transposed, int(groups), stride)


def give_biases(gm: GraphModule) -> None:
    """Give every layer with a constant weight a bias that no other layer reads."""
    mode = fake_mode_of(gm)
    for node in list(gm.graph.nodes):
        name = op_name(kind_of(node.target)) if node.op == "call_function" else ""
        if name not in WEIGHTED:
            continue
        s = Splice(gm, node, mode)
        args = [*node.args, *[None] * (3 - len(node.args))]
        weight = s.parameter(args[1])
        if weight is None or not weight.dtype.is_floating_point:
            continue
        bias = s.parameter(args[2])
        if bias is None and args[2] is not None:
            continue
        if bias is None:
            bias = torch.zeros(_channels(node), dtype=weight.dtype)
        args[2] = s.constant(bias.clone(), "bias")
        node.args = tuple(args)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def _channels(node: Node) -> int:
    value = node.meta["val"]
    return int(value.shape[-1 if op_name(kind_of(node.target)) == "linear" else 1])


class Means(torch.fx.Interpreter):
    """Runs a graph and keeps the means of every layer's operand per channel, of each sample."""

    def __init__(self, gm: GraphModule, layers: list[Layer]) -> None:
        super().__init__(gm)
        self.layers = {layer.node.name: layer for layer in layers}
        self.of_samples: dict[str, list[torch.Tensor]] = {}

    def run_node(self, n: Node) -> Any:
        """Run one node; take note of a layer's operand."""
        if n.name in self.layers:
            x = self.env[n.args[0]]
            rank = self.env[n.args[1]].dim()
            mean = _channel_mean(x, rank, op_name(kind_of(n.target)) == "linear")
            self.of_samples.setdefault(n.name, []).append(mean)
        return super().run_node(n)

    def mean(self, layer: Layer) -> torch.Tensor | None:
        """Mean of the layer's operand, one entry per channel, as far as it is known: less its part
        that a few samples have by chance, m * (1 - variance(m) / m^2) or 0 (James and Stein)."""
        if layer.node.name not in self.of_samples:
            return None
        means = torch.stack(self.of_samples[layer.node.name])
        mean = means.mean(0)
        if not mean.isfinite().all():
            return None  # infinite samples have no mean
        if len(means) == 1:
            return mean
        known = 1 - means.var(0) / len(means) / mean.square().clamp(min=1e-30)
        return mean * known.clamp(min=0)


def _channel_mean(x: torch.Tensor, rank: int, last: bool) -> torch.Tensor:
    """`rank` is the weight's; a convolution's operand of lower rank has no batch dimension."""
    x = x.detach().double()
    if last:
        return x.reshape(-1, x.shape[-1]).mean(0)
    x = x if x.dim() == rank else x.unsqueeze(0)
    return x.movedim(1, 0).flatten(1).mean(1)


def adjust_layers(
    gm: GraphModule, layers: list[Layer], observers: Mapping[Any, Any], means: Means | None
) -> None:
    """Bound weight scales by the biases, and let the biases take up the rounding of weights.

    Args:
        gm: the prepared graph, calibrated.
        layers: its weighted layers, as `weighted_layers` found them before preparation.
        observers: (operand, layer node) -> observer.
        means: mean operands of the calibration; None: biases stay as they are.
    """
    for layer in layers:
        watch_x = observers.get((layer.x, layer.node))
        watch_weight = observers.get((layer.weight, layer.node))
        if watch_x is None or watch_weight is None or not hasattr(watch_weight, "bound"):
            continue
        bias = fetch(gm, str(layer.bias.target)).detach()
        watch_weight.bound(_least_scales(layer, bias, watch_x))
    for layer in layers if means is not None else []:
        watch_weight = observers.get((layer.weight, layer.node))
        mean = means.mean(layer) if means is not None else None
        if watch_weight is None or mean is None:
            continue
        shift = _shift(layer, fetch(gm, str(layer.weight.target)).detach(), watch_weight, mean)
        bias = fetch(gm, str(layer.bias.target))
        bias.data.copy_((bias.double() - shift).to(bias.dtype))


def _least_scales(layer: Layer, bias: torch.Tensor, watch_x: Any) -> torch.Tensor:
    x_scale = float(watch_x.calculate_qparams()[0])
    least = bias.abs().double() / (x_scale * _LARGEST_BIAS)
    if layer.transposed and layer.groups > 1:
        least = least.reshape(layer.groups, -1).amax(0)
    return least.float()


def _shift(
    layer: Layer, weight: torch.Tensor, watch_weight: Any, mean: torch.Tensor
) -> torch.Tensor:
    """How far rounding the weights moves the mean of each output channel."""
    scale, _ = watch_weight.calculate_qparams()
    if scale.numel() > 1:
        scale = scale.reshape(-1, *[1] * (weight.dim() - 1)).movedim(0, watch_weight.ch_axis)
    rounded = torch.clamp(
        torch.round(weight / scale), watch_weight.quant_min, watch_weight.quant_max
    )
    error = (rounded * scale - weight).double().reshape(*weight.shape[:2], -1).sum(-1)
    if layer.transposed:
        inputs = error.shape[0] // layer.groups
        grouped = error.reshape(layer.groups, inputs, -1)
        per_group = torch.einsum("gio,gi->go", grouped, mean.reshape(layer.groups, inputs))
        return per_group.flatten() / layer.stride
    outputs = error.shape[0] // layer.groups
    grouped = error.reshape(layer.groups, outputs, -1)
    return torch.einsum("goi,gi->go", grouped, mean.reshape(layer.groups, -1)).flatten()
