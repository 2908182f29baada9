"""A model and the steps of ExecuTorch's flow that tests share."""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir import to_edge_transform_and_lower

torch.manual_seed(0)
X = torch.randn(1, 3, 8, 8)


class Net(torch.nn.Module):
    """Two convolutions with an op between them that integer targets do not have."""

    def __init__(self, between: Any = torch.atan2) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 8, 3)
        self.linear = torch.nn.Linear(8, 4)
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.hardswish(self.first(x))
        z = self.between(y, y * 0.5 + 3)
        return self.linear(torch.relu(self.second(y + z)).mean((2, 3)))


def exported(model: torch.nn.Module, *inputs: torch.Tensor) -> Any:
    trained = isinstance(model, torch.fx.GraphModule)  # has no eval()
    return torch.export.export(model if trained else model.eval(), inputs)


def quantized(model: torch.nn.Module, *inputs: torch.Tensor) -> torch.nn.Module:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from npuc.quantizer import NpucQuantizer, Recipe

    prepared = prepare_pt2e(exported(model, *inputs).module(), NpucQuantizer(Recipe()))
    prepared(*inputs)
    return convert_pt2e(prepared)


def lowered(program: Any, partitioner: Any) -> Any:
    return to_edge_transform_and_lower(program, partitioner=[partitioner])


def pte_of(manager: Any) -> bytes:
    import executorch.kernels.quantized  # noqa: F401 - registers the out variants
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["state"])])
    return bytes(manager.to_executorch(config).buffer)
