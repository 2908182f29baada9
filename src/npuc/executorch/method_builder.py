"""Builds one method of an ExecuTorch program: values, calls, planned memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from npuc.executorch.plan_memory import Tenant, plan_memory

#: numpy or ml_dtypes name -> (ScalarType of the file, bytes)
SCALAR_TYPES = {
    "uint8": ("BYTE", 1), "int8": ("CHAR", 1), "int16": ("SHORT", 2), "int32": ("INT", 4),
    "int64": ("LONG", 8), "float16": ("HALF", 2), "float32": ("FLOAT", 4), "float64": ("DOUBLE", 8),
    "bool": ("BOOL", 1), "bfloat16": ("BFLOAT16", 2), "float8_e5m2": ("FLOAT8E5M2", 1),
    "float8_e4m3fn": ("FLOAT8E4M3FN", 1), "uint16": ("UINT16", 2),
}  # fmt: skip
#: numbers of the ScalarTypes that quantize kernels take as an argument
SCALAR_NUMBERS = {"uint8": 0, "int8": 1, "int16": 2, "int32": 3, "uint16": 27}

#: the memory that planned tensors lie in; 0 is reserved by the format
_MEMORY = 1
#: the life of a tensor that keeps its value between two executions
_BEFORE, _AFTER = -1, 2**31


@dataclass(frozen=True)
class Tensor:
    """A tensor of a method: its place among the values, element type, sizes, memory order."""

    index: int
    dtype: str
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.sizes) * SCALAR_TYPES[self.dtype][1]


class MethodBuilder:
    """Collects values and calls in order; `finish` plans the memory.

    initial: data of mutable tensors of all methods of the program, in order (shared).
    """

    def __init__(self, name: str, initial: list[bytes]) -> None:
        self.name = name
        self.initial = initial
        self.values: list[dict[str, Any]] = []
        self.tenants: dict[int, Tenant] = {}
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.operators: dict[tuple[str, str], int] = {}
        self.delegates: list[dict[str, Any]] = []
        self.instructions: list[dict[str, Any]] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []

    # values --------------------------------------------------------------------------------------

    def tensor(
        self, dtype: str, sizes: Sequence[int], dim_order: Sequence[int] = (), state: Any = None
    ) -> Tensor:
        """A tensor in planned memory; `state` are the bytes it holds before the first execution."""
        order = tuple(dim_order) or tuple(range(len(sizes)))
        made = Tensor(len(self.values), dtype, tuple(sizes), order)
        written: dict[str, Any] = {
            "scalar_type": SCALAR_TYPES[dtype][0], "storage_offset": 0, "sizes": list(sizes),
            "dim_order": list(order), "requires_grad": False, "data_buffer_idx": 0,
            "layout": 0, "shape_dynamism": "STATIC",
        }  # fmt: skip
        now = len(self.instructions)
        tenant = Tenant(made.nbytes, now, now)
        if state is not None:
            self.initial.append(state)
            written["data_buffer_idx"] = len(self.initial)
            tenant.first, tenant.last = _BEFORE, _AFTER
        self.values.append({"val": ("Tensor", written)})
        self.tenants[made.index] = tenant
        return made

    def number(self, value: float | bool | tuple[int, ...] | None) -> int:
        """The index of a value that is no tensor; equal ones are stored once."""
        key = (type(value), value)
        if key not in self.numbers:
            made = _evalue(self, value)  # first: it may add the values of a list's items
            self.numbers[key] = len(self.values)
            self.values.append({"val": made})
        return self.numbers[key]

    def input(self, tensor: Tensor) -> Tensor:
        """Make a tensor the next input: it is written before the first instruction."""
        self.inputs.append(tensor.index)
        self.tenants[tensor.index].first = 0
        return tensor

    def output(self, index: int) -> None:
        """Make a value the next output: it lives until the end."""
        self.outputs.append(index)
        if index in self.tenants:
            self.tenants[index].last = _AFTER

    # calls ---------------------------------------------------------------------------------------

    def kernel(self, name: str, overload: str, args: Sequence[int], results: Sequence[int]) -> None:
        """Call a kernel; `results` repeat the out arguments, as the runtime expects."""
        operator = self.operators.setdefault((name, overload), len(self.operators))
        call = {"op_index": operator, "args": [*args, *results]}
        self._add("KernelCall", call, args)

    def delegate(self, backend: str, data_index: int, args: Sequence[Tensor]) -> None:
        """Call a delegate whose data is number `data_index` of the program's."""
        processed = {"location": "SEGMENT", "index": data_index}
        self.delegates.append({"id": backend, "processed": processed, "compile_specs": []})
        indices = [t.index for t in args]
        call = {"delegate_index": len(self.delegates) - 1, "args": indices}
        self._add("DelegateCall", call, indices)

    def _add(self, kind: str, call: dict[str, Any], args: Sequence[int]) -> None:
        now = len(self.instructions)
        for index in args:
            if index in self.tenants:
                tenant = self.tenants[index]
                tenant.last = max(tenant.last, now)
        self.instructions.append({"instr_args": (kind, call)})

    # the end -------------------------------------------------------------------------------------

    def finish(self, structure: tuple[str, str] = ("", "")) -> dict[str, Any]:
        """The execution plan. `structure`: the nesting of inputs and outputs in PyTorch's form."""
        size = plan_memory(list(self.tenants.values()))
        for index, tenant in self.tenants.items():
            self.values[index]["val"][1]["allocation_info"] = {
                "memory_id": _MEMORY,
                "memory_offset_low": tenant.offset & 0xFFFFFFFF,
                "memory_offset_high": tenant.offset >> 32,
            }
        operators = [{"name": n, "overload": o} for n, o in self.operators]
        chain = {"inputs": [], "outputs": [], "instructions": self.instructions, "stacktrace": None}
        meta = {"encoded_inp_str": structure[0], "encoded_out_str": structure[1]}
        return {
            "name": self.name, "container_meta_type": meta, "values": self.values,
            "inputs": self.inputs, "outputs": self.outputs, "chains": [chain],
            "operators": operators, "delegates": self.delegates,
            "non_const_buffer_sizes": [0, size],
        }  # fmt: skip


def _evalue(builder: MethodBuilder, value: Any) -> tuple[str, dict[str, Any]]:
    if value is None:
        return "Null", {}
    if isinstance(value, bool):
        return "Bool", {"bool_val": value}
    if isinstance(value, int):
        return "Int", {"int_val": value}
    if isinstance(value, float):
        return "Double", {"double_val": value}
    if isinstance(value, str):
        return "String", {"string_val": value}
    # the runtime's lists of integers refer to values, so that some may be computed
    return "IntList", {"items": [builder.number(int(item)) for item in value]}
