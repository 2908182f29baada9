"""Biases take up the rounding of weights, and always fit into 32 bits."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx import Graph, GraphModule

from npuc.quantizer.adjust_layers import Layer, Means
from npuc.quantizer.recipe import Recipe
from tests.quantizer.families import Call, converted, float_outputs, sqnr

torch.set_num_threads(1)

LAYERS = {
    "conv": (nn.Conv2d(8, 6, 3), torch.rand(2, 8, 9, 9)),
    "grouped": (nn.Conv2d(8, 6, 3, groups=2), torch.rand(2, 8, 9, 9)),
    "depthwise": (nn.Conv1d(8, 8, 3, groups=8), torch.rand(2, 8, 30)),
    "linear": (nn.Linear(8, 6), torch.rand(64, 8)),
    "linear without bias": (nn.Linear(8, 6, bias=False), torch.rand(64, 8)),
    "transposed": (nn.ConvTranspose2d(8, 6, 2, 2), torch.rand(2, 8, 9, 9)),
    "grouped transposed": (nn.ConvTranspose2d(8, 6, 2, 2, groups=2), torch.rand(2, 8, 9, 9)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_mean_error_of_rounded_weights_goes_into_the_bias(name):
    """With four-bit weights and operands of mean 1/2, rounding shifts every channel."""
    layer, x = LAYERS[name]
    (want,) = float_outputs(layer, (x,))
    axis = [d for d in range(want.dim()) if d != (1 if want.dim() > 2 else want.dim() - 1)]

    def shift(correct: bool) -> float:
        recipe = Recipe(weights="int4", activations="int16", correct_bias=correct)
        with torch.no_grad():
            (got,) = converted(layer, (x,), recipe)(x)
        return float((got - want).mean(axis).abs().max())

    assert shift(True) < 0.2 * shift(False)


def test_the_model_keeps_its_bias():
    layer, x = LAYERS["conv"]
    before = layer.bias.detach().clone()
    converted(layer, (x,))
    assert torch.equal(layer.bias, before)


@pytest.mark.parametrize("recipe", ["int8", "a16w8"])
def test_a_channel_of_tiny_weights_with_a_bias_keeps_the_bias(recipe):
    layer = nn.Conv2d(2, 2, 1)
    with torch.no_grad():
        layer.weight[0] = 1e-9
        layer.bias.copy_(torch.tensor([3.0, -1.0]))
    x = torch.rand(1, 2, 4, 4)
    graph = converted(layer, (x,), recipe)
    with torch.no_grad():
        assert sqnr(float_outputs(layer, (x,))[0], graph(x)[0]) > 40


def test_grouped_transposed_layers_have_a_bias_scale_per_channel():
    layer, x = LAYERS["grouped transposed"]
    graph = converted(Call(lambda m, x: m(x), layer), (x,))
    with torch.no_grad():
        assert sqnr(float_outputs(layer, (x,))[0], graph(x)[0]) > 35


def test_a_mean_that_few_samples_have_by_chance_is_no_mean():
    node = Graph().create_node("call_function", torch.relu, name="layer")
    layer = Layer(node, node, node, node, transposed=False, groups=1, stride=1)
    means = Means(GraphModule(nn.Module(), Graph()), [])
    means.of_samples["layer"] = [torch.tensor(m).double() for m in ((1.25, 1.0), (0.75, -0.75))]
    # means 1 and 1/8; the variances of the means are 0.125 / 2 and 1.53 / 2
    torch.testing.assert_close(
        means.mean(layer), torch.tensor([1 - 0.0625, 0.0], dtype=torch.float64)
    )
    means.of_samples["layer"].pop()
    torch.testing.assert_close(means.mean(layer), torch.tensor([1.25, 1.0]).double())
