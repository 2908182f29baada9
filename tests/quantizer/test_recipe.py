"""Recipes are plain data: written, read, and refused when they make no sense."""

from __future__ import annotations

import json

import pytest

from npuc.errors import BadInput
from npuc.quantizer.recipe import NAMED, Recipe


@pytest.mark.parametrize("name", NAMED)
def test_named_recipes_are_copies(name):
    recipe = Recipe.named(name)
    recipe.module_names["head"] = None
    recipe.io = "int8"
    assert Recipe.named(name) == NAMED[name] != recipe
    assert NAMED[name].module_names == {}


def test_names_of_recipes():
    assert Recipe.named("a16w8").activations == "int16"
    assert Recipe.named("a8w4").weights == "int4"
    with pytest.raises(BadInput) as error:
        Recipe.named("int9")
    assert str(error.value) == "no recipe is named 'int9'; choose int8 or a16w8 or a8w4"


def test_what_is_set_can_be_read_back():
    recipe = Recipe(io="uint8", module_names={"head": "a16w8"}, module_types={"Linear": None})
    recipe.ops["aten.softmax"] = Recipe(activations="int16", ranges="minmax")
    assert recipe.module_names["head"] == "a16w8"
    assert Recipe.from_dict(json.loads(json.dumps(recipe.as_dict()))) == recipe


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"activations": "int4"}, "recipe: activations='int4'; choose one of int8, int16"),
        ({"weights": "fp8"}, "recipe: weights='fp8'; choose one of int8, int4"),
        ({"io": "float"}, "recipe: io='float'; choose one of None, int8, uint8, int16"),
        ({"ranges": "max"}, "recipe: ranges='max'; choose one of mse, minmax"),
    ],
)
def test_bad_values_are_refused(options, text):
    with pytest.raises(BadInput) as error:
        Recipe(**options)
    assert str(error.value) == text


def test_unknown_keys_are_refused():
    with pytest.raises(BadInput, match="recipe: unknown key 'activation'; known are activations"):
        Recipe.from_dict({"activation": "int8"})


def test_precedence_of_overrides():
    modules = [("", "Net"), ("block", "torch.nn.Sequential"), ("block.0", "torch.nn.Linear")]
    recipe = Recipe(
        node_names={"linear_7": "a8w4"},
        module_names={"block": None, "block.0": "a16w8"},
        module_types={"Linear": "int8"},
        ops={"aten.linear": None},
    )
    assert recipe.for_node("linear_7", "aten.linear", modules) == Recipe.named("a8w4")
    assert recipe.for_node("linear", "aten.linear", modules) == Recipe.named("a16w8")
    assert recipe.for_node("relu", "aten.relu", modules[:2]) is None
    assert recipe.for_node("linear", "aten.linear", modules[:1] + modules[2:]) == Recipe.named(
        "a16w8"
    )
    other = [("", "Net"), ("head", "torch.nn.Linear")]
    assert recipe.for_node("linear", "aten.linear", other) == Recipe()
    assert recipe.for_node("linear", "aten.linear", [("", "Net")]) is None
    assert recipe.for_node("relu", "aten.relu", [("", "Net")]) is recipe
    assert recipe.for_node("add", "aten.add.Tensor", [], "aten.linear") is None


def test_recipes_need_no_torch():
    import subprocess
    import sys

    code = (
        "import sys; from npuc.quantizer import Recipe; Recipe(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
