"""What the user gives to `npuc.compile` in the wrong form: one sentence that says what to do."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import npuc


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x, *, scale=None):
        y = self.layer(x)
        return y if scale is None else y * scale


class NoResult(nn.Module):
    def forward(self, x):
        x + 1


X = torch.linspace(-1, 1, 6).view(2, 3)


def compiled(model=None, inputs=(X,), **options):
    given = {"target": "tosa-1.0+int", "quantization": "int8", "calibration": [(X,)]} | options
    return npuc.compile(model or Net(), inputs, progress=False, **given)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"quantization": 8}, "quantization=8; give a name or a Recipe"),
        ({"quantization": "int9"}, "choose int8 or a16w8 or a8w4"),
        ({"calibration": 5}, "calibration is a int; give an iterable of input tuples"),
        ({"calibration": "samples.npz"}, "calibration is a str"),
        ({"calibration": {"x": X}}, "calibration is a dict"),
        ({"calibration": lambda: [X]}, "calibration is a function"),
        ({"calibration": []}, "calibration data is empty"),
        ({"calibration": [(X.long(),)]}, "it is int64, the model takes float32"),
        ({"model": NoResult()}, "NoResult returns no tensor"),
        ({"model": nn.Linear(3, 2, device="meta")}, "weight is on the device meta"),
        ({"inputs": (X.to("meta"),)}, "example input 0 is on the device meta"),
    ],
)
def test_mistakes(options, text):
    with pytest.raises(npuc.BadInput) as error:
        compiled(**options)
    assert text in str(error.value)


def test_samples_of_other_float_types_and_arrays():
    for samples in ([(X.double(),)], [(X.double().numpy(),)], [X]):
        assert compiled(calibration=samples).check.outputs


def test_samples_that_are_infinite():
    assert compiled(calibration=[(X,), (torch.full((2, 3), float("inf")),)]).check.outputs


def test_keywords_are_given_as_to_the_model():
    model, scale = Net(), torch.tensor(2.0)
    c = npuc.compile(model, ((X,), {"scale": scale}), target="tosa-1.0+fp", progress=False)
    torch.testing.assert_close(c.run(X, scale=scale), model(X, scale=scale))
    with pytest.raises(npuc.BadInput, match=r"Net takes .*scale"):
        c.run(X, factor=scale)


def test_models_on_the_way_to_be_quantized():
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from npuc.quantizer import NpucQuantizer, Recipe

    prepared = prepare_pt2e(
        torch.export.export(nn.Linear(3, 2), (X,)).module(), NpucQuantizer(Recipe.named("int8"))
    )
    prepared(X)
    with pytest.raises(npuc.BadInput, match="call convert_pt2e first"):
        compiled(prepared, quantization=None)
    with pytest.raises(npuc.BadInput, match="is quantized already; leave quantization out"):
        compiled(convert_pt2e(prepared))


def test_overrides_that_match_nothing_are_named():
    recipe = npuc.Recipe.named("int8")
    recipe.module_names["layers"] = "a16w8"
    recipe.ops["aten.linear"] = "int8"
    with pytest.warns(UserWarning, match="module_names: the model has no 'layers'") as seen:
        compiled(quantization=recipe)
    assert len([w for w in seen if "the model has no" in str(w.message)]) == 1


def test_weights_of_8_bits_are_no_start_for_calibration():
    model = torch.nn.Linear(4, 4).to(torch.float8_e4m3fn)
    x = torch.ones(1, 4).to(torch.float8_e4m3fn)
    with pytest.raises(
        npuc.BadInput, match=r"weight is float8_e4m3fn.*quantize the model in float32"
    ):
        npuc.compile(model, (x,), target="tosa-1.0+int", quantization="int8", calibration=[(x,)])
