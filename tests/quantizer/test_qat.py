"""Quantization-aware training: parameters train, and the converted graph is what was trained."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from npuc.errors import BadInput
from npuc.frontend.splice import kind_of
from npuc.quantizer.left_float import left_float
from npuc.quantizer.qat import convert_qat, prepare_qat

torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8)
        self.linear, self.norm = nn.Linear(8, 16), nn.BatchNorm1d(16)
        self.drop, self.head = nn.Dropout(0.1), nn.Linear(16, 2)

    def forward(self, x):
        x = F.relu(self.bn(self.conv(x))).mean((2, 3))
        return self.head(self.drop(F.relu(self.norm(self.linear(x)))))


def train(model, x, y, steps: int) -> float:
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    return float(loss)


@pytest.fixture(scope="module")
def data():
    torch.manual_seed(0)
    x = torch.randn(64, 3, 8, 8)
    return x, (x.mean((1, 2, 3)) > 0).long()


@pytest.mark.parametrize("recipe", ["int8", "a8w4"])
def test_training_and_conversion(data, recipe):
    x, y = data
    torch.manual_seed(0)
    model = Net()
    train(model, x, y, 60)
    graph = prepare_qat(model, (x,), recipe)
    names = dict(graph.named_parameters())
    assert "conv.weight" in names and "head.weight" in names
    before = float(F.cross_entropy(graph.eval()(x), y))
    assert train(graph, x, y, 15) < max(before, 0.1)
    assert all(p.grad is not None for p in names.values() if p.requires_grad)
    drop = next(n for n in graph.graph.nodes if kind_of(n.target) == "aten.dropout")
    assert drop.args[1:] == (0.1, False)
    trained = graph(x)
    final = convert_qat(graph)
    assert left_float(final) == []
    assert float((final(x) - trained).abs().max()) < 0.02 * float(trained.abs().max())


def test_only_modules_can_be_trained(data):
    program = torch.export.export(Net().eval(), (data[0],))
    with pytest.raises(BadInput, match=r"pass an nn\.Module"):
        prepare_qat(program, (data[0],))


def test_a_trained_graph_compiles(data):
    import npuc

    x, _ = data
    torch.manual_seed(0)
    graph = prepare_qat(Net(), (x,), "int8")
    graph.train()
    graph(x)
    final = convert_qat(graph)
    compiled = npuc.compile(final, (x,), target="tosa-1.0+int")
    assert compiled.coverage and compiled.check is not None
