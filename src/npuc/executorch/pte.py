"""ExecuTorch programs (.pte) of compiled models: one delegate call per method, and its boundary.

Nothing of `executorch` is imported: the format is written by `npuc.serialize.pte_flatbuffer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from npuc.boundary import TO_NHWC, TensorIO, to_artifact
from npuc.compilation import Compilation
from npuc.errors import BadInput, Reason, ToolMissing, Unsupported
from npuc.executorch.method_builder import SCALAR_NUMBERS, SCALAR_TYPES, MethodBuilder, Tensor
from npuc.ir import TensorType
from npuc.serialize.pte_flatbuffer import write_pte
from npuc.targets.target import Artifact

#: suffix of an artifact -> name under which the runtime knows the backend that executes it
BACKENDS = {".vgf": "VgfBackend", ".bin": "EthosUBackend", ".tosa": "TOSABackend",
            ".neutron": "NeutronBackend"}  # fmt: skip

#: newest VGF version that the runtime of ExecuTorch 1.4.1 reads
VGF_VERSION = "0.4"

_CAST = "dim_order_ops::_to_dim_order_copy"
_QUANTIZE = "quantized_decomposed::quantize_per_tensor"
_DEQUANTIZE = "quantized_decomposed::dequantize_per_tensor"


def to_pte(
    methods: Compilation | Mapping[str, Compilation], vgf_version: str = VGF_VERSION
) -> bytes:
    """The .pte program whose methods are these compilations; a single one is "forward".

    With io="float" a method takes and returns the model's own types: kernels around the delegate
    quantize, dequantize and cast. With io="quantized" it takes and returns the artifact's. Mutated
    buffers are tensors of the program: they keep their values from one execution to the next.

    vgf_version: version that VGF files in it are marked with (`npuc.targets.vgf.mark_version`).
    Raises BadInput for a target without a runtime, Unsupported for open sizes at the boundary.
    """
    named = {"forward": methods} if isinstance(methods, Compilation) else dict(methods)
    if not named:
        raise BadInput("a program without methods", hint='give {"forward": compilation}')
    initial: list[bytes] = []
    delegates, plans = [], []
    for name, compilation in named.items():
        if not name.isidentifier():
            raise BadInput(f"method name {name!r}", hint="a Python identifier such as 'forward'")
        delegates.append(_delegate_data(compilation, vgf_version))
        plans.append(_Method(name, compilation, initial).plan(len(delegates) - 1))
    return write_pte(plans, delegates, initial=initial)


def as_pte(compilation: Compilation) -> Artifact:
    """The artifact of a compilation inside of a program; the target's own files stay beside it."""
    inner = compilation.output
    files = {**inner.files, inner.suffix: inner.data}
    return replace(inner, data=to_pte(compilation), suffix=".pte", files=files)


def _delegate_data(c: Compilation, vgf_version: str) -> bytes:
    output = c.output
    if output.suffix == ".tflite" and c.target.name.startswith("neutron-"):
        from npuc.targets.neutron_converter import INSTALL, TOOL

        raise ToolMissing(TOOL, INSTALL, why="a .pte program holds the payload that it makes")
    if output.suffix not in BACKENDS:
        raise BadInput(
            f"a {output.suffix} file has no ExecuTorch backend",
            hint="use target vgf, ethos-u..., neutron-imxrt700 or tosa-...",
        )
    if output.suffix == ".vgf" and "vgf_version" not in c.target.options:
        from npuc.targets.vgf import mark_version

        return mark_version(output.data, vgf_version)
    return output.data


class _Method:
    """One compilation as a method: convert inputs, call the delegate, convert outputs."""

    def __init__(self, name: str, c: Compilation, initial: list[bytes]) -> None:
        self.c = c
        self.m = MethodBuilder(name, initial)
        self.backend = BACKENDS[c.output.suffix]
        self.state_places = {place: output for output, place in c.io.state}

    def plan(self, data_index: int) -> dict[str, Any]:
        entered = self._inputs()
        states = self._states(len(entered))
        outputs = [self._artifact_tensor(port) for port in self.c.io.outputs]
        self.m.delegate(self.backend, data_index, [*entered, *states.values(), *outputs])
        for place, state in states.items():
            self._copy(outputs[self.state_places[place]], state)
        self._mutated_inputs(outputs)
        self._outputs(outputs)
        return self.m.finish(_structure(self.c.program))

    # inputs --------------------------------------------------------------------------------------

    def _inputs(self) -> list[Tensor]:
        """The method's inputs; returns the tensors that the delegate reads.

        All inputs are declared before the first kernel: they are written before it runs.
        """
        ports = iter(self.c.io.inputs)
        examples = (n.meta["val"] for n in self.c.program.placeholders)
        given: list[tuple[Tensor, TensorIO]] = []
        for leaf in self.c.program.inputs:
            if not leaf.is_tensor:
                self.m.inputs.append(self.m.number(leaf.constant))
                continue
            port, example = next(ports), next(examples)
            _require_layout(port, example)
            is_float = self.c.io_form == "float"
            outside = _name(example.dtype) if is_float else _stored(port.type)
            tensor = self.m.input(self.m.tensor(outside, _sizes(port), _dim_order(port)))
            given.append((tensor, port))
        self.given = [tensor for tensor, _ in given]
        return [self._enter(*one) for one in given]

    def _enter(self, x: Tensor, port: TensorIO) -> Tensor:
        """A tensor of the model as the artifact takes it."""
        if port.type.quant is None or not _is_float(x.dtype):
            return self._cast(x, _stored(port.type))
        real, coded = self._cast(x, "float32"), self._artifact_tensor(port)
        args = [real.index, *self._parameters(port.type)]
        self.m.kernel(_QUANTIZE, "out", args, [coded.index] * 2)
        return coded

    def _states(self, first: int) -> dict[int, Tensor]:
        """Place among the artifact's inputs -> the tensor that keeps a mutated buffer."""
        found = {}
        for place, value in enumerate(self.c.program.initial_state(), first):
            port = self.c.io.inputs[place]
            found[place] = self._artifact_tensor(port, to_artifact(value, port).tobytes())
        return found

    # outputs -------------------------------------------------------------------------------------

    def _outputs(self, made: Sequence[Tensor]) -> None:
        dtypes = [_name(d) for d in self.c.program.output_dtypes()]
        for leaf in self.c.program.outputs:
            if leaf.place is None:
                self.m.output(self.m.number(leaf.constant))
                continue
            dtype = None if self.c.io_form == "quantized" else dtypes[leaf.place]
            self.m.output(self._leave(made[leaf.place], leaf.place, dtype).index)

    def _leave(self, y: Tensor, place: int, dtype: str | None) -> Tensor:
        """A tensor of the artifact as the model returns it; dtype None: as it is."""
        type = self.c.io.outputs[place].type
        if dtype is None or type.quant is None or not _is_float(dtype):
            return y if dtype is None else self._cast(y, dtype)
        real = self.m.tensor("float32", y.sizes, y.dim_order)
        args = [y.index, *self._parameters(type), self.m.number(None)]
        self.m.kernel(_DEQUANTIZE, "out", args, [real.index] * 2)
        return self._cast(real, dtype)

    def _mutated_inputs(self, made: Sequence[Tensor]) -> None:
        dtypes = [_name(d) for d in self.c.program.output_dtypes()]
        for place, output in self.c.program.mutated_inputs:
            dtype = None if self.c.io_form == "quantized" else dtypes[output]
            self._copy(self._leave(made[output], output, dtype), self.given[place])

    # conversions ---------------------------------------------------------------------------------

    def _artifact_tensor(self, port: TensorIO, state: bytes | None = None) -> Tensor:
        return self.m.tensor(_stored(port.type), _sizes(port), _dim_order(port), state)

    def _parameters(self, type: TensorType) -> list[int]:
        """Arguments of a (de)quantize kernel between its input and its output."""
        quant = type.quant
        assert quant is not None
        values = (quant.s, quant.zp, quant.qmin, quant.qmax, SCALAR_NUMBERS[_stored(type)])
        return [self.m.number(v) for v in (float(values[0]), *map(int, values[1:]))]

    def _cast(self, x: Tensor, dtype: str) -> Tensor:
        if x.dtype == dtype:
            return x
        made = self.m.tensor(dtype, x.sizes, x.dim_order)
        args = [x.index, self.m.number(False), self.m.number(x.dim_order)]
        self.m.kernel(_CAST, "out", args, [made.index] * 2)
        return made

    def _copy(self, source: Tensor, target: Tensor) -> None:
        """Write one tensor into another."""
        args = [target.index, source.index, self.m.number(False)]
        self.m.kernel("aten::copy_", "", args, [target.index])


def _stored(type: TensorType) -> str:
    """numpy name of the elements that the artifact stores."""
    name = type.dtype.numpy.name
    if name not in SCALAR_TYPES:
        raise Unsupported(f"ExecuTorch programs have no element type {type.dtype.name}")
    return name


def _sizes(port: TensorIO) -> tuple[int, ...]:
    for size in port.shape:
        if not isinstance(size, int):
            raise Unsupported(
                Reason(port.name, "", f"its size {size} is known only at run time",
                       "compile for fixed sizes: a delegate's memory is planned")
            )  # fmt: skip
    return port.shape


def _dim_order(port: TensorIO) -> tuple[int, ...]:
    return TO_NHWC if port.layout == "channels_last" else ()


def _require_layout(port: TensorIO, example: Any) -> None:
    """The runtime takes bytes as they come: what the model was given must be what it is given."""
    is_nhwc = example.dim() == 4 and not example.is_contiguous()
    if is_nhwc and example.permute(0, 2, 3, 1).is_contiguous() and port.layout == "contiguous":
        raise BadInput(
            f"the example of input {port.name} is channels_last",
            why="this program would take it as contiguous, and the runtime does not notice",
            hint='compile with io_layout="channels_last", or give contiguous examples',
        )


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _is_float(dtype: str) -> bool:
    return "float" in dtype


def _structure(program: Any) -> tuple[str, str]:
    """The nesting of inputs and outputs as PyTorch writes it; empty where it has no such form."""
    import torch.utils._pytree as pytree

    try:
        return pytree.treespec_dumps(program.in_spec), pytree.treespec_dumps(program.out_spec)
    except (NotImplementedError, TypeError, ValueError):
        return "", ""
