"""Attention as two matrix products and a softmax, in the form that quantizes and runs best."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from npuc.errors import Unsupported
from npuc.frontend.splice import Splice

aten = torch.ops.aten

# A constant added to a score that hides its key: exp(-10000) is 0 in every float type.
HIDDEN = -1e4


def scaled_dot_product_attention(
    s: Splice,
    q: Node,
    k: Node,
    v: Node,
    attn_mask: Node | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Node:
    """softmax(scale * q @ k.T + mask) @ v over [..., heads, length, width].

    The scale multiplies q, which costs nothing once q is quantized: the same codes under another
    scale. A boolean mask writes the lowest finite value, so no arithmetic meets an infinity, and
    the probabilities are masked again where a row may be masked as a whole: PyTorch gives zeros
    there. Query heads that share a key head become rows of one product; keys are not repeated.
    """
    if dropout_p:
        raise Unsupported(f"attention dropout of {dropout_p} is random; set it to 0 for inference")
    width = s.value(q).shape[-1]
    q = s(aten.mul.Tensor, q, 1 / math.sqrt(width) if scale is None else scale)
    keys = s(aten.transpose.int, k, -2, -1)
    grouped = enable_gqa and s.value(q).shape[-3] != s.value(k).shape[-3]
    heads = list(s.value(q).shape[:-1])
    if grouped:
        q = s(aten.reshape.default, q, _rows_of_groups(s.value(q).shape, s.value(k).shape[-3]))
    scores = s(aten.matmul.default, q, keys)
    rows = s.value(scores).shape
    if grouped:
        scores = s(aten.reshape.default, scores, [*heads, rows[-1]])
    if is_causal:
        attn_mask = _causal_mask(s, scores)
    probabilities = _masked_softmax(s, scores, attn_mask)
    if not grouped:
        return s(aten.matmul.default, probabilities, v)
    joined = s(aten.reshape.default, probabilities, list(rows))
    result = s(aten.matmul.default, joined, v)
    return s(aten.reshape.default, result, [*heads, s.value(v).shape[-1]])


def safe_softmax(s: Splice, x: Node, dim: int, dtype: Any = None) -> Node:
    """Softmax that is zero where a whole row is -inf."""
    masked = s(aten.eq.Scalar, x, float("-inf"))
    masked = s(aten.all.dim, masked, dim, True)
    return s(aten.masked_fill.Scalar, s(aten.softmax.int, x, dim, dtype), masked, 0.0)


def _rows_of_groups(shape: torch.Size, key_heads: int) -> list[Any]:
    """[..., query heads, length, width] -> [..., key heads, heads per key head * length, width]."""
    *batch, query_heads, length, width = shape
    if query_heads % key_heads:
        raise Unsupported(f"{query_heads} query heads are not a multiple of {key_heads} key heads")
    return [*batch, key_heads, query_heads // key_heads * length, width]


def _causal_mask(s: Splice, scores: Node) -> Node:
    length, keys = s.value(scores).shape[-2:]
    if not isinstance(length, int) or not isinstance(keys, int):
        rows, columns = s(aten.arange.default, length), s(aten.arange.default, keys)
        return s(aten.le.Tensor, columns, s(aten.unsqueeze.default, rows, 1))
    return s.constant(torch.ones(length, keys, dtype=torch.bool).tril(), "causal_mask")


def _masked_softmax(s: Splice, scores: Node, mask: Node | None) -> Node:
    if mask is None:
        return s(aten.softmax.int, scores, -1)
    constant = s.parameter(mask)
    if s.value(mask).dtype == torch.bool:
        if constant is None:
            return _softmax_without(s, scores, s(aten.logical_not.default, mask), True)
        return _softmax_of_visible(s, scores, constant.logical_not())
    if constant is None:
        # The mask may hold -inf in a whole row.
        return s(aten._safe_softmax.default, s(aten.add.Tensor, scores, mask), -1)
    # A constant additive mask: what is hidden becomes boolean, so that the range of the values
    # is that of the visible ones; what is left of it (a position bias) is added.
    hidden = constant <= HIDDEN
    finite_rows = hidden.all(dim=-1) & torch.isfinite(constant).all(dim=-1)
    if bool(finite_rows.any()):
        hidden = torch.isneginf(constant)
    bias = constant.masked_fill(hidden, 0.0)
    if bool(bias.any()):
        scores = s(aten.add.Tensor, scores, s.constant(bias, "bias"))
    return _softmax_of_visible(s, scores, hidden)


def _softmax_of_visible(s: Splice, scores: Node, hidden: torch.Tensor) -> Node:
    if not bool(hidden.any()):
        return s(aten.softmax.int, scores, -1)
    empty_row = bool(hidden.all(dim=-1).any())
    return _softmax_without(s, scores, s.constant(hidden, "hidden"), empty_row)


def _softmax_without(s: Splice, scores: Node, hidden: Node, may_hide_a_row: bool) -> Node:
    lowest = torch.finfo(s.value(scores).dtype).min
    scores = s(aten.masked_fill.Scalar, scores, hidden, lowest)
    probabilities = s(aten.softmax.int, scores, -1)
    if not may_hide_a_row:
        return probabilities
    return s(aten.masked_fill.Scalar, probabilities, hidden, 0.0)


FORMULAS: dict[str, Callable[..., Any]] = {
    "aten.scaled_dot_product_attention": scaled_dot_product_attention,
    "aten._safe_softmax": safe_softmax,
}
