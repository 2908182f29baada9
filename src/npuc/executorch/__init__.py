"""npuc under the names of ExecuTorch's Arm and NXP backends, and .pte programs."""

from __future__ import annotations

from typing import Any

#: public names and the modules that define them, imported when they are first used
_LAZY = {
    "TosaSpecification": "tosa_specification",
    "ArmCompileSpec": "compile_specs",
    "TosaCompileSpec": "compile_specs",
    "EthosUCompileSpec": "compile_specs",
    "VgfCompileSpec": "compile_specs",
    "VelaExternalBlockPlacements": "compile_specs",
    "ArmPassPipelineConfig": "pass_pipeline_config",
    "SoftmaxDecompositionConfig": "pass_pipeline_config",
    "LeakyReLUDecompositionConfig": "pass_pipeline_config",
    "QuantizeInfConfig": "pass_pipeline_config",
    "TOSABackend": "backends",
    "EthosUBackend": "backends",
    "VgfBackend": "backends",
    "TOSAPartitioner": "partitioner",
    "EthosUPartitioner": "partitioner",
    "VgfPartitioner": "partitioner",
    "TOSAQuantizer": "quantizers",
    "EthosUQuantizer": "quantizers",
    "VgfQuantizer": "quantizers",
    "NodeFinder": "node_rules",
    "QuantizationConfig": "quantization_config",
    "get_symmetric_quantization_config": "quantization_config",
    "get_symmetric_a16w8_quantization_config": "quantization_config",
    "get_symmetric_a8w4_quantization_config": "quantization_config",
    "get_uint8_io_quantization_config": "quantization_config",
    "get_vgf_snorm_quantization_config": "quantization_config",
    "NeutronBackend": "neutron",
    "NeutronPartitioner": "neutron",
    "NeutronQuantizer": "neutron",
    "CustomDelegationOptions": "neutron",
    "NeutronTargetSpec": "neutron_spec",
    "NeutronCompileSpecBuilder": "neutron_spec",
    "generate_neutron_compile_spec": "neutron_spec",
    "PartitionReport": "partition_report",
    "NodeVerdict": "partition_report",
    "to_pte": "pte",
    "run_pte": "execute_pte",
    "run_pte_methods": "execute_pte",
}

__all__ = [*_LAZY]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'npuc.executorch' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"npuc.executorch.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
