"""The partitioners that ExecuTorch asks which nodes to delegate."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from executorch.exir.backend.backend_details import BackendDetails
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from torch.fx import GraphModule, Node

from npuc.errors import BadInput
from npuc.executorch.backends import OURS, EthosUBackend, TOSABackend, VgfBackend, claim
from npuc.executorch.compile_specs import (
    EthosUCompileSpec,
    TosaCompileSpec,
    VgfCompileSpec,
)
from npuc.executorch.edge_program import Constants, constants_of
from npuc.executorch.partition_graph import Partition, bodies_on_host, partition_graph
from npuc.executorch.partition_report import NodeVerdict, PartitionReport
from npuc.executorch.preserved_ops import PreservedOps
from npuc.frontend.fx_targets import aten_op
from npuc.frontend.source_location import loc_of
from npuc.frontend.spellings.quantize import DEQUANTIZE, QUANTIZE
from npuc.frontend.splice import kind_of

logger = logging.getLogger(__name__)


class TOSAPartitioner(Partitioner):  # type: ignore[misc]
    """Delegates what the target of the compile spec takes; everything else stays on the host.

    compile_spec: for the backend. additional_checks: objects with
    `is_node_supported(submodules, node)`; a node that one of them refuses stays on the host.
    """

    backend: type[BackendDetails] = TOSABackend
    takes: type[Any] = TosaCompileSpec

    def __init__(self, compile_spec: Any, additional_checks: Sequence[Any] | None = None) -> None:
        super().__init__()
        if not isinstance(compile_spec, self.takes):
            raise BadInput(
                f"{type(self).__name__} with a {type(compile_spec).__name__}",
                hint=f"give a {self.takes.__name__}",
            )
        self.compile_spec = compile_spec
        self.target = compile_spec.target()
        self.additional_checks = list(additional_checks or ())
        self.delegation_spec = DelegationSpec(self.backend.__name__, compile_spec.to_list())
        self.preserved = PreservedOps(self.target, self._refusal_of_checks)
        self.reports: list[PartitionReport] = []

    def register_custom_partition_op(self, op: Any) -> None:
        """Keep a custom op whole. It is delegated where a lowering rule for it is registered."""
        self.preserved.custom.add(op)

    def ops_to_not_decompose(
        self, ep: Any
    ) -> tuple[list[torch._ops.OpOverload], Callable[[Node], bool] | None]:
        """The ops of a program that the target wants whole, and which of their nodes it takes."""
        return self.preserved.ops_of(ep)

    def partition(self, exported_program: Any) -> PartitionResult:
        """Tag the nodes of each delegate, and the constants that only delegates read."""
        claim(self.backend)
        constants = constants_of(exported_program)
        tags: dict[str, DelegationSpec] = {}
        verdicts = self._partition(exported_program.graph_module, constants, tags)
        for node in constants:
            owners = [u.meta["delegation_tag"] for u in node.users if "delegation_tag" in u.meta]
            if owners:  # ExecuTorch copies it for each further owner
                node.meta["delegation_tag"] = min(owners, key=list(tags).index)
        self._keep_report(verdicts)
        return PartitionResult(exported_program, tags)

    def _partition(
        self, gm: GraphModule, constants: Constants, tags: dict[str, DelegationSpec]
    ) -> list[NodeVerdict]:
        """Tag the nodes of a graph, then those of branches and bodies that stay on the host.

        Tags are numbered over all programs: files of delegates are named by them.
        """
        found = partition_graph(
            gm, constants, self.target, self._refusal_of_checks, self.preserved.is_preserved
        )
        used = len({v.tag for report in self.reports for v in report if v.tag})
        for group in found.groups:
            tag = f"tag{used + len(tags)}"
            tags[tag] = self.delegation_spec
            for node in group:
                bodies = (p for p in node.all_input_nodes if p.op == "get_attr")
                for member in (node, *bodies):
                    member.meta["delegation_tag"] = tag
                    member.meta[OURS] = True
        verdicts = [_verdict(n, found) for n in found.nodes]
        for body in bodies_on_host(found):
            verdicts += self._partition(body, {}, tags)
        return verdicts

    def report(self) -> PartitionReport:
        """Verdict, reason and source line of every node of the programs partitioned so far."""
        nodes = [verdict for report in self.reports for verdict in report]
        return PartitionReport(self.target.name, nodes)

    def _refusal_of_checks(self, node: Node) -> str | None:
        if getattr(self.compile_spec, "preserve_io_quantization", False) and _is_outermost(node):
            return "the quantization of the program's inputs and outputs is to stay on the host"
        for check in self.additional_checks:
            if not check.is_node_supported({}, node):
                return f"rejected by {type(check).__name__}"
        return None

    def _keep_report(self, verdicts: list[NodeVerdict]) -> None:
        report = PartitionReport(self.target.name, verdicts)
        self.reports.append(report)
        logger.info("%s", report)
        folder = self.compile_spec.path_for_intermediates
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / "partition_report.txt").write_text(f"{self.report()}\n")


class EthosUPartitioner(TOSAPartitioner):
    """Delegates to Ethos-U."""

    backend = EthosUBackend
    takes = EthosUCompileSpec


class VgfPartitioner(TOSAPartitioner):
    """Delegates to VGF files."""

    backend = VgfBackend
    takes = VgfCompileSpec


def _is_outermost(node: Node) -> bool:
    """Whether a node quantizes an input of the program, or only gives a dequantized output."""
    kind = kind_of(aten_op(node.target))
    if kind == QUANTIZE:
        return node.all_input_nodes[0].op == "placeholder"
    return kind == DEQUANTIZE and all(user.op == "output" for user in node.users)


def _verdict(node: Node, found: Partition) -> NodeVerdict:
    kind = kind_of(aten_op(node.target))
    loc = loc_of(node.meta, node.name, kind)
    refusal = found.refused.get(node)
    reason = found.dropped.get(node, "")
    if refusal is not None:
        reason = "; ".join(part for part in (refusal.why, refusal.hint) if part)
    tag = node.meta.get("delegation_tag", "")
    return NodeVerdict(
        node.name, kind, refusal is None, tag, reason, loc.file, loc.line, loc.module
    )
