"""while_loop on targets with and without control flow, against PyTorch and the reference model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._higher_order_ops import while_loop
from torch._subclasses import FakeTensorMode

import npuc
from tests.lowering.control_flow_models import (
    FP,
    FP_CF,
    INT,
    INT_CF,
    Calls,
    compare,
    compiled,
    counted,
    doubling,
    kinds,
    rows,
)


@pytest.mark.parametrize(("target", "quantization"), [(FP_CF, None), (INT_CF, "int8")])
def test_loops(target: str, quantization: str | None) -> None:
    model, samples = doubling(), rows(1.0, 0.6, 9.0)
    c = compiled(model, samples, target, quantization)
    assert "WHILE_LOOP" in kinds(c)
    compare(c, model, samples, 0.04 if quantization else 1e-5)
    assert c.check is not None and len(c.check.ops) >= 2, "ops of the body are compared"


@pytest.mark.parametrize(
    ("target", "quantization"), [(FP, None), (FP_CF, None), (INT, "int8"), (INT_CF, "int8")]
)
def test_loops_with_a_fixed_number_of_steps(target: str, quantization: str | None) -> None:
    model = counted()
    samples = [(torch.rand(2, 4), torch.rand(2, 4) * s) for s in (1.0, -1.0)]
    c = compiled(model, samples, target, quantization)
    assert ("WHILE_LOOP" in kinds(c)) == target.endswith("cf")
    compare(c, model, samples, 0.04 if quantization else 1e-5)


def test_loop_borders_share_parameters() -> None:
    c = compiled(doubling(), rows(1.0, 0.6), INT_CF, "int8")
    loop = next(op for op in c.graph.ops if op.name == "WHILE_LOOP")
    types = [v.type for v in loop.operands]
    assert types == [v.type for v in loop.results]
    for region in loop.regions:
        assert [v.type for v in region.inputs] == types
    assert [v.type for v in loop.regions[1].outputs] == types


@pytest.mark.parametrize("target", [FP, "vgf"])
def test_loops_whose_length_depends_on_the_input_need_control_flow(target: str) -> None:
    with pytest.raises(npuc.Unsupported, match=r"has no control flow.*depends on its input"):
        compiled(doubling(), rows(1.0), target)


@pytest.mark.parametrize("target", [FP, FP_CF])
def test_a_loop_that_does_not_run(target: str) -> None:
    model = Calls(
        lambda m, x: while_loop(
            lambda i, x: i > 3, lambda i, x: (i + 1, x * 2), (torch.tensor(1), x)
        )
    )
    samples = rows(1.0)
    compare(compiled(model, samples, target), model, samples)


def test_a_loop_in_a_branch_and_a_branch_in_a_loop() -> None:
    def run(m: Calls, x: torch.Tensor) -> Any:
        def step(i: torch.Tensor, t: torch.Tensor) -> Any:
            t = torch.cond(t.sum() > 3, lambda u: u * 0.5, lambda u: u * 2 + 1, (t,))
            return i + 1, t

        def many(t: torch.Tensor) -> torch.Tensor:
            return while_loop(lambda i, t: i < 4, step, (torch.tensor(0), t))[1]

        return torch.cond(x.amax() > 0, many, lambda t: -t, (x,))

    model, samples = Calls(run), rows(1.0, -3.0, 0.2)
    compare(compiled(model, samples, FP_CF), model, samples)
    compare(compiled(model, samples, FP), model, samples)
    compare(compiled(model, samples, INT_CF, "int8"), model, samples, 0.06)


@pytest.mark.parametrize("target", [INT, INT_CF])
def test_ops_that_share_the_parameters_of_what_a_loop_carries(target: str) -> None:
    """Their observers are one with those outside of the loop, under all names that they have."""

    def step(i: torch.Tensor, t: torch.Tensor) -> Any:
        t = torch.maximum(torch.relu(t), t.flip(-1) * 0.5)
        return i + 1, torch.tanh(t) - t.amax(1, keepdim=True) * 0.25

    model = Calls(
        lambda m, x: while_loop(lambda i, t: i < 2, step, (torch.tensor(0), torch.relu(x)))[1]
    )
    samples = rows(1.0, -1.0)
    c = compiled(model, samples, target, "int8")
    assert not any(v.type.dtype.is_float for op in c.graph.walk() for v in op.results)
    compare(c, model, samples, 0.04)


def test_constants_that_a_second_export_lost_are_named() -> None:
    class Tenths(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return while_loop(lambda v: v.sum() > 1, lambda v: (v * 0.1,), (x,))[0]

    x = torch.rand(2, 3)
    exported = torch.export.export(Tenths(), (x,))
    body = next(m for n, m in exported.graph_module.named_modules() if "body" in n)
    node = next(n for n in body.graph.nodes if n.op == "call_function")
    body.register_buffer("lost", FakeTensorMode().from_tensor(torch.ones(1)))
    with body.graph.inserting_before(node):
        lost = body.graph.get_attr("lost")
    node.args = (node.args[0], lost)
    (refused,) = npuc.explain(exported, (x,), target=INT_CF).refused
    assert refused.kind == "while_loop" and "without its values" in str(refused.reason)
