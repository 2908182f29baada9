"""What a target is: a name, limits, preferences, a list of passes, and how its file is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from npuc.ir import Graph

#: passes of every TOSA target, in order; a name is a file of `npuc.passes`
TOSA_PASSES = (
    "fold_constants",
    "flatten_concats",
    "sink_tiles",
    "assign_layout",
    "hoist_transposes",
    "cancel_transposes",
    "assign_shapes",
    "cancel_reshapes",
    "merge_slices",
    "fold_padding",
    "merge_tables",
    "merge_rescales",
    "merge_clamps",
    "narrow_products",
    "fold_constants",
    "remove_identities",
    "fuse_depth_to_space",
)

Order = tuple[int, ...] | None


@dataclass(frozen=True)
class Artifact:
    """What a target made of a graph.

    `data` is the target's file, `suffix` its ending, `files` what is saved beside it by name,
    `performance` figures of the vendor's tool (empty where there are none), `tosa` the TOSA
    flatbuffer that `data` was made from.
    """

    data: bytes
    suffix: str
    tosa: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    performance: Mapping[str, Any] = field(default_factory=dict)
    op_costs: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Target:
    """A place where a model can run. `limits` are those of its dialect.

    `families` name, most special first, whose overrides of lowering rules hold. `passes` are run
    in order after lowering. `finish(graph, target)` makes the artifact, and of that, once it is
    checked, `package(graph, artifact, target)` the vendor's file. `options` are the user's
    settings for the target's tool. `prepare(graph, target)` changes the aten graph before lowering.
    `recipe` are changes to recipes that are given by name, `demands` changes to every recipe: what
    the target's operators need of quantization. `idle(graph)` says why a graph after the passes is
    nothing for the target. `orders`, of the artifact's inputs and outputs, are set before `finish`:
    axes from the outermost in memory to the innermost, None where they are in order.
    """

    name: str
    description: str
    limits: Any
    finish: Callable[[Graph, Target], Artifact]
    dialect: str = "tosa"
    families: tuple[str, ...] = ()
    passes: tuple[str, ...] = (*TOSA_PASSES, "unchain_rescales", "cast_widenings")
    options: Mapping[str, Any] = field(default_factory=dict)
    prepare: Callable[[Graph, Target], Graph] | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    demands: Mapping[str, Any] = field(default_factory=dict)
    idle: Callable[[Graph], str | None] | None = None
    package: Callable[[Graph, Artifact, Target], Artifact] | None = None
    orders: tuple[tuple[Order, ...], tuple[Order, ...]] = ((), ())

    @staticmethod
    def named(name: str, **options: Any) -> Target:
        """The target called `name` with options of its tool, e.g. memory_mode="Sram_Only".

        Raises BadInput for an unknown name (with the nearest ones) or option.
        """
        from npuc.targets.catalogue import find_target

        return find_target(name, options)

    def with_options(self, options: Mapping[str, Any]) -> Target:
        """This target with further options."""
        return replace(self, options={**self.options, **options})
