"""Small models and the comparisons that the frontend's tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from npuc.frontend.canonicalize import canonicalize
from npuc.frontend.capture import capture
from npuc.frontend.import_fx import import_fx
from npuc.frontend.program import Program
from npuc.frontend.spellings import SPELLINGS
from npuc.ir import Graph
from tests.frontend.evaluate_aten import evaluate, real

torch.set_num_threads(1)

#: every canonical kind, as if the target had a rule for each
KINDS = frozenset().union(*(spelling.into for spelling in SPELLINGS.values()))


class Function(nn.Module):
    """A function of tensors as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class Net(nn.Module):
    """Convolution, batch norm, in-place relu, pool, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.act = nn.ReLU(inplace=True)
        self.head = nn.Linear(8, 4)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.norm(self.conv(x)))
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normal numbers, the same on every call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def captured(function: Callable[..., Any] | nn.Module, *inputs: Any, **kwargs: Any) -> Program:
    """A function or module as a program."""
    model = function if isinstance(function, nn.Module) else Function(function)
    return capture(model.eval(), inputs, **kwargs)


def imported(function: Callable[..., Any] | nn.Module, *inputs: Any, **kwargs: Any) -> Graph:
    """The canonical graph of a function or module, without any expansion of ops."""
    return canonicalize(import_fx(captured(function, *inputs, **kwargs)))


def kinds(graph: Graph) -> list[str]:
    """Kinds of the ops that are no constants, without "aten."."""
    return [op.kind.removeprefix("aten.") for op in graph.ops if op.kind != "const"]


def assert_computes(graph: Graph, inputs: Any, want: Any, **tolerance: float) -> None:
    """Check the values, shapes and types of a graph's outputs against PyTorch's."""
    got = [real(v, t) for v, t in zip(graph.outputs, evaluate(graph, inputs), strict=True)]
    wanted = [w for w in tree_leaves(want) if isinstance(w, torch.Tensor)]
    assert len(got) >= len(wanted)
    for value, expected in zip(got, wanted, strict=False):
        assert value.dtype == expected.dtype
        torch.testing.assert_close(value, expected, equal_nan=True, **tolerance)
