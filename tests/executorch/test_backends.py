"""What backends make of partitions, and what they write beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir import to_edge, to_edge_transform_and_lower
from executorch.exir.backend.backend_api import to_backend
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult

from npuc.errors import NpucError, Unsupported
from npuc.execute.reference_model import run_reference_model
from npuc.executorch import (
    EthosUCompileSpec,
    EthosUPartitioner,
    TOSABackend,
    TosaCompileSpec,
    TOSAPartitioner,
    VelaExternalBlockPlacements,
    VgfBackend,
    VgfCompileSpec,
)
from npuc.executorch.external_blocks import externalize
from npuc.serialize.read_tosa import read_tosa
from npuc.targets.ethos_u_files import parse_payload, read_blocks
from tests.executorch import flow
from tests.executorch.flow import Net, X, exported, lowered, quantized

torch.manual_seed(0)


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
    assert conv["module"] == "first" and conv["file"] == flow.__file__
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
