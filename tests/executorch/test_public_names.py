"""Names and signatures that scripts written for ExecuTorch's Arm backend use, and such scripts."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from typing import Any

import pytest
import torch

import npuc.executorch
from npuc.serialize.pte_flatbuffer import delegates_of, kernels_of, read_pte

_SPEC = (
    "dump_debug_info(debug_mode)", "dump_intermediate_artifacts_to(output_path)",
    "set_pass_pipeline_config(config)", "set_output_order_workaround(output_order_workaround)",
)  # fmt: skip
_PARTITIONER = (
    "(compile_spec, additional_checks=None)", "partition(exported_program)",
    "ops_to_not_decompose(ep)", "register_custom_partition_op(op)", "report()",
)  # fmt: skip
_QUANTIZER = (
    "set_global(quantization_config)",
    "set_io(quantization_config)", "set_module_name(module_name, quantization_config)",
    "set_module_type(module_type, quantization_config)", "annotate(model)",
    "transform_for_annotation(model)", "validate(model)", "add_quantizer(quantizer)",
    "set_node_finder(quantization_config, node_finder)",
    "set_node_target(node_target, quantization_config)",
    "set_node_name(node_name, quantization_config)",
)  # fmt: skip
_CONFIG = "is_per_channel=True, is_qat=False, is_dynamic=False, "

#: public name -> its signature, then those of its methods
PUBLIC: dict[str, tuple[str, ...]] = {
    "TosaSpecification": ("create_from_string(text)",),
    "TosaCompileSpec": ("(tosa_spec)", *_SPEC),
    "EthosUCompileSpec": (
        "(target, system_config=None, memory_mode=None, extra_flags=None, "
        "config_ini='Arm/vela.ini', external_block_placements=None)",
        *_SPEC,
    ),
    "VgfCompileSpec": (
        "(tosa_spec=None, compiler_flags=None)",
        "validate_environment(build_dir=None, *, require_runtime_build=False)",
        *_SPEC,
    ),
    "VelaExternalBlockPlacements": ("(cmd_data=None, weight_data=None)", "to_block_placements()"),
    **dict.fromkeys(("TOSAPartitioner", "EthosUPartitioner", "VgfPartitioner"), _PARTITIONER),
    "TOSAQuantizer": ("(compile_spec_or_tosa_spec, use_composable_quantizer=True)", *_QUANTIZER),
    **dict.fromkeys(
        ("EthosUQuantizer", "VgfQuantizer"),
        ("(compile_spec, use_composable_quantizer=True)", *_QUANTIZER),
    ),
    "NodeFinder": ("find_nodes(model)",),
    "ArmCompileSpec": _SPEC,
    **dict.fromkeys(
        ("TOSABackend", "EthosUBackend", "VgfBackend"), ("preprocess(edge_program, compile_specs)",)
    ),
    "get_symmetric_quantization_config": (
        f"({_CONFIG}act_qmin=-128, act_qmax=127, weight_qmin=-127, weight_qmax=127, eps=2**-16)",
    ),
    "get_symmetric_a16w8_quantization_config": (
        f"({_CONFIG}weight_qmin=-127, weight_qmax=127, epsilon=2**-12)",
    ),
    "get_uint8_io_quantization_config": ("(is_qat=False, is_dynamic=False, eps=2**-16)",),
}


def signature(function: Any) -> str:
    """Names and defaults, without self and types."""
    found = inspect.signature(function)
    kept = [
        p.replace(annotation=inspect.Parameter.empty)
        for name, p in found.parameters.items()
        if name != "self"
    ]
    return str(inspect.Signature(kept))


@pytest.mark.parametrize("name", PUBLIC)
def test_signatures(name: str) -> None:
    assert name in npuc.executorch.__all__ and name in dir(npuc.executorch)
    public = getattr(npuc.executorch, name)
    for expected in PUBLIC[name]:
        method, _, rest = expected.partition("(")
        text = re.sub(r"2\*\*-(\d+)", lambda m: str(2 ** -int(m.group(1))), f"({rest}")
        assert signature(getattr(public, method) if method else public) == text
    if name.endswith("CompileSpec"):
        assert {m.name for m in public.DebugMode} == {"JSON", "TOSA"}


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'EthosUFoo'"):
        _ = npuc.executorch.EthosUFoo


def test_importing_the_package_is_cheap() -> None:
    code = (
        "import sys, npuc.executorch as e; e.EthosUCompileSpec('ethos-u55-128').target(); "
        "e.to_pte; print([m for m in ('torch', 'executorch', 'torchao') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": ":".join(sys.path)})  # fmt: skip
    assert done.stdout.strip() == "[]"


SCRIPT = """
import torch
from executorch.backends.arm.{package} import {name}CompileSpec, {name}Partitioner
from executorch.backends.arm.quantizer import {name}Quantizer, get_symmetric_quantization_config
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3))
inputs = (torch.ones(1, 3, 16, 16),)
compile_spec = {name}CompileSpec({target})
quantizer = {name}Quantizer(compile_spec)
quantizer.set_global(get_symmetric_quantization_config(is_per_channel=True))
exported = torch.export.export(model.eval(), inputs).module()
prepared = prepare_pt2e(exported, quantizer)
prepared(*inputs)
quantized = torch.export.export(convert_pt2e(prepared), inputs)
edge = to_edge_transform_and_lower(
    quantized,
    partitioner=[{name}Partitioner(compile_spec)],
    compile_config=EdgeCompileConfig(_check_ir_validity=False),
)
program = edge.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=True))
"""


@pytest.mark.parametrize("package, name, target, backend", [
    ("tosa", "Tosa", "'TOSA-1.0+INT'", "TOSABackend"),
    ("ethosu", "EthosU", "'ethos-u85-256'", "EthosUBackend"),
    ("vgf", "Vgf", "", "VgfBackend"),
])  # fmt: skip
def test_scripts_run_with_the_imports_changed(
    package: str, name: str, target: str, backend: str
) -> None:
    import executorch.kernels.quantized  # noqa: F401 - registers the out variants

    torch.manual_seed(0)
    text = SCRIPT.format(package=package, name=name, target=target)
    text = text.replace("TosaPartitioner", "TOSAPartitioner").replace("TosaQ", "TOSAQ")
    changed = re.sub(
        r"from executorch\.backends\.arm\S* import", "from npuc.executorch import", text
    )
    lines = zip(text.splitlines(), changed.splitlines(), strict=True)
    assert [a != b for a, b in lines].count(True) == 2
    names: dict[str, Any] = {}
    exec(changed, names)
    read = read_pte(bytes(names["program"].buffer))
    assert [backend_id for backend_id, _ in delegates_of(read)] == [backend]
    outside = [] if name == "Vgf" else ["dequantize_per_tensor.out", "quantize_per_tensor.out"]
    assert kernels_of(read) == [f"quantized_decomposed::{kernel}" for kernel in outside]
