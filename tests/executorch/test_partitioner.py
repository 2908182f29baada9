"""Partitioners and backends inside of ExecuTorch's own lowering."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge, to_edge_transform_and_lower
from executorch.exir.backend.backend_api import to_backend
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult

from npuc.errors import BadInput, NpucError, Unsupported
from npuc.execute.reference_model import run_reference_model
from npuc.executorch import (
    EthosUBackend,
    EthosUCompileSpec,
    EthosUPartitioner,
    TOSABackend,
    TosaCompileSpec,
    TOSAPartitioner,
    VelaExternalBlockPlacements,
    VgfBackend,
    VgfCompileSpec,
    VgfPartitioner,
    run_pte_methods,
)
from npuc.executorch.external_blocks import externalize
from npuc.serialize.pte_flatbuffer import delegates_of, kernels_of, read_pte
from npuc.serialize.read_tosa import read_tosa
from npuc.targets.ethos_u_files import parse_payload, read_blocks

torch.manual_seed(0)
X = torch.randn(1, 3, 8, 8)


class Net(torch.nn.Module):
    """Two convolutions with an op between them that integer targets do not have."""

    def __init__(self, between: Any = torch.atan2) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 8, 3)
        self.linear = torch.nn.Linear(8, 4)
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.hardswish(self.first(x))
        z = self.between(y, y * 0.5 + 3)
        return self.linear(torch.relu(self.second(y + z)).mean((2, 3)))


def exported(model: torch.nn.Module, *inputs: torch.Tensor) -> Any:
    trained = isinstance(model, torch.fx.GraphModule)  # has no eval()
    return torch.export.export(model if trained else model.eval(), inputs)


def quantized(model: torch.nn.Module, *inputs: torch.Tensor) -> torch.nn.Module:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from npuc.quantizer import NpucQuantizer, Recipe

    prepared = prepare_pt2e(exported(model, *inputs).module(), NpucQuantizer(Recipe()))
    prepared(*inputs)
    return convert_pt2e(prepared)


def lowered(program: Any, partitioner: Any) -> Any:
    return to_edge_transform_and_lower(program, partitioner=[partitioner])


def pte_of(manager: Any) -> bytes:
    import executorch.kernels.quantized  # noqa: F401 - registers the out variants
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["state"])])
    return bytes(manager.to_executorch(config).buffer)


def test_vgf_runs_in_the_runtime() -> None:
    """Float and int8, whole and partly on the host: equal to PyTorch."""
    net = Net().eval()
    coded = quantized(net, X)
    whole = VgfPartitioner(VgfCompileSpec())
    integer = VgfPartitioner(VgfCompileSpec("TOSA-1.0+INT"))
    cases = {
        "float": (net, whole), "int8": (coded, whole), "partly": (coded, integer),
    }  # fmt: skip
    programs = {name: pte_of(lowered(exported(m, X), p)) for name, (m, p) in cases.items()}
    assert kernels_of(read_pte(programs["float"])) == kernels_of(read_pte(programs["int8"])) == []
    kernels = kernels_of(read_pte(programs["partly"]))
    assert "aten::atan2.out" in kernels and "aten::convolution.out" not in kernels
    assert [len(delegates_of(read_pte(p))) for p in programs.values()] == [1, 1, 2]
    for name, (model, _) in cases.items():
        (((got,)),) = run_pte_methods(programs[name], [("forward", (X,))])
        atol = 1e-5 if name == "float" else 0
        torch.testing.assert_close(got, model(X), atol=atol, rtol=0)


def test_report_names_reason_and_place(tmp_path: Path) -> None:
    spec = VgfCompileSpec("TOSA-1.0+INT").dump_intermediate_artifacts_to(str(tmp_path))
    partitioner = VgfPartitioner(spec)
    lowered(exported(quantized(Net(), X), X), partitioner)
    report = partitioner.report()
    atan2 = next(v for v in report if v.op == "aten.atan2")
    assert not atan2.lowers and not atan2.tag and "atan2" in atan2.reason
    assert (
        atan2.file == __file__
        and "self.between" in Path(__file__).read_text().splitlines()[atan2.line - 1]
    )
    first = next(v for v in report if v.op == "aten.conv2d" or "convolution" in v.op)
    assert first.lowers and first.tag == "tag0" and first.module == "first" and not first.reason
    assert {v.tag for v in report} == {"", "tag0", "tag1"}
    for verdict in report:
        assert bool(verdict.tag) != bool(verdict.reason), verdict
    data = json.loads(json.dumps(report.as_dict()))
    assert data["total"] == len(report) and data["delegates"] == 2
    assert (tmp_path / "partition_report.txt").read_text() == f"{report}\n"
    assert f"{__file__}:{atan2.line}" in str(report)


def test_verdict_is_the_lowering() -> None:
    """What is delegated lowers, and no refused node lowers by itself."""
    from npuc.executorch.dry_run import DryRun
    from npuc.executorch.edge_program import constants_of

    partitioner = EthosUPartitioner(EthosUCompileSpec("ethos-u55-128"))
    program = to_edge(exported(quantized(Net(), X), X)).exported_program()
    result = partitioner.partition(program)
    run = DryRun(program.graph_module, constants_of(program), partitioner.target)
    by_name = {n.name: n for n in program.graph.nodes}
    groups: dict[str, list[Any]] = {}
    for verdict in partitioner.report():
        if verdict.tag:
            groups.setdefault(verdict.tag, []).append(by_name[verdict.name])
    assert set(groups) == set(result.partition_tags)
    for nodes in groups.values():
        assert not run.refused(nodes)


def test_data_movement_stays_on_the_host() -> None:
    class Moves(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.permute(0, 2, 1).reshape(2, 12)

    partitioner = VgfPartitioner(VgfCompileSpec())
    manager = lowered(exported(Moves(), torch.randn(2, 3, 4)), partitioner)
    assert partitioner.report().as_dict()["delegates"] == 0
    assert all(v.lowers and "only data movement" in v.reason for v in partitioner.report())
    assert delegates_of(read_pte(pte_of(manager))) == []


def test_additional_checks_and_custom_ops() -> None:
    class NoConvolution:
        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            return "conv" not in str(node.target)

    partitioner = VgfPartitioner(VgfCompileSpec(), [NoConvolution()])
    lowered(exported(Net(), X), partitioner)
    convolutions = [v for v in partitioner.report() if "conv" in v.op]
    assert len(convolutions) == 2
    assert all(v.reason == "rejected by NoConvolution" and not v.tag for v in convolutions)
    assert any(v.tag for v in partitioner.report())

    library = torch.library.Library("npuc_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    library.impl("twice", lambda x: torch.empty_like(x), "Meta")
    op = torch.ops.npuc_test.twice.default

    class Custom(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return op(x + 1)

    partitioner = VgfPartitioner(VgfCompileSpec())
    partitioner.register_custom_partition_op(op)
    program = exported(Custom(), X)
    assert partitioner.ops_to_not_decompose(program)[0] in ([], [op])
    edge = to_edge(program, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    edge.to_backend(partitioner)
    verdict = next(v for v in partitioner.report() if "twice" in v.op)
    assert not verdict.lowers and "no lowering rule" in verdict.reason


def test_ops_are_kept_whole_where_they_lower() -> None:
    class Mixed(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.gelu(x) + torch.nn.functional.hardswish(x)

    program = exported(Mixed(), X).run_decompositions({})
    ops, check = VgfPartitioner(VgfCompileSpec()).ops_to_not_decompose(program)
    assert torch.ops.aten.hardswish.default in ops and check is None
    integer = VgfPartitioner(VgfCompileSpec("TOSA-1.0+INT"))
    assert integer.ops_to_not_decompose(program) == ([], None)
    manager = lowered(exported(Mixed(), X), VgfPartitioner(VgfCompileSpec()))
    assert len(delegates_of(read_pte(pte_of(manager)))) == 1


class Boundary(torch.nn.Module):
    """Outputs that repeat and are inputs; an input nobody reads; a mutated and a shared buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(3))
        self.register_buffer("shared", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: Any, unused: Any, y: Any) -> Any:
        self.state.add_(x)
        z = x * self.shared + self.state
        return z, x, torch.atan2(z, y) * self.shared, z


def test_slots_and_state() -> None:
    inputs = (torch.randn(3), torch.randn(2), torch.randn(3))

    class NoAtan2:
        def is_node_supported(self, submodules: Any, node: Any) -> bool:
            return "atan2" not in str(node.target)

    program = exported(Boundary(), *inputs)
    buffers = {
        "whole": pte_of(lowered(program, VgfPartitioner(VgfCompileSpec()))),
        "split": pte_of(lowered(program, VgfPartitioner(VgfCompileSpec(), [NoAtan2()]))),
    }
    assert [len(delegates_of(read_pte(b))) for b in buffers.values()] == [1, 2]
    for data in buffers.values():
        eager = Boundary()
        for got in run_pte_methods(data, [("forward", inputs)] * 2):
            torch.testing.assert_close(got, list(eager(*inputs)))


def test_channels_last_crosses_without_a_transpose() -> None:
    class Conv(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.conv(x))

    model = Conv().eval()
    transposes = {}
    for order in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(1, 3, 6, 7).to(memory_format=order)
        program = to_edge(exported(model, x)).exported_program()
        spec = TosaCompileSpec("TOSA-1.0+FP")
        data = TOSABackend.preprocess(program, spec.to_list()).processed_bytes
        transposes[order] = data.count(b"Transpose") or _count(data, "TRANSPOSE")
        physical = x if order is torch.contiguous_format else x.permute(0, 2, 3, 1)
        (y,) = run_reference_model(data, [np.ascontiguousarray(physical.numpy())])
        wanted = model(x).detach()
        wanted = wanted if order is torch.contiguous_format else wanted.permute(0, 2, 3, 1)
        np.testing.assert_allclose(y, wanted.numpy(), atol=1e-5)
    assert transposes == {torch.contiguous_format: 2, torch.channels_last: 0}


def _count(data: bytes, name: str) -> int:
    from npuc.serialize.read_tosa import read_tosa

    return sum(op.kind == f"tosa.{name}" for op in read_tosa(data).ops)


@pytest.mark.parametrize("dtype, low, high", [
    (torch.int8, -128, 127), (torch.uint8, 0, 255), (torch.int16, -32767, 32767),
])  # fmt: skip
def test_terminal_quantizes_are_kept(dtype: torch.dtype, low: int, high: int) -> None:
    """An int8 body whose output is quantized once more, to another type."""
    q = torch.ops.quantized_decomposed

    class Body(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            a = q.dequantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8)
            b = q.quantize_per_tensor(a + a, 0.1, -5, -128, 127, torch.int8)
            c = q.dequantize_per_tensor(b, 0.1, -5, -128, 127, torch.int8)
            zero = 128 if dtype is torch.uint8 else 0
            return q.quantize_per_tensor(c, 0.11, zero, low, high, dtype)

    x = torch.randint(-128, 128, (1, 20), dtype=torch.int8)
    program = to_edge(exported(Body(), x)).exported_program()
    spec = TosaCompileSpec("TOSA-1.0+INT+int16")
    data = TOSABackend.preprocess(program, spec.to_list()).processed_bytes
    (y,) = run_reference_model(data, [x.numpy()])
    wanted = Body()(x).numpy()
    difference = y.view(wanted.dtype).astype(np.int64) - wanted.astype(np.int64)
    assert np.abs(difference).max() <= 1


def test_debug_files(tmp_path: Path) -> None:
    spec = EthosUCompileSpec("ethos-u85-128").dump_intermediate_artifacts_to(str(tmp_path))
    spec.dump_debug_info(EthosUCompileSpec.DebugMode.JSON)
    partitioner = EthosUPartitioner(spec)
    lowered(exported(quantized(Net(), X), X), partitioner)
    stem = f"output_tag0_{spec.tosa_spec}"
    names = {p.name for p in tmp_path.iterdir()}
    assert names >= {
        f"{stem}.tosa",
        f"{stem}.mlir",
        f"{stem}.bin",
        f"{stem}.npz",
        "debug_tag1.json",
    }
    events = json.loads((tmp_path / "debug_tag0.json").read_text())
    conv = next(e for e in events if e["tosa"]["operator"] == "CONV2D")
    written = read_tosa((tmp_path / f"{stem}.tosa").read_bytes())
    operators = [op for op in written.walk() if op.kind != "const"]
    assert [(e["tosa"]["operator"], e["tosa"]["results"]) for e in events] == [
        (op.name, [r.name for r in op.results]) for op in operators
    ]
    assert all(name for e in events for name in e["tosa"]["results"])
    assert conv["module"] == "first" and conv["file"] == __file__
    verdicts = {v.name: v for v in partitioner.report()}
    assert {e["node"] for e in events} <= set(verdicts)
    assert verdicts[conv["node"]].line == conv["line"]


def test_failure_leaves_what_was_lowered(tmp_path: Path) -> None:
    program = to_edge(exported(Net(), X)).exported_program()
    spec = TosaCompileSpec("TOSA-1.0+INT").dump_intermediate_artifacts_to(str(tmp_path))
    with pytest.raises(Unsupported, match="needs PRO-FP"):
        TOSABackend.preprocess(program, spec.to_list())
    assert "needs PRO-FP" in (tmp_path / "failed_whole.txt").read_text()
    assert "aten.convolution" in (tmp_path / "failed_whole.imported.mlir").read_text()
    assert (tmp_path / "failed_whole.lowered.mlir").exists()
    assert not (tmp_path / "failed_whole.tosa").exists()


def test_failure_of_a_tool_leaves_its_input(tmp_path: Path) -> None:
    spec = VgfCompileSpec(compiler_flags=["--no-such-flag"])
    spec.dump_intermediate_artifacts_to(str(tmp_path))
    program = to_edge(exported(torch.nn.ReLU(), X)).exported_program()
    with pytest.raises(NpucError, match=r"model-converter cannot convert .*--no-such-flag"):
        VgfBackend.preprocess(program, spec.to_list())
    assert read_tosa((tmp_path / "failed_whole.tosa").read_bytes()).ops[-1].name == "CLAMP"
    assert "tosa.clamp" in (tmp_path / "failed_whole.optimized.mlir").read_text()


def test_copies_of_outputs_have_a_source(tmp_path: Path) -> None:
    """The file copies an output that is there twice; the copy comes from the op that it copies."""

    class Twice(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            y = torch.relu(x)
            return y, y + 1

    spec = TosaCompileSpec("TOSA-1.0+FP").dump_intermediate_artifacts_to(str(tmp_path))
    spec.dump_debug_info(TosaCompileSpec.DebugMode.JSON)
    program = to_edge(exported(Twice(), X)).exported_program()
    output = program.graph.output_node()
    output.args = ([output.args[0][0], *output.args[0]],)
    TOSABackend.preprocess(program, spec.to_list())
    events = json.loads((tmp_path / "debug_whole.json").read_text())
    assert [e["node"] for e in events] == [
        "aten_relu_default",
        "aten_add_tensor",
        "aten_relu_default",
    ]
    assert len({e["line"] for e in events}) == 2 and all(e["file"] == __file__ for e in events)


def test_external_blocks() -> None:
    program = to_edge(exported(quantized(torch.nn.Conv2d(3, 4, 3), X), X)).exported_program()

    def body(spec: Any) -> Any:
        partitioner = EthosUPartitioner(spec)
        edge = to_backend(program, partitioner)
        name = next(n.target for n in edge.graph.nodes if n.op == "get_attr")
        return getattr(edge.graph_module, name)

    plain = body(EthosUCompileSpec("ethos-u55-128"))
    tags = VelaExternalBlockPlacements(weight_data="weights")
    moved = body(EthosUCompileSpec("ethos-u55-128", external_block_placements=tags))
    blocks = read_blocks(plain.processed_bytes)
    reference = read_blocks(moved.processed_bytes)
    key = reference["weight_data"].decode()
    assert len(key) == 64 and reference["cmd_data"] == blocks["cmd_data"]
    assert list(moved.named_data_store_output.external_data) == ["weights"]
    assert key in moved.named_data_store_output.external_data["weights"]
    again, stored = externalize(plain.processed_bytes, {"weight_data": "weights"})
    assert again == moved.processed_bytes and stored == {key: blocks["weight_data"]}
    assert parse_payload(plain.processed_bytes).weights == stored[key]


def test_wrong_use() -> None:
    with pytest.raises(BadInput, match="VgfPartitioner with a TosaCompileSpec"):
        VgfPartitioner(TosaCompileSpec("TOSA-1.0+FP"))
    program = to_edge(exported(torch.nn.ReLU(), X)).exported_program()
    with pytest.raises(BadInput, match="for 'vgf'"):
        EthosUBackend.preprocess(program, VgfCompileSpec().to_list())


def test_beside_executorchs_own_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend of the same name that ExecuTorch finds first passes on what is ours."""

    class Rival:
        __name__ = "TOSABackend"

        @staticmethod
        def preprocess(edge_program: Any, compile_specs: Any) -> Any:
            return PreprocessResult(processed_bytes=b"theirs")

        preprocess_multimethod = classmethod(BackendDetails.preprocess_multimethod.__func__)

    rival = type("TOSABackend", (Rival,), {})
    for order in ([TOSABackend, rival], [rival, TOSABackend]):
        with monkeypatch.context() as patch:
            patch.setattr(BackendDetails, "__subclasses__", lambda order=order: order)
            partitioner = TOSAPartitioner(TosaCompileSpec("TOSA-1.0+FP"))
            program = lowered(exported(torch.nn.Sigmoid(), X), partitioner).exported_program()
            assert read_tosa(program.graph_module.lowered_module_0.processed_bytes).ops
            whole = to_edge(exported(torch.nn.Sigmoid(), X)).exported_program()
            assert rival.preprocess(whole, []).processed_bytes == b"theirs"


def test_delegates_are_numbered_over_all_programs(tmp_path: Path) -> None:
    spec = TosaCompileSpec("TOSA-1.0+FP").dump_intermediate_artifacts_to(str(tmp_path))
    partitioner = TOSAPartitioner(spec)
    methods = {n: exported(m(), X) for n, m in {"a": torch.nn.Sigmoid, "b": torch.nn.Tanh}.items()}
    to_edge_transform_and_lower(methods, partitioner=[partitioner])
    assert partitioner.report().as_dict()["delegates"] == 2
    assert {p.name for p in tmp_path.glob("*.tosa")} == {
        f"output_tag{i}_{spec.tosa_spec}.tosa" for i in (0, 1)
    }


def test_quantization_at_the_boundary_on_the_host() -> None:
    model = quantized(torch.nn.Conv2d(3, 4, 3), X)
    for preserve, kernels in (False, 0), (True, 2):
        spec = VgfCompileSpec()._set_preserve_io_quantization(preserve)
        partitioner = VgfPartitioner(spec)
        data = pte_of(lowered(exported(model, X), partitioner))
        assert len(kernels_of(read_pte(data))) == kernels
        if preserve:
            reasons = [v.reason for v in partitioner.report() if not v.tag]
            assert reasons == 2 * ["the quantization of the program's inputs and outputs is to stay "
                                   "on the host"]  # fmt: skip


def test_booleans_cross_as_bytes() -> None:
    """A chip without booleans carries them as 0 and 1 in the same bytes."""
    from npuc.executorch.run_edge import run_edge

    class Compare(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.hardswish(x) > 0.5

    x = torch.randn(1, 4, 8)
    model = quantized(Compare(), x)
    partitioner = EthosUPartitioner(EthosUCompileSpec("ethos-u55-128"))
    program = lowered(exported(model, x), partitioner).exported_program()
    assert {v.tag for v in partitioner.report() if v.op.startswith("aten")} == {"tag0"}
    (got,) = run_edge(program, [x], {})
    assert got.dtype == torch.bool and torch.equal(got, model(x))
