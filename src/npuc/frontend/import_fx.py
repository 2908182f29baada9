"""Program (FX graph) -> Graph of `aten.*` ops; sub-graphs of constants are evaluated on the way."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.fx import GraphModule, Node

from npuc.errors import Reason, Unsupported
from npuc.frontend.fold_constants import evaluate, evaluate_like
from npuc.frontend.import_regions import import_control_flow
from npuc.frontend.placed import placed
from npuc.frontend.program import Program
from npuc.frontend.source_location import loc_of
from npuc.frontend.splice import fetch, kind_of
from npuc.frontend.symbolic import Sizes
from npuc.frontend.torch_arrays import as_array, dtype_of, torch_dtype
from npuc.ir import Builder, DType, Graph, SymDim, TensorType, Value, pack

#: a constant larger than this that repeats its elements is stored once and expanded by an op
REPEATED_BYTES = 2**16

_SIZES = ("aten.sym_size", "aten.sym_numel", "aten.sym_stride", "aten.sym_storage_offset")
#: ops whose index tensors may be constant masks
_MASKED = ("aten.index.Tensor", "aten._unsafe_index.Tensor", "aten.index_put")
_QDQ = (
    "quantized_decomposed.quantize_per_",
    "quantized_decomposed.dequantize_per_",
    "torchao.quantize_affine",
    "torchao.dequantize_affine",
)
_PARTS = {"aten.real": 0, "aten.imag": 1}
_MISSING = object()


class Complex(tuple[Value, Value]):
    """A complex value as its real and imaginary part."""


def _complex_numbers() -> Unsupported:
    return Unsupported(
        Reason("", "", "it computes with complex numbers, which no target stores",
               "compute with real and imaginary parts; a DFT is a product with cosines and sines")
    )  # fmt: skip


def _lost_constant(gm: GraphModule, node: Node) -> Unsupported:
    """torch.export traces branches and loop bodies that own tensors, and keeps these fake."""
    shape = tuple(fetch(gm, str(node.target)).shape)
    return Unsupported(
        Reason("", "", f"its body has a constant of shape {shape} without its values: exporting a "
               "converted model again loses the constants in branches and loops",
               'compile the float model with quantization="int8"')
    )  # fmt: skip


def import_fx(program: Program) -> Graph:
    """The program as a graph of aten ops.

    Inputs: the tensor leaves of the user's inputs, then the states. Outputs: as the program's
    graph returns them, the same value in two slots twice. `origins` maps the name of each FX
    node to its value. Raises Unsupported for values that no target stores (complex numbers) and
    sizes that depend on a tensor's values.
    """
    importer = Importer(program.sizes)
    names = program.input_names
    inputs = [importer.input(n, name) for n, name in zip(program.placeholders, names, strict=True)]
    outputs = importer.run(
        program.graph_module, dict(zip(program.placeholders, inputs, strict=True))
    )
    return importer.finish(outputs, re_name(program.name))


def re_name(name: str) -> str:
    """A name that MLIR text and C headers take."""
    return "".join(c if c.isalnum() else "_" for c in name) or "main"


class Importer:
    """Imports one FX graph (the program's or that of a branch) into one builder."""

    def __init__(self, sizes: Sizes) -> None:
        self.builder = Builder()
        self.origins: dict[str, tuple[Value, None]] = {}
        self.constants: dict[int, tuple[torch.Tensor, Value]] = {}
        #: what symbolic sizes are; constants may have decided some
        self.sizes = sizes
        self.gm: GraphModule

    def input(self, node: Node, name: str) -> Value:
        value = self.builder.input(self._type(node.meta["val"]), name)
        self.origins[node.name] = (value, None)
        return value

    def run(self, gm: GraphModule, env: dict[Node, Any]) -> list[Any]:
        """Import all nodes of `gm`; returns what it returns."""
        self.gm = gm
        for node in gm.graph.nodes:
            if node.op == "call_function":
                self._located(node, env)
            elif node.op == "get_attr":
                value = fetch(gm, str(node.target))
                if isinstance(value, FakeTensor):
                    raise _lost_constant(gm, node)
                env[node] = value.detach() if isinstance(value, torch.Tensor) else value
            elif node.op == "output":
                return [self.bound(a, env) for a in _flat(node.args[0])]
        raise ValueError("an FX graph ends with its output")

    def finish(self, outputs: Sequence[Any], name: str) -> Graph:
        values = [self.value(o) for o in outputs]
        return self.builder.finish(values, name, self.origins)

    def value(self, given: Any) -> Value:
        """An IR value: constants are added to the graph where they are first used."""
        if isinstance(given, Value):
            return given
        if not isinstance(given, torch.Tensor):
            given = torch.tensor(given)
        found = self.constants.get(id(given))
        if found is not None:
            return found[1]
        value = self._constant(given)
        self.constants[id(given)] = (given, value)
        return value

    def _constant(self, tensor: torch.Tensor) -> Value:
        """A constant; one that repeats its elements is expanded from the smaller one."""
        if tensor.numel() * tensor.element_size() > REPEATED_BYTES and 0 in tensor.stride():
            once = tensor[tuple(slice(0, 1) if s == 0 else slice(None) for s in tensor.stride())]
            if 4 * once.numel() <= tensor.numel():
                operands, attrs = pack((self.value(once), tuple(tensor.shape)), {})
                attrs["kwargs"] = {"implicit": False}
                return self.builder.emit("aten.expand", operands, attrs, [self._type(tensor)])[0]
        return self.builder.const(as_array(tensor), dtype_of(tensor.dtype))

    def bound(self, argument: Any, env: dict[Node, Any]) -> Any:
        """An FX argument with the imported values of its nodes."""
        if isinstance(argument, Node):
            return env[argument]
        if isinstance(argument, (tuple, list)):
            return [self.bound(a, env) for a in argument]
        if isinstance(argument, torch.SymInt):
            return self.sizes.dim(argument)
        return argument

    # one node ----------------------------------------------------------------------------------

    def _located(self, node: Node, env: dict[Node, Any]) -> None:
        """Import a call; a failure names its place in the user's model."""
        kind = kind_of(node.target)
        self.builder.loc = loc_of(node.meta, node.name, kind)
        try:
            result = self._call(node, kind, env)
        except Unsupported as error:
            raise placed(error, self.builder.loc.op, self.builder.loc) from None
        env[node] = result
        if isinstance(result, Value) and not result.is_const:
            result.name = result.name or node.name
            self.origins[node.name] = (result, None)

    def _call(self, node: Node, kind: str, env: dict[Node, Any]) -> Any:
        target: Any = node.target
        args = [self.bound(a, env) for a in node.args]
        kwargs = {k: self.bound(v, env) for k, v in node.kwargs.items()}
        if target is operator.getitem:
            return args[0][args[1]]
        if isinstance(target, torch._ops.HigherOrderOperator):
            return import_control_flow(self, node.name, getattr(target, "_name", kind), args)
        if not isinstance(target, torch._ops.OpOverload):
            return self._number(target, node.meta.get("val", _MISSING), args, kwargs)
        if kind.startswith(_SIZES):
            return self.sizes.dim(node.meta["val"])
        if kind in _PARTS or kind == "aten.view_as_real":
            return self._part(kind, args[0])
        value = node.meta.get("val", _MISSING)
        if not _has_value(args) and not _has_value(kwargs.values()):
            results = evaluate(kind, target, args, kwargs)
            if results is not None:
                if isinstance(value, torch.Tensor) and isinstance(results, torch.Tensor):
                    self.sizes.bind(value.shape, results.shape)
                return results
        if kind in _MASKED:
            args = [args[0], _positions(args[1]), *args[2:]]
            if any(isinstance(m, torch.Tensor) for m in args[1]) and value is not _MISSING:
                self._bind_selection(args, value)
        if isinstance(value, torch.Tensor):
            constant = evaluate_like(kind, args, value)
            if constant is not None:
                return constant
        return self._emit(kind, target, args, kwargs, value)

    def _number(self, target: Any, value: Any, args: Any, kwargs: Any) -> Any:
        """The result of arithmetic on sizes."""
        if isinstance(value, torch.SymInt):
            return self.sizes.dim(value)
        if value is not _MISSING:
            return value
        if any(isinstance(a, (Value, SymDim)) for a in (*args, *kwargs.values())):
            raise Unsupported(f"{target} on tensors or open sizes is not an ATen op")
        return target(*args, **kwargs)

    def _bind_selection(self, args: Any, value: torch.Tensor) -> None:
        """The result of an index by a constant mask has a size that only the mask tells."""
        if all(isinstance(d, int) for d in value.shape):
            return
        shape = args[0].type.shape
        places = [a if isinstance(a, torch.Tensor) else None for a in args[1]]
        if all(isinstance(d, int) for d in shape) and not _has_value(args[1]):
            made = torch.empty(shape, device="meta")[
                tuple(slice(None) if p is None else p.to("meta") for p in places)
            ]
            self.sizes.bind(value.shape, made.shape)

    def _emit(self, kind: str, target: Any, args: Any, kwargs: Any, value: Any) -> Any:
        args, kwargs = _fill_defaults(target, args, kwargs)
        args = [self._argument(a) for a in args]
        kwargs = {k: self._argument(v) for k, v in kwargs.items()}
        operands, attrs = pack(args, kwargs)
        if value is _MISSING and kind.startswith(_QDQ):
            type = TensorType(_qdq_dtype(kind, args, kwargs), args[0].type.shape)
            return self.builder.emit(kind, operands, attrs, (type,))[0]
        if value is _MISSING:
            value = target(*map(_meta, args), **{k: _meta(v) for k, v in kwargs.items()})
        if isinstance(value, torch.Tensor) and value.dtype.is_complex:
            return self._complex(kind, operands, attrs, value)
        if not isinstance(value, (torch.Tensor, tuple, list)):
            raise Unsupported(
                Reason("", "", "a number that depends on a tensor's values decides what follows",
                       "compute with tensors instead (torch.where)")
            )  # fmt: skip
        several = isinstance(value, (tuple, list))
        values = list(value) if several else [value]
        types = [self._type(v) for v in values if isinstance(v, torch.Tensor)]
        made = iter(self.builder.emit(kind, operands, attrs, types))
        results = tuple(next(made) if isinstance(v, torch.Tensor) else None for v in values)
        return results if several else results[0]

    def _argument(self, argument: Any) -> Any:
        """An argument as the IR holds it: Values, numbers, strings, DTypes, tuples of these."""
        if isinstance(argument, torch.Tensor):
            return self.value(argument)
        if isinstance(argument, (tuple, list)):
            return tuple([self._argument(a) for a in argument])
        if isinstance(argument, torch.dtype):
            return dtype_of(argument)
        if isinstance(argument, (torch.device, torch.memory_format, torch.layout)):
            return str(argument)
        if isinstance(argument, Complex):
            raise _complex_numbers()
        return argument

    def _type(self, value: torch.Tensor) -> TensorType:
        return TensorType(dtype_of(value.dtype), self.sizes.shape(value))

    def _complex(self, kind: str, operands: Any, attrs: Any, value: torch.Tensor) -> Complex:
        if kind != "aten.fft_rfft2":
            raise _complex_numbers()
        part = TensorType(DType.FP32, self.sizes.shape(value))
        return Complex(self.builder.emit(kind, operands, attrs, [part, part]))

    def _part(self, kind: str, source: Any) -> Any:
        if isinstance(source, torch.Tensor):
            return {"aten.real": torch.real, "aten.imag": torch.imag}.get(kind, torch.view_as_real)(
                source
            )
        if kind in _PARTS:
            return source[_PARTS[kind]] if isinstance(source, Complex) else source
        part = source[0].type.with_(shape=(*source[0].type.shape, 1))
        columns: list[Value] = []
        for half in source:
            operands, attrs = pack((half, part.shape), {})
            columns += self.builder.emit("aten.view", operands, attrs, [part])
        operands, attrs = pack((tuple(columns), part.rank - 1), {})
        whole = part.with_(shape=(*part.shape[:-1], 2))
        return self.builder.emit("aten.cat", operands, attrs, [whole])[0]

    # regions -----------------------------------------------------------------------------------

    def called(self, gm: GraphModule, inputs: Sequence[Any]) -> list[Any]:
        """What `gm` returns; for those of `inputs` that are values this graph has an input."""
        env = dict(zip(_placeholders(gm), inputs, strict=True))
        for place, given in env.items():
            if isinstance(given, Value):
                env[place] = self.builder.input(given.type, place.name)
                self.origins[place.name] = (env[place], None)
        return self.run(gm, env)

    def inlined(self, gm: GraphModule, inputs: Sequence[Any]) -> list[Any]:
        """What `gm` returns, its nodes imported into this graph."""
        outer = self.gm
        results = self.run(gm, dict(zip(_placeholders(gm), inputs, strict=True)))
        self.gm = outer
        return results


# arguments and types -------------------------------------------------------------------------


def _placeholders(gm: GraphModule) -> list[Node]:
    return [n for n in gm.graph.nodes if n.op == "placeholder"]


def _flat(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def _positions(indices: Any) -> list[Any]:
    """Index tensors with the positions that constant masks select in place of the masks."""
    found: list[Any] = []
    for index in indices:
        if isinstance(index, torch.Tensor) and index.dtype is torch.bool:
            found += torch.nonzero(index, as_tuple=True)
        else:
            found.append(index)
    return found


def _has_value(arguments: Any) -> bool:
    for a in arguments:
        if isinstance(a, (Value, Complex)):
            return True
        if isinstance(a, (tuple, list)) and _has_value(a):
            return True
    return False


@cache
def _schema(target: Any) -> tuple[tuple[str, Any, bool], ...]:
    return tuple((a.name, a.default_value, a.kwarg_only) for a in target._schema.arguments)


def _fill_defaults(target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """All arguments of the schema: positional ones in order, keyword-only ones by name."""
    filled, named = list(args), {}
    for index, (name, default, keyword) in enumerate(_schema(target)):
        if index < len(args):
            continue
        if keyword:
            named[name] = kwargs.get(name, default)
        else:
            filled.append(kwargs.get(name, default))
    return filled, named


def _qdq_dtype(kind: str, args: Sequence[Any], kwargs: dict[str, Any]) -> DType:
    """Element type of the result of a quantize or dequantize (torchao's convert leaves them
    without meta["val"])."""
    if ".dequantize_" in kind:
        return kwargs.get("out_dtype") or DType.FP32
    return next((a for a in args[1:] if isinstance(a, DType)), DType.INT8)


def _meta(argument: Any) -> Any:
    """An argument for PyTorch's shape inference."""
    if isinstance(argument, Value):
        dtype = torch_dtype(argument.type.dtype)
        return torch.empty(argument.type.ints, dtype=dtype, device="meta")
    if isinstance(argument, DType):
        return torch_dtype(argument)
    if isinstance(argument, tuple):
        return [_meta(a) for a in argument]
    return argument
