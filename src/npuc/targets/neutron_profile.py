"""Which operators each kernel of a Neutron graph computes, from the log of NXP's converter.

Facts: with profiling on, the log has "Graphs:" twice: in front of the operators that were read, with
the kernels of each subgraph behind "= Extract Graphs =", and in front of the subgraphs that were made,
with the names of their tensors. A tensor keeps its name, or gets more behind a "/".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_KERNELS = re.compile(
    r'NeutronOperator "subgraph_(\d+)":\s*Operators:.*?Kernels:\s*?\n(.*?)(?=\n\s*\n|Neutron|=|\Z)',
    re.S,
)
_OUTPUTS = re.compile(r"Outputs:(.*?)Location:", re.S)
_TENSOR = re.compile(r"\[\d+\]:\s+(\S+)")


def kernels_of(log: str, makers: Mapping[str, int]) -> list[tuple[int, ...]]:
    """Per kernel, in the order in which they run, the operators that it computes.

    makers: name of a tensor -> number of the operator that makes it. Empty where the log has no dumps.
    """
    parts = log.split("Graphs:")
    if len(parts) != 3:
        return []
    extracted = parts[1].partition("= Extract Graphs =")[2]
    extracted = extracted.partition("Generate code for NeutronGraph")[0]
    tensors = _tensors_of_subgraphs(parts[2])
    found: list[tuple[int, ...]] = []
    for number, kernels in _KERNELS.findall(extracted):
        operators = {makers[n] for t in tensors.get(int(number), []) if (n := _known(t, makers))}
        count = sum(bool(line.strip()) for line in kernels.splitlines())
        found += [tuple(sorted(operators))] * count
    return found


def _tensors_of_subgraphs(dump: str) -> dict[int, list[str]]:
    """Number of each subgraph -> names of the tensors that its operators make."""
    found = {}
    for text in dump.split("Name: subgraph_")[1:]:
        number = re.match(r"\d+", text)
        if number is not None:
            body = text.partition("Tensors:")[2]
            found[int(number.group())] = [
                n for o in _OUTPUTS.findall(body) for n in _TENSOR.findall(o)
            ]
    return found


def _known(tensor: str, makers: Mapping[str, int]) -> str | None:
    """The longest name of the model that a tensor's name is, or begins with."""
    while tensor not in makers:
        tensor, slash, _ = tensor.rpartition("/")
        if not slash:
            return None
    return tensor
