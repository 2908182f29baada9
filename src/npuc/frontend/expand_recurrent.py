"""Recurrent layers unrolled over time.

The input projections of all steps are one linear layer; a step is one linear layer on the hidden
state and element-wise work. Values that play the same part at every step carry the same
meta["quant_group"], so that the quantizer gives them one scale: the unrolled layer is the same
function at every step, and states may be fed back. All inside a cell keeps 16 bits where the
target can (meta["quant_wide"], ["quant_takes_wide"]), as in TFLite's integer LSTM: errors of the
cell state add up over time. The hidden state, which the products read, has 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from npuc.errors import Unsupported
from npuc.frontend.splice import Splice, kind_of

aten = torch.ops.aten


@dataclass
class Weights:
    """The parameters of one layer in one direction; absent ones are None."""

    input: Node
    hidden: Node
    input_bias: Node | None = None
    hidden_bias: Node | None = None
    projection: Node | None = None


@dataclass
class Cell:
    """Emits the steps of one layer in one direction, under one name for its quant groups."""

    s: Splice
    weights: Weights
    group: str

    def wide(self, node: Node, part: str) -> Node:
        """A value inside the cell: 16 bits, one scale at every step."""
        node.meta["quant_wide"] = node.meta["quant_takes_wide"] = True
        return self.same(node, part)

    def same(self, node: Node, part: str) -> Node:
        """One scale at every step."""
        node.meta["quant_group"] = f"{self.group}.{part}"
        return node

    def sigmoid(self, x: Node, part: str) -> Node:
        return self.wide(self.s(aten.sigmoid.default, x), part)

    def tanh(self, x: Node, part: str) -> Node:
        return self.wide(self.s(aten.tanh.default, x), part)

    def mul(self, x: Node, y: Node, part: str) -> Node:
        return self.wide(self.s(aten.mul.Tensor, x, y), part)

    def of_hidden(self, h: Node) -> Node | None:
        """W_hh @ h + b_hh; None when it is zero."""
        w = self.weights
        if not is_zero(self.s, h):
            return self.wide(self.s(aten.linear.default, h, w.hidden, w.hidden_bias), "hidden")
        if w.hidden_bias is None:
            return None
        return self.s(aten.unsqueeze.default, w.hidden_bias, 0)

    def sum(self, x: Node, y: Node | None, part: str) -> Node:
        return x if y is None else self.wide(self.s(aten.add.Tensor, x, y), part)

    def state(self, node: Node) -> Node:
        """The new hidden state: 8 bits, made of 16-bit values."""
        node.meta["quant_takes_wide"] = True
        return self.same(node, "state")


State = tuple[Node, ...]
Step = Callable[[Cell, Node, State], State]


def lstm_step(cell: Cell, x: Node, state: State) -> State:
    """One step of an LSTM; x is the projected input [batch, 4 * width] of i, f, g and o."""
    s, (h, c) = cell.s, state
    gates = cell.sum(x, cell.of_hidden(h), "gates")
    width = s.value(c).shape[-1]
    i_f, g, o = s(aten.split_with_sizes.default, gates, [2 * width, width, width], -1)
    i, f = s(aten.split_with_sizes.default, cell.sigmoid(i_f, "i_f"), [width, width], -1)
    new = cell.mul(i, cell.tanh(g, "g"), "new")
    if not is_zero(s, c):
        new = s(aten.add.Tensor, cell.mul(f, c, "kept"), new)
    c = cell.wide(new, "cell")
    h = s(aten.mul.Tensor, cell.sigmoid(o, "o"), cell.tanh(c, "tanh"))
    if cell.weights.projection is not None:
        h.meta["quant_takes_wide"] = True
        h = s(aten.linear.default, h, cell.weights.projection)
    return cell.state(h), c


def gru_step(cell: Cell, x: Node, state: State) -> State:
    """One step of a GRU; x is the projected input [batch, 3 * width] of r, z and n."""
    s, (h,) = cell.s, state
    width = s.value(h).shape[-1]
    hidden = cell.of_hidden(h)
    x_rz, x_n = s(aten.split_with_sizes.default, x, [2 * width, width], -1)
    h_rz = h_n = None
    if hidden is not None:
        h_rz, h_n = s(aten.split_with_sizes.default, hidden, [2 * width, width], -1)
    r_z = cell.sigmoid(cell.sum(x_rz, h_rz, "gates"), "r_z")
    r, z = s(aten.split_with_sizes.default, r_z, [width, width], -1)
    reset = None if h_n is None else cell.mul(r, h_n, "reset")
    n = cell.tanh(cell.sum(x_n, reset, "new"), "n")
    if is_zero(s, h):
        return (cell.state(s(aten.sub.Tensor, n, cell.mul(z, n, "kept"))),)
    change = cell.wide(s(aten.sub.Tensor, h, n), "change")
    return (cell.state(s(aten.add.Tensor, n, cell.mul(z, change, "kept"))),)


def rnn_step(activation: Any) -> Step:
    """One step of a plain recurrent layer with tanh or relu."""

    def step(cell: Cell, x: Node, state: State) -> State:
        total = cell.sum(x, cell.of_hidden(state[0]), "gates")
        return (cell.state(cell.s(activation, total)),)

    return step


rnn_tanh_step, rnn_relu_step = rnn_step(aten.tanh.default), rnn_step(aten.relu.default)


def is_zero(s: Splice, node: Node) -> bool:
    """Whether a node is a constant of zeros."""
    if node.op == "call_function":
        return kind_of(node.target) in ("aten.zeros", "aten.zeros_like", "aten.new_zeros")
    constant = s.parameter(node)
    return constant is not None and not bool(constant.any())


def _tie_initial(cell: Cell, state: State) -> None:
    """Give the initial states the scales of the later ones, so that they can be fed back."""
    for node, tie in zip(state, (cell.same, cell.wide), strict=False):
        part = "state" if tie == cell.same else "cell"
        while not is_zero(cell.s, node):
            tie(node, part)
            if node.op != "call_function" or node.target is not aten.squeeze.dim:
                break
            node = node.args[0]  # type: ignore[assignment]


def _project_input(cell: Cell, x: Node, step: Step) -> Node:
    """W_ih @ x + b_ih for all steps at once; a hidden bias that is only added goes in too."""
    w = cell.weights
    bias = w.input_bias
    if step is not gru_step and w.hidden_bias is not None and bias is not None:
        bias, w.hidden_bias = _add_biases(cell.s, bias, w.hidden_bias), None
    return cell.wide(cell.s(aten.linear.default, x, w.input, bias), "input")


def _add_biases(s: Splice, a: Node, b: Node) -> Node:
    x, y = s.parameter(a), s.parameter(b)
    if x is None or y is None or x.requires_grad:
        return s(aten.add.Tensor, a, b)
    return s.constant(x + y, "bias")


def _run_direction(
    cell: Cell, step: Step, x: Node, state: State, time: int, backward: bool
) -> tuple[list[Node], State]:
    """All steps of one layer in one direction: the hidden states in order, the final state."""
    s = cell.s
    projected = _project_input(cell, x, step)
    _tie_initial(cell, state)
    steps = s.value(projected).shape[time]
    if not isinstance(steps, int):
        raise Unsupported(f"a recurrent layer over {steps} steps; export with a fixed length")
    outputs: list[Node | None] = [None] * steps
    for t in reversed(range(steps)) if backward else range(steps):
        state = step(cell, s(aten.select.int, projected, time, t), state)
        outputs[t] = state[0]
    return [node for node in outputs if node is not None], state


def _layer(
    s: Splice, step: Step, x: Node, states: list[State], weights: list[Weights], time: int, at: int
) -> tuple[Node, list[State]]:
    """One layer, one or two directions: its output sequence and the final states."""
    name = f"{s.node.name}.{at}"
    runs = [
        _run_direction(Cell(s, w, f"{name}.{d}"), step, x, states[d], time, backward=d == 1)
        for d, w in enumerate(weights)
    ]
    sequences = [s(aten.stack.default, outputs, time) for outputs, _ in runs]
    out = sequences[0] if len(sequences) == 1 else s(aten.cat.default, sequences, -1)
    return out, [state for _, state in runs]


def _recurrent(
    s: Splice,
    step: Step,
    x: Node,
    initial: list[Node],
    params: list[Node],
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Node, ...]:
    """A stack of recurrent layers: the output sequence, then the final states."""
    if train and dropout:
        raise Unsupported(f"dropout of {dropout} between recurrent layers is random; use eval()")
    directions = 2 if bidirectional else 1
    per = len(params) // (layers * directions)
    parts = [_weights(params[i : i + per], has_biases) for i in range(0, len(params), per)]
    finals: list[State] = []
    for layer in range(layers):
        index = range(layer * directions, (layer + 1) * directions)
        states = [tuple(_pick(s, node, i) for node in initial) for i in index]
        x, ends = _layer(s, step, x, states, [parts[i] for i in index], int(batch_first), layer)
        finals += ends
    return (x, *(_stack_states(s, nodes) for nodes in zip(*finals, strict=True)))


def _weights(params: list[Node], has_biases: bool) -> Weights:
    biases = params[2:4] if has_biases else [None, None]
    projection = params[(4 if has_biases else 2) :]
    return Weights(params[0], params[1], biases[0], biases[1], *projection)


def _pick(s: Splice, states: Node, index: int) -> Node:
    """The state of one layer and direction from [layers * directions, batch, width]."""
    shape, dtype = s.value(states).shape[1:], s.value(states).dtype
    if is_zero(s, states) and all(isinstance(n, int) for n in shape):
        return s.constant(torch.zeros(shape, dtype=dtype), "h0")
    if s.value(states).shape[0] == 1:
        return s(aten.squeeze.dim, states, 0)
    return s(aten.select.int, states, 0, index)


def _stack_states(s: Splice, states: tuple[Node, ...]) -> Node:
    if len(states) == 1:
        return s(aten.unsqueeze.default, states[0], 0)
    return s(aten.stack.default, list(states), 0)


def lstm(s: Splice, x: Node, hx: list[Node], params: list[Node], *options: Any) -> Any:
    """aten.lstm: output, final hidden state, final cell state."""
    return _recurrent(s, lstm_step, x, list(hx), params, *options)


def one_state_layer(step: Step) -> Callable[..., Any]:
    """aten.gru, aten.rnn_tanh, aten.rnn_relu: output and final hidden state."""

    def formula(s: Splice, x: Node, hx: Node, params: list[Node], *options: Any) -> Any:
        return _recurrent(s, step, x, [hx], params, *options)

    return formula


def lstm_cell(s: Splice, x: Node, hx: list[Node], *params: Node | None) -> Any:
    """aten.lstm_cell: hidden state and cell state."""
    return _single_step(s, lstm_step, x, tuple(hx), params)


def one_state_cell(step: Step) -> Callable[..., Any]:
    """aten.gru_cell, aten.rnn_tanh_cell, aten.rnn_relu_cell: the hidden state."""

    def formula(s: Splice, x: Node, hx: Node, *params: Node | None) -> Any:
        return _single_step(s, step, x, (hx,), params)[0]

    return formula


def _single_step(s: Splice, step: Step, x: Node, state: State, params: Any) -> State:
    cell = Cell(s, Weights(*params), s.node.name)
    _tie_initial(cell, state)
    return step(cell, _project_input(cell, x, step), state)


FORMULAS: dict[str, Callable[..., Any]] = {
    "aten.lstm.input": lstm,
    "aten.gru.input": one_state_layer(gru_step),
    "aten.rnn_tanh.input": one_state_layer(rnn_tanh_step),
    "aten.rnn_relu.input": one_state_layer(rnn_relu_step),
    "aten.lstm_cell": lstm_cell,
    "aten.gru_cell": one_state_cell(gru_step),
    "aten.rnn_tanh_cell": one_state_cell(rnn_tanh_step),
    "aten.rnn_relu_cell": one_state_cell(rnn_relu_step),
}
