"""torch.cond and while_loop on targets with and without control flow, against PyTorch and TOSA's
reference model."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._higher_order_ops import while_loop

import npuc
from npuc.compilation import Compilation

torch.set_num_threads(1)

FP, FP_CF = "tosa-1.0+fp", "tosa-1.0+fp+cf"
INT, INT_CF = "tosa-1.0+int", "tosa-1.0+int+cf"


class Calls(nn.Module):
    """A module around a function, with layers that the function takes from it."""

    def __init__(self, function: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(self, *inputs)


def compiled(
    model: nn.Module, samples: Sequence[Any], target: str, quantization: str | None = None
) -> Compilation:
    kw = {"calibration": samples} if quantization and quantization.startswith(("int", "a")) else {}
    return npuc.compile(
        model.eval(), samples[0], target=target, quantization=quantization, progress=False, **kw
    )


def leaves(outputs: Any) -> list[np.ndarray]:
    found = torch.utils._pytree.tree_leaves(outputs)
    return [t.detach().double().numpy() for t in found]


def compare(
    c: Compilation, model: nn.Module, samples: Sequence[Any], tolerance: float = 1e-5,
    executors: Sequence[str] = ("evaluator", "reference-model"),
) -> None:  # fmt: skip
    """Every sample on every executor; the tolerance is relative to the largest value of all."""
    with torch.no_grad():
        wanted = [leaves(model(*sample)) for sample in samples]
    scales = [
        max(float(np.abs(w[i]).max(initial=0)) for w in wanted) for i in range(len(wanted[0]))
    ]
    for sample, want in zip(samples, wanted, strict=True):
        for on in executors:
            got = leaves(c.run(*sample, on=on))
            assert [g.shape for g in got] == [w.shape for w in want]
            for g, w, scale in zip(got, want, scales, strict=True):
                atol = tolerance * max(scale, 1.0)
                np.testing.assert_allclose(g, w, rtol=0, atol=atol, err_msg=on)


def kinds(c: Compilation) -> list[str]:
    return [op.name for op in c.graph.walk()]


def rows(*values: float) -> list[Any]:
    """One sample per value: ramps around it."""
    return [(torch.linspace(v - 0.5, v + 0.5, 8).reshape(2, 4),) for v in values]


# branches ----------------------------------------------------------------------------------------


def two_layers() -> Calls:
    torch.manual_seed(0)
    layers = {"a": nn.Linear(4, 3), "b": nn.Linear(4, 3)}
    return Calls(
        lambda m, x: torch.cond(
            x.sum() > 0, lambda t: torch.relu(m.a(t)), lambda t: torch.sigmoid(m.b(t)), (x,)
        ),
        **layers,
    )


def nested() -> Calls:
    def inner(t: torch.Tensor) -> torch.Tensor:
        return torch.cond(t.amax() > 2.0, lambda u: u - 2.0, lambda u: u * 0.5, (t,))

    return Calls(lambda m, x: torch.cond(x.sum() > 0.0, inner, lambda t: -t, (x,)))


def several_outputs() -> Calls:
    """A value of each branch, the operand as it is, the same value twice, a constant."""

    def yes(t: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = t * 2
        return y.clone(), t.clone(), y.sum(1), torch.ones(3)

    def no(t: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = t + 1
        return t.clone(), y, y.sum(1), torch.zeros(3)

    return Calls(lambda m, x: torch.cond(x.mean() > 0, yes, no, (x,)))


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
            lambda t, n: (t < 0, n * 3, t[0]),
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


def images() -> Calls:
    """Convolutions and a batch norm inside, a convolution in front of and behind the branches."""
    torch.manual_seed(0)
    first = nn.Conv2d(3, 4, 3, padding=1)
    yes = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
    no = nn.Sequential(nn.Conv2d(4, 4, 1), nn.AvgPool2d(3, 1, 1))
    for module in (first, yes, no):
        for p in module.parameters():
            p.data.uniform_(-0.4, 0.4)
    return Calls(
        lambda m, x: m.last(torch.cond(x.mean() > 0, m.yes, m.no, (m.first(x),))),
        first=first, yes=yes, no=no, last=nn.Conv2d(4, 2, 1),
    )  # fmt: skip


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


def shortcut() -> Calls:
    """A block of a network that the input may skip."""
    model = images()
    model.function = lambda m, x: m.last(
        torch.cond(x.mean() > 0, m.yes, lambda u: u.clone(), (m.first(x),))
    )
    return model


def repeated() -> Calls:
    """A convolution three times."""
    model = images()

    def run(m: Calls, x: torch.Tensor) -> torch.Tensor:
        start = (torch.tensor(0), m.first(x))
        body = lambda i, u: (i + 1, torch.tanh(m.no[0](u)) + torch.relu(u))  # noqa: E731
        return m.last(while_loop(lambda i, u: i < 3, body, start)[1])

    model.function = run
    return model


@pytest.mark.parametrize("quantization", [None, "int8"])
@pytest.mark.parametrize("make", [images, shortcut, repeated])
def test_no_transpose_stays_at_the_borders_of_a_region(
    make: Callable[[], Calls], quantization: str | None
) -> None:
    samples = [(torch.rand(1, 3, 6, 5) + low,) for low in (0.0, -1.0)]
    model, target = make(), INT_CF if quantization else FP_CF
    c = npuc.compile(
        model.eval(), samples[0], target=target, io_layout="channels_last", progress=False,
        quantization=quantization, **({"calibration": samples} if quantization else {}),
    )  # fmt: skip
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
    first, second, last = error.value.reasons
    line = inspect.getsourcelines(Refused)[1]
    assert (first.op, second.op, last.op) == ("aten.mul.Tensor", "aten.sin", "aten.cond")
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


# loops -------------------------------------------------------------------------------------------


def doubling() -> Calls:
    """Runs until the sum is large: how often depends on the input."""

    def body(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x * 1.5 + 0.25,)

    return Calls(lambda m, x: while_loop(lambda x: x.sum() < 20, body, (x,)))


def counted() -> Calls:
    """A counter, a value that only the body reads, and an input that stays."""
    torch.manual_seed(0)

    def run(m: Calls, x: torch.Tensor, y: torch.Tensor) -> Any:
        count, x, y = while_loop(
            lambda i, a, b: i < 3,
            lambda i, a, b: (i + 1, torch.tanh(m.layer(a)) + b, b.clone()),
            (torch.tensor(0), x, y),
        )
        return count, x, y

    return Calls(run, layer=nn.Linear(4, 4))


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


# chips -------------------------------------------------------------------------------------------


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
