"""Compile specs: every setting survives CompileSpecs, and errors name what is wrong."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest

from npuc.errors import BadInput
from npuc.executorch import (
    ArmPassPipelineConfig,
    EthosUCompileSpec,
    LeakyReLUDecompositionConfig,
    QuantizeInfConfig,
    SoftmaxDecompositionConfig,
    TosaCompileSpec,
    TosaSpecification,
    VelaExternalBlockPlacements,
    VgfCompileSpec,
)

#: stands for executorch's CompileSpec, whose import takes seconds
Pair = namedtuple("Pair", "key value")


def pairs(spec: Any) -> list[Pair]:
    return [Pair(k, v) for k, v in spec.encoded().items()]


def full(spec: Any, tmp_path: Any) -> Any:
    """`spec` with every setting that has a method."""
    config = ArmPassPipelineConfig(
        SoftmaxDecompositionConfig.STABLE,
        LeakyReLUDecompositionConfig.TABLE,
        QuantizeInfConfig(-9, 8),
    )
    spec.dump_intermediate_artifacts_to(str(tmp_path / "a folder")).dump_debug_info(
        spec.DebugMode.JSON
    )
    spec.set_pass_pipeline_config(config).set_output_order_workaround(True)
    return spec._set_preserve_io_quantization(True)._set_tosa_dev_mode(True)


SPECS = [
    lambda: TosaCompileSpec("TOSA-1.0+INT"),
    lambda: TosaCompileSpec("TOSA-1.0+INT+int16"),
    lambda: TosaCompileSpec("TOSA-1.0+INT+int16+u55"),
    lambda: TosaCompileSpec("TOSA-1.0+INT+8k"),
    lambda: TosaCompileSpec("TOSA-1.1+FP+random+shape"),
    lambda: EthosUCompileSpec("ethos-u55-128"),
    lambda: EthosUCompileSpec("ethos-u55-256"),
    lambda: EthosUCompileSpec("ethos-u55-128", memory_mode="Sram_Only"),
    lambda: EthosUCompileSpec("ethos-u55-128", extra_flags=["--optimise=Size"]),
    lambda: EthosUCompileSpec("ethos-u55-128", config_ini="/a path/with spaces/vela.ini"),
    lambda: EthosUCompileSpec(
        "ethos-u85-256", external_block_placements=VelaExternalBlockPlacements()
    ),
    lambda: EthosUCompileSpec(
        "ethos-u85-256", external_block_placements=VelaExternalBlockPlacements("a", "b c")
    ),
    lambda: VgfCompileSpec(),
    lambda: VgfCompileSpec("TOSA-1.0+FP"),
    lambda: VgfCompileSpec(compiler_flags=["--dump mlir", "--x='a b'", ""]),
    lambda: VgfCompileSpec(compiler_flags=["--dump", "mlir", "--x='a", "b'"]),
]


@pytest.mark.parametrize("number", range(len(SPECS)))
def test_nothing_is_lost(number: int, tmp_path: Any) -> None:
    for spec in (SPECS[number](), full(SPECS[number](), tmp_path)):
        again = type(spec).from_list(pairs(spec))
        assert again == spec and hash(again) == hash(spec)
        assert again.encoded() == spec.encoded()
        assert again.compiler_flags == spec.compiler_flags


def test_all_specs_differ(tmp_path: Any) -> None:
    made = [s() for s in SPECS] + [full(s(), tmp_path) for s in SPECS]
    for i, a in enumerate(made):
        assert [a == b for b in made].count(True) == 1, a
        assert a == made[i]
    texts = {tuple(sorted(s.encoded().items())) for s in made}
    assert len(texts) == len(made)


def test_executorchs_own_compile_specs() -> None:
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    written = EthosUCompileSpec("ethos-u55-64", extra_flags=["--arena-cache-size=9"]).to_list()
    assert all(type(s) is CompileSpec and type(s.value) is bytes for s in written)
    assert EthosUCompileSpec.from_list(written).target().options["extra_options"] == {
        "arena-cache-size": "9"
    }


def test_tosa_specifications() -> None:
    spec = TosaSpecification.create_from_string("TOSA-1.0.0+INT+FP+int16+cf+8k")
    assert spec.support_integer() and spec.support_float() and spec.level_8k
    assert spec.support_extension("cf") and not spec.support_extension("int4")
    assert str(spec) == "TOSA-1.0+FP+INT+cf+int16+8k"
    assert TosaSpecification.of(str(spec)) == spec == TosaSpecification.of(spec)
    assert {"EXT-INT16", "EXT-CONTROLFLOW"} == spec.target().limits.extensions
    assert TosaSpecification.of("TOSA-1.0+INT+u55").is_U55_subset
    one, two = map(TosaSpecification.of, ("TOSA-1.0+INT", "TOSA-1.0+INT+int16"))
    assert one != two and len({one, two, TosaSpecification.of("TOSA-1.0+INT")}) == 2


@pytest.mark.parametrize(
    "text, words",
    [
        ("TOSA-1.2+INT", "TOSA 1.2 is not known"),
        ("TOSA-0.80+BI", "TOSA 0.80 is not known"),
        ("TOSA-1.0", "names no profile"),
        ("TOSA-1.0+INT+int17", "unknown word 'int17'"),
        ("TOSA-1.0+INT+bf16", "extends PRO-FP"),
        ("TOSA-1.0+INT+shape", "needs TOSA 1.1"),
        ("TOSA-1.0+FP+random", "needs 1.1"),
        ("INT", "no TOSA target"),
    ],
)
def test_wrong_specifications(text: str, words: str) -> None:
    for make in (TosaCompileSpec, VgfCompileSpec, TosaSpecification.create_from_string):
        with pytest.raises(BadInput, match=words):
            make(text)


def test_narrowing_keeps_what_belongs_to_tosa(tmp_path: Any) -> None:
    vgf = full(VgfCompileSpec("TOSA-1.0+INT+int16", ["--flag"]), tmp_path)
    expected = full(TosaCompileSpec("TOSA-1.0+INT+int16"), tmp_path)
    assert vgf.tosa_part() == expected
    u55 = EthosUCompileSpec("ethos-u55-128").tosa_part()
    assert u55 == TosaCompileSpec("TOSA-1.0+INT+int16+int4+u55")
    assert TosaCompileSpec.from_list(pairs(u55)) == u55


def test_targets() -> None:
    assert VgfCompileSpec().target().limits.profiles == {"PRO-INT", "PRO-FP"}
    narrow = VgfCompileSpec("TOSA-1.0+INT", ["-x"]).target()
    assert narrow.limits.profiles == {"PRO-INT"} and narrow.options == {"flags": ("-x",)}
    assert narrow.finish is VgfCompileSpec().target().finish
    u65 = EthosUCompileSpec("Ethos-U65-256").target()
    assert u65.name == "ethos-u65-256"
    assert u65.options["system_config"] == "Ethos_U65_High_End"
    assert u65.options["memory_mode"] == "Dedicated_Sram_384KB"
    u85 = EthosUCompileSpec("ethos-u85-128", None, "Shared_Sram", ["--optimise", "Size"]).target()
    assert u85.options == {
        "system_config": "Ethos_U85_SYS_DRAM_Mid", "memory_mode": "Shared_Sram",
        "extra_options": {"optimise": "Size"},
    }  # fmt: skip


def test_flags_of_vela() -> None:
    flags = ["--verbose-operators", "--enable-debug-db", "--output-format=raw",
             "--system-config=Mine", "--config", "my file.ini", "--disable-fwd"]  # fmt: skip
    spec = EthosUCompileSpec("ethos-u55-128", extra_flags=flags)
    assert spec.target().options == {
        "system_config": "Mine", "memory_mode": "Shared_Sram", "config_ini": "my file.ini",
        "extra_options": {"disable-fwd": ""},
    }  # fmt: skip
    assert spec.compiler_flags[-len(flags) :] == flags
    assert "--accelerator-config=ethos-u55-128" in spec.compiler_flags
    for bad, words in [
        ("--optimize=Size", "unknown Vela option 'optimize'"),
        ("--optimise=Fast", "'Fast'"),
        ("Size", "'Size' is no option of Vela"),
        ("--output-format=tflite", "output-format=tflite"),
    ]:
        with pytest.raises(BadInput, match=words):
            EthosUCompileSpec("ethos-u55-128", extra_flags=[bad])


def test_wrong_lists() -> None:
    u55, vgf = pairs(EthosUCompileSpec("ethos-u55-128")), pairs(VgfCompileSpec())
    for cls, specs, words in [
        (EthosUCompileSpec, vgf, "for 'vgf'.*EthosUCompileSpec is for 'vela'"),
        (TosaCompileSpec, u55, "unknown key 'target'"),
        (VgfCompileSpec, [*vgf, Pair("speed", b"1")], "unknown key 'speed'"),
        (VgfCompileSpec, [*vgf, vgf[0]], "twice"),
        (VgfCompileSpec, [p for p in vgf if p.key != "tosa_spec"], "'tosa_spec' is missing"),
        (EthosUCompileSpec, [p for p in u55 if p.key != "target"], "'target' is missing"),
        (VgfCompileSpec, [*vgf, Pair("compile_flags", b"--a --b")], "'compile_flags' is no JSON"),
        (VgfCompileSpec, [*vgf, Pair("tosa_sw_dev_mode", b"maybe")], "tosa_sw_dev_mode='maybe'"),
        (VgfCompileSpec, [*vgf, Pair("dump_debug_info", b"xml")], "dump_debug_info='xml'"),
        (VgfCompileSpec, [*vgf, Pair("debug_artifact_path", b"\xff")], "no text"),
        (VgfCompileSpec, [*vgf, Pair("transform_pipeline_config", b"{}")], "transform_pipeline"),
        (TosaCompileSpec, [*pairs(TosaCompileSpec("TOSA-1.0+FP")), Pair("compile_flags", b"[]")],
         "no tool takes them"),
    ]:  # fmt: skip
        with pytest.raises(BadInput, match=words):
            cls.from_list(specs)
    with pytest.raises(BadInput, match="unknown Ethos-U target 'ethos-u56'"):
        EthosUCompileSpec("ethos-u56")
    with pytest.raises(BadInput, match="dump_intermediate_artifacts_to"):
        VgfCompileSpec().dump_debug_info(VgfCompileSpec.DebugMode.TOSA).to_list()
    with pytest.raises(BadInput, match="DebugMode"):
        VgfCompileSpec().dump_debug_info("json")
    with pytest.raises(BadInput, match="ArmPassPipelineConfig"):
        VgfCompileSpec().set_pass_pipeline_config({})


def test_validate_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from npuc.errors import ToolMissing
    from npuc.execute import vgf_file

    VgfCompileSpec().validate_environment(tmp_path, require_runtime_build=True)
    with pytest.raises(BadInput, match="no folder"):
        VgfCompileSpec().validate_environment(tmp_path / "nothing")
    monkeypatch.setattr(vgf_file, "find_binary", lambda *_: None)
    with pytest.raises(ToolMissing, match="pip install ai-ml-sdk-model-converter"):
        VgfCompileSpec().validate_environment()
