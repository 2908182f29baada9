"""Quantizers under ExecuTorch's names: what was set can be read, decides, trains and converts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torchao.quantization.pt2e import move_exported_model_to_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer

import npuc
from npuc.errors import BadInput
from npuc.executorch import (
    EthosUCompileSpec,
    EthosUQuantizer,
    NodeFinder,
    TosaCompileSpec,
    TOSAQuantizer,
    TosaSpecification,
    VgfCompileSpec,
    VgfQuantizer,
    get_symmetric_a8w4_quantization_config,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
    get_uint8_io_quantization_config,
    get_vgf_snorm_quantization_config,
)
from npuc.executorch.node_rules import one_config

torch.manual_seed(0)
X = torch.randn(2, 3, 8, 8)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 8, 3)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.second(torch.relu(self.first(x))))
        return self.linear(y.mean((2, 3))).softmax(-1)


def quantizer() -> VgfQuantizer:
    return VgfQuantizer(VgfCompileSpec())


def converted(chosen: Any, model: Any = None) -> torch.fx.GraphModule:
    program = torch.export.export((model or Net()).eval(), (X,))
    prepared = prepare_pt2e(program.module(), chosen)
    prepared(X)
    return convert_pt2e(prepared)


def types_of(gm: torch.fx.GraphModule) -> dict[str, set[str]]:
    """Op -> element types of its operands, and whether its result stays float."""
    found: dict[str, set[str]] = {}
    for node in gm.graph.nodes:
        if node.op != "call_function" or "quantize" in str(node.target):
            continue
        name = str(node.target).split(".")[1]
        for operand in node.all_input_nodes:
            known = "dequantize" in str(operand.target)
            dtype = str(operand.args[-1]).removeprefix("torch.") if known else "float"
            found.setdefault(name, set()).add(dtype)
        if not any("quantize" in str(user.target) for user in node.users):
            found[name].add("to float")
    return found


INT8 = get_symmetric_quantization_config()


def test_what_is_set_can_be_read() -> None:
    wide, io = get_symmetric_a16w8_quantization_config(), get_uint8_io_quantization_config()
    chosen = quantizer().set_global(INT8).set_io(io).set_module_name("first", None)
    chosen.set_module_type(torch.nn.Linear, wide).set_node_name("relu", wide)
    chosen.set_node_target(torch.ops.aten.softmax.int, None)
    assert chosen.global_config is INT8 and chosen.io_config is io
    assert chosen.module_name_config == {"first": None}
    assert chosen.module_type_config == {torch.nn.Linear: wide}
    assert chosen.node_name_config == {"relu": wide}
    assert chosen.node_target_config == {torch.ops.aten.softmax.int: None}
    assert str(wide) == "int16, weights int8, per channel" and wide != INT8
    assert get_symmetric_quantization_config() == INT8
    chosen.module_name_config = {"linear": wide}
    chosen.io_config = INT8
    assert chosen.module_name_config == {"linear": wide} and chosen.io_config is INT8
    assert chosen.module_type_config == {torch.nn.Linear: wide}
    assert chosen.tosa_spec == VgfCompileSpec().tosa_spec


@pytest.mark.parametrize("config, activation, weight, low", [
    (INT8, "int8", "int8", -127),
    (get_symmetric_a16w8_quantization_config(), "int16", "int8", -127),
    (get_symmetric_a8w4_quantization_config(is_qat=False), "int8", "int8", -7),
    (get_symmetric_quantization_config(is_per_channel=False), "int8", "int8", -127),
    (get_symmetric_quantization_config(weight_qmin=-100, weight_qmax=100), "int8", "int8", -100),
])  # fmt: skip
def test_configs(config: Any, activation: str, weight: str, low: int) -> None:
    gm = converted(quantizer().set_global(config))
    assert types_of(gm)["linear"] == {activation, weight, "int32"}
    weights = [n for n in gm.graph.nodes if "dequantize" in str(n.target) and low in n.args]
    assert len(weights) == 3 and all(n.args[-2] == -low for n in weights)
    per_channel = config.recipe.per_channel
    assert all(("per_channel" in str(n.target)) == per_channel for n in weights)


def test_ranges_of_activations() -> None:
    gm = converted(quantizer().set_global(get_vgf_snorm_quantization_config()))
    ranges = {n.args[3:5] for n in gm.graph.nodes if "quantize_per_tensor" in str(n.target)}
    assert ranges - {(-2147483647, 2147483647)} == {(-127, 127)}


def test_selection() -> None:
    class Finder(NodeFinder):
        def find_nodes(self, model: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
            return (n for n in model.graph.nodes if "softmax" in n.name)

    wide = get_symmetric_a16w8_quantization_config()
    whole = types_of(converted(quantizer().set_global(INT8)))
    assert whole["softmax"] == {"int8"} and whole["linear"] == {"int8", "int32"}
    cases: dict[str, tuple[Any, str, set[str]]] = {
        "name": (quantizer().set_global(INT8).set_module_name("linear", wide), "linear",
                 {"int16", "int8", "int32"}),
        "type": (quantizer().set_global(INT8).set_module_type(torch.nn.Linear, None), "linear",
                 {"float", "int8"}),
        "target": (quantizer().set_global(INT8).set_node_target(torch.ops.aten.softmax.int, None),
                   "softmax", {"int8", "to float"}),
        "node": (quantizer().set_global(INT8).set_node_name("softmax", None), "softmax",
                 {"int8", "to float"}),
        "finder": (quantizer().set_global(INT8).set_node_finder(None, Finder()), "softmax",
                   {"int8", "to float"}),
        "only": (quantizer().set_module_name("linear", INT8), "conv2d", {"float", "to float"}),
        "last wins": (quantizer().set_module_name("linear", None)
                      .set_module_type(torch.nn.Linear, INT8).set_global(None), "linear",
                      {"int8", "int32"}),
        "last wins again": (quantizer().set_module_type(torch.nn.Linear, INT8)
                            .set_module_name("linear", None), "linear", {"float", "to float"}),
    }  # fmt: skip
    for name, (chosen, op, types) in cases.items():
        assert types_of(converted(chosen))[op] == types, name


def test_uint8_at_the_boundary() -> None:
    chosen = EthosUQuantizer(EthosUCompileSpec("ethos-u55-128")).set_global(INT8)
    gm = converted(chosen.set_io(get_uint8_io_quantization_config()))
    codes = [n for n in gm.graph.nodes if ".quantize_per_tensor" in str(n.target)]
    assert codes[0].args[-1] is torch.uint8 and codes[0].args[0].op == "placeholder"
    assert codes[-1].args[-1] is torch.uint8
    assert all(n.args[-1] is torch.int8 for n in codes[1:-1])
    program = npuc.compile(gm, (X,), target="tosa-1.0+int", progress=False)
    torch.testing.assert_close(program.run(X), gm(X), atol=2 / 255, rtol=0)


def test_one_side_of_the_boundary() -> None:
    class Inputs(NodeFinder):
        def find_nodes(self, model: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
            return (n for n in model.graph.nodes if n.op == "placeholder")

    io = get_uint8_io_quantization_config()
    gm = converted(quantizer().set_global(INT8).set_node_finder(io, Inputs()))
    codes = [n for n in gm.graph.nodes if ".quantize_per_tensor" in str(n.target)]
    assert codes[0].args[-1] is torch.uint8
    assert all(n.args[-1] is torch.int8 for n in codes[1:])
    chosen = dict(zip(codes, (io, INT8), strict=False))
    with pytest.raises(BadInput, match="inputs with different configs"):
        one_config("inputs", chosen)


def test_another_quantizer() -> None:
    class OnlySoftmax(Quantizer):
        def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
            from torchao.quantization.pt2e.observer import MinMaxObserver

            for node in model.graph.nodes:
                if "softmax" in node.name:
                    spec = QuantizationSpec(
                        torch.int8, MinMaxObserver, -100, 99, torch.per_tensor_affine
                    )
                    node.meta["quantization_annotation"] = QuantizationAnnotation(
                        {node.args[0]: spec}, spec, _annotated=True
                    )
            return model

        def validate(self, model: torch.fx.GraphModule) -> None: ...

    gm = converted(quantizer().set_global(INT8).add_quantizer(OnlySoftmax()))
    ranges = {n.args[3:5] for n in gm.graph.nodes if "quantize_per_tensor" in str(n.target)}
    assert {(-100, 99), (-128, 127)} <= ranges
    softmax = torch.ops.aten.softmax.int
    later = quantizer().set_global(INT8).add_quantizer(OnlySoftmax()).set_node_target(softmax, INT8)
    gm = converted(later)
    ranges = {n.args[3:5] for n in gm.graph.nodes if "quantize_per_tensor" in str(n.target)}
    assert (-100, 99) not in ranges


@pytest.mark.slow  # torchao folds norms by matching a hundred patterns
def test_training() -> None:
    class Norm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)
            self.norm = torch.nn.BatchNorm2d(8)
            self.linear = torch.nn.Linear(8, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(torch.relu(self.norm(self.conv(x))).mean((2, 3)))

    x, labels = torch.randn(8, 3, 8, 8), torch.arange(8) % 4
    program = torch.export.export(Norm().train(), (x,))
    chosen = quantizer().set_global(get_symmetric_quantization_config(is_qat=True))
    prepared = prepare_qat_pt2e(program.module(), chosen)
    optimizer = torch.optim.SGD(prepared.parameters(), 0.2)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(prepared(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < losses[0]
    move_exported_model_to_eval(prepared)
    wanted = prepared(x)
    gm = convert_pt2e(prepared)
    assert "batch_norm" not in types_of(gm) and types_of(gm)["conv2d"] >= {"int8"}
    torch.testing.assert_close(gm(x), wanted)
    program = npuc.compile(gm, (x,), target="ethos-u85-256", progress=False)
    torch.testing.assert_close(program.run(x), wanted.detach(), atol=0.02, rtol=0)


def test_wrong_use() -> None:
    for make, words in [
        (lambda: EthosUQuantizer(VgfCompileSpec()), "EthosUQuantizer with a VgfCompileSpec"),
        (lambda: TOSAQuantizer("TOSA-1.0+INT"), "give a ArmCompileSpec or a TosaSpecification"),
        (lambda: quantizer().set_global("int8"), "use get_symmetric_quantization_config"),
        (lambda: get_symmetric_quantization_config(is_dynamic=True), "dynamic quantization"),
        (lambda: get_symmetric_quantization_config(act_qmin=-200), r"activation codes -200\.\.127"),
        (
            lambda: get_symmetric_a8w4_quantization_config(weight_qmax=127),
            r"weight codes -7\.\.127",
        ),
    ]:
        with pytest.raises(BadInput, match=words):
            make()
    TOSAQuantizer(TosaSpecification.of("TOSA-1.0+INT"))
    TOSAQuantizer(TosaCompileSpec("TOSA-1.0+INT"), use_composable_quantizer=False)
