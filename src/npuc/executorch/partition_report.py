"""What a partitioner decided about each node, as data and as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class NodeVerdict:
    """One node of the edge program.

    lowers: the target takes it; reason: why it does not, or why its partition was dropped; tag:
    the delegate that it is in, empty on the host; file, line, module: where the model has it.
    """

    name: str
    op: str
    lowers: bool
    tag: str
    reason: str
    file: str
    line: int
    module: str

    @property
    def where(self) -> str:
        """The place in the model, for people."""
        place = f"{self.file}:{self.line}" if self.file else ""
        return f"{place} ({self.module})" if self.module else place


@dataclass
class PartitionReport:
    """Verdicts in the order of the graph. Iterates over them; `str` is a table."""

    target: str
    nodes: list[NodeVerdict] = field(default_factory=list)

    def __iter__(self) -> Iterator[NodeVerdict]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def on_host(self) -> list[NodeVerdict]:
        """The nodes that no delegate has."""
        return [n for n in self.nodes if not n.tag]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "target": self.target,
            "total": len(self.nodes),
            "delegated": len(self.nodes) - len(self.on_host),
            "delegates": len({n.tag for n in self.nodes if n.tag}),
            "nodes": [asdict(n) for n in self.nodes],
        }

    def __str__(self) -> str:
        rows = [("node", "op", "runs on", "reason", "where")]
        rows += [(n.name, n.op, n.tag or "host", n.reason, n.where) for n in self.nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [
            "  ".join(
                [*(c.ljust(w) for c, w in zip(row[:4], widths, strict=True)), row[4]]
            ).rstrip()
            for row in rows
        ]
        counts = self.as_dict()
        head = (
            f"{counts['delegated']} of {counts['total']} nodes in {counts['delegates']} delegates"
        )
        return "\n".join([f"{head} for {self.target}", *lines])
