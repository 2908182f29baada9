"""VGF files executed through Vulkan on the software driver, and each way that can fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npuc.errors import BadInput, NpucError, ToolMissing
from npuc.execute import vgf, vulkan
from npuc.execute.reference_model import run_reference_model
from npuc.execute.vgf import array_dtype, run_vgf, run_vgf_batches
from npuc.execute.vgf_file import describe_vgf, read_ports
from npuc.targets.model_converter import convert_to_vgf
from tests.execute import tiny_tosa


def int8_input(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (1, 16, 16, 4), dtype=np.int8)


@pytest.fixture(scope="module")
def conv_vgf() -> bytes:
    return convert_to_vgf(tiny_tosa.int8_conv())


def test_int8_conv_is_exact(conv_vgf: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    batches = [[int8_input(1)], [int8_input(2)]]
    results = run_vgf_batches(conv_vgf, batches)
    for (x,), (y,) in zip(batches, results, strict=True):
        assert y.dtype == np.int8
        np.testing.assert_array_equal(y, tiny_tosa.expected_conv(x))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("dtype", ["FP32", "FP16", "BF16", "INT32"])
@pytest.mark.parametrize("shape", [[3], []])
def test_same_result_as_the_reference_model(dtype: str, shape: list[int]) -> None:
    op, result = ("GREATER", "BOOL") if dtype == "FP16" else ("ADD", None)
    tosa = tiny_tosa.elementwise(op, shape, dtype, result)
    model = convert_to_vgf(tosa)
    ports, _ = read_ports(describe_vgf(model))
    storage = array_dtype(ports[0])
    values = [1.5, -2, 0.25] if shape else 1.5
    arrays = [np.array(values).astype(storage), np.array(values).astype(storage)]
    (ours,), (oracle,) = run_vgf(model, arrays), run_reference_model(tosa, arrays)
    assert ours.dtype == oracle.dtype and ours.shape == oracle.shape == tuple(shape)
    assert ours.tobytes() == oracle.tobytes()


def test_shared_bindings() -> None:
    graph = tiny_tosa.new_graph()
    for name in ("a", "unused"):
        tiny_tosa.add_input(graph, name, [1, 2, 2, 4], tiny_tosa.D.INT8)
    tiny_tosa.add_rescale(graph, "a", ("y", [1, 2, 2, 4], tiny_tosa.D.INT8), 30, 5)
    model = convert_to_vgf(tiny_tosa.set_output(graph, "y", "unused", "y"))
    a, unused = np.full((1, 2, 2, 4), 3, np.int8), np.full((1, 2, 2, 4), 9, np.int8)
    assert [int(y.flat[0]) for y in run_vgf(model, [a, unused])] == [8, 9, 8]


@pytest.mark.parametrize(
    "arrays, reason",
    [
        ([], "0 arrays for a VGF file with 1 inputs"),
        ([np.zeros((1, 16, 16, 4), np.float32)], r"got float32\[1, 16, 16, 4\], the VGF file"),
        ([np.zeros((16, 16, 4), np.int8)], r"takes int8\[1, 16, 16, 4\]"),
    ],
)
def test_arrays_that_do_not_fit(conv_vgf: bytes, arrays: list, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        run_vgf(conv_vgf, arrays)


def test_timeout(conv_vgf: bytes) -> None:
    with pytest.raises(NpucError, match=r"no result after 0\.01 s"):
        run_vgf(conv_vgf, [int8_input(1)], timeout_seconds=0.01)


def test_failing_child_says_why(conv_vgf: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", "/nowhere/icd.json")
    with pytest.raises(NpucError, match="the VGF file was not executed: status"):
        run_vgf(conv_vgf, [int8_input(1)])


def test_missing_parts(conv_vgf: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    x = [int8_input(1)]
    with monkeypatch.context() as patch:
        patch.setattr(vgf, "find_spec", lambda name: None)
        with pytest.raises(ToolMissing, match="pip install ai-ml-sdk-scenario-runner"):
            run_vgf(conv_vgf, x)
    with monkeypatch.context() as patch:
        patch.setenv("NPUC_VULKAN_PREFIX", str(tmp_path))
        patch.setattr(vulkan, "loader_version", lambda library: (1, 3, 239))
        with pytest.raises(ToolMissing, match=r"1\.3\.239 here; run scripts/build_vulkan_loader"):
            run_vgf(conv_vgf, x)
    with monkeypatch.context() as patch:
        patch.setattr(vulkan, "_DRIVER_FOLDERS", (str(tmp_path),))
        with pytest.raises(ToolMissing, match="apt-get install mesa-vulkan-drivers"):
            run_vgf(conv_vgf, x)
    with monkeypatch.context() as patch:
        patch.setattr(vulkan, "find_spec", lambda name: None)
        with pytest.raises(ToolMissing, match="pip install ai-ml-emulation-layer"):
            run_vgf(conv_vgf, x)


def test_loader_version() -> None:
    built = vulkan.vulkan_prefix() / "build" / "loader" / "libvulkan.so.1"
    version = vulkan.loader_version(str(built))
    assert version is not None and version >= vulkan.OLDEST_LOADER
    assert vulkan.loader_version("no_such_library.so") is None
