"""Flows of ExecuTorch's documentation with npuc's partitioners in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools import BundledProgram
from executorch.devtools.backend_debug import get_delegation_info
from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
from executorch.devtools.bundled_program.serialize import (
    serialize_from_bundled_program_to_flatbuffer,
)
from executorch.devtools.etrecord import parse_etrecord
from executorch.exir import EdgeCompileConfig, to_edge, to_edge_transform_and_lower
from executorch.exir.passes.quantize_io_pass import QuantizeInputs, QuantizeOutputs

from npuc.executorch import (
    TosaCompileSpec,
    TOSAPartitioner,
    VgfCompileSpec,
    VgfPartitioner,
    run_pte,
    run_pte_methods,
)
from npuc.serialize.pte_flatbuffer import delegates_of, read_pte
from tests.executorch.flow import exported, quantized

torch.manual_seed(0)
X = torch.randn(1, 3, 8, 8)


class Mixed(torch.nn.Module):
    """A spectrum is for the host; XNNPACK takes the layers, npuc is to take erf."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x))
        z = torch.fft.rfft(y)
        return self.linear(torch.erf(y).mean((2, 3))) + torch.view_as_real(z).sum()


def backends(data: bytes) -> set[str]:
    return {name for name, _ in delegates_of(read_pte(data))}


class OnlyErf:
    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        return "erf" in str(node.target)


def test_beside_another_partitioner() -> None:
    """Each gets what the ones before it left; the runtime executes both."""
    model = Mixed().eval()
    with torch.no_grad():
        wanted = model(X)
    config = EdgeCompileConfig(_check_ir_validity=False)
    ours = VgfPartitioner(VgfCompileSpec(), additional_checks=[OnlyErf()])
    for partitioners in ([ours, XnnpackPartitioner()], [XnnpackPartitioner(), ours]):
        manager = to_edge_transform_and_lower(
            exported(model, X), partitioner=partitioners, compile_config=config
        )
        data = bytes(manager.to_executorch().buffer)
        assert backends(data) == {"VgfBackend", "XnnpackBackend"}
        torch.testing.assert_close(run_pte(data, [(X,)])[0][0], wanted, atol=1e-4, rtol=1e-4)


def test_edge_first() -> None:
    """`to_edge` and then `to_backend`, with options of the edge compilation."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.GELU()).eval()
    for config in (
        EdgeCompileConfig(),
        EdgeCompileConfig(_skip_dim_order=True, _check_ir_validity=False),
        EdgeCompileConfig(preserve_ops=[torch.ops.aten.gelu.default]),
    ):
        manager = to_edge(exported(model, X), compile_config=config)
        partitioner = VgfPartitioner(VgfCompileSpec("TOSA-1.0+FP"))
        data = bytes(manager.to_backend(partitioner).to_executorch().buffer)
        assert all(v.tag for v in partitioner.report())
        torch.testing.assert_close(run_pte(data, [(X,)])[0][0], model(X), atol=1e-4, rtol=1e-4)


def test_methods_bundle_and_record(tmp_path: Path) -> None:
    models = {"forward": torch.nn.Conv2d(3, 4, 3).eval(), "encode": torch.nn.Sigmoid()}
    partitioners = {
        "forward": [VgfPartitioner(VgfCompileSpec())],
        "encode": [VgfPartitioner(VgfCompileSpec("TOSA-1.0+FP"))],
    }
    manager = to_edge_transform_and_lower(
        {name: exported(model, X) for name, model in models.items()},
        partitioner=partitioners,
        constant_methods={"version": 7},
        generate_etrecord=True,
    )
    info = get_delegation_info(manager.exported_program("encode").graph_module)
    assert info.num_delegated_subgraphs == 1 and info.num_non_delegated_nodes == 1  # getitem
    program = manager.to_executorch()
    data = bytes(program.buffer)
    calls = [("forward", (X,)), ("encode", (X,)), ("version", ())]
    forward, encode, version = run_pte_methods(data, calls)
    torch.testing.assert_close(forward[0], models["forward"](X), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(encode[0], models["encode"](X), atol=1e-4, rtol=1e-4)
    assert version == [7]
    cases = [MethodTestCase(inputs=(X,), expected_outputs=models["encode"](X))]
    bundle = BundledProgram(program, [MethodTestSuite("encode", cases)])
    assert serialize_from_bundled_program_to_flatbuffer(bundle)[4:8] == b"BP08"
    program.get_etrecord().save(str(tmp_path / "record.bin"))
    record = parse_etrecord(str(tmp_path / "record.bin"))
    assert set(record._delegate_map) == {"forward", "encode"}


def test_inputs_and_outputs_taken_as_codes() -> None:
    """ExecuTorch's passes that drop the host's quantization find the delegate's outputs."""

    class Heads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = torch.nn.ModuleList(torch.nn.Conv2d(3, n, 3) for n in (1, 2, 3))

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            second, first, third = (self.heads[i](x).relu() for i in (1, 0, 2))
            return [first, second, third]

    model = quantized(Heads(), X)
    partitioner = TOSAPartitioner(TosaCompileSpec("TOSA-1.0+INT"))
    manager = to_edge_transform_and_lower(exported(model, X), partitioner=[partitioner])
    manager = manager.transform([QuantizeInputs(manager, [0]), QuantizeOutputs(manager, [0, 1, 2])])
    graph = manager.exported_program().graph
    (call,) = (n for n in graph.nodes if "call_delegate" in str(n.target))
    channels = [call.meta["val"][o.args[1]].shape[1] for o in graph.output_node().args[0]]
    assert channels == [1, 2, 3]
    assert all(v.dtype is torch.int8 for v in call.meta["val"])
