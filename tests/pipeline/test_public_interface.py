"""The names that scripts outside the repository rely on (docs/design.md, README)."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest
import torch
from torch import nn

import npuc


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 4)

    def forward(self, x):
        y = torch.relu(self.conv(x))
        return {"map": y, "scores": self.fc(y.mean((2, 3)))}


def net():
    torch.manual_seed(0)
    return Net().eval()


def samples(n=4, seed=1):
    torch.manual_seed(seed)
    return [(torch.randn(1, 3, 8, 8),) for _ in range(n)]


@pytest.fixture(scope="module")
def int8():
    return npuc.compile(net(), samples(1)[0], target="tosa-1.0+int", quantization="int8",
                        calibration=samples(), progress=False, keep_stages=True)  # fmt: skip


def test_signature():
    parameters = inspect.signature(npuc.compile).parameters
    assert list(parameters)[:2] == ["model", "example_inputs"]
    assert set(parameters) >= {
        "target", "quantization", "calibration", "dynamic_shapes", "io", "io_layout", "check",
        "progress", "format",
    }  # fmt: skip
    defaults = {
        k: parameters[k].default for k in ("target", "io", "io_layout", "check", "progress")
    }
    assert defaults == {"target": "ethos-u55-128", "io": "float", "io_layout": "contiguous",
                        "check": True, "progress": None}  # fmt: skip


def test_exports():
    assert set(npuc.__all__) >= {"compile", "explain", "targets", "Target", "Recipe", "Unsupported"}
    for name in npuc.__all__:
        assert getattr(npuc, name) is not None


def test_compilation_record(int8):
    c = int8
    assert isinstance(c.artifact, bytes) and c.artifact[4:8] == b"TOSA"
    assert str(c.graph).startswith("func.func @")
    assert {"import", "lower", "assign_layout"} <= set(c.stages)
    assert {v.name for v in c.coverage} and c.coverage.supported
    assert all(v.loc.file.endswith("test_public_interface.py") for v in c.coverage)
    assert {"capture", "quantize", "import", "lower", "passes", "target", "check"} <= set(c.timings)
    assert c.check.ops and c.check.outputs
    (port,) = c.io.inputs
    assert (port.shape, port.dtype, port.layout) == ((1, 3, 8, 8), "int8", "contiguous")
    assert port.scale > 0 and -128 <= port.zero_point <= 127
    assert len(c.io.outputs) == 2
    json.dumps(c.as_dict())


def test_run_has_the_models_structure(int8):
    (x,) = samples(1)[0]
    got, want = int8.run(x), net()(x)
    assert set(got) == set(want)
    for key in want:
        assert got[key].dtype == torch.float32 and got[key].shape == want[key].shape
        assert torch.allclose(got[key], want[key], atol=0.1)


def test_quantized_io_is_the_artifacts_own(int8):
    c = npuc.compile(net(), samples(1)[0], target="tosa-1.0+int", quantization="int8",
                     calibration=samples(), progress=False, io="quantized")  # fmt: skip
    assert c.artifact == int8.artifact
    (x,) = samples(1)[0]
    port = c.io.inputs[0]
    codes = np.clip(np.rint(x.numpy() / port.scale) + port.zero_point, -128, 127).astype(np.int8)
    got, real = c.run(torch.from_numpy(codes)), int8.run(x)
    for port, key in zip(c.io.outputs, real):
        assert got[key].dtype == torch.int8
        dequantized = (got[key].float() - port.zero_point) * port.scale
        assert torch.allclose(dequantized, real[key], atol=1e-6)


def test_channels_last_io():
    c = npuc.compile(net(), samples(1)[0], target="tosa-1.0+fp", progress=False,
                     io_layout="channels_last")  # fmt: skip
    assert c.waste["transposes"] == 0
    assert c.io.inputs[0].layout == "channels_last"
    assert c.io.inputs[0].artifact_shape == (1, 8, 8, 3)
    (x,) = samples(1)[0]
    assert torch.allclose(c.run(x)["map"], net()(x)["map"], atol=1e-5)


@pytest.mark.parametrize("quantization, target, dtype", [
    ("fp16", "tosa-1.0+fp", "float16"), ("bf16", "tosa-1.0+fp+bf16", "bfloat16"),
    ("a16w8", "tosa-1.0+int+int16", "int16"), ("a8w4", "tosa-1.0+int+int4", "int8"),
])  # fmt: skip
def test_quantizations(quantization, target, dtype):
    c = npuc.compile(net(), samples(1)[0], target=target, quantization=quantization,
                     calibration=samples(), progress=False)  # fmt: skip
    assert c.io.inputs[0].dtype == dtype
    (x,) = samples(1)[0]
    got, want = c.run(x)["scores"].float(), net()(x)["scores"]
    assert (got - want).norm() < 0.15 * want.norm()


@pytest.mark.parametrize("on", ["evaluator", "reference-model"])
def test_executors_agree(int8, on):
    (x,) = samples(1, seed=5)[0]
    assert torch.equal(int8.run(x, on=on)["scores"], int8.run(x)["scores"])


def test_the_check_finds_a_wrong_rule(monkeypatch):
    from npuc.lowering import registry

    rule = registry.find_rule("aten.clamp", ())

    def wrong(b, x, low, high):
        return rule(b, x, 0.3, high)

    monkeypatch.setitem(registry._RULES["tosa"], ("aten.clamp", ""), wrong)
    with pytest.raises(npuc.CheckFailed) as failure:
        npuc.compile(net(), samples(1)[0], target="tosa-1.0+fp", progress=False)
    text = str(failure.value)
    assert "relu" in text and "test_public_interface.py:22" in text and "instead of" in text
    npuc.compile(net(), samples(1)[0], target="tosa-1.0+fp", progress=False, check=False)


def test_a_rule_of_the_wrong_type_is_our_fault_and_surfaces(monkeypatch):
    from npuc.lowering import registry

    monkeypatch.setitem(
        registry._RULES["tosa"], ("aten.clamp", ""), lambda b, x, lo, hi: b.reshape(x, (1, 512))
    )
    with pytest.raises(TypeError, match=r"rule of aten.clamp"):
        npuc.compile(net(), samples(1)[0], target="tosa-1.0+fp", progress=False)


def test_explain_agrees_with_compile():
    for target in ("tosa-1.0+fp", "tosa-1.0+int"):
        coverage = npuc.explain(net(), samples(1)[0], target=target, progress=False)
        if coverage.supported:
            npuc.compile(net(), samples(1)[0], target=target, progress=False)
            continue
        with pytest.raises(npuc.Unsupported) as refusal:
            npuc.compile(net(), samples(1)[0], target=target, progress=False)
        assert [r.why for r in refusal.value.reasons] == [v.reason.why for v in coverage.refused]


def test_calibration_defaults_to_the_example_with_a_warning():
    with pytest.warns(UserWarning, match="no calibration data"):
        npuc.compile(net(), samples(1)[0], target="tosa-1.0+int", quantization="int8",
                     progress=False)  # fmt: skip


def test_save_writes_whole_files(int8, tmp_path):
    paths = int8.save(tmp_path / "a" / "b")
    assert {p.suffix for p in paths} == {".tosa", ".json", ".mlir"}
    assert all(p.stat().st_size for p in paths)
    assert not [p for p in (tmp_path / "a" / "b").iterdir() if p.name.startswith(".")]


def test_pt2_file(tmp_path):
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(net(), samples(1)[0], strict=False), path)
    c = npuc.compile(str(path), samples(1)[0], target="tosa-1.0+fp", progress=False)
    assert c.check.ops


@pytest.mark.parametrize("target", ["tosa-1.0+int", "ethos-u55-128", "neutron-imxrt700"])
def test_a_float_model_on_an_integer_target_says_what_to_do(target):
    with pytest.raises(npuc.Unsupported) as refusal:
        npuc.compile(net(), samples(1)[0], target=target)
    assert str(refusal.value).splitlines()[-1] == 'quantize it; quantization="int8" quantizes all'
    assert all(reason.hint for reason in refusal.value.reasons)
