"""Annotation follows dataflow and meaning, not the way a model is written."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule

from npuc.frontend.capture import capture
from npuc.frontend.splice import kind_of
from npuc.quantizer.calibrate import prepare, quantize
from npuc.quantizer.left_float import left_float
from npuc.quantizer.recipe import Recipe
from tests.quantizer.families import IMAGE, SEQUENCE, VECTOR, Call, conv, converted

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore:The tensor attributes")


def parameters(graph: GraphModule) -> list[tuple]:
    """(scale, zero point, type) of every quantize, in the order of the graph."""
    return [
        (n.args[1], n.args[2], n.args[5])
        for n in graph.graph.nodes
        if kind_of(n.target) == "quantized_decomposed.quantize_per_tensor"
    ]


def of(graph: GraphModule, name: str) -> tuple:
    """Parameters of the value that the node `name` makes."""
    node = next(n for n in graph.graph.nodes if n.name == name)
    quantize = next(u for u in node.users if "quantize_per_tensor" in str(u.target))
    return quantize.args[1], quantize.args[2], quantize.args[5]


def operands(graph: GraphModule, kind: str) -> list[list[tuple]]:
    """(scale, zero point, type) of the operands of every op of a kind."""
    return [
        [
            (d.args[1], d.args[2], d.args[5])
            for d in n.all_input_nodes
            if "dequantize_per_tensor" in str(d.target)
        ]
        for n in graph.graph.nodes
        if kind_of(n.target) == kind
    ]


def calls(graph: GraphModule) -> list[str]:
    kinds = [kind_of(n.target) for n in graph.graph.nodes if n.op == "call_function"]
    return [k for k in kinds if not k.startswith("quantized_decomposed")]


class Block(nn.Module):
    def __init__(self, in_place: bool):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.in_place = conv(), in_place

    def forward(self, x):
        y = self.conv(x)
        if self.in_place:
            y.relu_()
            y += x
            return F.hardtanh(y, 0.0, 6.0, inplace=True)
        return F.hardtanh(F.relu(y) + x, 0.0, 6.0)


def test_in_place_equals_functional():
    assert parameters(converted(Block(True), (IMAGE,))) == parameters(
        converted(Block(False), (IMAGE,))
    )


@pytest.mark.parametrize(
    "model", [Block(False), nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8), nn.ReLU())]
)
def test_strict_equals_non_strict(model):
    graphs = []
    for strict in (True, False):
        program = torch.export.export(model.eval(), (IMAGE,), strict=strict)
        graphs.append(quantize(program, None, "int8", [(IMAGE,)], False))
    assert parameters(graphs[0]) == parameters(graphs[1])
    assert len(parameters(graphs[0])) == len(parameters(graphs[1])) > 1


def test_module_equals_function():
    layer = conv()
    module = nn.Sequential(layer, nn.ReLU6())
    function = Call(lambda c, x: F.relu6(c(x)), layer)
    assert parameters(converted(module, (IMAGE,))) == parameters(converted(function, (IMAGE,)))


def test_no_grad_changes_nothing():
    layer = nn.Linear(16, 4)

    def region(m, x):
        with torch.no_grad():
            return m(x)

    inside = converted(Call(region, layer), (VECTOR,))
    assert parameters(inside) == parameters(converted(Call(lambda m, x: m(x), layer), (VECTOR,)))
    assert left_float(inside) == []


def test_the_value_between_a_layer_and_its_clamp_has_no_parameters():
    graph = converted(Call(lambda c, x: F.relu(c(x).flatten(2)), conv()), (IMAGE,))
    assert len(parameters(graph)) == 2
    assert of(graph, "relu")[1] == -128  # no code is spent on negative values


def test_a_clamp_behind_a_shared_value_shares_its_parameters():
    graph = converted(Call(lambda c, x: (lambda y: (y, F.relu(y)))(c(x)), conv()), (IMAGE,))
    assert of(graph, "conv2d") == of(graph, "relu")


def test_movement_shares_parameters_through_chains():
    def model(c, x):
        y = c(x).flatten(2).transpose(1, 2)
        return torch.cat([y, y.flip(1)], 1)[:, ::2].unsqueeze(0)

    graph = converted(Call(model, conv()), (IMAGE,))
    assert len(set(parameters(graph))) == 2  # the input, and everything else


def test_cat_of_different_ranges_has_one_scale():
    graph = converted(Call(lambda c, x: torch.cat([c(x), 10 * x.abs()], 1), conv()), (IMAGE,))
    ((a, b),) = operands(graph, "aten.cat")
    assert a == b == of(graph, "cat")


def test_comparisons_share_parameters():
    graph = converted(Call(lambda c, x: torch.where(c(x) > x, x, 2 * x), conv()), (IMAGE,))
    ((a, b),) = operands(graph, "aten.gt.Tensor")
    assert a == b


def test_functions_have_their_own_range():
    graph = converted(Call(lambda x: (x.sigmoid(), x.tanh(), torch.softmax(x, 1))), (4 * IMAGE,))
    assert of(graph, "sigmoid") == (1 / 256, -128, torch.int8)
    assert of(graph, "tanh") == (1 / 128, 0, torch.int8)
    assert of(graph, "softmax") == (1 / 256, -128, torch.int8)


@pytest.mark.parametrize(("fixed", "count"), [(False, 3), (True, 3), (False, 300), (True, 300)])
def test_small_probabilities_get_small_steps(fixed, count):
    """Fixed ranges are kept as long as a quarter of them is used."""
    model, args = Call(lambda x: torch.softmax(x, -1)), (torch.randn(4, count) / 100,)
    step = of(converted(model, args, Recipe(fixed_ranges=fixed)), "softmax")[0]
    assert step == 2.0**-8 if fixed and count == 3 else step < 1.6 * 2.0**-8 / count


def test_a_positive_factor_only_changes_the_scale():
    graph = converted(Call(lambda c, x: c(x) / 3 * 0.7, conv()), (IMAGE,))
    scale, zero_point, _ = of(graph, "conv2d")
    assert of(graph, "div")[0] == pytest.approx(scale / 3)
    assert of(graph, "mul")[:2] == (pytest.approx(scale / 3 * 0.7), zero_point)


def test_a_negative_factor_has_a_range_of_its_own():
    graph = converted(Call(lambda c, x: F.relu(c(x)).add(1) * -2.0, conv()), (IMAGE,))
    assert of(graph, "mul")[1] == 127


def test_averages_take_the_operands_scale_unless_that_wastes_their_range():
    def scales(x):
        graph = converted(Call(lambda x: F.adaptive_avg_pool2d(x, 1)), (x,))
        return parameters(graph)[0][0], of(graph, "adaptive_avg_pool2d")[0]

    whole, average = scales(IMAGE.abs() + 3)
    assert whole == average
    whole, average = scales(IMAGE)
    assert average < whole / 3


def test_integers_and_booleans_are_not_quantized():
    def model(e, i, m, x):
        return torch.where(m, e(i + 1), x), x.argmax(1), i * 2

    args = (torch.randint(0, 5, (4,)), torch.rand(4, 16) > 0.5, VECTOR)
    graph = converted(Call(model, nn.Embedding(8, 16)), args)
    for node in graph.graph.nodes:
        if kind_of(node.target) == "quantized_decomposed.quantize_per_tensor":
            assert node.args[0].meta["val"].is_floating_point()
    assert left_float(graph) == []


def test_weights_are_int8_per_channel_and_biases_int32():
    layer = conv()
    graph = converted(layer, (IMAGE,))
    node = next(n for n in graph.graph.nodes if kind_of(n.target) == "aten.conv2d")
    x, weight, bias = node.args[:3]
    codes = getattr(graph, weight.args[0].target)
    assert codes.dtype == torch.int8 and int(codes.abs().max()) == 127
    assert weight.args[3] == 0 and getattr(graph, weight.args[1].target).shape == (8,)
    product = x.args[1] * getattr(graph, weight.args[1].target)
    assert torch.allclose(getattr(graph, bias.args[1].target), product)
    assert getattr(graph, bias.args[0].target).dtype == torch.int32


def test_a_weight_of_two_layers_is_quantized_once():
    graph = converted(Call(lambda c, x: c(x) + c(2 * x), conv()), (IMAGE,))
    assert sum(b.dtype == torch.int8 for _, b in graph.named_buffers()) == 1


def test_recurrent_steps_share_scales_and_states_can_be_fed_back():
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.cell = nn.LSTMCell(16, 12)

        def forward(self, x, h, c):
            h, c = self.cell(x, (h, c))
            return h, c

    args = (VECTOR, torch.zeros(4, 12), torch.zeros(4, 12))
    graph = converted(Cell(), args)
    results = graph.graph.output_node().args[0]
    for place, result in ((1, results[0]), (2, results[1])):
        read = [n for n in graph.graph.nodes if n.op == "placeholder"][place]
        assert of(graph, read.name)[:2] == result.args[1:3]
    steps = converted(Call(lambda m, x: m(x)[0], nn.GRU(16, 12)), (SEQUENCE,))
    tanh = [n.name for n in steps.graph.nodes if kind_of(n.target) == "aten.tanh"]
    assert len({of(steps, name) for name in tanh}) == 1


def test_states_of_the_model_come_in_and_go_out_with_one_scale():
    class Average(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4, 16))

        def forward(self, x):
            self.mean.copy_(self.mean * 0.9 + x * 0.1)
            return self.mean * 2

    program = capture(Average(), (VECTOR,))
    graph = quantize(program, (VECTOR,), "int8", [(VECTOR,)], False)
    (state,) = program.states
    places = [n for n in graph.graph.nodes if n.op == "placeholder"]
    result = graph.graph.output_node().args[0][state.result]
    assert of(graph, places[state.place].name)[:2] == result.args[1:3]


def test_a_residual_stream_in_front_of_norms_keeps_16_bits():
    def model(embed, norm, layer, x):
        stream = embed(x)
        return norm(stream + layer(norm(stream)))

    block = Call(model, nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 16))
    graph = converted(block, (SEQUENCE,))
    wide, narrow = ("linear", "linear_1", "add"), ("layer_norm", "layer_norm_1")
    assert {of(graph, name)[2] for name in wide} == {torch.int16}
    assert {of(graph, name)[2] for name in narrow} == {torch.int8}
    graph = converted(block, (SEQUENCE,), Recipe(wide_sums=False))
    assert {p[2] for p in parameters(graph)} == {torch.int8}


def test_summands_of_a_wide_sum_have_one_type():
    block = Call(lambda m, n, x: n(m(x) + x), nn.Linear(16, 16), nn.LayerNorm(16))
    graph = converted(block, (SEQUENCE,))
    assert [of(graph, n)[2] for n in ("linear", "add")] == [torch.int8, torch.int16]


@pytest.mark.parametrize("tables16", [True, False])
def test_a_class_token_joins_the_stream_with_16_bits(tables16):
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norm = nn.Linear(16, 16), nn.LayerNorm(16)
            self.token, self.place = nn.Parameter(torch.randn(1, 1, 16)), torch.ones(1, 7, 16)

        def forward(self, x):
            tokens = torch.cat([self.token.expand(2, -1, -1), self.embed(x)], 1)
            return self.norm(tokens + self.place)

    graph = converted(Tokens(), (SEQUENCE,), tables16=tables16)
    assert of(graph, "cat")[2] == torch.int16


def test_the_sum_of_squares_in_front_of_a_root_keeps_16_bits():
    root = Call(lambda c, x: (c(x) ** 2 + 1e-3).sqrt(), conv())
    graph = converted(root, (IMAGE,))
    assert of(graph, "conv2d")[2] == torch.int16 and of(graph, "sqrt")[2] == torch.int8
    graph = converted(root, (IMAGE,), tables16=False)
    assert of(graph, "conv2d")[2] == torch.int16 and of(graph, "sqrt")[2] == torch.int8


def test_what_needs_tables_of_16_bits_keeps_8_where_there_are_none():
    root = Call(lambda c, x: (c(x) ** 2).mean(1).clamp_min(1e-3).sqrt(), conv())
    assert torch.int16 in {p[2] for p in parameters(converted(root, (IMAGE,)))}
    graph = converted(root, (IMAGE,), tables16=False)
    assert {p[2] for p in parameters(graph)} == {torch.int8}


def test_operands_of_saturating_functions_cover_only_what_these_tell_apart():
    x = (torch.linspace(-20, 3, 64).reshape(1, 64),)

    def scale(call, *types):
        graph = converted(Call(lambda x: call(x * 1.0 + x)), x, Recipe(ranges="minmax"))
        return of(graph, "add")[0] * 255

    assert scale(torch.sigmoid) == pytest.approx(7 + 6)
    assert scale(lambda y: torch.sigmoid(y.reshape(8, 8)).mean(1)) == pytest.approx(7 + 6)
    assert scale(lambda y: torch.sigmoid(y[:, :9]) + torch.tanh(y[:, :9])) == pytest.approx(7 + 6)
    assert scale(F.silu) == pytest.approx(9 + 6)
    assert scale(lambda y: (torch.sigmoid(y), y)) == pytest.approx(40 + 6)  # y itself is a result
    assert scale(lambda y: torch.sigmoid(y) + torch.sin(y)) == pytest.approx(40 + 6)


@pytest.mark.parametrize(
    ("recipe", "left"),
    [
        (Recipe(module_names={"parts.0": None}), ["linear"]),
        (Recipe(module_types={"Linear": None}), ["linear", "linear_1"]),
        (Recipe(module_types={"torch.nn.modules.linear.Linear": None}), ["linear", "linear_1"]),
        (Recipe(ops={"aten.softmax": None}), ["softmax"]),
        (Recipe(ops={"aten.softmax.int": None}), ["softmax"]),
        (Recipe(node_names={"linear_1": None}), ["linear_1"]),
        (Recipe(module_types={"Linear": None}, module_names={"parts.0": "int8"}), ["linear_1"]),
    ],
)
def test_overrides_leave_parts_float(recipe, left, recwarn):
    model = Call(
        lambda a, b, x: torch.softmax(b(F.gelu(a(x))), -1), nn.Linear(16, 16), nn.Linear(16, 4)
    )
    graph = converted(model, (VECTOR,), recipe)
    assert [n.name for n in left_float(graph)] == left
    assert not [w for w in recwarn if "not quantized" in str(w.message)]


def test_an_override_with_16_bits_changes_the_type_at_its_edge():
    model = Call(lambda a, b, x: b(a(x)), nn.Linear(16, 16), nn.Linear(16, 4))
    graph = converted(model, (VECTOR,), Recipe(module_names={"parts.1": "a16w8"}))
    assert [p[2] for p in parameters(graph)] == [torch.int8, torch.int8, torch.int16, torch.int16]


def test_io_type():
    graph = converted(nn.Linear(16, 4), (VECTOR,), Recipe(io="uint8"))
    (place,) = (n for n in graph.graph.nodes if n.op == "placeholder")
    assert of(graph, place.name)[2] == torch.uint8
    assert left_float(graph) == []


def test_ops_of_a_user_are_told(recwarn):
    model = Call(lambda x: torch.fft.rfft(x).abs() + x[:, :9])
    converted(model, (VECTOR,))
    (told,) = [w for w in recwarn if "not quantized" in str(w.message)]
    assert "aten.fft_rfft at" in str(told.message) and "families.py:" in str(told.message)


def test_no_shared_spec_refers_to_another_shared_spec():
    from torchao.quantization.pt2e.quantizer import SharedQuantizationSpec
    from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

    def model(c, x):
        y = c(x)
        y = torch.cat([y, y, x], 1)
        return torch.cat([F.max_pool2d(y, 2), y[:, :, ::2, ::2].transpose(2, 3)], 1)

    prepared = prepare(capture(Call(model, conv()), (IMAGE,)), Recipe())
    specs: dict = {}
    for node in prepared.graph.graph.nodes:
        annotation = node.meta.get(Q_ANNOTATION_KEY)
        if annotation is not None:
            specs[node] = annotation.output_qspec
            specs.update({(a, node): s for a, s in annotation.input_qspec_map.items()})
    shared = [s for s in specs.values() if isinstance(s, SharedQuantizationSpec)]
    assert shared
    assert not any(isinstance(specs[s.edge_or_node], SharedQuantizationSpec) for s in shared)
