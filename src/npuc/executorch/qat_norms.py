"""Batch norms behind convolutions in torchao's own training flow.

torchao fuses them after annotation and folds them at conversion, by matching traced patterns: a
convolution whose operands are quantized, a norm, and nothing quantized between them.
"""

from __future__ import annotations

from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from npuc.frontend.splice import kind_of

_CONVOLUTIONS = ("aten.conv1d", "aten.conv2d", "aten.conv3d")


def mark_norms(gm: GraphModule) -> None:
    """Let convolution and batch norm be one op for annotation: torchao fuses them afterwards."""
    for node in gm.graph.nodes:
        if node.op == "call_function" and kind_of(node.target) == "aten.batch_norm":
            layer = node.args[0]
            if _is_convolution(layer) and len(layer.users) == 1:
                layer.meta["quant_inner"] = True


def leave_parameters_float(gm: GraphModule) -> None:
    """Take the parameters and statistics of batch norms out of the annotation: they fold."""
    for node in gm.graph.nodes:
        annotation = node.meta.get(Q_ANNOTATION_KEY)
        if annotation is None or kind_of(node.target) != "aten.batch_norm":
            continue
        specs = annotation.input_qspec_map
        annotation.input_qspec_map = {n: s for n, s in specs.items() if n is node.args[0]}


def _is_convolution(value: object) -> bool:
    return (
        isinstance(value, Node)
        and value.op == "call_function"
        and kind_of(value.target).startswith(_CONVOLUTIONS)
    )
