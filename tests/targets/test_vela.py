"""Vela in process: the bytes of its command line, figures, file forms, and every refusal."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from npuc.errors import BadInput, NpucError
from npuc.targets.ethos_u_files import executorch_payload, parse_payload, raw_npz
from npuc.targets.vela import ACCELERATORS, VelaResult, compile_vela
from npuc.targets.vela_options import VelaOptions
from tests.execute import tiny_tosa

CASES = {
    "u55": ("ethos-u55-128", None, None, {}),
    "u55-small-arena": ("ethos-u55-256", "Ethos_U55_Deep_Embedded", None, {"optimise": "Size"}),
    "u65-two-cores": ("ethos-u65-512", None, None, {}),
    "u85": ("ethos-u85-256", None, None, {}),
    "u85-dedicated": (
        "ethos-u85-512",
        "Ethos_U85_SYS_DRAM_High",
        "Dedicated_Sram_512KB",
        {"arena-cache-size": 4096},
    ),
}


def run_command_line(folder: Path, tosa: bytes, result: VelaResult, options: dict) -> Path:
    """Compile with the command line and return the npz that it writes."""
    (folder / "net.tosa").write_bytes(tosa)
    arguments = [
        str(folder / "net.tosa"),
        f"--accelerator-config={result.target}",
        "--config=Arm/vela.ini",
        f"--system-config={result.system_config}",
        f"--memory-mode={result.memory_mode}",
        "--output-format=raw",
        f"--output-dir={folder}",
        *(f"--{name}={value}" for name, value in options.items()),
    ]
    subprocess.run(
        [sys.executable, "-m", "ethosu.vela", *arguments], check=True, capture_output=True
    )
    return folder / "net_vela.npz"


@pytest.mark.parametrize("case", CASES)
def test_same_bytes_as_the_command_line(case: str, tmp_path: Path) -> None:
    target, system, mode, options = CASES[case]
    tosa = tiny_tosa.int8_conv(64)
    result = compile_vela(tosa, target, system, mode, options)
    with np.load(run_command_line(tmp_path, tosa, result, options), allow_pickle=True) as theirs:
        assert theirs["cmd_data"].tobytes() == result.command_stream
        assert theirs["weight_data"].tobytes() == result.weights
        with np.load(io.BytesIO(raw_npz(result)), allow_pickle=True) as ours:
            assert set(ours.files) == set(theirs.files)
            for key in ours.files:
                assert ours[key].dtype == theirs[key].dtype, key
                if key.endswith("_quantization"):  # dictionaries of arrays do not compare
                    assert repr(ours[key].tolist()) == repr(theirs[key].tolist())
                else:
                    np.testing.assert_array_equal(ours[key], theirs[key], err_msg=key)


def test_figures() -> None:
    result = compile_vela(tiny_tosa.int8_conv(), "ethos-u55-128")
    assert result.command_stream.startswith(b"COP1")
    assert result.inputs[0].shape == (1, 1, 1, 16, 16, 4)
    assert result.outputs[0].element_size == 1
    assert result.scratch_size >= 16 * 16 * (4 + 8)
    perf = result.perf
    assert perf["macs"] == 16 * 16 * 8 * 9 * 4
    assert perf["total_cycles"] >= perf["npu_cycles"] > 0
    assert perf["npu_ops"] == 1 and perf["cpu_ops"] == 0
    assert perf["sram_peak"] == perf["memories"]["Sram"]["peak"] > 0
    assert perf["milliseconds"] == pytest.approx(perf["total_cycles"] / 500e6 * 1e3)
    (op,) = result.ops
    assert (op.operator, op.tosa_op, op.tosa_index) == ("Conv2D", "Conv2D", 4)
    assert op.op_cycles == perf["total_cycles"] and op.on_npu and not op.chained
    assert result.overhead == {"rescale": 0, "transpose": 0, "copy": 0}


def test_sram_only_counts_constants_apart() -> None:
    perf = compile_vela(tiny_tosa.int8_conv(), "ethos-u85-256").perf
    assert perf["read_only_peak"] > 0
    assert perf["sram_peak"] == perf["memories"]["Sram"]["peak"] - perf["read_only_peak"]


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_overhead_is_seen(target: str) -> None:
    result = compile_vela(tiny_tosa.copies(), target)
    assert result.overhead["rescale"] > 0 and result.overhead["copy"] > 0
    transposes = [op for op in result.ops if op.operator == "Transpose"]
    assert [op.tosa_index for op in transposes] == [5]
    # U85 does the transpose while the rescale writes: one line of the two has the time.
    assert all(op.chained == (op.op_cycles == 0) for op in transposes)
    assert sum(result.overhead.values()) == result.perf["total_cycles"]


def test_deterministic_and_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    first, second = (compile_vela(tiny_tosa.int8_conv(), "ethos-u85-256") for _ in range(2))
    assert first == second
    assert capfd.readouterr() == ("", "")


def test_every_accelerator_compiles() -> None:
    for target in ACCELERATORS:
        assert compile_vela(tiny_tosa.int8_conv(), target).perf["total_cycles"] > 0, target


def test_payload_round_trip() -> None:
    result = compile_vela(tiny_tosa.int8_conv(), "ethos-u55-128")
    payload = executorch_payload(result)
    assert payload[:32] == b"vela_bin_stream\0" + bytes(16)
    length = len(result.command_stream).to_bytes(4, "little")
    assert payload[32:52] == b"cmd_data" + bytes(8) + length
    assert len(payload) % 16 == 0 and payload[-32:] == b"vela_end_stream\0" + bytes(16)
    parsed = parse_payload(payload)
    assert parsed.command_stream == result.command_stream
    assert parsed.weights == result.weights
    assert parsed.scratch_size == result.scratch_size
    assert parsed.inputs == result.inputs and parsed.outputs == result.outputs


def test_order_is_kept_and_unused_inputs_are_gone() -> None:
    graph = tiny_tosa.new_graph()
    for index, name in enumerate("abcd"):
        tiny_tosa.add_input(graph, name, [1, 4, 4, 8 * index + 8], tiny_tosa.D.INT8)
    for index, name in ((3, "d"), (1, "b"), (0, "a")):
        output = (f"{name}_out", [1, 4, 4, 8 * index + 8], tiny_tosa.D.INT8)
        tiny_tosa.add_rescale(graph, name, output, 31, 5)
    result = compile_vela(tiny_tosa.set_output(graph, "d_out", "b_out"), "ethos-u55-128")
    assert [(t.name, t.shape[-1]) for t in result.inputs] == [("b", 16), ("d", 32)]
    assert [(t.name, t.shape[-1]) for t in result.outputs] == [("d_out", 32), ("b_out", 16)]


@pytest.mark.parametrize("cut", [0, 10, 40, 200, -20])
def test_cut_payload(cut: int) -> None:
    payload = executorch_payload(compile_vela(tiny_tosa.int8_conv(), "ethos-u55-128"))
    with pytest.raises(BadInput, match="Ethos-U payload"):
        parse_payload(payload[:cut])


@pytest.mark.parametrize("junk", [b"", b"TOSA", b"0000TFL3" + bytes(40)])
def test_no_tosa_file(junk: bytes) -> None:
    with pytest.raises(BadInput, match="not a TOSA file"):
        compile_vela(junk, "ethos-u55-128")


def test_damaged_tosa_file() -> None:
    with pytest.raises(NpucError, match="the TOSA file is damaged"):
        compile_vela(tiny_tosa.int8_conv()[:300], "ethos-u55-128")


def test_refused_graph_gives_the_reason() -> None:
    with pytest.raises(NpucError) as raised:
        compile_vela(tiny_tosa.int8_conv(out_height=9), "ethos-u55-128")
    text = str(raised.value)
    assert text.startswith("Vela cannot compile this graph for ethos-u55-128: Compilation failed:")
    assert "Mismatch between output shape" in text and "\n" not in text


def test_float_graph_is_refused() -> None:
    with pytest.raises(NpucError, match="ethos-u85-256"):
        compile_vela(tiny_tosa.elementwise("ADD", [1, 4, 4, 8], "FP32"), "ethos-u85-256")


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("ethos-u55-100",), "unknown Ethos-U target 'ethos-u55-100'; one of ethos-u55-32"),
        (
            ("ethos-u55-128", "Fast"),
            "unknown system configuration 'Fast'; one of "
            "Ethos_U55_Deep_Embedded, Ethos_U55_High_End_Embedded",
        ),
        (("ethos-u55-128", None, "Big"), "unknown memory mode 'Big'; one of Sram_Only, Shared"),
        (("ethos-u55-128", None, None, {"fast": 1}), "unknown Vela option 'fast'; one of arena"),
        (
            ("ethos-u55-128", None, None, {"optimise": "Speed"}),
            "Vela option 'optimise': 'Speed'; one of Performance, Size",
        ),
        (
            ("ethos-u55-128", None, None, {"arena-cache-size": "1k"}),
            "Vela option 'arena-cache-size': '1k' is not a whole number",
        ),
        (
            ("ethos-u55-128", None, None, {"arena-cache-size": 1 << 33}),
            "Vela arena cache size: 8589934592 is not within 0 and 4294967296",
        ),
        (
            ("ethos-u55-128", None, None, {"cpu-tensor-alignment": 24}),
            "Vela option 'cpu-tensor-alignment': 24 is no power of 2 from 16 on",
        ),
        (
            ("ethos-u55-128", None, None, {"disable-cascading": "perhaps"}),
            "Vela option 'disable-cascading': 'perhaps' is neither true nor false",
        ),
        (("ethos-u55-128", None, None, None, "/nowhere/my.ini"), "Vela configuration /nowhere"),
    ],
)
def test_bad_arguments(arguments: tuple, message: str) -> None:
    with pytest.raises(BadInput) as raised:
        compile_vela(tiny_tosa.int8_conv(), *arguments)
    assert str(raised.value).startswith(message)


def test_own_configuration_file(tmp_path: Path) -> None:
    ini = tmp_path / "board.ini"
    ini.write_text(
        "[System_Config.Board]\ncore_clock=100e6\naxi0_port=Sram\naxi1_port=OffChipFlash\n"
        "Sram_clock_scale=1.0\nOffChipFlash_clock_scale=0.25\n"
        "[Memory_Mode.Shared]\nconst_mem_area=Axi1\narena_mem_area=Axi0\ncache_mem_area=Axi0\n"
        "[Memory_Mode.Small]\ninherit=Memory_Mode.Shared\narena_cache_size=65536\n"
    )
    result = compile_vela(tiny_tosa.int8_conv(), "ethos-u55-128", "Board", "Small", {}, ini)
    assert result.system_config == "Board" and result.perf["core_clock"] == 100e6
    with pytest.raises(BadInput, match="unknown memory mode 'Shared_Sram'; one of Shared, Small"):
        compile_vela(tiny_tosa.int8_conv(), "ethos-u55-128", "Board", config_ini=ini)


def test_disassembly_on_request(capfd: pytest.CaptureFixture[str]) -> None:
    options = {"verbose-register-command-stream": True}
    log = compile_vela(tiny_tosa.int8_conv(), "ethos-u55-128", extra_options=options).log
    assert "NPU_OP_CONV" in log
    assert capfd.readouterr().out == ""


def test_option_text() -> None:
    text = VelaOptions(disable_fwd=True, disable_cascading=True).text(123)
    assert "disable_feature=FWD|Cascading\n" in text
    assert "arena_size_limit=123\n" in text
