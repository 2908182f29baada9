"""A .pte program of a model that is only partly on the target: delegates, and kernels around them.

This goes through ExecuTorch's own lowering, whose import alone takes seconds.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from npuc.boundary import IO, TensorIO
from npuc.compilation import Compilation, Coverage
from npuc.errors import BadInput, CheckFailed, NpucError, Unsupported
from npuc.serialize.pte_flatbuffer import kernels_of, read_pte
from npuc.targets.target import Artifact, Target

if TYPE_CHECKING:
    from npuc.executorch.compile_specs import ArmCompileSpec
    from npuc.executorch.neutron_spec import NeutronCompileSpec
    from npuc.executorch.partition_report import PartitionReport
    from npuc.frontend.program import Program
    from npuc.ir import Graph

EXECUTORS = ("evaluator", "executorch")


@dataclass
class PartlyDelegated(Compilation):
    """What `npuc.compile(format="pte")` returns when the host computes a part.

    kernels: names of the kernels that the device's runtime must register. report: per node of the
    edge program the delegate that it is in, or why it is on the host. `graph` is the model's.
    """

    kernels: list[str] = field(default_factory=list)
    report: PartitionReport | None = None
    edge: Any = None
    buffers: dict[str, Any] = field(default_factory=dict)

    @property
    def waste(self) -> dict[str, Any]:
        """Nothing: each delegate has a graph of its own."""
        return {}

    def run(self, *inputs: Any, on: str | None = None, **keywords: Any) -> Any:
        """The model's outputs, computed by npuc's evaluator and PyTorch ("evaluator", None), or by
        ExecuTorch's runtime in a child process ("executorch": targets that it can execute; state
        starts anew in each call)."""
        flat = self.program.flatten_inputs((inputs, keywords) if keywords else inputs)
        if on in ("evaluator", None):
            from npuc.executorch.run_edge import run_edge

            return self._nested(run_edge(self.edge, flat, self.buffers))
        if on == "executorch":
            from npuc.executorch.execute_pte import run_pte

            return self._nested(run_pte(self.artifact, [flat])[0])
        raise BadInput(f"unknown executor {on!r}", hint=f"known: {', '.join(EXECUTORS)}")

    def _nested(self, outputs: Sequence[Any]) -> Any:
        import torch.utils._pytree as pytree

        return pytree.tree_unflatten(list(outputs), self.program.out_spec)

    def reset(self) -> None:
        """Set the state back to the buffers' initial values."""
        self.buffers = {}

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        report = self.report.as_dict() if self.report is not None else None
        return {**super().as_dict(), "kernels": self.kernels, "partition": report}


def compile_partly(
    job: Any, coverage: Coverage, graph: Graph, name: str | None, check: bool
) -> Any:
    """The program of a job whose model was refused in part. Raises NpucError where ExecuTorch has
    no kernel for the rest, CheckFailed for wrong results."""
    program: Program = job.program
    if job.io_layout != "contiguous":
        raise BadInput(
            "io_layout of a partly delegated program",
            why="the host's tensors decide it",
            hint="give channels-last example inputs instead",
        )
    if any(not isinstance(d, int) for n in program.placeholders for d in n.meta["val"].shape):
        raise Unsupported([v.reason for v in coverage.refused if v.reason is not None])
    start = time.perf_counter()
    data, edge, report = _lower(program, spec_of(job.target))
    job.timings["executorch"] = time.perf_counter() - start
    result = PartlyDelegated(
        name=name or program.name,
        target=job.target,
        graph=graph,
        output=Artifact(data, ".pte"),
        io=_boundary(program, edge),
        coverage=coverage,
        check=None,
        timings=job.timings,
        stages=job.stages,
        quantization=job.quantization_name,
        program=program,
        kernels=kernels_of(read_pte(data)),
        report=report,
        edge=edge,
    )
    if check:
        with job.stage("check"):
            result.check = _check(result, job)
            result.reset()
    return result


def spec_of(target: Target) -> ArmCompileSpec | NeutronCompileSpec:
    """The compile spec that stands for a target."""
    from npuc.executorch.compile_specs import EthosUCompileSpec, TosaCompileSpec, VgfCompileSpec

    options = target.options
    if target.name == "vgf":
        return VgfCompileSpec(compiler_flags=options.get("flags", ()))
    if target.name.startswith("ethos-u"):
        extra = options.get("extra_options", {}).items()
        flags = [f"--{k}" if v in ("", True) else f"--{k}={v}" for k, v in extra]
        return EthosUCompileSpec(
            target.name, options.get("system_config"), options.get("memory_mode"), flags,
            options.get("config_ini", "Arm/vela.ini"),
        )  # fmt: skip
    if target.name.startswith("neutron-"):
        from npuc.executorch.neutron_spec import NeutronCompileSpec

        return NeutronCompileSpec.of_target(target)
    if target.dialect == "tosa":
        return TosaCompileSpec(target.name)
    raise BadInput(
        f"{target.name} has no ExecuTorch backend",
        hint="use vgf, ethos-u..., neutron-imxrt700 or tosa-...",
    )


def _lower(
    program: Program, spec: ArmCompileSpec | NeutronCompileSpec
) -> tuple[bytes, Any, PartitionReport]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from executorch.exir import (
            EdgeCompileConfig,
            ExecutorchBackendConfig,
            to_edge_transform_and_lower,
        )
        from executorch.exir.error import InternalError
        from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
        from executorch.kernels import quantized  # noqa: F401 - registers out variants

        partitioner = partitioner_of(spec)
        config = EdgeCompileConfig(_check_ir_validity=False)
        try:
            manager = to_edge_transform_and_lower(
                _exported(program), partitioner=[partitioner], compile_config=config
            )
            edge = _copy(manager.exported_program())
            passes = [InitializedMutableBufferPass([s.name for s in _states(program)])]
            made = manager.to_executorch(ExecutorchBackendConfig(passes=passes))
        except (RuntimeError, InternalError) as error:
            raise _no_kernel(error) from None
    return bytes(made.buffer), edge, partitioner.report()


def _copy(edge: Any) -> Any:
    """What runs of an edge program, before `to_executorch` changes it in place."""
    gm = deepcopy(edge.graph_module)
    return SimpleNamespace(
        graph_module=gm,
        graph=gm.graph,
        graph_signature=deepcopy(edge.graph_signature),
        state_dict=dict(edge.state_dict),
        constants=dict(edge.constants),
    )


def partitioner_of(spec: ArmCompileSpec | NeutronCompileSpec) -> Any:
    """The partitioner of a compile spec."""
    from npuc.executorch import neutron, partitioner

    kinds: tuple[Any, ...] = (
        partitioner.TOSAPartitioner,
        partitioner.EthosUPartitioner,
        partitioner.VgfPartitioner,
        neutron.NeutronPartitioner,
    )
    return next(kind(spec) for kind in kinds if type(spec) is kind.takes)


def _no_kernel(error: Exception) -> NpucError:
    text = str(error).strip().splitlines()[0][:300]
    hint = "the op is neither on the target nor in ExecuTorch's portable kernels"
    return NpucError(
        "ExecuTorch cannot make a program of the rest of the model", why=text, hint=hint
    )


def _exported(program: Program) -> Any:
    """The program as torch.export makes it of a module with the mutated buffers."""
    import torch

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = program.graph_module
            for state in _states(program):
                self.register_buffer(state.name, state.initial.detach().clone())

        def forward(self, *inputs: Any) -> Any:
            buffers = [getattr(self, s.name) for s in _states(program)]
            # node by node, so that each keeps its place in the user's model
            with torch.fx.traceback.preserve_node_meta():
                results = torch.fx.Interpreter(self.body).run(*inputs, *buffers)
            for state, buffer in zip(program.states, buffers, strict=True):
                buffer.copy_(results[state.result])
            for place, output in program.mutated_inputs:
                inputs[place].copy_(results[output])
            return tuple(
                o.constant if o.place is None else results[o.place] for o in program.outputs
            )

    flat = program.flatten_inputs(program.example_inputs)
    with torch.no_grad():
        return torch.export.export(Whole(), tuple(flat), strict=False)


def _states(program: Program) -> list[Any]:
    """The states, under names that a module's buffers may have."""
    return [
        SimpleNamespace(name=f"npuc_state_{i}", initial=s.initial)
        for i, s in enumerate(program.states)
    ]


def _boundary(program: Program, edge: Any) -> IO:
    """The method's inputs and outputs: the model's own tensors."""
    from torch.export.graph_signature import OutputKind

    def port(name: str, node: Any) -> TensorIO:
        value = node.meta["val"]
        return TensorIO(name, tuple(value.shape), str(value.dtype).removeprefix("torch."))

    count = len(program.placeholders) - len(program.states)
    kinds = [spec.kind for spec in edge.graph_signature.output_specs]
    results = zip(kinds, edge.graph.output_node().args[0], strict=True)
    user = [node for kind, node in results if kind is OutputKind.USER_OUTPUT]
    names = program.output_names
    leaves = zip(program.outputs, user, strict=True)
    return IO(
        tuple(port(n.name, n) for n in program.placeholders[:count]),
        tuple(port(names[o.place], node) for o, node in leaves if o.place is not None),
    )


def _check(result: PartlyDelegated, job: Any) -> Any:
    """Compare with PyTorch on the example inputs."""
    import numpy as np
    import torch

    from npuc.check.check import FLOAT_TOLERANCE, GOOD_DB
    from npuc.check.report import CheckReport, OutputCheck, sqnr_db
    from npuc.executorch.run_edge import run_edge

    program = result.program
    got = run_edge(result.edge, program.flatten_inputs(job.example_inputs), {})
    want = program.run_reference(job.example_inputs)
    report = CheckReport(samples=1)
    for leaf, tensor in zip(program.outputs, got, strict=True):
        if leaf.place is None:
            continue
        expected = want[leaf.place]
        name = program.output_names[leaf.place]
        if not expected.is_floating_point():
            if not torch.equal(tensor, expected):
                raise CheckFailed(f"output {name} departs from the model")
            continue
        a, b = tensor.double().numpy(), expected.double().numpy()
        tolerance = FLOAT_TOLERANCE.get(str(expected.dtype).removeprefix("torch."), 0.3)
        least = GOOD_DB if job.quantization_name else -20 * np.log10(tolerance)
        found = OutputCheck(name, None, float(np.abs(a - b).max(initial=0)), sqnr_db(a, b), None)
        if found.sqnr < least and found.max_error > 1e-6:
            why = f"{found.sqnr:.1f} dB where {least:.0f} dB are expected"
            raise CheckFailed(f"output {name} departs from the model", why=why)
        report.outputs.append(found)
    return report
