"""Local expansion of single FX ops: values, kinds and metadata."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from npuc.errors import Unsupported
from npuc.frontend.decompose import expand
from npuc.frontend.splice import kind_of

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:The tensor attributes")

COMPOSITES = ("lstm", "gru", "rnn_tanh", "rnn_relu", "scaled_dot_product", "_safe_softmax")

# What a small target may have rules for.
_SIMPLE = """
add.Tensor sub.Tensor mul.Tensor div.Tensor add.Scalar mul.Scalar sub.Scalar div.Scalar
rsub.Scalar mm bmm matmul linear view reshape permute transpose.int unsqueeze squeeze.dim
squeeze.dims sum.dim_IntList mean.dim sqrt exp log pow.Tensor_Scalar pow.Scalar amax
softmax.int select.int slice.Tensor cat stack expand where.self where.ScalarOther
where.ScalarSelf where.Scalar sigmoid tanh relu index.Tensor clone eq.Scalar eq.Tensor
ne.Tensor ge.Scalar gt.Scalar lt.Scalar le.Scalar lt.Tensor gt.Tensor ge.Tensor le.Tensor
abs rsqrt reciprocal clamp clamp.Tensor clamp_min clamp_max full scalar_tensor arange
arange.start_step to.dtype _to_copy floor maximum minimum neg expm1 log1p logical_and
logical_or bitwise_not bitwise_and.Tensor var.correction sin fmod.Scalar full_like
ne.Scalar constant_pad_nd pad
"""
SIMPLE = frozenset(f"aten.{name}" for name in _SIMPLE.split())


class Call(nn.Module):
    """A function as a module; modules it needs are submodules."""

    def __init__(self, function, *modules):
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(modules)

    def forward(self, *x):
        return self.function(*self.parts, *x)


def exported(model: nn.Module, args: tuple) -> GraphModule:
    return torch.export.export(model.eval(), args).module(check_guards=False)


def check(model: nn.Module, args: tuple, known=None) -> GraphModule:
    """Expand; the graph computes what it did, and every node has its fake value."""
    known = known or (lambda kind: not any(name in kind for name in COMPOSITES))
    gm = exported(model, args)
    with torch.no_grad():
        want = tree_leaves(gm(*args))
        weights = {name: p.data_ptr() for name, p in gm.named_parameters()}
        assert expand(gm, known)
        gm.graph.lint()
        got = tree_leaves(gm(*args))
    for a, b in zip(got, want, strict=True):
        assert torch.allclose(a, b, atol=2e-6, equal_nan=True)
    assert all("val" in node.meta for node in gm.graph.nodes if node.op == "call_function")
    assert {name: p.data_ptr() for name, p in gm.named_parameters()} == weights
    return gm


def kinds(gm: GraphModule) -> list[str]:
    return [kind_of(n.target) for n in gm.graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(6, 8),
        nn.LSTM(6, 8, batch_first=True, bias=False),
        nn.LSTM(6, 8, 2, bidirectional=True),
        nn.LSTM(6, 8, 2, proj_size=5),
        nn.GRU(6, 8),
        nn.GRU(6, 8, 2, batch_first=True, bidirectional=True),
        nn.GRU(6, 8, bias=False),
        nn.RNN(6, 8),
        nn.RNN(6, 8, nonlinearity="relu", bias=False),
    ],
    ids=repr,
)
def test_recurrent_layer_is_unrolled(layer):
    gm = check(layer, (torch.randn(3, 4, 6),))
    assert not any(name in kind for kind in kinds(gm) for name in COMPOSITES)


def test_input_projection_of_all_steps_is_one_linear_and_the_first_step_has_none():
    gm = check(nn.LSTM(6, 8), (torch.randn(5, 4, 6),))
    assert kinds(gm).count("aten.linear") == 1 + 4


def test_initial_states_are_used():
    layer = nn.LSTM(6, 8, 2)
    call = Call(lambda m, x, h, c: m(x, (h, c)), layer)
    check(call, (torch.randn(3, 4, 6), torch.randn(2, 4, 8), torch.randn(2, 4, 8)))
    check(Call(lambda m, x, h: m(x, h), nn.GRU(6, 8)), (torch.randn(3, 4, 6), torch.randn(1, 4, 8)))


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_cells(cell):
    x, h = torch.randn(4, 6), torch.randn(4, 8)
    state = (h, torch.randn(4, 8)) if cell is nn.LSTMCell else h
    check(
        Call(lambda m, x, *s: m(x, s if len(s) > 1 else s[0]), cell(6, 8)), (x, *tree_leaves(state))
    )
    check(cell(6, 8), (x,))


def test_unrolling_takes_linear_time():
    """Twenty times the steps must not take two hundred times as long."""
    import time

    def seconds(steps: int) -> float:
        gm = exported(nn.GRU(4, 4), (torch.randn(steps, 1, 4),))
        start = time.process_time()
        expand(gm, lambda kind: "gru" not in kind)
        return time.process_time() - start

    seconds(2)
    assert seconds(100) < 60 * seconds(5)


def test_recurrent_dropout_in_training_is_refused():
    gm = torch.export.export(nn.LSTM(6, 8, 2, dropout=0.5).train(), (torch.randn(3, 4, 6),))
    with pytest.raises(Unsupported, match=r"dropout of 0\.5"):
        expand(gm.module(check_guards=False), lambda kind: "lstm" not in kind)


Q, K, V = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 6)
BOOL = torch.rand(2, 1, 5, 7) > 0.4
BOOL[0, 0, 1] = False
FLOAT = torch.randn(5, 7)
FLOAT[2], FLOAT[1, 3] = -torch.inf, -torch.inf


def attention(*args, **kwargs):
    return Call(lambda *x: F.scaled_dot_product_attention(*x, **kwargs)), args


@pytest.mark.parametrize(
    ("model", "args"),
    [
        attention(Q, K, V),
        attention(Q, K, V, scale=0.1),
        attention(Q, K, V, is_causal=True),
        attention(Q, K, V, BOOL),
        attention(Q, K, V, FLOAT),
        attention(Q[0], K[0], V[0], FLOAT),
        attention(torch.randn(2, 8, 5, 8), K[:, :2], V[:, :2], BOOL, enable_gqa=True),
        attention(torch.randn(2, 8, 5, 8), K[:, :2], V[:, :2], is_causal=True, enable_gqa=True),
    ],
    ids=["plain", "scale", "causal", "bool", "float", "rank 3", "gqa mask", "gqa causal"],
)
def test_attention(model, args):
    check(model, args)


def test_rows_that_are_masked_as_a_whole_are_zero():
    model, args = attention(Q, K, V, BOOL)
    gm = check(model, args)
    assert gm(*args)[0, :, 1].abs().max() == 0


class Masked(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, self.mask)


@pytest.mark.parametrize("mask", [BOOL, FLOAT, torch.full((5, 7), -1e9).tril(-1)])
def test_constant_masks_become_boolean(mask):
    gm = check(Masked(mask), (Q, K, V))
    assert "aten._safe_softmax" not in kinds(gm)
    assert "aten.masked_fill.Scalar" in kinds(gm)


def test_a_row_that_a_finite_constant_mask_hides_is_not_emptied():
    check(Masked(torch.full((5, 7), -1e9)), (Q, K, V))


def test_attention_dropout_is_refused():
    model, args = attention(Q, K, V, dropout_p=0.5)
    with pytest.raises(Unsupported, match=r"attention dropout of 0\.5 is random"):
        expand(exported(model, args), lambda kind: "scaled_dot" not in kind)


FUNCTIONS = {
    "einsum": lambda x: torch.einsum("bij,bkj->bik", x, x),
    "glu": F.glu,
    "logsumexp": lambda x: torch.logsumexp(x, 1),
    "celu": F.celu,
    "vector_norm": lambda x: torch.linalg.vector_norm(x, dim=1),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x * 2),
    "logit": lambda x: torch.logit(x.sigmoid()),
    "hardshrink": F.hardshrink,
    "roll": lambda x: torch.roll(x, 1, 1),
    "logaddexp": lambda x: torch.logaddexp(x, x + 1),
    "rms_norm": lambda x: F.rms_norm(x, (4,)),
    "instance_norm": F.instance_norm,
    "group_norm": lambda x: F.group_norm(x, 3),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "std": lambda x: x.std(1),
    "pairwise_distance": lambda x: F.pairwise_distance(x, x + 1),
    "tril": torch.tril,
    "bilinear": lambda x: F.interpolate(x[:, None], size=(5, 7), mode="bilinear"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 4, 4, 3), 2),
    "normalize": F.normalize,
    "mish": F.mish,
    "bucketize": lambda x: torch.bucketize(x, torch.tensor([0.0, 1.0])) * 1.0,
    "prelu": lambda x: F.prelu(x, torch.tensor([0.2])),
    "unfold": lambda x: F.unfold(x[:, None], (2, 2)),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x, 3),
    "huber_loss": lambda x: F.huber_loss(x, x + 1),
    "heaviside": lambda x: torch.heaviside(x, x),
    "lerp": lambda x: torch.lerp(x, x + 1, 0.3),
    "kron": lambda x: torch.kron(x, x),
    "batch_norm of a batch": lambda x: F.batch_norm(x, None, None, training=True),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pytorch_expands_the_rest(name):
    torch.manual_seed(0)
    gm = check(Call(FUNCTIONS[name]), (torch.randn(2, 6, 4),), SIMPLE.__contains__)
    left = {k for k in kinds(gm) if k not in SIMPLE and k != "getitem"}
    harmless = {"aten.detach", "aten.lift_fresh", "aten.signbit", "aten.fmod.Tensor"}
    integer = {"aten.div.Tensor_mode", "aten.tensor_split.sections"}
    assert left <= harmless | integer


def test_what_nothing_expands_stays():
    gm = exported(Call(lambda x: torch.fmod(x, 0.7)), (torch.randn(3),))
    assert expand(gm, lambda kind: False) == []
    assert kinds(gm) == ["aten.fmod.Scalar"]


def test_new_nodes_keep_the_users_source_and_module():
    gm = check(Call(lambda m, x: m(x)[0], nn.GRU(6, 8)), (torch.randn(2, 1, 6),))
    made = [n for n in gm.graph.nodes if kind_of(n.target) == "aten.sigmoid"]
    assert made
    assert all("nn_module_stack" in n.meta and "stack_trace" in n.meta for n in made)


def test_branches_of_control_flow_are_expanded():
    def branch(x):
        return torch.cond(x.sum() > 0, lambda t: F.celu(t), lambda t: F.celu(-t), (x,))

    gm = exported(Call(branch), (torch.randn(2, 4),))
    assert expand(gm, lambda kind: "celu" not in kind) == ["aten.celu", "aten.celu"]
    for value in (torch.ones(2, 4), -torch.ones(2, 4)):
        assert torch.allclose(gm(value), branch(value))


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (torch.ops.aten.conv2d.default, "aten.conv2d"),
        (torch.ops.aten.add_.Tensor, "aten.add.Tensor"),
        (torch.ops.aten.view_copy.default, "aten.view"),
        (torch.ops.aten.index_copy.default, "aten.index_copy"),
        (torch.ops.aten._to_copy.default, "aten._to_copy"),
        (torch.ops.aten.__and__.Tensor, "aten.__and__.Tensor"),
    ],
)
def test_kinds(target, kind):
    assert kind_of(target) == kind
