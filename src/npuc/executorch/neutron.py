"""Partitioner, backend and quantizer under the names of ExecuTorch's NXP backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from torch.fx import Node

from npuc.errors import BadInput, NpucError
from npuc.executorch.edge_program import order_of, whole_of
from npuc.executorch.lower_delegate import Delegate, finish_delegate, lower_delegate
from npuc.executorch.neutron_spec import NeutronCompileSpec, NeutronTargetSpec
from npuc.executorch.partitioner import TOSAPartitioner
from npuc.executorch.quantization_config import get_symmetric_quantization_config
from npuc.executorch.quantizers import TOSAQuantizer
from npuc.executorch.run_edge import RECORD, to_array, to_tensor
from npuc.frontend.fx_targets import aten_op
from npuc.frontend.splice import kind_of
from npuc.ir import Graph
from npuc.serialize.read_tflite import read_tflite
from npuc.targets.neutron import package_neutron
from npuc.targets.neutron_converter import LOG
from npuc.targets.neutron_profile import kernels_of
from npuc.targets.target import Artifact, Target


@dataclass
class CustomDelegationOptions:
    """Options of delegation. allow_no_op_partitions: NXP's converter makes nothing of a partition
    that computes nothing, so that True is refused."""

    allow_no_op_partitions: bool = False


class NeutronBackend(BackendDetails):  # type: ignore[misc]
    """Payloads for the Neutron NPU, made by NXP's converter."""

    @staticmethod
    def preprocess(edge_program: Any, compile_specs: list[Any]) -> PreprocessResult:
        """The payload of `edge_program`.

        Raises Unsupported, BadInput for a wrong spec, ToolMissing without NXP's converter, NpucError
        where its result is no payload. With intermediates_dir the TFLite file is there in any case.
        """
        spec = NeutronCompileSpec.from_list(compile_specs)
        tag = next(
            (t for n in edge_program.graph.nodes if (t := n.meta.get("delegation_tag"))), "whole"
        )
        target = spec.target()
        delegate = lower_delegate(whole_of(edge_program, tag), target)
        graph, plain = finish_delegate(delegate, target)
        record = NeutronRecord.of(delegate, plain.data)
        ordered = replace(target, orders=(record.inputs, record.outputs))
        artifact = _packaged(spec, tag, graph, plain, ordered)
        told = {
            "debug_handle_map": _handles(edge_program, delegate, graph, artifact),
            RECORD: record,
        }
        return PreprocessResult(processed_bytes=artifact.data, **told)


def _packaged(
    spec: NeutronCompileSpec, tag: str, graph: Graph, plain: Artifact, target: Target
) -> Artifact:
    """The payload of a delegate; what there is on the way to it is written down."""
    _write(spec.intermediates_dir, {f"{tag}_pure.et.tflite": plain.data})
    try:
        artifact = package_neutron(graph, plain, target)
    except NpucError as error:
        _write(spec.intermediates_dir, {f"{tag}{k}": v for k, v in error.files.items()})
        raise
    made = artifact.files[".npu.tflite"]
    log = artifact.files[LOG]
    _write(spec.intermediates_dir, {f"{tag}_neutron.et.tflite": made, f"{tag}{LOG}": log})
    selection = artifact.files.get(".kernel_selection.c")
    if selection is not None:  # where the build of the firmware looks for it
        _write(spec.intermediates_dir or ".", {f"_kernel_selection_{tag}.c": selection})
    return artifact


@dataclass(frozen=True)
class NeutronRecord:
    """What a delegate computes: the checked TFLite file, and the memory order of its tensors."""

    data: bytes
    inputs: tuple[tuple[int, ...] | None, ...]
    outputs: tuple[tuple[int, ...] | None, ...]

    @staticmethod
    def of(delegate: Delegate, data: bytes) -> NeutronRecord:
        """The record of a delegate."""
        part = delegate.part
        orders = [
            tuple(order_of(n.meta["val"]) for n in side) for side in (part.inputs, part.outputs)
        ]
        return NeutronRecord(data, *orders)

    def run(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Outputs for inputs in the program's own layout, computed by LiteRT."""
        from npuc.execute.tflite import run_tflite

        arrays = [to_array(x, o) for x, o in zip(tensors, self.inputs, strict=True)]
        results = run_tflite(self.data, arrays)
        return [to_tensor(y, o) for y, o in zip(results, self.outputs, strict=True)]


class NeutronPartitioner(TOSAPartitioner):
    """Delegates what the Neutron NPU of the compile spec's chip takes.

    compile_spec: what `generate_neutron_compile_spec` returns. neutron_target_spec: of the same chip.
    preserve_ops: ops that are to stay whole where they can be delegated. check_op_support: nodes for
    which it returns False stay on the host. post_quantization_state_dict is not needed: the values of
    parameters are found in the program.
    """

    backend = NeutronBackend
    takes = NeutronCompileSpec

    def __init__(
        self,
        compile_spec: Iterable[Any] | NeutronCompileSpec,
        neutron_target_spec: NeutronTargetSpec | None = None,
        custom_delegation_options: CustomDelegationOptions | None = None,
        post_quantization_state_dict: Mapping[str, Any] | None = None,
        preserve_ops: Sequence[Any] | None = None,
        check_op_support: Callable[[Node], bool] | None = None,
    ) -> None:
        spec = compile_spec
        if not isinstance(spec, NeutronCompileSpec):
            spec = NeutronCompileSpec.from_list(spec)
        if neutron_target_spec is not None and neutron_target_spec.name != spec.chip:
            raise BadInput(f"a compile spec for {spec.chip} and a target spec for "
                           f"{neutron_target_spec.name}")  # fmt: skip
        options = custom_delegation_options or CustomDelegationOptions()
        if options.allow_no_op_partitions:
            raise BadInput(
                "allow_no_op_partitions=True",
                why="NXP's converter makes nothing of such partitions",
            )
        checks: list[Any] = [OperatorsNotToDelegate(spec.operators_not_to_delegate)]
        if check_op_support is not None:
            checks.append(CheckOpSupport(check_op_support))
        super().__init__(spec, checks)
        self.preserved.custom.update(preserve_ops or ())


class OperatorsNotToDelegate:
    """Refuses ops by name: "aten::mul" (every overload), "aten.mul.Tensor", "aten_mul_tensor", or one
    node by the name that it has ("aten_mul_tensor_1"). Names match as a whole."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = {_plain(name) for name in names}

    def is_node_supported(self, submodules: Any, node: Node) -> bool:
        """Whether none of the names is the node's."""
        texts = {kind_of(aten_op(node.target)), str(node.target), node.name}
        texts |= {".".join(t.split(".")[:2]) for t in texts}
        texts |= {t.removesuffix(".default") for t in texts}
        return self.names.isdisjoint(map(_plain, texts))


class CheckOpSupport:
    """Refuses the nodes that a function of the user refuses."""

    def __init__(self, check: Callable[[Node], bool]) -> None:
        self.check = check

    def is_node_supported(self, submodules: Any, node: Node) -> bool:
        """What the function says."""
        return bool(self.check(node))


def _plain(name: str) -> str:
    return name.replace("::", "_").replace(".", "_").lower()


class NeutronQuantizer(TOSAQuantizer):
    """Quantizes for the Neutron NPU: int8, per channel where the chip takes it, real ranges.

    Works on every exported graph: strict, not strict, or loaded. is_qat: for training.
    """

    takes = (NeutronTargetSpec,)

    def __init__(self, neutron_target_spec: NeutronTargetSpec, is_qat: bool = False) -> None:
        super().__init__(neutron_target_spec)  # type: ignore[arg-type]
        self.is_qat = is_qat
        self.set_global(get_symmetric_quantization_config(is_qat=is_qat))


def _handles(
    edge_program: Any, delegate: Delegate, graph: Graph, artifact: Artifact
) -> dict[int, tuple[int, ...]]:
    """Number of each kernel -> ExecuTorch's debug handles of what it computes, with one empty entry
    behind them for the event that ends a run; empty without profiling."""
    known = {n.name: n.meta.get("debug_handle") for n in edge_program.graph.nodes}
    ops = [op for op in graph.ops if op.kind != "const"]
    main = read_tflite(artifact.files[".tflite"]).subgraphs[0]
    makers = {main.tensors[t].name: i for i, op in enumerate(main.operators) for t in op.outputs}
    kernels = kernels_of(artifact.files[LOG].decode(errors="replace"), makers)
    found: dict[int, tuple[int, ...]] = {}
    for number, operators in enumerate(kernels):
        names = [ops[i].loc.name for i in operators]
        handles = [known.get(delegate.nodes.get(n, n)) for n in names]
        flat = [h for x in handles if x is not None for h in (x if isinstance(x, tuple) else (x,))]
        found[number] = tuple(dict.fromkeys(flat))
    return {**found, len(found): ()} if found else {}


def _write(folder: str | None, files: Mapping[str, bytes]) -> None:
    if folder is None:
        return
    try:
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
    except OSError as error:
        raise NpucError(f"cannot write to {folder}", why=error.strerror or str(error)) from None
