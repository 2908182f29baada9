"""Refuse graphs that were exported in training mode: they do not compute what inference does."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from npuc.errors import BadInput
from npuc.frontend.source_location import loc_of

#: op -> positions of (training flag, probability)
_DROPOUTS = {
    "aten.dropout": (2, 1),
    "aten.feature_dropout": (2, 1),
    "aten.alpha_dropout": (2, 1),
    "aten.feature_alpha_dropout": (2, 1),
    "aten.native_dropout": (2, 1),
}

#: op -> positions of (training flag, running mean)
_BATCH_NORMS = {
    "aten.batch_norm": (5, 3),
    "aten.native_batch_norm": (5, 3),
    "aten._native_batch_norm_legit": (5, 3),
    "aten.cudnn_batch_norm": (5, 3),
    "aten.miopen_batch_norm": (5, 3),
    "aten._batch_norm_with_update": (-1, 3),
}

#: recurrent op -> positions of (training flag, dropout)
_RECURRENT = {
    "aten.lstm.input": (6, 5),
    "aten.gru.input": (6, 5),
    "aten.rnn_tanh.input": (6, 5),
    "aten.rnn_relu.input": (6, 5),
    "aten.rrelu": (3, 2),
}


def refuse_training(node: Node, target: Any, kind: str) -> None:
    """Raise BadInput when `node` is a dropout or batch norm in training mode."""
    if kind in _DROPOUTS or kind in _RECURRENT:
        flag, amount = _DROPOUTS.get(kind) or _RECURRENT[kind]
        active = bool(_argument(node, target, flag)) and bool(_argument(node, target, amount))
    elif kind in _BATCH_NORMS:
        flag, mean = _BATCH_NORMS[kind]
        trains = flag < 0 or bool(_argument(node, target, flag))
        active = trains and _argument(node, target, mean) is not None
    else:
        return
    if active:
        raise BadInput(
            kind,
            str(loc_of(node.meta, node.name, kind)),
            "the model is in training mode",
            "call model.eval() before compiling or exporting",
        )


def _argument(node: Node, target: Any, position: int) -> Any:
    if position < len(node.args):
        return node.args[position]
    argument = target._schema.arguments[position]
    return node.kwargs.get(argument.name, argument.default_value)
