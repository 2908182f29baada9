"""In-place ops in the traces of PyTorch's decompositions."""

from __future__ import annotations

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from npuc.frontend.functionalize import functional_overload, make_functional


def traced(function, *inputs):
    return make_fx(function)(*inputs)


def test_writes_to_new_tensors_become_functional():
    x = torch.rand(3)
    gm = traced(lambda x: (x * 2).add_(1).relu_(), x)
    assert make_functional(gm) is None
    assert not any(n.target._schema.is_mutable for n in gm.graph.nodes if n.op == "call_function")
    assert torch.equal(gm(x), (x * 2 + 1).relu())


def test_an_op_that_only_writes_has_no_functional_form():
    assert functional_overload(torch.ops.prims.copy_to.default) is None
    gm = traced(lambda x, y: torch.ops.prims.copy_to(x * 2, y) + 1, torch.rand(3), torch.rand(3))
    left = make_functional(gm)
    assert left is not None and left.target is torch.ops.prims.copy_to.default
