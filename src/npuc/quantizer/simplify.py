"""Bring a functional graph into the form that annotation expects: one spelling per meaning.

Every rewrite keeps the values: constant sub-graphs are evaluated, batch norms fold, what has
inner ranges is expanded, products by constants are linear layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from npuc.frontend.decompose import expand
from npuc.frontend.fold_batch_norm import fold_batch_norm
from npuc.frontend.splice import Splice, fake_mode_of, fetch, kind_of, replace, value_of
from npuc.quantizer.fx_values import name_of
from npuc.quantizer.mark_wide import mark_wide
from npuc.quantizer.policy import is_expanded, names, op_name

aten = torch.ops.aten

# Arithmetic whose operands PyTorch brings to one type.
_PROMOTING = names("add sub rsub mul maximum minimum")

# Factories that look at an operand's shape only -> the value they fill with, or its position.
_LIKE: dict[str, tuple[float | None, int]] = {
    **dict.fromkeys(("zeros_like", "new_zeros"), (0.0, 0)),
    **dict.fromkeys(("ones_like", "new_ones"), (1.0, 0)),
    "full_like": (None, 1),
    "new_full": (None, 2),
}


def simplify(
    gm: GraphModule, known: Callable[[str], bool], *, tables16: bool = True, is_qat: bool = False
) -> None:
    """Simplify a functional FX graph in place, for quantization.

    Args:
        gm: an exported graph without in-place ops.
        known: tells whether the compiler has a rule for the op of a kind; what it does not know
            is expanded now, so that the parts get ranges.
        tables16: the target has table lookups and clamps of 16-bit values.
        is_qat: batch norms stay in training form, and nothing that depends on a parameter is
            evaluated.
    """
    fill_values(gm)
    write_promotions(gm)
    drop_casts(gm)
    fold_constants(gm, is_qat)
    if not is_qat:
        fold_batch_norm(gm)
    expand(gm, lambda kind: _stays(kind, known, is_qat))
    mark_wide(gm, tables16)
    rewrite(gm)
    fold_constants(gm, is_qat)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def _stays(kind: str, known: Callable[[str], bool], is_qat: bool) -> bool:
    if is_qat and op_name(kind).endswith("batch_norm"):
        return True
    if op_name(kind) in _REWRITTEN:
        return True
    return known(kind) and not is_expanded(kind)


# `rewrite` replaces them by ops that every target knows.
_REWRITTEN = names("_safe_softmax rsub addmm baddbmm mv")


def fill_values(gm: GraphModule) -> None:
    """Give every node its meta["val"]; parameters have none after `ExportedProgram.module()`."""
    mode = fake_mode_of(gm)
    for node in gm.graph.nodes:
        if node.op in ("get_attr", "call_function"):
            value_of(gm, node, mode)


def write_promotions(gm: GraphModule) -> None:
    """A mask or integers beside floats become floats by a cast, which has a range like any value."""
    mode = fake_mode_of(gm)
    for node in list(gm.graph.nodes):
        value = node.meta.get("val")
        if name_of(node) not in _PROMOTING or not isinstance(value, torch.Tensor):
            continue
        if not value.is_floating_point():
            continue
        for operand in node.all_input_nodes:
            given = operand.meta.get("val")
            if isinstance(given, torch.Tensor) and not given.is_floating_point():
                cast = Splice(gm, node, mode)(aten.to.dtype, operand, value.dtype)
                node.replace_input_with(operand, cast)


def drop_casts(gm: GraphModule) -> None:
    """Erase casts of a tensor to its own type."""
    for node in list(gm.graph.nodes):
        if name_of(node) not in ("to", "_to_copy"):
            continue
        if node.args[0].meta["val"].dtype == node.meta["val"].dtype:
            node.replace_all_uses_with(node.args[0])
            gm.graph.erase_node(node)


def fold_constants(gm: GraphModule, is_qat: bool) -> None:
    """Evaluate what depends on constants and shapes only, once; views of weights stay views."""
    mutable = _mutated_buffers(gm)
    values: dict[Node, Any] = {}
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            value = fetch(gm, str(node.target))
            frozen = isinstance(value, torch.Tensor) and not (is_qat and value.requires_grad)
            if frozen and str(node.target) not in mutable:
                values[node] = value.detach()
        elif node.op == "call_function":
            _evaluate(node, values)
    mode = fake_mode_of(gm)
    for node, value in values.items():
        read = any(user not in values for user in node.users)
        if node.op == "call_function" and read and isinstance(value, torch.Tensor):
            replace(node, Splice(gm, node, mode).constant(value, "folded"))
    gm.graph.eliminate_dead_code()


def _evaluate(node: Node, values: dict[Node, Any]) -> None:
    """Add the value of a node to `values` if it is constant."""
    like = _LIKE.get(op_name(kind_of(node.target)))
    value = node.meta["val"]
    if like is not None and _is_static(value):
        fill = like[0] if like[0] is not None else node.args[like[1]]
        if isinstance(fill, (int, float)):
            values[node] = torch.full(tuple(value.shape), fill, dtype=value.dtype)
    elif _is_foldable(node, values):
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
        with torch.no_grad():
            values[node] = node.target(*args, **kwargs)  # type: ignore[operator]


def _is_foldable(node: Node, values: dict[Node, Any]) -> bool:
    if node.is_impure() or not all(map(_is_static, tree_leaves(node.meta["val"]))):
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        if torch.Tag.nondeterministic_seeded in node.target.tags:
            return False
    elif kind_of(node.target) != "getitem":
        return False
    return all(leaf in values for leaf in node.all_input_nodes)


def _is_static(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and all(isinstance(d, int) for d in value.shape)


def _mutated_buffers(gm: GraphModule) -> set[str]:
    """Names of the buffers that the program writes: state, not constants."""
    found = set()
    for node in gm.graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        written = list(node.args[:1]) if node.target._schema.is_mutable else []
        if name_of(node).endswith("batch_norm"):
            written = list(node.args[3:5])  # its schema does not say that it writes them
        found |= {str(v.target) for v in written if isinstance(v, Node) and v.op == "get_attr"}
    return found


def rewrite(gm: GraphModule) -> None:
    """Apply the rewrites below to every node, in order."""
    mode = fake_mode_of(gm)
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        _pass_tensors_by_position(node)
        rule = _REWRITES.get(op_name(kind_of(node.target)))
        if rule is None:
            continue
        splice = Splice(gm, node, mode)
        result = rule(splice, *node.args, **node.kwargs)
        if result is not None:
            for key in ("quant_wide", "quant_takes_wide", "quant_steep", "quant_group"):
                if key in node.meta:
                    result.meta[key] = node.meta[key]
            replace(node, result)


def _pass_tensors_by_position(node: Node) -> None:
    """Move arguments given by name into their position: torchao reads positions only."""
    arguments = node.target._schema.arguments  # type: ignore[union-attr]
    kwargs = dict(node.kwargs)
    for argument in arguments[len(node.args) :]:
        if argument.kwarg_only or not any(isinstance(v, Node) for v in tree_leaves(kwargs)):
            return
        node.args = (*node.args, kwargs.pop(argument.name, argument.default_value))
        node.kwargs = kwargs


def _apply_alpha(s: Splice, a: Any, b: Any, alpha: Any = 1) -> Node | None:
    """a + alpha * b: the product is a change of scale once quantized, the sum an ordinary one."""
    if alpha == 1 or isinstance(alpha, Node):
        return None
    scaled = s(aten.mul.Tensor, b, alpha) if isinstance(b, Node) else b * alpha
    return s(s.node.target, a, scaled)


def _reverse(s: Splice, a: Node, b: Any, alpha: Any = 1) -> Node:
    """rsub: b - alpha * a, as -alpha * a + b when b is a number."""
    if isinstance(b, Node):
        return s(aten.sub.Tensor, b, _scaled(s, a, alpha))
    negated = s(aten.neg.default, a) if alpha == 1 else s(aten.mul.Tensor, a, -alpha)
    return s(aten.add.Tensor, negated, b)


def _scaled(s: Splice, x: Node, factor: Any) -> Node:
    return x if factor == 1 else s(aten.mul.Tensor, x, factor)


def _to_linear(s: Splice, a: Node, b: Node) -> Node | None:
    """A product by a constant matrix is a linear layer: its weight quantizes per channel."""
    weight = s.parameter(b)
    if weight is None or weight.dim() != 2 or s.value(a).ndim < 2:
        return None
    if not weight.dtype.is_floating_point or s.parameter(a) is not None:
        return None
    return s(aten.linear.default, a, s.constant(weight.t(), "weight"), None)


def _addmm(s: Splice, c: Node, a: Node, b: Node, *, beta: Any = 1, alpha: Any = 1) -> Node:
    """beta * c + alpha * (a @ b), a linear layer where b is constant."""
    product = _to_linear(s, a, b)
    if product is None or alpha != 1 or beta != 1 or not _is_bias(s, c, product):
        product = product if product is not None else s(aten.mm.default, a, b)
        return s(aten.add.Tensor, _scaled(s, product, alpha), _scaled(s, c, beta))
    product.args = (*product.args[:2], c)
    return product


def _is_bias(s: Splice, c: Node, product: Node) -> bool:
    bias = s.parameter(c)
    return bias is not None and tuple(bias.shape) == (s.value(product).shape[-1],)


def _baddbmm(s: Splice, c: Node, a: Node, b: Node, *, beta: Any = 1, alpha: Any = 1) -> Node:
    product = _scaled(s, s(aten.bmm.default, a, b), alpha)
    return product if beta == 0 else s(aten.add.Tensor, product, _scaled(s, c, beta))


def _split_off_bias(s: Splice, x: Node, weight: Node, bias: Any = None, *rest: Any) -> Node | None:
    """A bias that is computed cannot be an int32 constant: it becomes an addition."""
    if not isinstance(bias, Node) or bias.op == "get_attr":
        return None
    made = s(s.node.target, x, weight, None, *rest)
    if op_name(kind_of(s.node.target)) != "linear":
        bias = s(aten.view.default, bias, [-1, *[1] * (s.value(made).ndim - 2)])
    return s(aten.add.Tensor, made, bias)


def _plain_softmax(s: Splice, x: Node, dim: int, dtype: Any = None) -> Node:
    """A quantized operand has no infinities, so no row can be masked as a whole."""
    return s(aten.softmax.int, x, dim, dtype)


def _square(s: Splice, x: Node, exponent: Any = 2) -> Node | None:
    """x ** 2 that a root follows: a product can keep 16 bits, a table of 8-bit codes cannot."""
    if exponent != 2 or not s.node.meta.get("quant_wide"):
        return None
    return s(aten.mul.Tensor, x, x)


def _mv(s: Splice, a: Node, b: Node) -> Node:
    product = s(aten.matmul.default, a, s(aten.unsqueeze.default, b, -1))
    return s(aten.squeeze.dim, product, -1)


_REWRITES: dict[str, Callable[..., Any]] = {
    "add": _apply_alpha,
    "sub": _apply_alpha,
    "rsub": _reverse,
    "matmul": _to_linear,
    "mm": _to_linear,
    "addmm": _addmm,
    "baddbmm": _baddbmm,
    "mv": _mv,
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d"), _split_off_bias),
    **{f"conv_transpose{n}d": _split_off_bias for n in (1, 2, 3)},
    "_safe_softmax": _plain_softmax,
    "square": _square,
    "pow": _square,
}
