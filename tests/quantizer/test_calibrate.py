"""The flow from model to converted graph: inputs, calibration, messages, what stays untouched."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from npuc.errors import BadInput
from npuc.frontend.capture import capture
from npuc.frontend.splice import kind_of
from npuc.quantizer.calibrate import convert, prepare, quantize, run_calibration
from npuc.quantizer.left_float import left_float
from npuc.quantizer.recipe import Recipe
from tests.quantizer.families import IMAGE, VECTOR, Call, conv, converted, float_outputs, sqnr

torch.set_num_threads(1)


def test_a_module_an_export_and_a_program_give_the_same():
    layer = conv().eval()
    graphs = [
        quantize(model, (IMAGE,), "int8", [(IMAGE,)], False)
        for model in (layer, torch.export.export(layer, (IMAGE,)), capture(layer, (IMAGE,)))
    ]
    values = [graph(IMAGE)[0] for graph in graphs]
    assert torch.equal(values[0], values[1]) and torch.equal(values[0], values[2])


def test_without_calibration_the_example_inputs_are_used_with_a_warning():
    with pytest.warns(UserWarning, match="calibrated on the example inputs only"):
        quantize(nn.Linear(16, 4), (VECTOR,), "int8", progress=False)


def test_empty_calibration_is_refused():
    with pytest.raises(BadInput, match="calibration data is empty; give at least one input tuple"):
        quantize(nn.Linear(16, 4), (VECTOR,), "int8", [], False)


def test_a_calibration_input_of_the_wrong_shape_is_refused():
    with pytest.raises(BadInput):
        quantize(nn.Linear(16, 4), (VECTOR,), "int8", [(torch.randn(4, 7),)], False)


def test_a_recipe_for_training_is_refused():
    with pytest.raises(BadInput, match="quantization-aware training"):
        quantize(nn.Linear(16, 4), (VECTOR,), Recipe(is_qat=True), [(VECTOR,)], False)


def test_tensors_and_tuples_are_both_batches():
    for batches in ([VECTOR], [(VECTOR,)], ((VECTOR,) for _ in range(2))):
        assert left_float(quantize(nn.Linear(16, 4), (VECTOR,), "int8", batches, False)) == []


def test_the_program_is_not_changed():
    program = capture(conv().eval(), (IMAGE,))
    before = str(program.graph_module.graph)
    quantize(program, (IMAGE,), "int8", [(IMAGE,)], False)
    assert str(program.graph_module.graph) == before
    assert not any("quantization_annotation" in n.meta for n in program.graph_module.graph.nodes)


def test_weights_of_the_model_are_shared_until_they_are_rounded():
    layer = conv().eval()
    prepared = prepare(capture(layer, (IMAGE,)), Recipe())
    pointers = [p.data_ptr() for _, p in prepared.graph.named_parameters()]
    assert layer.weight.data_ptr() in pointers


def test_more_calibration_widens_ranges():
    program = capture(Call(lambda x: x * x), (VECTOR,))
    prepared = prepare(program, Recipe())
    run_calibration(prepared, [(VECTOR,)], False)
    run_calibration(prepared, [(10 * VECTOR,)], False)
    graph = convert(prepared)
    with torch.no_grad():
        assert sqnr((10 * VECTOR) ** 2, graph(10 * VECTOR)[0]) > 30


def test_a_bar_is_drawn_when_asked_for(capsys):
    quantize(nn.Linear(16, 4), (VECTOR,), "int8", [(VECTOR,)] * 2, True)
    out, err = capsys.readouterr()
    assert out == "" and "calibrating" in err
    quantize(nn.Linear(16, 4), (VECTOR,), "int8", [(VECTOR,)], None)
    assert "calibrating" not in capsys.readouterr().err


def test_ops_without_a_rule_are_expanded_before_they_get_ranges():
    model = Call(lambda c, x: F.mish(c(x)), conv())
    whole = converted(model, (IMAGE,))
    parts = converted(model, (IMAGE,), known=lambda kind: kind != "aten.mish")
    count = [sum(kind_of(n.target) == "aten.mish" for n in g.graph.nodes) for g in (whole, parts)]
    assert count == [1, 0]
    assert left_float(parts) == []
    with torch.no_grad():
        assert sqnr(float_outputs(model, (IMAGE,))[0], parts(IMAGE)[0]) > 30


def test_a_conv_with_a_second_reader_keeps_its_values():
    """torchao's prepare_pt2e, given the graph as it is, is off by 1.15 here."""

    class TwoReaders(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(8, 4, 3), nn.BatchNorm2d(4)
            self.bn.running_mean.uniform_(-1, 1)
            self.bn.running_var.uniform_(4, 9)

        def forward(self, x):
            y = self.conv(x)
            return torch.relu(self.bn(y)), torch.relu(y)

    model = TwoReaders().eval()
    with torch.no_grad():
        got = converted(model, (IMAGE,))(IMAGE)
    for want, value in zip(float_outputs(model, (IMAGE,)), got, strict=True):
        assert sqnr(want, value) > 30


def test_a_value_returned_twice_and_constants_returned():
    model = Call(lambda c, x: (lambda y: (y, y, torch.ones(2)))(c(x)), conv())
    first, second, constant = converted(model, (IMAGE,))(IMAGE)
    assert torch.equal(first, second) and torch.equal(constant, torch.ones(2))


def test_a_symbolic_batch():
    batch = torch.export.Dim("batch", min=1, max=64)
    layer = nn.Sequential(nn.Conv2d(8, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    program = torch.export.export(layer, (IMAGE,), dynamic_shapes=({0: batch},))
    graph = quantize(program, None, "int8", [(IMAGE,)], False)
    assert left_float(graph) == []
    with torch.no_grad():
        assert sqnr(layer(IMAGE[:1]), graph(IMAGE[:1])[0]) > 30


def test_nothing_is_said_when_all_is_quantized():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        converted(conv(), (IMAGE,))


def test_conversion_takes_linear_time():
    """Four times the blocks must not take ten times as long (torchao's bn folding is quadratic)."""
    import time

    def seconds(blocks: int) -> float:
        layers = [
            m for _ in range(blocks) for m in (nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.ReLU6())
        ]
        program = capture(nn.Sequential(*layers).eval(), (torch.randn(1, 4, 4, 4),))
        start = time.process_time()
        quantize(program, None, "int8", [(torch.randn(1, 4, 4, 4),)], False)
        return time.process_time() - start

    seconds(2)
    assert seconds(48) < 10 * seconds(12)


def test_torchaos_own_steps_with_our_quantizer():
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from npuc.quantizer.annotate import NpucQuantizer

    layer = nn.Sequential(nn.Conv2d(8, 4, 3), nn.ReLU(inplace=True), nn.Flatten(2), nn.LSTM(100, 8))
    gm = torch.export.export(layer.eval(), (IMAGE,)).module(check_guards=False)
    prepared = prepare_pt2e(gm, NpucQuantizer(Recipe()))
    with torch.no_grad():
        prepared(IMAGE)
        graph = convert_pt2e(prepared)
        want, _ = layer(IMAGE)
        got, _ = graph(IMAGE)
    assert left_float(graph) == []
    assert sqnr(want, got) > 30
