"""PT2E-converted networks: imported as they are, typed throughout, with the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from npuc.frontend.capture import capture
from npuc.frontend.import_model import import_model
from npuc.ir import DType, Graph, Op
from tests.frontend.evaluate_aten import evaluate, real
from tests.frontend.models import KINDS, kinds, random
from tests.frontend.simple_quantizer import SimpleQuantizer, quantized


def explicit(graph: Graph) -> list[str]:
    """Explicit quantize, dequantize and requantize ops."""
    return [k.partition(".")[2] for k in kinds(graph) if k.startswith("quantized_decomposed")]


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.depthwise = nn.Conv2d(8, 8, 3, groups=8, bias=False)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = F.relu(self.conv(x))
        y = F.max_pool2d(self.depthwise(x), 2)
        y = torch.sigmoid(y) * 0.5 + y
        return self.head(F.adaptive_avg_pool2d(y, 1).flatten(1)) + 2.0


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.query, self.key = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        h = self.norm(x)
        q = self.query(h).view(1, 8, 2, 8).transpose(1, 2)
        k = self.key(h).view(1, 8, 2, 8).transpose(1, 2)
        a = torch.softmax(q @ k.transpose(-2, -1) * 0.3, -1) @ k
        return x + F.gelu(a.transpose(1, 2).reshape(1, 8, 16))


@pytest.mark.parametrize(
    "options",
    [
        {}, {"bias": True}, {"activation": torch.int16}, {"activation": torch.uint8},
        {"weight_bits": 4}, {"output": False},
    ],
    ids=["int8", "bias", "int16", "uint8", "int4 weights", "float output"],
)  # fmt: skip
@pytest.mark.parametrize("model", [Layers, Attention])
def test_converted_models(model, options):
    torch.manual_seed(0)
    inputs = (random(1, 3, 8, 8) if model is Layers else random(1, 8, 16),)
    converted = quantized(model(), inputs, SimpleQuantizer(**options))
    program = capture(converted, inputs)
    graph = import_model(program, KINDS)
    (want,) = program.run_reference(inputs)
    (got,) = (real(v, t) for v, t in zip(graph.outputs, evaluate(graph, inputs), strict=True))
    step = graph.outputs[0].type.quant
    torch.testing.assert_close(got, want, atol=step.s * 1.001 if step else 1e-4, rtol=1e-4)
    borders = {"dequantize_per_tensor"} if options.get("output") is False else set()
    assert set(explicit(graph)) <= borders
    wanted = {torch.int16: DType.INT16}.get(options.get("activation"), DType.INT8)
    assert graph.inputs[0].type.dtype is wanted
    for op in graph.ops:
        if op.kind in ("aten.convolution", "aten.linear"):
            check_layer(op, options)


def check_layer(op: Op, options: dict[str, Any]) -> None:
    x, weight = op.operands[:2]
    assert x.type.quant is not None and weight.type.quant is not None
    assert weight.type.dtype is DType.INT8 and weight.type.quant.axis == 0
    top = 7 if options.get("weight_bits") == 4 else 127
    assert (weight.type.quant.qmin, weight.type.quant.qmax) == (-top, top)
    if len(op.operands) > 2:
        bias = op.operands[2].type
        assert bias.dtype is (DType.INT48 if x.type.dtype is DType.INT16 else DType.INT32)
        np.testing.assert_allclose(bias.quant.scale, x.type.quant.s * weight.type.quant.scale)


def test_origins_name_the_values_of_the_program():
    inputs = (random(1, 3, 8, 8),)
    program = capture(quantized(Layers(), inputs, SimpleQuantizer()), inputs)
    graph = import_model(program, KINDS)
    values: dict[Any, Any] = {}
    evaluate(graph, inputs, values=values)
    expected = {}

    class Record(torch.fx.Interpreter):
        def run_node(self, n):
            expected[n.name] = super().run_node(n)
            return expected[n.name]

    Record(program.graph_module).run(*inputs)
    checked = 0
    for name, (value, perm) in graph.origins.items():
        assert perm is None
        want = expected[name]
        if want.is_floating_point() and value.type.quant is not None:
            want = torch.from_numpy(value.type.quant.quantize(want.detach().double().numpy()))
            difference = (want - values[value].to(torch.int64)).abs().max()
            assert difference <= 1, name
            checked += 1
    assert checked > 10
