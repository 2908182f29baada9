"""ExecuTorch's flow with npuc's Neutron partitioner, quantizer and backend in place of NXP's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import npuc
from npuc.errors import BadInput, NpucError, ToolMissing, Unsupported
from npuc.serialize.read_tflite import read_tflite
from npuc.targets.neutron_payload import read_payload

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from executorch.exir import EdgeCompileConfig, to_edge, to_edge_transform_and_lower
    from executorch.exir.backend.backend_api import to_backend
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from npuc.executorch import (
        CustomDelegationOptions,
        NeutronCompileSpecBuilder,
        NeutronPartitioner,
        NeutronQuantizer,
        NeutronTargetSpec,
        generate_neutron_compile_spec,
    )
    from npuc.executorch.neutron import OperatorsNotToDelegate
    from npuc.executorch.neutron_spec import NeutronCompileSpec
    from npuc.executorch.run_edge import run_edge

Sdk = Callable[[str], None]
X = torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(1))
CHIP = "imxrt700"


class Net(nn.Module):
    """A convolution, a gate, a layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.layer = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.Linear(8, 4),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm(self.conv(x)))
        y = y * y.sigmoid()
        return self.layer(F.adaptive_avg_pool2d(y, 1).flatten(1)).softmax(-1)


class Angle(nn.Module):
    """Two convolutions with what Neutron does not have between them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        return self.second(torch.atan2(y, y.abs() + 1))


def quantized(model: nn.Module, x: Tensor, strict: bool = False) -> Any:
    """The converted graph of torchao's flow, exported again."""
    program = torch.export.export(model.eval(), (x,), strict=strict)
    prepared = prepare_pt2e(program.module(), NeutronQuantizer(NeutronTargetSpec(CHIP)))
    prepared(x)
    return torch.export.export(convert_pt2e(prepared), (x,), strict=False)


def lowered(
    model: nn.Module, x: Tensor = X, strict: bool = False, **options: Any
) -> tuple[Any, NeutronPartitioner]:
    """The edge program with delegates, and its partitioner."""
    specs = generate_neutron_compile_spec(CHIP, **options)
    partitioner = NeutronPartitioner(specs, NeutronTargetSpec(CHIP))
    manager = to_edge_transform_and_lower(
        quantized(model, x, strict), partitioner=[partitioner],
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )  # fmt: skip
    return manager.exported_program(), partitioner


def edge(model: nn.Module) -> Any:
    """An edge program before it is partitioned."""
    config = EdgeCompileConfig(_check_ir_validity=False)
    return to_edge(quantized(model, X), compile_config=config).exported_program()


def delegates(program: Any) -> list[Any]:
    """The lowered modules of a program."""
    nodes = [n for n in program.graph.nodes if n.op == "get_attr"]
    found = [getattr(program.graph_module, n.target) for n in nodes]
    return [m for m in found if hasattr(m, "processed_bytes")]


def sqnr(program: Any, model: nn.Module, x: Tensor) -> float:
    """What the program computes (delegates in LiteRT) against the model in float, in dB."""
    got, want = run_edge(program, (x,), {})[0], model(x)
    return float(10 * torch.log10((want**2).sum() / ((got - want) ** 2).sum()).detach())


@pytest.mark.parametrize("strict", [True, False])
def test_a_whole_network_is_one_delegate(sdk: Sdk, strict: bool) -> None:
    sdk("")
    model = Net()
    program, partitioner = lowered(model, strict=strict)
    (delegate,) = delegates(program)
    assert delegate.backend_id == "NeutronBackend"
    payload = read_payload(delegate.processed_bytes)
    assert payload.input_formats == (0,) and payload.version == 0
    assert sqnr(program, model, X) > 35
    host = [v.name for v in partitioner.report() if not v.tag]
    assert all("quantize" in name for name in host) and len(host) == 2


def test_channels_last_tensors_are_taken_as_they_lie(sdk: Sdk) -> None:
    sdk("")
    model, x = nn.Sequential(nn.Conv2d(3, 8, 3)), X.to(memory_format=torch.channels_last)
    program, _ = lowered(model, x)
    payload = read_payload(delegates(program)[0].processed_bytes)
    assert payload.input_formats == (1,)
    assert sqnr(program, model, x) > 35


def test_the_host_transposes_without_format_conversion(sdk: Sdk, tmp_path: Path) -> None:
    sdk("")
    options = {"use_neutron_for_format_conversion": False, "intermediates_dir": str(tmp_path)}
    program, _ = lowered(nn.Sequential(nn.Conv2d(3, 8, 3)), **options)
    payload = read_payload(delegates(program)[0].processed_bytes)
    assert payload.input_formats == payload.output_formats == (1,)
    converted = read_tflite((tmp_path / "tag0_neutron.et.tflite").read_bytes()).subgraphs[0]
    assert converted.tensors[converted.inputs[0]].shape == (1, 8, 8, 3)
    assert "stand-in" in (tmp_path / "tag0.converter.log").read_text()


def test_what_neutron_lacks_stays_on_the_host(sdk: Sdk) -> None:
    sdk("")
    model = Angle()
    program, partitioner = lowered(model)
    assert len(delegates(program)) == 2
    assert sqnr(program, model, X) > 30
    (refused,) = [v for v in partitioner.report() if "atan2" in v.name]
    assert "Neutron has neither" in refused.reason


def test_operators_not_to_delegate(sdk: Sdk) -> None:
    sdk("")
    program, _ = lowered(Net(), operators_not_to_delegate=["aten::mul", "aten::sof"])
    assert len(delegates(program)) == 2
    assert [n for n in program.graph.nodes if n.name == "aten_mul_tensor"]


def test_profiling_and_kernels(sdk: Sdk, tmp_path: Path) -> None:
    sdk("")
    options = {"use_profiling": True, "dump_kernel_selection_code": True}
    program, _ = lowered(Net(), intermediates_dir=str(tmp_path), **options)
    assert (tmp_path / "_kernel_selection_tag0.c").read_text() == "/* kernels */\n"
    (delegate,) = delegates(program)
    assert read_payload(delegate.processed_bytes).version == 1
    handles = delegate.meta["debug_handle_map"]
    last = len(handles) - 1
    assert list(handles) == list(range(last + 1)) and handles[last] == ()
    assert all(handles[i] for i in range(last))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "fetchConstantsToSRAM = False"),
        ({}, "excludeGraphPasses = HoistSliceAboveTranspose,MergeTranspose"),
        ({"fetch_constants_to_sram": True}, "fetchConstantsToSRAM = True"),
        ({"dump_kernel_selection_code": True}, "dumpKernelSelectionCode = True"),
        ({"use_profiling": True}, "useProfiling = True"),
        ({"extra_flags": "minNumOpsPerGraph=3 --verbose"}, "minNumOpsPerGraph = 3"),
    ],
)
def test_options_reach_the_converter(
    sdk: Sdk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], told: str
) -> None:
    sdk("")
    monkeypatch.chdir(tmp_path)  # the C code of kernels goes to the working directory
    specs = generate_neutron_compile_spec(CHIP, intermediates_dir=str(tmp_path), **options)
    partitioner = NeutronPartitioner(specs)
    exported = edge(nn.Sequential(nn.Conv2d(3, 4, 3)))
    to_backend(exported, partitioner)
    assert told in (tmp_path / "tag0.converter.log").read_text()


def test_without_the_converter_the_checked_file_is_left(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="eiq_neutron_sdk"):
        lowered(Net(), intermediates_dir=str(tmp_path))
    file = read_tflite((tmp_path / "tag0_pure.et.tflite").read_bytes())
    assert any(op.name == "CONV_2D" for op in file.subgraphs[0].operators)


def test_the_log_of_a_failure_is_left(sdk: Sdk, tmp_path: Path) -> None:
    sdk("raise")
    with pytest.raises(NpucError, match="Unable to convert"):
        lowered(Net(), intermediates_dir=str(tmp_path))
    assert "stand-in converter" in (tmp_path / "tag0.converter.log").read_text()


def test_spec_of_nxp() -> None:
    specs = generate_neutron_compile_spec(
        CHIP, extra_flags="minNumOpsPerGraph=2 verbose", operators_not_to_delegate=["aten::mul", "aten::add"],
        use_neutron_for_format_conversion=False, fetch_constants_to_sram=True,
    )  # fmt: skip
    assert [(s.key, s.value) for s in specs] == [
        ("output_format", b"tflite"), ("compile_flags", b"minNumOpsPerGraph=2 verbose"),
        ("target", b"imxrt700"), ("intermediates_dir", b"None"),
        ("operators_not_to_delegate", b"aten::mul,aten::add"),
        ("use_neutron_for_format_conversion", b"False"), ("fetch_constants_to_sram", b"True"),
        ("dump_kernel_selection_code", b"False"), ("use_profiling", b"False"),
    ]  # fmt: skip
    spec = NeutronCompileSpec.from_list(specs)
    assert [s.value for s in spec.to_list()] == [s.value for s in specs]
    built = NeutronCompileSpecBuilder().neutron_compile_spec(CHIP).build()
    assert [s.key for s in built] == [s.key for s in specs]
    options = spec.target().options
    assert options["fetch_constants_to_sram"] is True and options["format_conversion"] is False
    assert options["extra_flags"] == ("minNumOpsPerGraph=2", "verbose")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: generate_neutron_compile_spec(CHIP, system_config="x"), "no such setting"),
        (lambda: generate_neutron_compile_spec("imx95"), "imxrt700 only"),
        (lambda: generate_neutron_compile_spec("imxrt800"), "unknown Neutron chip"),
        (lambda: generate_neutron_compile_spec(CHIP, intermediates_dir="/none/here"), "no folder"),
        (
            lambda: generate_neutron_compile_spec(CHIP, operators_not_to_delegate=["a,b"]),
            "one name",
        ),
        (lambda: NeutronCompileSpecBuilder().build(), "without a chip"),
        (lambda: NeutronTargetSpec("mcxn94x"), "imxrt700 only"),
        (
            lambda: NeutronCompileSpec.from_list([CompileSpec("output_format", b"vela")]),
            "'target' is missing",
        ),
        (
            lambda: NeutronCompileSpec.from_list([CompileSpec("speed", b"fast")]),
            "unknown key 'speed'",
        ),
        (
            lambda: NeutronPartitioner(
                generate_neutron_compile_spec(CHIP),
                custom_delegation_options=CustomDelegationOptions(allow_no_op_partitions=True),
            ),
            "makes nothing",
        ),
    ],
)
def test_refusals(make: Callable[[], Any], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        make()


class Words(nn.Module):
    """A look-up that Neutron does not have, in front of layers that it has."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.norm = nn.Embedding(20, 16), nn.LayerNorm(16)
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(F.gelu(self.first(self.norm(self.words(x)))))


def test_a_program_whose_rest_runs_on_the_host(sdk: Sdk) -> None:
    sdk("")
    x = (torch.arange(10)[None],)
    model = Words().eval()
    with pytest.raises(Unsupported, match="gathers nothing"):
        npuc.compile(
            model, x, target="neutron-imxrt700", quantization="int8", calibration=[x],
            progress=False,
        )  # fmt: skip
    c = npuc.compile(
        model, x, target="neutron-imxrt700", quantization="int8", calibration=[x], progress=False,
        format="pte",
    )  # fmt: skip
    assert "aten::embedding.out" in c.kernels
    assert sum("quantize" not in v.name for v in c.report if not v.tag) == 1
    noise = (c.run(*x) - model(*x)).square().sum()
    assert float(model(*x).square().sum() / noise) > 10**3


def test_user_check() -> None:
    specs = generate_neutron_compile_spec(CHIP)
    partitioner = NeutronPartitioner(specs, check_op_support=lambda node: "mul" not in node.name)
    exported = edge(Net())
    partitioner.partition(exported)
    tags = {n.name: n.meta.get("delegation_tag") for n in exported.graph.nodes}
    assert tags["aten_mul_tensor"] is None and tags["aten__softmax_default"] == "tag1"


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("aten_add_tensor_1", [True, False, True]),
        ("aten::add", [False] * 3),
        ("aten.add.Tensor", [False] * 3),
        ("aten_add_tensor", [False] * 3),
        ("aten::ad", [True] * 3),
        ("add", [True] * 3),
        ("aten_add_tensor_", [True] * 3),
    ],
)
def test_names_match_whole(name: str, taken: list[bool]) -> None:
    check = OperatorsNotToDelegate([name])
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    nodes = [
        graph.create_node(
            "call_function", torch.ops.aten.add.Tensor, (x, x), name=f"aten_add_tensor{i}"
        )
        for i in ("", "_1", "_10")
    ]
    assert [check.is_node_supported({}, n) for n in nodes] == taken
