"""Which nodes a quantizer's setter selects, and what was chosen for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule, Node

from npuc.errors import BadInput
from npuc.executorch.quantization_config import QuantizationConfig

Config = QuantizationConfig | None


class NodeFinder(ABC):
    """Selects nodes of an exported graph, for `set_node_finder`."""

    @abstractmethod
    def find_nodes(self, model: GraphModule) -> Iterator[Node]:
        """The nodes; placeholders and the output node stand for the model's boundary."""


@dataclass(frozen=True)
class Rule:
    """The choice of one call of a setter.

    setter, key: its name and what it was given; find: the nodes that it selects.
    """

    setter: str
    key: Any
    find: Callable[[GraphModule], Iterable[Node]]
    config: Config


class Choices:
    """What a setter was given, by key. Assigning a dict takes the place of all its calls."""

    def __init__(self, setter: str) -> None:
        self.setter = setter

    def __get__(self, quantizer: Any, owner: type | None = None) -> dict[Any, Config]:
        rules = [r for r in quantizer.rules if getattr(r, "setter", "") == self.setter]
        return {r.key: r.config for r in rules}

    def __set__(self, quantizer: Any, configs: dict[Any, Config]) -> None:
        rules = quantizer.rules
        rules[:] = [r for r in rules if getattr(r, "setter", "") != self.setter]
        for key, config in configs.items():
            getattr(quantizer, self.setter)(key, config)


def checked(config: Config) -> Config:
    """`config`; BadInput for anything else than a config or None."""
    if config is not None and not isinstance(config, QuantizationConfig):
        raise BadInput(
            f"a config of type {type(config).__name__}",
            hint="use get_symmetric_quantization_config() or another factory; None leaves float",
        )
    return config


def boundary(model: GraphModule) -> list[Node]:
    """The placeholders and the output node."""
    return [n for n in model.graph.nodes if n.op in ("placeholder", "output")]


def one_config(what: str, chosen: dict[Node, Config]) -> Config:
    """The config of the inputs, or of the outputs. BadInput where they differ."""
    configs = list(chosen.values())
    if any(c != configs[0] for c in configs):
        given = ", ".join(f"{n.name}: {c}" for n, c in chosen.items())
        raise BadInput(
            f"{what} with different configs ({given})",
            why="they have one type",
            hint="choose one config for all of them",
        )
    return configs[0] if configs else None
