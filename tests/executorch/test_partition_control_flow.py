"""Branches and loops: whole in a delegate where the target has them, else their bodies are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

import npuc
from npuc.errors import NpucError
from npuc.executorch import TosaCompileSpec, TOSAPartitioner
from npuc.executorch.run_edge import run_edge

torch.manual_seed(0)


class Loop(torch.nn.Module):
    def forward(self, i: torch.Tensor, x: torch.Tensor) -> Any:
        def test(i: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return (i < 5).reshape(())

        def body(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + torch.ones_like(i), torch.tanh(x * 0.5) + x

        return torch.while_loop(test, body, (i, x))


class Branch(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return (
            torch.cond(y.sum() > 0, lambda a: torch.relu(a) + 1, lambda a: a - a.tanh(), (y,)) * 3
        )


STEPS = (torch.zeros(1, dtype=torch.int32), torch.randn(3, 4))


def lowered(model: torch.nn.Module, inputs: Any, spec: str) -> tuple[Any, TOSAPartitioner]:
    partitioner = TOSAPartitioner(TosaCompileSpec(spec))
    program = torch.export.export(model.eval(), inputs)
    config = EdgeCompileConfig(_check_ir_validity=False)
    manager = to_edge_transform_and_lower(program, partitioner=[partitioner], compile_config=config)
    return manager.exported_program(), partitioner


def test_loop_in_one_delegate() -> None:
    program, partitioner = lowered(Loop(), STEPS, "TOSA-1.0+FP+INT+cf")
    report = partitioner.report()
    assert {v.tag for v in report} == {"tag0"} and "while_loop" in {v.op for v in report}
    got = run_edge(program, STEPS, {})
    torch.testing.assert_close(got, list(Loop()(*STEPS)))


def test_loop_on_the_host_with_delegated_bodies() -> None:
    program, partitioner = lowered(Loop(), STEPS, "TOSA-1.0+FP+INT")
    report = {v.op: v for v in partitioner.report()}
    assert not report["while_loop"].lowers and "control flow" in report["while_loop"].reason
    assert report["aten.lt.Scalar"].tag == "tag0" and report["aten.tanh"].tag == "tag1"
    torch.testing.assert_close(run_edge(program, STEPS, {}), list(Loop()(*STEPS)))


@pytest.mark.parametrize("spec", ["TOSA-1.0+FP+cf", "TOSA-1.0+FP"])
def test_branch_in_one_delegate(spec: str) -> None:
    x, model = torch.randn(1, 3, 6, 6), Branch()
    program, partitioner = lowered(model, (x,), spec)
    assert {v.tag for v in partitioner.report()} == {"tag0"}
    for given in (x, -x, x + 9, x - 9):
        (got,) = run_edge(program, [given], {})
        torch.testing.assert_close(got, model(given).detach(), atol=1e-4, rtol=1e-4)


def test_a_loop_that_executorch_cannot_emit() -> None:
    with pytest.raises(NpucError, match=r"cannot make a program of the rest.*while_loop"):
        npuc.compile(Loop(), STEPS, target="tosa-1.0+fp+int", format="pte", progress=False)
