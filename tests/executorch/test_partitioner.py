"""Partitioners inside of ExecuTorch's own lowering."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge

from npuc.errors import BadInput
from npuc.executorch import (
    EthosUBackend,
    EthosUCompileSpec,
    EthosUPartitioner,
    TosaCompileSpec,
    TOSAPartitioner,
    VgfCompileSpec,
    VgfPartitioner,
    run_pte_methods,
)
from npuc.serialize.pte_flatbuffer import delegates_of, kernels_of, read_pte
from tests.executorch import flow
from tests.executorch.flow import Net, X, exported, lowered, pte_of, quantized

torch.manual_seed(0)


def test_complex_numbers_stay_on_the_host() -> None:
    class Spectrum(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.ops.aten._fft_r2c(torch.sigmoid(x), [1], 0, False)
            return torch.sigmoid(torch.view_as_real(y)[..., 0])

    config = EdgeCompileConfig(_check_ir_validity=False)
    program = to_edge(exported(Spectrum(), X[0, 0]), compile_config=config).exported_program()
    partitioner = TOSAPartitioner(TosaCompileSpec("TOSA-1.0+FP"))
    partitioner.partition(program)
    verdicts = {v.op: v for v in partitioner.report()}
    assert {v.tag for v in partitioner.report() if v.op == "aten.sigmoid"} == {"tag0", "tag1"}
    assert "complex numbers" in verdicts["aten._fft_r2c"].reason
    assert "values of type complex64" in verdicts["aten.view_as_real"].reason


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
        atan2.file == flow.__file__
        and "self.between" in Path(flow.__file__).read_text().splitlines()[atan2.line - 1]
    )
    first = next(v for v in report if v.op == "aten.conv2d" or "convolution" in v.op)
    assert first.lowers and first.tag == "tag0" and first.module == "first" and not first.reason
    assert {v.tag for v in report} == {"", "tag0", "tag1"}
    for verdict in report:
        assert bool(verdict.tag) != bool(verdict.reason), verdict
    data = json.loads(json.dumps(report.as_dict()))
    assert data["total"] == len(report) and data["delegates"] == 2
    assert (tmp_path / "partition_report.txt").read_text() == f"{report}\n"
    assert f"{flow.__file__}:{atan2.line}" in str(report)


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


def test_wrong_use() -> None:
    with pytest.raises(BadInput, match="VgfPartitioner with a TosaCompileSpec"):
        VgfPartitioner(TosaCompileSpec("TOSA-1.0+FP"))
    program = to_edge(exported(torch.nn.ReLU(), X)).exported_program()
    with pytest.raises(BadInput, match="for 'vgf'"):
        EthosUBackend.preprocess(program, VgfCompileSpec().to_list())


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
