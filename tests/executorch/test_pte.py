"""ExecuTorch programs executed by ExecuTorch's own runtime, and their memory plans."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import npuc
from npuc.compilation import Compilation
from npuc.errors import BadInput, NpucError, Unsupported
from npuc.executorch import run_pte, run_pte_methods, to_pte
from npuc.executorch.plan_memory import Tenant, plan_memory
from npuc.serialize.pte_flatbuffer import delegates_of, kernels_of, read_pte
from npuc.targets.ethos_u_files import parse_payload
from npuc.targets.vgf import mark_version

torch.manual_seed(0)


class Small(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.relu(self.conv(x)).mean((2, 3)))


class Mixed(torch.nn.Module):
    """Inputs of several types, one unused; outputs that repeat, are inputs, are constant."""

    def forward(self, x: Any, index: Any, unused: Any, *, flag: Any, scalar: Any) -> Any:
        y = torch.where(flag, x + scalar, x * 2)
        return {"y": y, "again": (y, index), "index": index + 1, "none": None, "sum": y.sum()}


class Count(torch.nn.Module):
    """Keeps a running mean and the number of calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([1.0, -2.0, 0.5]))
        self.register_buffer("calls", torch.tensor([3], dtype=torch.int32))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.mean.mul_(0.5).add_(x * 0.5)
        self.calls.add_(1)
        return self.mean * 2, self.calls + 0


def compiled(model: torch.nn.Module, inputs: Any, quantization: Any = None, **options: Any) -> Any:
    options.setdefault("target", "vgf")
    calibration = [inputs] if quantization == "int8" else None
    return npuc.compile(
        model.eval(), inputs, quantization=quantization, calibration=calibration, progress=False,
        check=False, **options,
    )  # fmt: skip


X = torch.randn(1, 3, 8, 8)
MIXED = (torch.randn(2, 3), torch.tensor([4, 9]), torch.randn(5))
FLAGS = {"flag": torch.tensor([True, False, True]), "scalar": torch.tensor(0.5)}


@pytest.fixture(scope="module")
def methods() -> dict[str, Compilation]:
    last = {"io_layout": "channels_last"}
    return {
        "float32": compiled(Small(), (X,)),
        "float16": compiled(Small(), (X,), "fp16"),
        "int8": compiled(Small(), (X,), "int8"),
        "codes": compiled(Small(), (X,), "int8", io="quantized", **last),
        "last": compiled(Small(), (X,), "int8", **last),
        "mixed": compiled(Mixed(), (MIXED, FLAGS)),
        "count": compiled(Count(), (torch.randn(3),)),
    }


@pytest.fixture(scope="module")
def program(methods: dict[str, Compilation]) -> bytes:
    return to_pte(methods)


def test_runs_as_compiled(methods: dict[str, Compilation], program: bytes) -> None:
    """All methods of one program, in the runtime on the software Vulkan driver."""
    codes = methods["codes"].input_arrays((X,))[0].transpose(0, 3, 1, 2)
    nhwc = {"memory_format": torch.channels_last}
    steps = [torch.randn(3) for _ in range(3)]
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("float32", (X,)), ("float16", (X,)), ("int8", (X,)), ("last", (X.to(**nhwc),)),
        ("codes", (torch.from_numpy(codes.copy()).to(**nhwc),)),
        ("mixed", (*MIXED, *FLAGS.values())), *(("count", (x,)) for x in steps),
    ]  # fmt: skip
    got = dict(
        zip(
            [f"{name}{i}" for i, (name, _) in enumerate(calls)],
            run_pte_methods(program, calls),
            strict=True,
        )
    )

    torch.testing.assert_close(got["float320"][0], methods["float32"].run(X))
    torch.testing.assert_close(got["float161"][0], methods["float16"].run(X), atol=1e-2, rtol=1e-2)
    expected = methods["int8"].run(X)
    torch.testing.assert_close(got["int82"][0], expected, atol=0, rtol=0)
    torch.testing.assert_close(got["last3"][0], methods["last"].run(X), atol=0, rtol=0)
    raw = methods["codes"].run(X)
    assert got["codes4"][0].dtype == raw.dtype == torch.int8 and torch.equal(got["codes4"][0], raw)

    y = Mixed()(*MIXED, **FLAGS)
    repeated, copied, plus, none, total = got["mixed5"][1:3] + got["mixed5"][3:]
    torch.testing.assert_close([got["mixed5"][0], repeated, total], [y["y"], y["y"], y["sum"]])
    assert torch.equal(copied, MIXED[1]) and torch.equal(plus, MIXED[1] + 1) and none is None
    assert plus.dtype == torch.int64

    eager, ours = Count(), methods["count"]
    ours.reset()
    for number, x in enumerate(steps):
        mean, count = eager(x)
        torch.testing.assert_close(got[f"count{6 + number}"], [mean, count])
        torch.testing.assert_close(ours.run(x), (mean, count))


def test_files_say_what_they_need(methods: dict[str, Compilation], program: bytes) -> None:
    read = read_pte(program)
    assert [p["name"] for p in read["execution_plan"]] == list(methods)
    assert kernels_of(read) == [
        "aten::copy_", "dim_order_ops::_to_dim_order_copy.out",
        "quantized_decomposed::dequantize_per_tensor.out",
        "quantized_decomposed::quantize_per_tensor.out",
    ]  # fmt: skip
    stored = delegates_of(read)
    for (backend, data), compilation in zip(stored, methods.values(), strict=True):
        assert backend == "VgfBackend"
        assert data == mark_version(compilation.artifact, "0.4")
    assert kernels_of(read_pte(to_pte(methods["codes"]))) == []
    structure = read["execution_plan"][5]["container_meta_type"]["encoded_out_str"]
    assert '"again' in structure.replace("\\", "")


@pytest.mark.parametrize("name", ["int8", "mixed", "count"])
def test_memory_of_methods(methods: dict[str, Compilation], name: str) -> None:
    plan = read_pte(to_pte(methods[name]))["execution_plan"][0]
    sizes = {"FLOAT": 4, "CHAR": 1, "LONG": 8, "INT": 4, "BOOL": 1}
    lives: dict[int, list[int]] = {}
    for at, instruction in enumerate(plan["chains"][0]["instructions"]):
        for value in instruction["instr_args"][1]["args"]:
            lives.setdefault(value, []).append(at)
    ranges = []
    for index, value in enumerate(plan["values"]):
        kind, tensor = value["val"]
        if kind != "Tensor":
            continue
        size = int(np.prod(tensor["sizes"])) * sizes[tensor["scalar_type"]]
        offset = tensor["allocation_info"]["memory_offset_low"]
        assert offset % 16 == 0 and tensor["allocation_info"]["memory_id"] == 1
        assert offset + size <= plan["non_const_buffer_sizes"][1]
        used = lives.get(index, [])
        first = 0 if index in plan["inputs"] else min(used)
        last = 99 if index in plan["outputs"] else max(used, default=0)
        if tensor["data_buffer_idx"]:
            first, last = 0, 99
        ranges.append((offset, offset + size, first, last))
    for a, b in itertools.combinations(ranges, 2):
        alive_together = a[2] <= b[3] and b[2] <= a[3]
        assert not alive_together or a[1] <= b[0] or b[1] <= a[0], (a, b)


tenants = st.builds(
    lambda size, first, length: Tenant(size, first, first + length),
    st.integers(0, 200), st.integers(0, 10), st.integers(0, 10),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(tenants, max_size=12))
def test_memory_plan(given: list[Tenant]) -> None:
    total = plan_memory(given)
    for t in given:
        assert t.offset % 16 == 0 and t.offset + t.size <= total
    for a, b in itertools.combinations(given, 2):
        if a.first <= b.last and b.first <= a.last:
            assert a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
    busiest = max(
        (
            sum(-(-max(t.size, 1) // 16) * 16 for t in given if t.first <= i <= t.last)
            for i in range(21)
        ),
        default=0,
    )
    assert busiest <= total <= sum(-(-max(t.size, 1) // 16) * 16 for t in given)


def test_state_starts_from_the_buffers(methods: dict[str, Compilation]) -> None:
    read = read_pte(to_pte(methods["count"]))
    (entry,) = read["mutable_data_segments"]
    data = bytes(read["segments"][entry["segment_index"]])
    assert data == np.float32([1, -2, 0.5]).tobytes() + np.int32([3]).tobytes()
    assert entry["offsets"] == [0, 0, 12]


def test_ethos_u_gets_all_inputs_in_order() -> None:
    class TwoOfThree(torch.nn.Module):
        def forward(self, a: Any, b: Any, c: Any) -> Any:
            return a + c, c * 2

    inputs = (torch.randn(1, 4), torch.randn(2, 3, 5), torch.randn(1, 4))
    made = compiled(TwoOfThree(), inputs, "int8", target="ethos-u55-128", format="pte")
    assert made.output.suffix == ".pte" and set(made.output.files) >= {".bin", ".tosa", ".npz"}
    read = read_pte(made.artifact)
    ((backend, data),) = delegates_of(read)
    payload = parse_payload(data)
    assert backend == "EthosUBackend" and data == made.output.files[".bin"]
    assert [t.shape[-3:] for t in payload.inputs] == [(1, 1, 4), (2, 3, 5), (1, 1, 4)]
    unused = payload.inputs[1]
    assert unused.offset + 30 * unused.element_size <= payload.scratch_size
    for other in (*payload.inputs[::2], *payload.outputs):
        assert other.offset + 16 <= unused.offset
    call = next(
        i["instr_args"][1]
        for i in read["execution_plan"][0]["chains"][0]["instructions"]
        if i["instr_args"][0] == "DelegateCall"
    )
    values = read["execution_plan"][0]["values"]
    shapes = [values[v]["val"][1]["sizes"] for v in call["args"]]
    assert shapes == [[1, 4], [2, 3, 5], [1, 4], [1, 4], [1, 4]]


def test_versions_of_vgf() -> None:
    inputs = (torch.randn(2, 2),)
    made = compiled(torch.nn.ReLU(), inputs)
    assert made.artifact[8:10] == bytes([0, 5])
    older = compiled(torch.nn.ReLU(), inputs, target=npuc.Target.named("vgf", vgf_version="0.4"))
    assert older.artifact == mark_version(made.artifact, "0.4") != made.artifact
    assert mark_version(older.artifact, "0.5") == made.artifact
    assert delegates_of(read_pte(to_pte(made, vgf_version="0.5")))[0][1] == made.artifact
    with pytest.raises(NpucError, match="not executed"):
        run_pte(to_pte(made, vgf_version="0.5"), [inputs])
    for data, version in ((made.artifact, "0.3"), (b"VGF2" + bytes(20), "0.4"), (b"", "0.4")):
        with pytest.raises(BadInput):
            mark_version(data, version)


def test_inspection(methods: dict[str, Compilation], program: bytes, tmp_path: Path) -> None:
    from npuc.report.inspect_file import inspect_file

    (tmp_path / "model.pte").write_bytes(program)
    found = inspect_file(str(tmp_path / "model.pte"))
    assert found["kernels"] == kernels_of(read_pte(program))
    assert list(found["methods"]) == list(methods)
    mixed = found["methods"]["mixed"]
    assert mixed["inputs"] == ["float [2, 3]", "long [2]", "float [5]", "bool [3]", "float []"]
    assert mixed["outputs"][4] == "Null" and mixed["planned_bytes"] >= 24 * 3
    assert [d["backend"] for d in found["delegates"]] == ["VgfBackend"] * len(methods)


def test_what_cannot_be_written(methods: dict[str, Compilation]) -> None:
    with pytest.raises(BadInput, match="without methods"):
        to_pte({})
    with pytest.raises(BadInput, match="method name 'my method'"):
        to_pte({"my method": methods["int8"]})
    with pytest.raises(BadInput, match="one of None, pte"):
        compiled(torch.nn.ReLU(), (X,), format="onnx")
    damaged = to_pte(methods["int8"])
    for data in (damaged[:100], damaged[:-20], b"", b"ET12" * 9):
        with pytest.raises(BadInput):
            read_pte(data)


def test_open_sizes_are_refused() -> None:
    batch = torch.export.Dim("batch", min=2, max=8)
    made = compiled(torch.nn.ReLU(), (torch.randn(4, 3),), target="tosa-1.1+fp+shape",
                    dynamic_shapes={"input": {0: batch}})  # fmt: skip
    with pytest.raises(Unsupported, match="known only at run time"):
        to_pte(made)


def test_channels_last_examples_ask_for_channels_last_programs() -> None:
    model, x = Small(), X.to(memory_format=torch.channels_last)
    with pytest.raises(BadInput, match="channels_last: this program would take"):
        compiled(model, (x,), format="pte")
    made = compiled(model, (x,), format="pte", io_layout="channels_last")
    ((y,),) = run_pte(made.artifact, [(x,)])
    torch.testing.assert_close(y, model(x), rtol=1e-3, atol=1e-3)
