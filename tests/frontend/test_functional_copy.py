"""In-place ops and views become functional graphs that compute what eager PyTorch computes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from npuc.errors import Unsupported
from npuc.frontend.capture import capture
from tests.frontend.models import Function, captured, random


def write_through_select(x):
    z = x + 1
    z[:, 0].add_(5)
    return z * 2


def view_is_stale(x):
    z = x + 1
    row = z[0]
    z.mul_(2)
    return row, z


def view_of_view_is_stale(x):
    z = x + 1
    part = z[1:].t()
    z.sub_(3)
    return part * 1, z


def copy_between_chunks(x):
    z = x + 0
    a, b = z.chunk(2, 1)
    a.copy_(b)
    return z, a


def write_through_unbind(x):
    z = x * 1
    rows = z.unbind(0)
    rows[1].fill_(7)
    return z, rows[0]


def write_through_transpose(x):
    z = x - 1
    z.t()[0] = 0
    return z


def write_through_flat_view(x):
    z = x - 1
    z.view(-1)[::3] = 1
    return z


def relu_of_transpose(x):
    z = x * 3
    z.transpose(0, 1).relu_()
    return z


def clone_keeps_old_value(x):
    z = x + 1
    old = z.clone()
    z.add_(1)
    return old, z


def reshape_of_transposed_copies(x):
    z = (x + 1).t()
    flat = z.reshape(-1)
    flat.add_(1)
    return z, flat


def reshape_of_contiguous_is_a_view(x):
    z = x + 1
    z.reshape(-1).add_(1)
    return z


def contiguous_of_contiguous_is_the_tensor(x):
    z = x + 1
    z.contiguous().mul_(2)
    return z


def contiguous_of_transposed_copies(x):
    z = (x + 1).t()
    z.contiguous().mul_(2)
    return z


def to_the_same_dtype_is_the_tensor(x):
    z = x + 1
    z.to(torch.float32).mul_(2)
    return z


def half_takes_float(x):
    z = x.half()
    z.add_(x)
    return z


def integer_division_in_place(x):
    z = x.to(torch.int32)
    z.floor_divide_(2)
    z.eq_(1)
    return z


def several_writes(x):
    z = x.clone()
    z.masked_fill_(x > 0, 2.0)
    z.clamp_(-1, 1)
    z[1].zero_()
    z.index_put_((torch.tensor([0, 2]),), torch.tensor(4.0))
    return z


def unsqueeze_and_write(x):
    z = x + 1
    z.unsqueeze(1)[:, 0, 2:4].mul_(10)
    return z


def narrow_and_write(x):
    z = x + 1
    z.narrow(1, 1, 2).copy_(x[:, :2])
    return z


def permute_and_write(x):
    z = x.reshape(4, 3, 2) + 1
    z.permute(2, 0, 1)[1].fill_(3)
    return z


def split_sizes_and_write(x):
    z = x + 1
    _, middle, _ = z.split([1, 3, 2], 1)
    middle.neg_()
    return z, middle


def broadcast_copy(x):
    z = x + 1
    z.copy_(torch.arange(6))
    return z


def detach_shares(x):
    z = x + 1
    z.detach().add_(1)
    return z


FUNCTIONS = [f for n, f in list(globals().items()) if callable(f) and f.__module__ == __name__]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_writes_in_place(function):
    x = random(4, 6)
    exported = torch.export.export(Function(function), (x.clone(),))
    program = capture(exported)
    for node in program.graph_module.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            assert not node.target._schema.is_mutable, node.format_node()
    want = function(x.clone())
    want = want if isinstance(want, tuple) else (want,)
    got = program.run_reference((x.clone(),))
    for a, b in zip(got, want, strict=False):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_a_write_into_an_input_is_an_extra_output():
    def double(x, y):
        y.add_(1)
        x.mul_(2)
        return x + y

    program = captured(double, random(3), random(3, seed=1))
    assert program.mutated_inputs == [(0, 1), (1, 2)]
    x, y = random(3, seed=2), random(3, seed=3)
    total, new_x, new_y = program.run_reference((x, y))
    torch.testing.assert_close(new_x, x * 2)
    torch.testing.assert_close(new_y, y + 1)
    torch.testing.assert_close(total, x * 2 + y + 1)


@pytest.mark.parametrize("decomposed", [False, True])
def test_a_written_input_that_is_returned_is_one_output(decomposed):
    exported = torch.export.export(Function(lambda x: (x + 1, x.tanh_())), (random(3),))
    program = capture(exported.run_decompositions() if decomposed else exported)
    assert program.mutated_inputs == [(0, 1)]
    x = random(3, seed=2)
    more, new_x = program.run_reference((x.clone(),))
    torch.testing.assert_close(more, x + 1)
    torch.testing.assert_close(new_x, x.tanh())


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(3))
        self.register_buffer("unused", torch.zeros(2))
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        before = self.steps.clone()
        self.steps += x
        self.steps[0] = 9
        return before * self.scale, self.steps


@pytest.mark.parametrize("form", ["training", "decomposed", "module"])
def test_mutated_buffers_are_states(form):
    exported = torch.export.export(Counter(), (random(3),))
    if form == "decomposed":
        exported = exported.run_decompositions({})
    model = exported.module(check_guards=False) if form == "module" else exported
    program = capture(model, (random(3),))
    assert [s.name for s in program.states] == ["steps"]
    assert program.state_pairs == [(2, 1)]
    assert program.output_names[2] == "steps_out"
    eager, state = Counter(), program.initial_state()
    for seed in range(3):
        x = random(3, seed=seed)
        with torch.no_grad():
            before, after = (t.clone() for t in eager(x))
        got = program.graph_module(x, *state)
        torch.testing.assert_close(got[0], before)
        torch.testing.assert_close(got[1], after)
        state = [got[result] for result, _ in program.state_pairs]
    torch.testing.assert_close(program.initial_state()[0], torch.zeros(3))


def test_regions_are_inlined():
    class Regions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            with torch.no_grad():
                y = self.layer(x).relu_()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                z = self.layer(y)
            return z, y.float()

    program = captured(Regions(), random(2, 4))
    targets = [n.target for n in program.graph_module.graph.nodes if n.op == "call_function"]
    assert not any(isinstance(t, torch._ops.HigherOrderOperator) for t in targets)
    assert targets.count(torch.ops.aten.linear.default) == 2
    z, y = program.run_reference((random(2, 4),))
    assert z.dtype is torch.bfloat16 and y.dtype is torch.float32
    model = Regions()
    model.load_state_dict(
        {k: v for k, v in program.graph_module.state_dict().items() if k.startswith("layer")}
    )
    want_z, want_y = model(random(2, 4))
    torch.testing.assert_close(z, want_z)
    torch.testing.assert_close(y, want_y)


def test_weights_are_shared():
    layer = nn.Linear(4, 4)
    program = captured(layer, random(2, 4))
    assert program.graph_module.weight.data_ptr() == layer.weight.data_ptr()


def test_what_does_nothing_is_gone():
    def nothing(x):
        torch._check(x.shape[0] > 1)
        x = nn.functional.dropout(x, 0.5, training=False).detach().contiguous().clone()
        return x.to(torch.float32) + 1

    program = captured(nothing, random(2, 4))
    calls = [n for n in program.graph_module.graph.nodes if n.op == "call_function"]
    assert [str(n.target) for n in calls if "to" not in n.name] == ["aten.add.Tensor"]


def test_a_write_without_a_functional_form_is_refused():
    def spread(x):
        z = x + 1
        z.unfold(0, 2, 2).mul_(2)
        return z

    with pytest.raises(Unsupported, match=r"mul_.*py:.*no functional form"):
        captured(spread, random(4))
