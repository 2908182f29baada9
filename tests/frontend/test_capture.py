"""Every form of a model is captured alike; bad input gives one clear message."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from npuc.errors import BadInput, Unsupported
from npuc.frontend.capture import capture
from npuc.frontend.program import Program
from tests.frontend.models import Function, Net, captured, random

X = random(2, 3, 8, 8)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return Net().eval()


@pytest.mark.parametrize("form", ["module", "training", "strict", "decomposed", "graph", "pt2"])
def test_every_form_of_a_model(net, form, tmp_path):
    model = net
    if form != "module":
        model = torch.export.export(net, (X,), strict=form == "strict")
    if form == "decomposed":
        model = model.run_decompositions()
    if form == "graph":
        model = model.module(check_guards=False)
    if form == "pt2":
        torch.export.save(model, tmp_path / "net.pt2")
        model = tmp_path / "net.pt2"
    program = capture(model, (X,))
    assert [i.name for i in program.inputs] == ["x"]
    (got,) = program.run_reference((X,))
    torch.testing.assert_close(program.unflatten_outputs([got]), net(X))
    assert form != "pt2" or program.name == "net"
    for parameter in program.graph_module.buffers():
        shared = {p.data_ptr() for p in [*net.parameters(), *net.buffers()]}
        assert form == "pt2" or parameter.data_ptr() in shared


@pytest.mark.slow
def test_edge_programs(net):
    exir = pytest.importorskip("executorch.exir")
    edge = exir.to_edge(torch.export.export(net, (X,))).exported_program()
    program = capture(edge, (X,))
    torch.testing.assert_close(program.run_reference((X,))[0], net(X), atol=1e-5, rtol=1e-5)
    for node in program.graph_module.graph.nodes:
        assert type(node.target).__name__ != "EdgeOpOverload"


def test_outputs_keep_their_structure():
    def forward(x, y):
        z = x + y
        return {"sum": z, "same": z, "parts": [x, None, 3, (z * 2,)], "pair": (z, True)}, 1.5

    program = captured(forward, random(3), random(3, seed=1))
    got = program.unflatten_outputs(program.run_reference((random(3), random(3, seed=1))))
    want = forward(random(3), random(3, seed=1))
    assert torch.utils._pytree.tree_structure(got) == torch.utils._pytree.tree_structure(want)
    for a, b in zip(
        torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want), strict=True
    ):
        assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
    assert len(program.results) == 5, "a value in two slots is there twice, numbers are not there"
    assert program.output_names[:2] == ["0_sum", "0_same"]
    assert len(set(program.output_names)) == 5


def test_output_names_are_those_of_the_values():
    def forward(x):
        z = torch.tanh(x)
        return z, z, x

    program = captured(forward, random(3))
    assert program.output_names == ["tanh", "tanh_1", "args_0"]


@pytest.mark.parametrize(
    "inputs",
    [
        ((random(3),), {"scale": random(1), "shift": random(3, seed=2)}),
        {"x": random(3), "scale": random(1), "shift": random(3, seed=2)},
    ],
    ids=["pair", "keywords"],
)
def test_keyword_inputs(inputs):
    class Scaled(nn.Module):
        def forward(self, x, *, scale, shift):
            return x * scale + shift

    program = capture(Scaled(), inputs)
    want = random(3) * random(1) + random(3, seed=2)
    torch.testing.assert_close(program.run_reference(program.example_inputs)[0], want)
    if isinstance(inputs, tuple):
        other_order = ((random(3),), dict(reversed(inputs[1].items())))
        torch.testing.assert_close(program.run_reference(other_order)[0], want)
        with pytest.raises(BadInput, match="takes scale, shift"):
            program.flatten_inputs(((random(3),), {"scale": random(1)}))


def test_nested_inputs_and_numbers():
    def forward(pair, count, flag):
        x = pair["a"] * count
        return x + pair["b"] if flag else x

    inputs = ({"a": random(3), "b": random(3, seed=1)}, 4, True)
    program = captured(forward, *inputs)
    assert [i.is_tensor for i in program.inputs] == [True, True, False, False]
    torch.testing.assert_close(program.run_reference(inputs)[0], forward(*inputs))
    with pytest.raises(BadInput, match="exported for 4"):
        program.flatten_inputs((inputs[0], 5, True))


def test_arrays_are_inputs_too():
    program = capture(nn.ReLU(), (np.ones((2, 3), np.float32),))
    assert program.flatten_inputs((np.zeros((2, 3), np.float32),))[0].shape == (2, 3)


def test_a_program_without_examples_makes_its_own():
    exported = torch.export.export(nn.Embedding(5, 3), (torch.tensor([1, 2]),))
    exported._example_inputs = None
    program = capture(exported)
    assert torch.equal(program.example_inputs[0], torch.zeros(2, dtype=torch.int64))
    assert capture(exported, (torch.tensor([4, 4]),)).example_inputs[0].tolist() == [4, 4]


def test_like_keeps_the_structure(net):
    program = capture(net, (X,))
    other = capture(program.graph_module, (X,), like=program)
    assert isinstance(other, Program)
    assert (other.in_spec, other.out_spec) == (program.in_spec, program.out_spec)
    torch.testing.assert_close(other.run_reference((X,)), program.run_reference((X,)))


def test_dynamic_dims_have_bounds():
    shapes = ({0: torch.export.Dim("n", min=2, max=9)},)
    program = capture(nn.Linear(3, 2), (random(4, 3),), dynamic_shapes=shapes)
    (size,) = program.symbols.values()
    assert (str(size), size.lo, size.hi) == ("n", 2, 9)
    assert program.flatten_inputs((random(7, 3),))[0].shape == (7, 3)


# bad input -----------------------------------------------------------------------------------


def test_missing_and_corrupt_files(tmp_path):
    with pytest.raises(BadInput, match=r"nowhere.pt2 does not exist"):
        capture(tmp_path / "nowhere.pt2")
    (tmp_path / "noise.pt2").write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(BadInput, match=r"not a readable .pt2"):
        capture(str(tmp_path / "noise.pt2"))
    with pytest.raises(BadInput, match="is a directory"):
        capture(Path(tmp_path))


def test_a_truncated_file(net, tmp_path):
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(net, (X,)), path)
    path.write_bytes(path.read_bytes()[:-2000])
    with pytest.raises(BadInput, match=r"not a readable .pt2"):
        capture(path)


def test_a_module_needs_inputs(net):
    with pytest.raises(BadInput, match="no example inputs for Net"):
        capture(net)


def test_another_object():
    with pytest.raises(BadInput, match="a model of type dict"):
        capture({"a": 1})
    with pytest.raises(BadInput, match="example_inputs is a str"):
        capture(nn.ReLU(), "x")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((X, X), "2 input tensors given: .* takes 1: x"),
        ((), "0 input tensors given"),
        ((X[:1],), r"input x has shape \(1, 3, 8, 8\): .* \(2, 3, 8, 8\)"),
        ((X.double(),), "example input x is float64: the program takes float32"),
        ((X.to(torch.int32),), "is int32"),
        (("text",), "input x is a str"),
    ],
)
def test_inputs_that_do_not_fit_the_program(net, inputs, message):
    exported = torch.export.export(net, (X,))
    with pytest.raises(BadInput, match=message):
        capture(exported, inputs)


def test_forward_that_raises_names_the_users_line():
    class Broken(nn.Module):
        def forward(self, x):
            raise KeyError("no such table")  # the line

    line = Broken.forward.__code__.co_firstlineno + 1
    with pytest.raises(BadInput) as caught:
        capture(Broken(), (random(3),))
    text = str(caught.value)
    assert f"test_capture.py:{line}" in text
    assert "KeyError" in text and "no such table" in text


def test_inputs_of_a_wrong_shape_for_a_module(net):
    with pytest.raises(BadInput, match=r"forward of Net at .*models.py:\d+: RuntimeError"):
        capture(net, (random(2, 5, 8, 8),))


def test_control_flow_on_values_says_what_to_use():
    def forward(x):
        return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(BadInput) as caught:
        captured(forward, random(3))
    text = str(caught.value)
    assert "cannot capture Function" in text and "torch.cond" in text
    assert "test_capture.py" in text


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
def test_inputs_that_no_target_stores(dtype):
    with pytest.raises(Unsupported, match="which no target stores"):
        captured(lambda x: x.abs(), random(3).to(dtype))


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)),
        nn.BatchNorm1d(3),
        nn.LSTM(3, 3, num_layers=2, dropout=0.5),
        Function(lambda x: nn.functional.dropout(x, 0.2)),
    ],
    ids=["dropout", "batch_norm", "lstm", "functional"],
)
def test_training_mode_is_refused(model):
    with pytest.raises(BadInput, match=r"training mode; call model.eval\(\)"):
        capture(model.train(), (random(4, 3),))


def test_training_mode_without_effect_is_accepted():
    program = capture(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Dropout(0.0)), (random(4, 3),))
    assert len(program.results) == 1


def test_the_message_names_the_module_path():
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Dropout(0.5)))
    with pytest.raises(BadInput, match=r"aten.dropout at .*\(1\.0\)"):
        capture(model, (random(4, 3),))


def test_transformers_with_a_mask():
    """PyTorch would look at the mask's values, and run the layers as one kernel of its own."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    mask = torch.nn.Transformer.generate_square_subsequent_mask(4)
    x = random(1, 4, 8)
    program = captured(lambda x: encoder.requires_grad_(False)(x, mask=mask), x)
    torch.testing.assert_close(program.run_reference((x,))[0], encoder(x, mask=mask))
    kinds = {str(node.target) for node in program.graph_module.graph.nodes}
    assert not [kind for kind in kinds if "transformer" in kind]
    assert torch.backends.mha.get_fastpath_enabled(), "the user's PyTorch stays as it is"
