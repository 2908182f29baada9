"""Which recipe governs a node, and which integer type its values have."""

from __future__ import annotations

from torch.fx import GraphModule, Node

from npuc.frontend.splice import kind_of
from npuc.quantizer.fx_values import modules_of, moves, name_of
from npuc.quantizer.mark_wide import ARITHMETIC, is_steep
from npuc.quantizer.policy import Role, role_of
from npuc.quantizer.recipe import Recipe


class Types:
    """The recipes of all nodes of a graph; `made` holds the types of results already annotated.

    left_float: names of the nodes that the recipe leaves float.
    """

    def __init__(self, gm: GraphModule, recipe: Recipe, tables16: bool) -> None:
        self.recipe = recipe
        self.tables16 = tables16
        self.left_float: set[str] = set()
        self.made: dict[Node, str] = {}
        self._recipes: dict[Node, Recipe | None] = {}
        for node in gm.graph.nodes:
            self._recipes[node] = self._find(node)

    def recipe_of(self, node: Node) -> Recipe | None:
        """The recipe of a node; None where it stays float."""
        return self._recipes[node]

    def result(self, node: Node) -> str:
        """Type of the result of a quantized node."""
        recipe = self._recipes[node]
        assert recipe is not None
        return "int16" if self._is_wide(node, "quant_wide") else recipe.activations

    def operand(self, operand: Node, reader: Node) -> str:
        """Type under which a node reads an operand: sums and moves take 16 bits as they come."""
        recipe = self._recipes[reader]
        assert recipe is not None
        made = self.made.get(operand)
        takes_any = moves(reader) or self._is_wide(reader, "quant_takes_wide")
        if made == "int16" and takes_any:
            return made
        is_shared = role_of(kind_of(reader.target)) is Role.SHARE and not moves(reader)
        return self.result(reader) if is_shared else recipe.activations

    def _is_wide(self, node: Node, mark: str) -> bool:
        recipe = self._recipes[node]
        if recipe is None or not recipe.wide_sums or not node.meta.get(mark):
            return False
        if self.tables16 or node.op != "call_function" or name_of(node) in ARITHMETIC:
            return True
        return is_steep(node) and mark == "quant_takes_wide"  # by several 8-bit tables

    def _find(self, node: Node) -> Recipe | None:
        if node.op == "placeholder":
            return self.recipe
        if node.op != "call_function":
            return None
        kind = kind_of(node.target)
        if kind == "getitem":
            return self._recipes[node.args[0]]  # type: ignore[index]
        if role_of(kind) is Role.FLOAT:
            return None
        part_of = node.meta.get("npuc_kind", "")
        recipe = self.recipe.for_node(node.name, kind, modules_of(node), part_of)
        if recipe is None:
            self.left_float.add(node.name)
        return recipe
