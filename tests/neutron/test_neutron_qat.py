"""Quantization-aware training with NeutronQuantizer: trains, converts, compiles, is delegated."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import npuc
from tests.neutron.test_neutron_target import operators

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
    from torchao.quantization.pt2e import (
        move_exported_model_to_eval,
        move_exported_model_to_train,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

    from npuc.executorch import (
        NeutronPartitioner,
        NeutronQuantizer,
        NeutronTargetSpec,
        generate_neutron_compile_spec,
    )

CHIP = "imxrt700"


class Net(nn.Module):
    """A convolution with a batch norm, a gate, a layer norm, a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.rows, self.layer = nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm(self.conv(x)))
        y = F.adaptive_avg_pool2d(y * y.sigmoid(), 1).flatten(1)
        return self.layer(self.rows(y))


@pytest.fixture(scope="module")
def trained() -> tuple[Any, Tensor, list[float]]:
    """The converted model, inputs, and the loss of each step."""
    torch.manual_seed(0)
    x, labels = torch.randn(8, 3, 8, 8), torch.arange(8) % 4
    graph = torch.export.export(Net().train(), (x,), strict=False).module()
    prepared = prepare_qat_pt2e(graph, NeutronQuantizer(NeutronTargetSpec(CHIP), is_qat=True))
    move_exported_model_to_train(prepared)
    optimizer = torch.optim.SGD(prepared.parameters(), 0.1)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(prepared(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    move_exported_model_to_eval(prepared)
    return convert_pt2e(prepared), x, losses


def test_it_learns_and_compiles(trained: tuple[Any, Tensor, list[float]]) -> None:
    model, x, losses = trained
    assert losses[-1] < 0.9 * losses[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        c = npuc.compile(model, (x,), target="neutron-imxrt700", progress=False)
    assert operators(c)["CONV_2D"] >= 1
    want = model(x)
    noise = (c.run(x) - want).square().sum()
    assert float(want.square().sum() / noise) > 10**3, "more than 30 dB"


def test_it_is_delegated(
    sdk: Callable[[str], None], trained: tuple[Any, Tensor, list[float]]
) -> None:
    sdk("")
    model, x, _ = trained
    partitioner = NeutronPartitioner(generate_neutron_compile_spec(CHIP))
    program = torch.export.export(model, (x,), strict=False)
    manager = to_edge_transform_and_lower(
        program, partitioner=[partitioner],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )  # fmt: skip
    nodes = [n for n in manager.exported_program().graph.nodes if n.op == "call_function"]
    names = [str(n.target) for n in nodes]
    assert sum("call_delegate" in n for n in names) == 1
    assert all("quantize" in n or "delegate" in n or "getitem" in n for n in names), names
