"""Models with branches and loops for the tests, exported once each, and how they are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
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
    model: nn.Module, samples: Sequence[Any], target: str, quantization: str | None = None,
    **options: Any,
) -> Compilation:  # fmt: skip
    kw = {"calibration": samples} if quantization and quantization.startswith(("int", "a")) else {}
    return npuc.compile(
        exported(model, samples[0]), samples[0], target=target, quantization=quantization,
        progress=False, **kw, **options,
    )  # fmt: skip


_EXPORTED: dict[int, tuple[nn.Module, torch.export.ExportedProgram]] = {}


def exported(model: nn.Module, sample: Any) -> torch.export.ExportedProgram:
    """The program of a model; models that are made once are exported once."""
    if id(model) not in _EXPORTED:
        program = torch.export.export(model.eval(), sample, strict=True)
        _EXPORTED[id(model)] = model, program
    return _EXPORTED[id(model)][1]


def leaves(outputs: Any) -> list[np.ndarray]:
    found = torch.utils._pytree.tree_leaves(outputs)
    return [t.detach().double().numpy() for t in found]


def compare(
    c: Compilation, model: nn.Module, samples: Sequence[Any], tolerance: float = 1e-5,
    executors: Sequence[str] = ("evaluator", "reference-model"),
) -> None:  # fmt: skip
    """Every sample on every executor; the tolerance is relative to the largest value of all."""
    eager = exported(model, samples[0]).module(check_guards=False)
    with torch.no_grad():
        wanted = [leaves(eager(*sample)) for sample in samples]
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


@cache
def two_layers() -> Calls:
    torch.manual_seed(0)
    layers = {"a": nn.Linear(4, 3), "b": nn.Linear(4, 3)}
    return Calls(
        lambda m, x: torch.cond(
            x.sum() > 0, lambda t: torch.relu(m.a(t)), lambda t: torch.sigmoid(m.b(t)), (x,)
        ),
        **layers,
    )


@cache
def nested() -> Calls:
    def inner(t: torch.Tensor) -> torch.Tensor:
        return torch.cond(t.amax() > 2.0, lambda u: u - 2.0, lambda u: u * 0.5, (t,))

    return Calls(lambda m, x: torch.cond(x.sum() > 0.0, inner, lambda t: -t, (x,)))


@cache
def several_outputs() -> Calls:
    """A value of each branch, the operand as it is, the same value twice, a constant."""

    def yes(t: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = t * 2
        return y.clone(), t.clone(), y.sum(1), torch.ones(3)

    def no(t: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = t + 1
        return t.clone(), y, y.sum(1), torch.zeros(3)

    return Calls(lambda m, x: torch.cond(x.mean() > 0, yes, no, (x,)))


@cache
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


@cache
def shortcut() -> Calls:
    """A block of a network that the input may skip."""
    return Calls(
        lambda m, x: m.last(torch.cond(x.mean() > 0, m.yes, lambda u: u.clone(), (m.first(x),))),
        **dict(images().named_children()),
    )


@cache
def repeated() -> Calls:
    """A convolution three times."""

    def run(m: Calls, x: torch.Tensor) -> torch.Tensor:
        start = (torch.tensor(0), m.first(x))
        body = lambda i, u: (i + 1, torch.tanh(m.no[0](u)) + torch.relu(u))  # noqa: E731
        return m.last(while_loop(lambda i, u: i < 3, body, start)[1])

    return Calls(run, **dict(images().named_children()))


@cache
def doubling() -> Calls:
    """Runs until the sum is large: how often depends on the input."""

    def body(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x * 1.5 + 0.25,)

    return Calls(lambda m, x: while_loop(lambda x: x.sum() < 20, body, (x,)))


@cache
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
