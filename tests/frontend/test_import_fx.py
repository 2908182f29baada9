"""Import of FX programs: constants, locations, control flow, identity of outputs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from npuc.errors import Unsupported
from npuc.frontend.import_fx import import_fx
from npuc.frontend.import_model import import_model
from npuc.ir import DType, SymDim
from tests.frontend.models import (
    KINDS,
    Net,
    assert_computes,
    captured,
    imported,
    kinds,
    random,
)


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_weights_are_views():
    layer = nn.Linear(64, 32)
    graph = imported(layer, random(2, 64))
    (linear,) = (op for op in graph.ops if op.kind == "aten.linear")
    weight, bias = linear.operands[1:]
    assert address(weight.array) == layer.weight.data_ptr()
    assert address(bias.array) == layer.bias.data_ptr()


def test_transposed_weights_are_views_too():
    weight = nn.Parameter(random(64, 32))
    graph = imported(lambda x: x @ weight, random(2, 64))
    (linear,) = (op for op in graph.ops if op.kind == "aten.linear")
    assert address(linear.operands[1].array) == weight.data_ptr()
    assert linear.operands[1].type.shape == (32, 64)


def test_tied_weights_are_one_constant():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(64, 64, bias=False)
            self.b = nn.Linear(64, 64, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    graph = imported(Tied(), random(2, 64))
    assert len([op for op in graph.ops if op.kind == "const"]) == 1


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.int8, torch.uint8, torch.bool, torch.int64]
)
def test_element_types(dtype):
    table = (random(40, 3) * 50).to(dtype)
    x = (random(40, 3, seed=1) * 50).to(dtype)
    graph = imported(lambda x: torch.where(x > 0 if dtype is not torch.bool else x, x, table), x)
    assert_computes(graph, (x,), torch.where(x > 0 if dtype is not torch.bool else x, x, table))


def test_subgraphs_of_constants_are_evaluated():
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(random(8))

        def forward(self, x):
            steps = torch.arange(6, dtype=torch.float32)[:, None] * self.scale.exp()
            mask = torch.tril(torch.ones(6, 8)).bool()
            rows = torch.nonzero(torch.tensor([1, 0, 1])).flatten()
            return (x + torch.sin(steps)).masked_fill(mask, 0.0)[rows] + torch.zeros_like(x)[:2]

    model, x = Positions(), random(6, 8)
    graph = imported(model, x)
    assert kinds(graph) == ["add.Tensor", "where", "index_select", "add.Tensor"]
    assert_computes(graph, (x,), model(x))


def test_large_expansions_stay_ops():
    row = random(1, 1024)
    x = random(2048, 1024)
    graph = imported(lambda x: x + row.expand(2048, 1024), x)
    assert kinds(graph) == ["expand", "add.Tensor"]
    stored = [op.result.array.size for op in graph.ops if op.kind == "const"]
    assert stored == [1024]
    filled = imported(lambda x: x * torch.full((2048, 1024), 3.0).add(1), x)
    assert sum(op.result.array.nbytes for op in filled.ops if op.kind == "const") < 10_000_000
    repeated = imported(lambda x: x + row.repeat(2048, 1), x)
    assert kinds(repeated) == ["expand", "add.Tensor"]


def test_outputs_keep_number_order_and_identity():
    table = random(3)

    def forward(x, y):
        z = x + y
        return z, x, table, z, z.view(3)

    graph = imported(forward, random(3), random(3, seed=1))
    first, same_as_input, constant, again, view = graph.outputs
    assert first is again is view
    assert same_as_input is graph.inputs[0]
    assert constant.is_const
    assert len(graph.ops) == 2


def test_unused_inputs_stay():
    graph = imported(lambda x, y: x + 1, random(3), random(4))
    assert [v.type.shape for v in graph.inputs] == [(3,), (4,)]


def test_locations_and_origins():
    model = nn.Sequential(Net())
    program = captured(model, random(1, 3, 8, 8))
    graph = import_fx(program)
    conv = next(op for op in graph.ops if op.kind == "aten.conv2d")
    assert conv.loc.file.endswith("models.py") and conv.loc.module == "0.conv"
    assert (conv.loc.name, conv.loc.op) == ("conv2d", "aten.conv2d")
    names = [n.name for n in program.graph_module.graph.nodes if n.op == "call_function"]
    assert set(names) <= set(graph.origins)
    assert graph.origins["conv2d"] == (conv.result, None)
    assert graph.origins[program.placeholders[0].name] == (graph.inputs[0], None)
    assert graph.inputs[0].name == "input"


def test_several_results():
    def forward(x):
        a, b = x.split([1, 2], 1)
        values, indices = x.topk(2)
        return a, b * values[:, :1], indices

    x = random(2, 3)
    graph = imported(forward, x)
    assert_computes(graph, (x,), forward(x))
    topk = next(op for op in graph.ops if op.kind == "aten.topk")
    assert [r.type.dtype for r in topk.results] == [DType.FP32, DType.INT64]


def test_real_fourier_transform():
    def forward(x):
        spectrum = torch.fft.rfft2(x)
        return spectrum.real, torch.view_as_real(spectrum)

    x = random(2, 4, 6)
    graph = imported(forward, x)
    assert kinds(graph).count("fft_rfft2") == 1
    assert_computes(graph, (x,), forward(x), atol=1e-5, rtol=1e-5)


def test_complex_numbers_are_refused_with_their_place():
    with pytest.raises(Unsupported, match=r"aten.mul.Tensor at .*py:\d+.*: .*complex numbers"):
        imported(lambda x: (torch.fft.rfft2(x) * 2).real, random(2, 4, 6))


def test_numbers_from_tensors_are_refused():
    def forward(x):
        count = x.to(torch.int64).sum().item()
        torch._check(count >= 0)
        torch._check(count < 5)
        return x.new_zeros(5).narrow(0, 0, count)

    with pytest.raises(Unsupported, match=r"aten\.item"):
        imported(forward, random(3))


# control flow --------------------------------------------------------------------------------


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(
            x.sum() > 0,
            lambda t: (self.a(t).relu(), t + 1),
            lambda t: (self.b(t).sigmoid(), t * 2),
            (x,),
        )


@pytest.mark.parametrize("sign", [1, -1])
def test_cond(sign):
    model, x = Branches(), random(2, 4).abs() * sign
    graph = imported(model, x)
    cond = next(op for op in graph.ops if op.kind == "aten.cond")
    assert len(cond.operands) == 2, "weights are constants of the branches"
    assert [len(r.inputs) for r in cond.regions] == [1, 1]
    assert_computes(graph, (x,), model(x))


def test_nested_cond():
    def forward(x):
        def inner(t):
            return torch.cond(t.max() > 1, lambda u: u * 2, lambda u: u - 1, (t,))

        return torch.cond(x.sum() > 0, inner, lambda t: -t, (x,))

    for x in (random(3), -random(3).abs(), random(3).abs() * 10):
        assert_computes(imported(forward, random(3)), (x,), forward(x))


def test_while_loop():
    table = random(4)

    def forward(count, x):
        def test(i, _):
            return i > 0

        def body(i, t):
            return i - 1, t * 0.5 + table

        return torch._higher_order_ops.while_loop(test, body, (count, x))

    for count in (0, 3):
        inputs = (torch.tensor(count), random(4))
        graph = imported(forward, *inputs)
        loop = next(op for op in graph.ops if op.kind == "aten.while_loop")
        assert [v.type for v in loop.regions[1].outputs] == [v.type for v in loop.operands]
        assert_computes(graph, inputs, forward(*inputs))


def test_while_loop_carries_what_its_body_only_reads():
    def forward(count, x, y):
        return torch._higher_order_ops.while_loop(
            lambda i, t: i > 0, lambda i, t: (i - 1, t + y), (count, x)
        )

    inputs = (torch.tensor(3), random(4), random(4, seed=1))
    graph = imported(forward, *inputs)
    loop = next(op for op in graph.ops if op.kind == "aten.while_loop")
    assert len(loop.operands) == len(loop.results) == 3
    assert_computes(graph, inputs, forward(*inputs))


# dynamic shapes ------------------------------------------------------------------------------


def test_dynamic_shapes_are_symbols():
    def forward(x):
        flat = x.reshape(x.shape[0], -1)
        return flat @ flat.t()

    batch = torch.export.Dim("batch", min=2, max=16)
    program = captured(forward, random(4, 2, 3), dynamic_shapes=(({0: batch},),))
    graph = import_model(program, KINDS)
    (dim,) = (d for d in graph.inputs[0].type.shape if isinstance(d, SymDim))
    assert (dim.lo, dim.hi) == (2, 16)
    assert graph.outputs[0].type.shape == (dim, dim)


def test_a_dynamic_size_is_a_number():
    batch = torch.export.Dim("batch", min=2, max=16)
    graph = imported(lambda x: x + x.shape[0], random(4, 3), dynamic_shapes=(({0: batch},),))
    kinds = [op.kind for op in graph.ops]
    assert kinds == ["aten.scalar_tensor", "aten.to", "aten.add.Tensor"]


def test_import_is_linear():
    """The same number of ops per layer at every depth: nothing is imported twice."""
    counts = []
    for depth in (2, 4, 8):
        layers = [layer for _ in range(depth) for layer in (nn.Linear(4, 4), nn.ReLU())]
        counts.append(len(imported(nn.Sequential(*layers), random(2, 4)).ops))
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0]) == 16
