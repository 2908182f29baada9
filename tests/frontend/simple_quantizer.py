"""A PT2E quantizer without fusion rules: every listed op gets its own input and output ranges."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

aten = torch.ops.aten
LAYERS = (aten.conv1d.default, aten.conv2d.default, aten.linear.default)
FUSED = (aten.relu.default, aten.relu_.default, aten.hardtanh.default, aten.hardtanh_.default)
SHARING = (
    aten.view.default, aten.reshape.default, aten.permute.default, aten.max_pool2d.default,
    aten.flatten.using_ints, aten.transpose.int, aten.slice.Tensor, aten.cat.default,
)  # fmt: skip
OTHERS = (
    aten.add.Tensor, aten.mul.Tensor, aten.sigmoid.default, aten.softmax.int, aten.matmul.default,
    aten.adaptive_avg_pool2d.default, aten.mean.dim, aten.layer_norm.default, aten.gelu.default,
    aten.tanh.default, aten.sub.Tensor, aten.add_.Tensor,
)  # fmt: skip


class SimpleQuantizer(Quantizer):
    """int8 activations (or `activation`), per-channel symmetric weights, float or derived bias."""

    def __init__(
        self, activation: torch.dtype = torch.int8, bias: bool = False, weight_bits: int = 8,
        output: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        low, high = {torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int16: (-32767, 32767)}[
            activation
        ]
        symmetric = activation is torch.int16
        self.activation = QuantizationSpec(
            activation, MinMaxObserver.with_args(eps=2**-16), low, high,
            torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine,
        )  # fmt: skip
        top = 2 ** (weight_bits - 1) - 1
        self.weight = QuantizationSpec(
            torch.int8, PerChannelMinMaxObserver.with_args(eps=2**-16), -top, top,
            torch.per_channel_symmetric, 0,
        )  # fmt: skip
        self.bias = bias
        self.output = output

    def annotate(self, model: GraphModule) -> GraphModule:
        for node in model.graph.nodes:
            if node.target in LAYERS:
                self._layer(node)
            elif node.target in SHARING:
                self._share(node)
            elif node.target in OTHERS:
                self._own(node)
        return model

    def validate(self, model: GraphModule) -> None:
        return

    def _layer(self, node: Node) -> None:
        x, weight, *rest = node.args
        specs: dict[Any, Any] = {x: self.activation, weight: self.weight}
        if rest and rest[0] is not None and self.bias:
            specs[rest[0]] = DerivedQuantizationSpec(
                [(x, node), (weight, node)], _bias_parameters, torch.int32,
                -(2**31), 2**31 - 1, torch.per_channel_symmetric, 0,
            )  # fmt: skip
        users = list(node.users)
        fused = len(users) == 1 and users[0].target in FUSED
        node.meta["quantization_annotation"] = QuantizationAnnotation(
            specs, None if fused else self.activation, _annotated=True
        )
        if fused:
            users[0].meta["quantization_annotation"] = QuantizationAnnotation(
                {}, self.activation, _annotated=True
            )

    def _share(self, node: Node) -> None:
        inputs = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
        first = inputs[0]
        shared = SharedQuantizationSpec((first, node))
        specs = {n: (self.activation if n is first else shared) for n in inputs}
        node.meta["quantization_annotation"] = QuantizationAnnotation(
            specs, shared, _annotated=True
        )

    def _own(self, node: Node) -> None:
        inputs = [n for n in node.args if isinstance(n, Node)]
        inputs = [n for n in inputs if n.op != "get_attr"] if "norm" in node.name else inputs
        last = not self.output and any(u.op == "output" for u in node.users)
        node.meta["quantization_annotation"] = QuantizationAnnotation(
            dict.fromkeys(inputs, self.activation), None if last else self.activation,
            _annotated=True,
        )  # fmt: skip


def _bias_parameters(observers: Any) -> Any:
    (x_scale, _), (w_scale, _) = (o.calculate_qparams() for o in observers)
    scale = (x_scale * w_scale).to(torch.float32)
    return scale, torch.zeros_like(scale, dtype=torch.int64)


def quantized(model: torch.nn.Module, inputs: tuple[Any, ...], quantizer: Quantizer) -> GraphModule:
    """`model` exported, calibrated on its example inputs and converted."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    exported = torch.export.export(model.eval(), inputs).module(check_guards=False)
    prepared = prepare_pt2e(exported, quantizer)
    prepared(*inputs)
    return convert_pt2e(prepared)
