"""The partitioner's verdict is the outcome of the lowering: small programs, with floats and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

import npuc
from npuc.executorch import (
    EthosUCompileSpec,
    EthosUPartitioner,
    TosaCompileSpec,
    TOSAPartitioner,
)
from tests.executorch.flow import exported, quantized

BOUNDARY = ("quantize_per_tensor", "dequantize_per_tensor")


class Call(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.rand(6, 4, 3, 3) - 0.5)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


PROGRAMS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "convolution": lambda m, x: F.relu(F.conv2d(x, m.weight, padding=1)),
    "softmax": lambda m, x: torch.softmax(x.flatten(2), -1).mean(1),
    "layer norm": lambda m, x: F.layer_norm(x, (8,)) * x,
    "resize": lambda m, x: F.interpolate(x, scale_factor=1.7),
    "power": lambda m, x: torch.pow(x.abs() + 0.1, x),
    "bits": lambda m, x: ((x * 20).to(torch.int32) & 6) >> 1,
    "spectrum": lambda m, x: torch.fft.fft(x).real + x,
    "arc tangent": lambda m, x: torch.atan2(x, x + 2) * F.relu(x),
    "integers": lambda m, x: torch.maximum((x * 9).to(torch.int32), torch.tensor([3], dtype=torch.int32)),
}  # fmt: skip
TARGETS: dict[str, tuple[Callable[[], Any], bool]] = {
    "tosa-1.0+fp": (lambda: TOSAPartitioner(TosaCompileSpec("TOSA-1.0+FP")), False),
    "ethos-u55-128": (lambda: EthosUPartitioner(EthosUCompileSpec("ethos-u55-128")), True),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_partitioner_takes_is_what_lowers(name: str, target: str) -> None:
    """Each delegate compiles, and nothing is left to the host but what the target refuses."""
    torch.manual_seed(0)
    x = torch.rand(1, 4, 8, 8)
    make, integers = TARGETS[target]
    model: Any = Call(PROGRAMS[name]).eval()
    if integers:
        model = quantized(model, x)
    program = exported(model, x)
    try:
        refused = {v.kind for v in npuc.explain(program, (x,), target=target).refused}
    except npuc.Unsupported as error:  # the import ends at the first op that it cannot take
        refused = {reason.op for reason in error.reasons}
    partitioner = make()
    to_edge_transform_and_lower(
        program,
        partitioner=[partitioner],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    report = partitioner.report()
    left = {v.op for v in report if not v.lowers and v.op.split(".")[1] not in BOUNDARY}
    assert {v.op for v in report}, "the partitioner was asked about every node"
    assert bool(left) == bool({k for k in refused if k.split(".")[1] not in BOUNDARY}), (
        f"explain refuses {refused}, the partitioner {left}"
    )


def test_ops_that_change_nothing_are_not_worth_a_delegate() -> None:
    """The bound of the clamp is that of its codes: nothing is left of it, which is no refusal."""
    x = torch.rand(1, 4, 8, 8)
    program = exported(quantized(Call(lambda m, x: x.clamp(-0.1, 2.0)).eval(), x), x)
    assert not npuc.explain(program, (x,), target="ethos-u55-128").refused
    partitioner = EthosUPartitioner(EthosUCompileSpec("ethos-u55-128"))
    to_edge_transform_and_lower(
        program,
        partitioner=[partitioner],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    (clamp,) = [v for v in partitioner.report() if v.op == "aten.clamp"]
    assert clamp.lowers and not clamp.tag
    assert clamp.reason == (
        "its partition is not worth a delegate: it would only hand on what it is given"
    )
