"""torch.cond on targets with and without control flow, against PyTorch and the reference model."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import npuc
from tests.lowering.control_flow_models import (
    FP,
    FP_CF,
    INT,
    INT_CF,
    Calls,
    compare,
    compiled,
    doubling,
    images,
    kinds,
    leaves,
    nested,
    repeated,
    rows,
    several_outputs,
    shortcut,
    two_layers,
)

BRANCHES = {"two_layers": two_layers, "nested": nested, "several_outputs": several_outputs}


@pytest.mark.parametrize("target", [FP, FP_CF])
@pytest.mark.parametrize("name", BRANCHES)
def test_branches_of_floats(name: str, target: str) -> None:
    model, samples = BRANCHES[name](), rows(1.0, 3.0, -1.0)
    c = compiled(model, samples, target)
    compare(c, model, samples)
    assert ("COND_IF" in kinds(c)) == (target == FP_CF)
    assert ("SELECT" in kinds(c)) == (target == FP)


@pytest.mark.parametrize("target", [INT, INT_CF])
@pytest.mark.parametrize("name", BRANCHES)
def test_branches_of_int8(name: str, target: str) -> None:
    model, samples = BRANCHES[name](), rows(1.0, 3.0, -1.0)
    c = compiled(model, samples, target, "int8")
    compare(c, model, samples, 0.02)
    assert ("COND_IF" in kinds(c)) == (target == INT_CF)


def test_branches_share_the_parameters_of_their_borders() -> None:
    c = compiled(two_layers(), rows(1.0, -1.0), INT_CF, "int8")
    cond = next(op for op in c.graph.ops if op.name == "COND_IF")
    for region in cond.regions:
        assert [v.type for v in region.inputs] == [v.type for v in cond.operands[1:]]
        assert [v.type for v in region.outputs] == [v.type for v in cond.results]
    then, other = ([op.name for op in region.ops if op.name != "const"] for region in cond.regions)
    assert then.count("RESCALE") == 1, "the layer's own: nothing is requantized at the border"
    assert other.count("RESCALE") == 1 and "TABLE" in other


def test_a_branch_that_no_sample_reaches_is_named() -> None:
    model = two_layers()
    with pytest.warns(
        UserWarning, match=r"no calibration sample reaches the false branch at .*_flow"
    ):
        c = compiled(model, rows(1.0, 0.9), INT_CF, "int8")
    compare(c, model, rows(1.0), 0.02)
    (got,) = leaves(c.run(torch.full((2, 4), -0.1)))
    (want,) = leaves(model(torch.full((2, 4), -0.1)))
    np.testing.assert_allclose(got, want, atol=0.1)


@pytest.mark.parametrize("target", [FP, FP_CF])
def test_what_the_other_branch_would_compute_does_not_leak(target: str) -> None:
    model = Calls(
        lambda m, x: torch.cond(x.amin() > 0, lambda t: t.log(), lambda t: t / t.amax() * 0, (x,))
    )
    samples = [(torch.tensor([[1.0, 2.0]]),), (torch.tensor([[-1.0, 0.0]]),)]
    c = compiled(model, samples, target)
    compare(c, model, samples, executors=["evaluator"])
    assert np.isfinite(leaves(c.run(torch.tensor([[0.5, 4.0]])))[0]).all()


@pytest.mark.parametrize("target", ["tosa-1.0+fp+int", "tosa-1.0+fp+int+cf"])
def test_integers_and_booleans_are_results_of_branches(target: str) -> None:
    model = Calls(
        lambda m, x, i: torch.cond(
            i.sum() > 5,
            lambda t, n: (t > 0, n + 1, n.float()),
            lambda t, n: (t < 0, n * 3, t[0].clone()),
            (x, i),
        )
    )
    samples = [
        (torch.tensor([[1.0, -1.0]]).expand(1, 2).clone(), torch.tensor(n))
        for n in ([1, 9], [1, 2])
    ]
    compare(compiled(model, samples, target), model, samples)


@pytest.mark.parametrize("target", [INT, INT_CF])
def test_a_condition_that_is_an_input(target: str) -> None:
    model = Calls(lambda m, x, p: torch.cond(p, lambda t: t * 2, lambda t: t.clone(), (x,)))
    samples = [(torch.rand(2, 3), torch.tensor(v)) for v in (True, False)]
    compare(compiled(model, samples, target, "int8"), model, samples, 0.02)


@pytest.mark.parametrize(
    ("target", "quantization", "tolerance"),
    [(FP, None, 1e-5), (FP_CF, None, 1e-5), (FP_CF, "fp16", 1e-2), (INT, "int8", 0.04),
     (INT_CF, "int8", 0.04), ("tosa-1.0+int+int16+cf", "a16w8", 0.01)],
)  # fmt: skip
def test_convolutions_in_branches(target: str, quantization: str, tolerance: float) -> None:
    samples = [(torch.rand(1, 3, 6, 5) + low,) for low in (0.0, -1.0)]
    model = images()
    c = compiled(model, samples, target, quantization)
    compare(c, model, samples, tolerance)


@pytest.mark.parametrize("quantization", [None, "int8"])
@pytest.mark.parametrize("make", [images, shortcut, repeated])
def test_no_transpose_stays_at_the_borders_of_a_region(
    make: Callable[[], Calls], quantization: str | None
) -> None:
    samples = [(torch.rand(1, 3, 6, 5) + low,) for low in (0.0, -1.0)]
    model, target = make(), INT_CF if quantization else FP_CF
    c = compiled(model, samples, target, quantization, io_layout="channels_last")
    assert {"COND_IF", "WHILE_LOOP"} & set(kinds(c))
    assert "TRANSPOSE" not in kinds(c)
    compare(c, model, samples, 0.06 if quantization else 1e-5)


def test_a_condition_that_is_constant_leaves_one_branch() -> None:
    model = Calls(
        lambda m, x: torch.cond(torch.tensor(True), lambda t: t + 1, lambda t: t - 1, (x,))
    )
    samples = rows(0.0)
    c = compiled(model, samples, FP)
    compare(c, model, samples)
    assert not {"SELECT", "COND_IF", "SUB"} & set(kinds(c))


class Refused(nn.Module):
    """Both branches compute in floats."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def yes(t: torch.Tensor) -> torch.Tensor:
            return t.view(-1, 2) * 1.5

        def no(t: torch.Tensor) -> torch.Tensor:
            return (t.view(2, -1) - 1).sin()

        return torch.cond(x.any(), yes, no, (x,))


@pytest.mark.parametrize("target", [INT, INT_CF])
def test_refusals_in_branches_name_the_ops_and_their_lines(target: str) -> None:
    x = torch.tensor([1, 2, 3, 4], dtype=torch.int32)
    with pytest.raises(npuc.Unsupported) as error:
        npuc.compile(Refused(), (x,), target=target)
    reasons = error.value.reasons
    kinds = ["aten.mul.Tensor", "aten.mul.Tensor", "aten.sin", "aten.sin", "cond"]
    assert [r.op for r in reasons] == kinds
    line = inspect.getsourcelines(Refused)[1]
    _, first, _, second, last = reasons
    assert first.where.startswith(f"{__file__}:{line + 5}")
    assert second.where.startswith(f"{__file__}:{line + 8}")
    assert "FP32 needs PRO-FP" in second.why and "an op in it" in last.why
    coverage = npuc.explain(Refused(), (x,), target=target)
    refused = {v.name for v in coverage.refused}
    assert {"cond_then.mul", "cond_else.sin"} <= refused
    assert "cond_else.sub" in {v.name for v in coverage} - refused


def test_outputs_are_not_compared_when_rounding_decides_the_branch(monkeypatch: Any) -> None:
    from npuc.check import check

    monkeypatch.setattr(check, "_path_of_pytorch", lambda *_: [("cond", 0)])
    c = compiled(two_layers(), rows(1.0, -1.0), INT_CF, "int8")
    assert c.check is not None and c.check.other_path and not c.check.outputs
    assert "PyTorch takes another branch" in c.check.summary()


def test_ethos_u85_has_both() -> None:
    c = compiled(two_layers(), rows(1.0, -1.0), "ethos-u85-256", "int8")
    assert "COND_IF" in kinds(c) and c.artifact
    compare(c, two_layers(), rows(1.0, -1.0), 0.02)
    c = compiled(doubling(), rows(1.0, 0.6), "ethos-u85-256", "int8")
    assert "WHILE_LOOP" in kinds(c) and c.artifact


def test_ethos_u55_computes_both_branches() -> None:
    model, samples = two_layers(), rows(1.0, -1.0)
    c = compiled(model, samples, "ethos-u55-128", "int8")
    assert "COND_IF" not in kinds(c)
    compare(c, model, samples, 0.02)


def test_a_warning_is_no_failure_when_all_bodies_run() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        compiled(nested(), rows(1.0, 3.0, -1.0), INT_CF, "int8")
