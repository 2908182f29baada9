"""Batch norms fold into the layer in front, or become a depthwise layer of their own."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from npuc.frontend.fold_batch_norm import fold_batch_norm
from npuc.frontend.splice import kind_of

torch.set_num_threads(1)


def settle(model: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.uniform_(-1, 1)
            module.running_var.uniform_(0.5, 4)
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 2)
                nn.init.uniform_(module.bias, -1, 1)
    return model.eval()


def fold(model: nn.Module, *args: torch.Tensor, decomposed: bool = False) -> GraphModule:
    """Fold and compare; no batch norm is left, so torch's own helper finds nothing."""
    settle(model)
    program = torch.export.export(model, args)
    if decomposed:
        program = program.run_decompositions({})
    gm = program.module(check_guards=False)
    with torch.no_grad():
        want = tree_leaves(model(*args))
        assert fold_batch_norm(gm) > 0
        gm.graph.lint()
        got = tree_leaves(gm(*args))
    for a, b in zip(got, want, strict=True):
        assert torch.allclose(a, b, atol=1e-5)
    assert not any("batch_norm" in kind for kind in kinds(gm))
    return gm


def kinds(gm: GraphModule) -> list[str]:
    return [kind_of(n.target) for n in gm.graph.nodes if n.op == "call_function"]


IMAGE = torch.randn(2, 6, 7, 7)


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(6, 4, 3),
        nn.Conv2d(6, 4, 3, padding="same", bias=False),
        nn.Conv2d(6, 4, 3, groups=2),
        nn.ConvTranspose2d(6, 4, 3, 2),
        nn.ConvTranspose2d(6, 4, 3, 2, groups=2, bias=False),
    ],
    ids=repr,
)
def test_folds_into_a_convolution(layer, decomposed):
    gm = fold(nn.Sequential(layer, nn.BatchNorm2d(4)), IMAGE, decomposed=decomposed)
    assert len([k for k in kinds(gm) if "conv" in k]) == 1


@pytest.mark.parametrize(
    ("layer", "norm", "x"),
    [
        (nn.Conv1d(6, 4, 3), nn.BatchNorm1d(4), torch.randn(2, 6, 7)),
        (nn.Conv3d(6, 4, 3), nn.BatchNorm3d(4), torch.randn(2, 6, 5, 5, 5)),
        (nn.ConvTranspose1d(6, 4, 3), nn.BatchNorm1d(4, affine=False), torch.randn(2, 6, 7)),
        (nn.Linear(6, 4), nn.BatchNorm1d(4), torch.randn(3, 6)),
        (nn.Linear(6, 4, bias=False), nn.BatchNorm1d(4), torch.randn(3, 6)),
    ],
    ids=["conv1d", "conv3d", "transposed", "linear", "linear without bias"],
)
def test_folds_into_other_layers(layer, norm, x):
    gm = fold(nn.Sequential(layer, norm), x)
    assert len(kinds(gm)) == 1


class TwoReaders(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(6, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.conv(x)
        return self.bn(y), y


def test_a_convolution_with_a_second_reader_is_not_touched():
    """torch's own helper folds here and changes what the other reader sees, by 1.15 of 1.41."""
    gm = fold(TwoReaders(), IMAGE)
    first, second = (n for n in gm.graph.nodes if "conv2d" in kind_of(n.target))
    assert first.args[6:] == () and second.args[6] == 4


class SharedConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.a, self.b = nn.Conv2d(6, 4, 3), nn.BatchNorm2d(4), nn.BatchNorm2d(4)

    def forward(self, x):
        return self.a(self.conv(x)), self.b(self.conv(-x)), self.conv(x * 2)


def test_a_weight_that_two_convolutions_share_is_folded_for_each():
    gm = fold(SharedConv(), IMAGE)
    assert kinds(gm).count("aten.conv2d") == 3


@pytest.mark.parametrize(
    ("norm", "x"),
    [
        (nn.BatchNorm1d(6), torch.randn(3, 6)),
        (nn.BatchNorm1d(6), torch.randn(3, 6, 5)),
        (nn.BatchNorm2d(6), IMAGE),
        (nn.BatchNorm3d(6), torch.randn(2, 6, 3, 4, 5)),
    ],
    ids=["[N, C]", "[N, C, L]", "[N, C, H, W]", "[N, C, D, H, W]"],
)
def test_a_norm_without_a_layer_in_front_is_a_depthwise_convolution(norm, x):
    gm = fold(nn.Sequential(nn.ReLU(), norm), x)
    convs = [n for n in gm.graph.nodes if "conv" in kind_of(n.target)]
    assert [n.args[6] for n in convs] == [6]


def test_linear_on_the_last_dim_does_not_take_a_norm_of_dim_1():
    gm = fold(nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(6)), torch.randn(2, 6, 5))
    assert kinds(gm) == ["aten.linear", "aten.conv1d"]


def test_batch_statistics_stay():
    model = nn.BatchNorm2d(6).train()
    gm = torch.export.export(model, (IMAGE,)).module(check_guards=False)
    assert fold_batch_norm(gm) == 0
    assert "aten.batch_norm" in kinds(gm)


def test_the_model_is_not_changed():
    model = nn.Sequential(nn.Conv2d(6, 4, 3), nn.BatchNorm2d(4))
    settle(model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fold(model, IMAGE)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
