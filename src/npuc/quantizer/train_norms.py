"""Batch norms behind convolutions in training: the weights that are rounded are the folded ones.

In training, conv -> norm becomes conv(x, rounded(w * scale)) / scale -> norm, where scale is the
norm's factor by its running variance: what is rounded is what the converted layer will hold, and
the norm still sees the statistics of the batch. torchao does the same by matching a hundred
traced patterns, which takes minutes; here it is one walk.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from npuc.frontend.fold_batch_norm import fold_batch_norm
from npuc.frontend.splice import Splice, fake_mode_of, kind_of, replace

aten = torch.ops.aten

# A torch op that torchao does not take for a norm of its own to fuse.
_NORM = aten.native_batch_norm.default


def fuse_norms(gm: GraphModule) -> None:
    """Rewrite the batch norms of an exported training graph in place.

    Norms that do not follow a convolution are frozen (they use their running statistics) and
    fold into the layer in front, whose folded weight trains.
    """
    mode = fake_mode_of(gm)
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or kind_of(node.target) != "aten.batch_norm":
            continue
        if _follows_convolution(node):
            _fuse(Splice(gm, node, mode), node)
        else:
            node.args = (*node.args[:5], False, *node.args[6:])
    fold_batch_norm(gm)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def _follows_convolution(norm: Node) -> bool:
    layer = norm.args[0]
    return (
        isinstance(layer, Node)
        and layer.op == "call_function"
        and kind_of(layer.target).startswith(("aten.conv1d", "aten.conv2d", "aten.conv3d"))
        and len(layer.users) == 1
        and norm.args[3] is not None
    )


def _fuse(s: Splice, norm: Node) -> None:
    conv: Any = norm.args[0]
    _, gamma, beta, mean, variance, _, momentum, epsilon = norm.args[:8]
    weight, bias = conv.args[1], conv.args[2] if len(conv.args) > 2 else None
    scale = s(aten.rsqrt.default, s(aten.add.Tensor, variance, epsilon))
    if gamma is not None:
        scale = s(aten.mul.Tensor, scale, gamma)
    spatial = [1] * (s.value(weight).dim() - 2)
    folded = s(aten.mul.Tensor, weight, s(aten.view.default, scale, [-1, 1, *spatial]))
    made = s(conv.target, conv.args[0], folded, None, *conv.args[3:])
    x = s(aten.div.Tensor, made, s(aten.view.default, scale, [1, -1, *spatial]))
    inner = [made, x]
    if bias is not None:
        x = s(aten.add.Tensor, x, s(aten.view.default, bias, [1, -1, *spatial]))
        inner.append(x)
    result, *_ = s(_NORM, x, gamma, beta, mean, variance, True, momentum, epsilon)
    for node in inner:
        node.meta["quant_inner"] = True
    result.args[0].meta["npuc_folds"] = (made.name, bias)
    replace(norm, result)
    s.gm.graph.erase_node(conv)


def fold_trained_norms(gm: GraphModule) -> None:
    """Fold the norms that `fuse_norms` left, by their trained statistics, in place."""
    mode = fake_mode_of(gm)
    by_name = {node.name: node for node in gm.graph.nodes}
    for norm in list(gm.graph.nodes):
        if "npuc_folds" not in norm.meta:
            continue
        name, bias = norm.meta["npuc_folds"]
        conv, s = by_name[name], Splice(gm, by_name[name], mode)
        _, gamma, beta, mean, variance, _, _, epsilon = norm.args
        scale = torch.rsqrt(_of(s, variance, 0.0) + epsilon) * _of(s, gamma, 1.0)
        shift = (_of(s, bias, 0.0) - _of(s, mean, 0.0)) * scale + _of(s, beta, 0.0)
        made = s.constant(shift.float(), "bias")
        conv.args = (*conv.args[:2], made, *conv.args[3:])
        (result,) = norm.users
        result.replace_all_uses_with(conv)
    gm.graph.eliminate_dead_code()
    for norm in [n for n in gm.graph.nodes if n.target is _NORM]:
        for user in list(norm.users):
            gm.graph.erase_node(user)
        gm.graph.erase_node(norm)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def _of(s: Splice, node: Any, default: float) -> Any:
    value = s.parameter(node)
    return default if value is None else value.double()
