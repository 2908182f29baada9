"""Programs with sizes known only at run time in ExecuTorch's lowering."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.export import Dim

from npuc.execute.reference_model import run_reference_model
from npuc.executorch import (
    EthosUCompileSpec,
    EthosUPartitioner,
    TosaCompileSpec,
    TOSAPartitioner,
    VgfCompileSpec,
    VgfPartitioner,
)

torch.set_num_threads(1)


class Net(nn.Module):
    """A convolution with stride, whose padding depends on the height, and the mean of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 4, 1)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.first(x)))
        return self.last(y).mean((2, 3)).view(x.shape[0], 2, 2)


def lowered(partitioner: Any) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = Net().eval()
    sizes = {0: Dim("batch", min=1, max=4), 2: Dim("height", min=8, max=15)}
    program = torch.export.export(model, (torch.randn(2, 3, 12, 9),), dynamic_shapes=(sizes,))
    return model, to_edge_transform_and_lower(program, partitioner=[partitioner])


def test_a_delegate_of_open_sizes_runs_at_each() -> None:
    partitioner = TOSAPartitioner(TosaCompileSpec("TOSA-1.1+FP+shape"))
    model, manager = lowered(partitioner)
    assert all(verdict.tag for verdict in partitioner.report())
    (delegate,) = [
        getattr(manager.exported_program().graph_module, n.target)
        for n in manager.exported_program().graph.nodes
        if n.op == "get_attr"
    ]
    for shape in ((2, 3, 12, 9), (2, 3, 8, 9), (4, 3, 15, 9), (3, 3, 11, 9)):
        x = torch.randn(shape)
        (y,) = run_reference_model(delegate.processed_bytes, [x.numpy()])
        np.testing.assert_allclose(y, model(x).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize(
    ("partitioner", "target"),
    [
        (TOSAPartitioner(TosaCompileSpec("TOSA-1.0+FP")), "tosa-1.0+fp"),
        (VgfPartitioner(VgfCompileSpec()), "vgf"),
        (EthosUPartitioner(EthosUCompileSpec("ethos-u85-256")), "ethos-u85-256"),
    ],
    ids=["tosa", "vgf", "ethos-u"],
)
def test_targets_of_fixed_sizes_leave_it_to_the_host(partitioner: Any, target: str) -> None:
    """Whole ops that the host has no kernels for are decomposed, as without a partitioner."""
    _, manager = lowered(partitioner)
    calls = [str(n.target) for n in manager.exported_program().graph.nodes]
    assert not any("delegate" in c or "conv2d" in c for c in calls)
    for verdict in partitioner.report():
        assert "(8..15)" in verdict.reason or "(2..4)" in verdict.reason, verdict
        assert f"known only at run time, and {target} takes fixed sizes" in verdict.reason
