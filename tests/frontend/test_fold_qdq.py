"""Quantize/dequantize pairs become types: the same values, nothing explicit that can be folded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the quantized_decomposed ops
import torch.nn.functional as F
from torch import nn

from npuc.errors import Unsupported
from npuc.frontend.canonicalize import canonicalize
from npuc.frontend.capture import capture
from npuc.frontend.fold_qdq import fold_qdq
from npuc.frontend.import_fx import import_fx
from npuc.ir import DType, Graph, Op, Quant
from tests.frontend.evaluate_aten import evaluate, real
from tests.frontend.models import imported, kinds, random

q_op = torch.ops.quantized_decomposed.quantize_per_tensor.default
dq_op = torch.ops.quantized_decomposed.dequantize_per_tensor.default

#: scale, zero point
A, B, C = (0.02, 3), (0.05, -10), (0.01, 0)


def q(x, parameters, dtype=torch.int8, low=None, high=None):
    info = torch.iinfo(dtype)
    low, high = info.min if low is None else low, info.max if high is None else high
    return q_op(x, *parameters, low, high, dtype)


def dq(x, parameters, low=None, high=None):
    info = torch.iinfo(x.dtype)
    low, high = info.min if low is None else low, info.max if high is None else high
    return dq_op(x, *parameters, low, high, x.dtype)


def fake(x, parameters, dtype=torch.int8):
    return dq(q(x, parameters, dtype), parameters)


def folded(function: Any, *inputs: Any) -> Graph:
    """The folded graph, checked to compute exactly what PyTorch computes."""
    graph = fold_qdq(imported(function, *inputs))
    want = function(*inputs)
    want = want if isinstance(want, tuple) else (want,)
    got = evaluate(graph, inputs)
    for value, tensor, expected in zip(graph.outputs, got, want, strict=True):
        if expected.is_floating_point():
            tensor = real(value, tensor)
        torch.testing.assert_close(tensor, expected, atol=1e-6, rtol=1e-6)
    return graph


def explicit(graph: Graph) -> list[str]:
    """Explicit quantize, dequantize and requantize ops."""
    return [k.partition(".")[2] for k in kinds(graph) if k.startswith("quantized_decomposed")]


def op_of(graph: Graph, kind: str) -> Op:
    (found,) = (op for op in graph.walk() if op.kind == f"aten.{kind}")
    return found


X = random(2, 4, 6)


def test_a_pair_is_a_type():
    graph = folded(lambda x: fake(fake(x, A).sigmoid(), C), X)
    assert explicit(graph) == []
    (sigmoid,) = graph.ops
    assert sigmoid.operands[0].type.quant == Quant(0.02, 3)
    assert sigmoid.result.type.quant == Quant(0.01, 0)
    assert graph.inputs[0].type.dtype is DType.INT8
    assert graph.outputs[0] is sigmoid.result


def test_a_graph_without_pairs_stays_the_same():
    graph = imported(lambda x: x.sigmoid() + 1, X)
    assert fold_qdq(graph) is graph


def test_parameters_go_backward_through_movement_and_clamp():
    def forward(x):
        y = fake(x, A).tanh().relu().reshape(8, 6)
        return fake(torch.cat([y, y.flip(0)], 1), C)

    graph = folded(forward, X)
    assert explicit(graph) == []
    assert op_of(graph, "tanh").result.type.quant == Quant(0.01, 0)
    assert op_of(graph, "cat").result.type.quant == Quant(0.01, 0)


def test_dequantized_values_go_forward_through_movement():
    def forward(x):
        y = fake(x, A).transpose(1, 2)[:, :3].clamp(0.0, 0.5)
        return fake(F.max_pool1d(F.pad(y, (1, 1)), 2).exp(), B)

    graph = folded(forward, X)
    assert explicit(graph) == []
    assert op_of(graph, "exp").operands[0].type.quant == Quant(0.02, 3)


def test_numbers_that_have_no_code_are_not_moved_across():
    """clamp at 0.333 after a dequantize: rounding the bound would change values."""
    graph = folded(lambda x: fake(fake(x, A).clamp(0.0, 0.333).exp(), B), X)
    assert explicit(graph) == ["dequantize_per_tensor", "quantize_per_tensor"]
    fits = folded(lambda x: fake(fake(x, A).clamp(0.0, 0.333), B), X)
    assert explicit(fits) == ["requantize"]
    pads = folded(lambda x: fake(F.pad(fake(x, A), (1, 1), value=0.333).exp(), B), X)
    assert explicit(pads)[0] == "dequantize_per_tensor"


def test_a_chain_with_other_parameters_is_a_requantize():
    graph = folded(lambda x: fake(fake(x.sigmoid(), A), B), X)
    assert explicit(graph) == ["quantize_per_tensor", "requantize"]
    same = folded(lambda x: fake(fake(fake(x, A), A), A), X)
    assert same.ops == ()


def test_maximum_of_two_scales_rounds_first():
    graph = folded(lambda x, y: fake(torch.maximum(fake(x, A), fake(y, B)), C), X, X.flip(0))
    assert explicit(graph) == ["requantize", "requantize"]
    maximum = op_of(graph, "maximum")
    assert {v.type.quant for v in (*maximum.operands, maximum.result)} == {Quant(0.01, 0)}


def test_each_consumer_gets_its_own_form():
    """One op read with two forms is emitted for each: no value is rounded twice."""

    def forward(x):
        y = fake(x, A).sigmoid()
        return fake(y, C), fake(y, (1e-4, 0), torch.int16)

    graph = folded(forward, X)
    assert kinds(graph) == ["sigmoid", "sigmoid"]
    assert [v.type.dtype for v in graph.outputs] == [DType.INT8, DType.INT16]


def test_a_float_reader_keeps_the_op_float():
    def forward(x):
        y = fake(x, A).sigmoid()
        return fake(y, C), y

    graph = folded(forward, X)
    assert explicit(graph) == ["dequantize_per_tensor", "quantize_per_tensor"]
    assert graph.outputs[1].type.quant is None


def test_mixed_graphs_stay_explicit_at_their_borders():
    def forward(x, y):
        return fake(fake(fake(x, A).tanh(), C) + y.exp(), B)

    graph = folded(forward, X, X.flip(0))
    assert explicit(graph) == ["dequantize_per_tensor", "quantize_per_tensor"]
    assert op_of(graph, "tanh").result.type.quant is not None
    assert op_of(graph, "add.Tensor").result.type.quant is None


def test_an_input_read_both_ways_stays_float():
    graph = folded(lambda x: (fake(x, A), x + 1), X)
    assert graph.inputs[0].type.quant is None
    assert explicit(graph) == ["quantize_per_tensor"]


def test_integer_inputs_and_outputs():
    def forward(x):
        y = dq(x, A).sigmoid()
        return q(y, C)

    graph = folded(forward, torch.arange(-60, 60, dtype=torch.int8))
    assert explicit(graph) == []
    assert graph.inputs[0].type.quant == Quant(0.02, 3)
    assert graph.outputs[0].type.dtype is DType.INT8


def test_an_integer_input_is_one_thing():
    def forward(x):
        return dq(x, A), x + 1

    with pytest.raises(Unsupported, match="read as integers and as quantized"):
        fold_qdq(imported(forward, torch.arange(5, dtype=torch.int8)))


def test_unsigned_codes_become_signed():
    parameters = (0.02, 131)

    def forward(x):
        return fake(fake(x, parameters, torch.uint8).tanh(), (0.01, 128), torch.uint8)

    graph = folded(forward, X)
    (tanh,) = graph.ops
    assert tanh.operands[0].type.quant == Quant(0.02, 3)
    assert {tanh.operands[0].type.dtype, tanh.result.type.dtype} == {DType.INT8}


def test_unsigned_integers_of_the_program_stay_so_at_its_border():
    def forward(x):
        return q(dq(x, (0.02, 131)).tanh(), (0.01, 128), torch.uint8)

    graph = folded(forward, torch.arange(0, 250, dtype=torch.uint8))
    assert [graph.inputs[0].type.dtype, graph.outputs[0].type.dtype] == [DType.UINT8] * 2
    assert explicit(graph) == ["requantize", "requantize"]


def test_narrow_ranges_are_kept():
    def forward(x):
        return dq(q(x, C, low=-7, high=7), C, -7, 7).reshape(-1)

    graph = folded(forward, X)
    quant = graph.outputs[0].type.quant
    assert quant is not None and (quant.qmin, quant.qmax) == (-7, 7)


def test_constants_beside_quantized_operands():
    row = random(6, seed=4)

    def forward(x):
        y = fake(fake(x, A) * 0.3, C)
        z = fake(torch.where(y > 0.1, y, -2.0), B)
        return fake(z + row, A)

    graph = fold_qdq(imported(forward, X))
    assert explicit(graph) == ["requantize"]
    factor = op_of(graph, "mul.Tensor").operands[1]
    assert factor.type.quant.dequantize(factor.array) == pytest.approx(0.3, rel=1e-7)
    bound = op_of(graph, "gt.Tensor").operands[1]
    assert bound.type.quant.dequantize(bound.array) == pytest.approx(0.1, rel=1e-7)
    fill = op_of(graph, "where").operands[2]
    assert fill.type.quant == Quant(*B)
    table = op_of(graph, "add.Tensor").operands[1]
    error = np.abs(table.type.quant.dequantize(table.array) - row.numpy()).max()
    assert error <= table.type.quant.s / 2 * 1.001


def test_minus_infinity_saturates_where_it_is_chosen():
    mask = X > 0
    graph = folded(lambda x: fake(fake(x, A).masked_fill(mask, -torch.inf), A), X)
    assert explicit(graph) == []


def test_comparisons_and_indices_take_quantized_operands():
    graph = folded(lambda x: (fake(x, A).argmax(1), fake(x, A) > fake(x, A).amax()), X)
    assert explicit(graph) == []
    assert [v.type.dtype for v in graph.outputs] == [DType.INT64, DType.BOOL]


def test_conversions_mean_the_number():
    """Integers are made from the quantized value; another float type from the real one."""
    assert explicit(folded(lambda x: fake(x, A).to(torch.int32), X)) == []
    half = folded(lambda x: fake(x, A).to(torch.float16), X)
    assert explicit(half) == ["dequantize_per_tensor"]


def test_dynamic_quantization_is_refused():
    def forward(x):
        scale, zero = torch.ops.quantized_decomposed.choose_qparams.tensor(
            x, -128, 127, 1e-6, torch.int8
        )
        return torch.ops.quantized_decomposed.quantize_per_tensor.tensor(
            x, scale, zero, -128, 127, torch.int8
        )

    with pytest.raises(Unsupported, match=r"choose_qparams.*computed at run time"):
        imported(forward, X)


def test_weights_in_blocks_are_dequantized_at_once():
    """Group-wise weights have no quantized type: they become float constants."""
    codes = torch.randint(-7, 8, (4, 6), dtype=torch.int8)
    scales = random(4, 2).abs()

    def forward(x):
        w = torch.ops.quantized_decomposed.dequantize_per_channel_group(
            codes, scales, None, -8, 7, torch.int8, 3, torch.float32
        )
        return F.linear(x, w)

    graph = folded(forward, X)
    assert kinds(graph) == ["linear"]


def test_torchaos_own_ops():
    import torchao.quantization.quant_primitives  # noqa: F401 - registers torchao's ops

    ao = torch.ops.torchao
    codes, scales = torch.randint(-127, 128, (5, 6), dtype=torch.int8), random(5, 1).abs() + 0.01
    scale, zero = torch.tensor(0.02), torch.tensor(3, dtype=torch.int32)
    zeros = torch.zeros(5, 1, dtype=torch.int32)

    def forward(x):
        q = ao.quantize_affine(x, [2, 4, 6], scale, zero, torch.int8)
        x = ao.dequantize_affine(q, [2, 4, 6], scale, zero, torch.int8)
        w = ao.dequantize_affine(codes, [1, 6], scales, zeros, torch.int8, -127, 127)
        return fake(F.linear(x, w), B)

    graph = folded(forward, X)
    assert explicit(graph) == []
    linear = op_of(graph, "linear")
    assert linear.operands[0].type.quant == Quant(np.float32(0.02), 3)
    assert linear.operands[1].type.quant.axis == 0

    def blocks(x):
        half, none = torch.full((2, 1, 2), 0.1), torch.zeros(2, 1, 2, dtype=torch.int32)
        q = ao.quantize_affine(x, [1, 4, 3], half, none, torch.int8)
        return ao.dequantize_affine(q, [1, 4, 3], half, none, torch.int8)

    with pytest.raises(Unsupported, match=r"quantization in blocks of \(1, 4, 3\)"):
        imported(blocks, X)


def test_float_layers_with_quantized_weights_get_float_weights():
    codes = torch.randint(-127, 128, (5, 6), dtype=torch.int8)
    graph = folded(lambda x: F.linear(x, dq(codes, C)), X)
    assert kinds(graph) == ["linear"]
    assert op_of(graph, "linear").operands[1].type.dtype is DType.FP32


def test_per_channel_weights_may_be_transposed():
    codes = torch.randint(-127, 128, (5, 6), dtype=torch.int8)
    scales, zeros = random(5).abs() + 0.01, torch.zeros(5, dtype=torch.int64)

    def forward(x):
        w = torch.ops.quantized_decomposed.dequantize_per_channel.default(
            codes, scales, zeros, 0, -127, 127, torch.int8
        )
        return fake(torch.mm(fake(x, A), w.t()), B)

    graph = folded(forward, random(3, 6))
    assert explicit(graph) == []
    weight = op_of(graph, "linear").operands[1]
    assert (weight.type.shape, weight.type.quant.axis) == ((5, 6), 0)


# states --------------------------------------------------------------------------------------


class Cache(nn.Module):
    """A buffer that is written at one place and read quantized; `leak` returns it as it is."""

    def __init__(self, leak: bool = False) -> None:
        super().__init__()
        self.register_buffer("rows", random(4, 6, seed=9))
        self.leak = leak

    def forward(self, x):
        self.rows[1:2] = fake(x, A).tanh()
        y = fake(fake(self.rows, C) * 2.0, B)
        return (y, self.rows + 0) if self.leak else y


@pytest.mark.parametrize("leak", [False, True])
def test_a_state_has_one_type_at_both_ends(leak):
    x = random(1, 6)
    program = capture(Cache(leak), (x,))
    graph = fold_qdq(canonicalize(import_fx(program)), states=program.state_pairs)
    ((result, place),) = program.state_pairs
    assert graph.outputs[result].type == graph.inputs[place].type
    assert graph.inputs[place].type.quant == (None if leak else Quant(*C))
    eager, state = Cache(leak), program.initial_state()
    for seed in range(3):
        x = random(1, 6, seed=seed)
        got = evaluate(graph, [x, *state])
        want = eager(x.clone())
        want = want[0] if leak else want
        torch.testing.assert_close(real(graph.outputs[0], got[0]), want, atol=1e-6, rtol=1e-6)
        state = [real(graph.outputs[result], got[result])]


# control flow --------------------------------------------------------------------------------


class QuantizedBranches(nn.Module):
    """Both branches quantize with their own parameters, as calibration leaves them."""

    def __init__(self, other: tuple[float, int]) -> None:
        super().__init__()
        self.other = other

    def forward(self, x):
        other = self.other

        def yes(t):
            return fake(fake(t, A).sigmoid(), C)

        def no(t):
            return fake(fake(t, A).tanh(), other)

        y = torch.cond(x.sum() > 0, yes, no, (x,))
        return fake(y * 1.0, C)


@pytest.mark.parametrize("other", [C, B], ids=["same", "different"])
def test_branches(other):
    for x in (X, X.abs()):
        graph = folded(QuantizedBranches(other), x)
        cond = op_of(graph, "cond")
        quants = {v.type.quant for v in cond.regions[0].outputs}
        quants |= {v.type.quant for v in cond.regions[1].outputs}
        assert quants == ({Quant(*C)} if other == C else {None})


def test_a_branch_takes_a_quantized_operand():
    def forward(x):
        y = fake(fake(x, A).tanh(), C)
        z = torch.cond(y.sum() > 0, lambda t: fake(t.exp(), B), lambda t: fake(t.sin(), B), (y,))
        return fake(z, B)

    graph = folded(forward, X)
    cond = op_of(graph, "cond")
    assert cond.operands[1].type.quant == Quant(*C)
    assert [r.inputs[0].type.quant for r in cond.regions] == [Quant(*C)] * 2
    assert cond.result.type.quant == Quant(*B)


def test_a_loop_keeps_quantized_values():
    def forward(n, x):
        def body(i, t):
            return i - 1, fake(t * 0.37, A)

        _, y = torch._higher_order_ops.while_loop(lambda i, t: i > 0, body, (n, fake(x, A)))
        return y * 1

    inputs = (torch.tensor(2), X)
    graph = folded(forward, *inputs)
    loop = op_of(graph, "while_loop")
    assert loop.results[1].type.quant == Quant(*A)
