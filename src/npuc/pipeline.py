"""The pipeline from model to artifact, to be read from top to bottom."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from npuc.boundary import describe, io_orders
from npuc.compilation import Compilation, Coverage
from npuc.errors import BadInput, NpucError, Unsupported
from npuc.ir import Graph, TensorType, pause_collection
from npuc.targets.target import Target

if TYPE_CHECKING:
    from npuc.frontend.capture import Program
    from npuc.quantizer.recipe import Recipe

#: quantizations that only change the float type of the graph
FLOAT_TYPES = ("fp16", "bf16")
IO_FORMS = ("float", "quantized")
IO_LAYOUTS = ("contiguous", "channels_last")
FORMATS = (None, "pte")


def compile(
    model: Any,
    example_inputs: Sequence[Any] | None = None,
    *,
    target: str | Target = "ethos-u55-128",
    quantization: str | Recipe | None = None,
    calibration: Iterable[Sequence[Any]] | None = None,
    dynamic_shapes: Any = None,
    sizes: Mapping[str, int] | None = None,
    io: str = "float",
    io_layout: str = "contiguous",
    check: bool = True,
    progress: bool | None = None,
    keep_stages: bool = False,
    name: str | None = None,
    format: str | None = None,
) -> Compilation:
    """Compile a PyTorch model for `target` and check the result against the model.

    model: nn.Module (in eval mode), torch.export.ExportedProgram, a PT2E-converted GraphModule or
        the path of a .pt2 file; an nn.Module needs `example_inputs`.
    quantization: None (as the model is), "int8", "a16w8", "a8w4", "fp16", "bf16" or a Recipe.
    calibration: iterable of input tuples; default: the example inputs, with a warning.
    dynamic_shapes: as torch.export.export takes it, for targets with TOSA's `shape` extension.
    sizes: numbers for open sizes by name: {"batch": 4} compiles for a batch of 4.
    io: "float": run() takes and returns floats, the host (de)quantizes; "quantized": the
        artifact's own types. The artifact is the same.
    io_layout: "channels_last" makes the artifact's rank-4 tensors NHWC.
    keep_stages: keep the graph after each stage in `Compilation.stages`.
    format: None: the target's own file; "pte": an ExecuTorch program around it, with portable kernels
        for what is not on the target (`npuc.executorch.compile_partly.PartlyDelegated`).

    Raises Unsupported with `.reasons`, BadInput, CheckFailed when the result is wrong; ToolMissing or
    NpucError of the target's tool: `.left` is the checked compilation that it was given, if any.
    """
    _choose("format", format, FORMATS)
    job = _Job(target, io, io_layout, keep_stages)
    imported = job.front_end(
        model, example_inputs, quantization, calibration, (dynamic_shapes, sizes), progress
    )
    lowered = job.lower(imported)
    if lowered.reasons and format == "pte" and quantization not in FLOAT_TYPES:
        from npuc.executorch.compile_partly import compile_partly

        return compile_partly(
            job, Coverage(lowered.verdicts, job.target.name), imported, name, check
        )
    if lowered.reasons:
        raise Unsupported(lowered.reasons)
    result = job.finish(lowered, name)
    if check:
        job.check(result)
    job.package(result)
    if format == "pte":
        from npuc.executorch.pte import as_pte

        with job.stage("pte"):
            result.output = as_pte(result)
    return result


def explain(
    model: Any,
    example_inputs: Sequence[Any] | None = None,
    *,
    target: str | Target = "ethos-u55-128",
    quantization: str | Recipe | None = None,
    calibration: Iterable[Sequence[Any]] | None = None,
    dynamic_shapes: Any = None,
    sizes: Mapping[str, int] | None = None,
    progress: bool | None = None,
) -> Coverage:
    """What of the model can be on `target`, per op, with the reason where not. Arguments as compile."""
    from npuc.lowering.lower import Verdict

    job = _Job(target, "float", "contiguous", False)
    try:
        imported = job.front_end(
            model, example_inputs, quantization, calibration, (dynamic_shapes, sizes), progress
        )
    except Unsupported as refusal:  # of what has no place in a graph: complex numbers
        return Coverage([Verdict.on(r) for r in refusal.reasons], job.target.name)
    try:
        verdicts = job.lower(imported).verdicts
    except Unsupported as refusal:  # of the inputs, and so of every op
        ops = [op for op in imported.ops if op.kind != "const"]
        verdicts = [Verdict(o.results[0].name, o.kind, o.loc, refusal.reasons[0]) for o in ops]
    return Coverage(verdicts, job.target.name)


class _Job:
    """One run of the pipeline: the target, the stages' graphs and times, the programs."""

    def __init__(self, target: str | Target, io: str, io_layout: str, keep: bool) -> None:
        from npuc.targets.catalogue import find_target

        _choose("io", io, IO_FORMS)
        _choose("io_layout", io_layout, IO_LAYOUTS)
        self.target = find_target(target)
        self.io = io
        self.io_layout = io_layout
        self.keep = keep
        self.timings: dict[str, float] = {}
        self.stages: dict[str, Graph] = {}
        self.quantization_name: str | None = None
        #: types of the model's values as they were lowered
        self.types: dict[str, TensorType] = {}
        self.program: Program
        self.float_program: Program
        self.example_inputs: Sequence[Any]

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the CPU-bound wall time of a stage to `timings`."""
        start = time.perf_counter()
        with pause_collection() if name != "quantize" else nullcontext():
            yield
        self.timings[name] = self.timings.get(name, 0.0) + time.perf_counter() - start

    def keep_stage(self, name: str, graph: Graph) -> None:
        if self.keep:
            self.stages[name] = graph

    def front_end(
        self, model: Any, example_inputs: Sequence[Any] | None, quantization: Any,
        calibration: Any, open_sizes: tuple[Any, Mapping[str, int] | None], progress: bool | None,
    ) -> Graph:  # fmt: skip
        """The model as a graph of aten ops with quantized types."""
        from npuc.frontend.capture import capture
        from npuc.frontend.fix_sizes import fix_sizes
        from npuc.frontend.import_model import import_model
        from npuc.lowering.registry import known_kinds

        with self.stage("capture"):
            self.program = self.float_program = capture(model, example_inputs, open_sizes[0])
            fix_sizes(self.program, open_sizes[1] or {})
            self.example_inputs = self.program.example_inputs
        self.quantization_name = getattr(quantization, "name", quantization)
        if quantization is not None and quantization not in FLOAT_TYPES:
            self._quantize(quantization, calibration, progress)
        with self.stage("import"):
            graph = import_model(self.program, known_kinds(self.target.dialect))
            if quantization in FLOAT_TYPES:
                from npuc.frontend.cast_floats import cast_floats

                graph = cast_floats(graph, str(quantization))
            if self.target.prepare is not None:
                graph = self.target.prepare(graph, self.target)
        self.keep_stage("import", graph)
        return graph

    def _quantize(self, quantization: Any, calibration: Any, progress: bool | None) -> None:
        from npuc.frontend.capture import capture
        from npuc.lowering.registry import quantized_kinds
        from npuc.quantizer import Recipe, quantize

        recipe = quantization
        if isinstance(quantization, str):
            recipe = replace(Recipe.named(quantization), **self.target.recipe)
        if not isinstance(recipe, Recipe):
            raise BadInput(f"quantization={quantization!r}", hint="give a name or a Recipe")
        recipe = recipe.demanding(self.target.demands)
        if calibration is None:
            warnings.warn(
                "no calibration data: the example inputs decide the ranges; pass calibration=",
                stacklevel=4,
            )
            calibration = [self.example_inputs]
        known = quantized_kinds(self.target.dialect, self.target.families)
        with self.stage("quantize"):
            converted = quantize(
                self.program, self.example_inputs, recipe, calibration, progress,
                known=known.__contains__, tables16=self.target.limits.has_int16,
            )  # fmt: skip
        with self.stage("capture"):
            self.program = capture(converted, self.example_inputs, like=self.float_program)

    def lower(self, graph: Graph) -> Any:
        """The lowered graph with a verdict per op."""
        from npuc.frontend.name_sizes import refuse_open_sizes, takes_open_sizes
        from npuc.lowering.lower import lower

        if not takes_open_sizes(self.target.limits):
            refuse_open_sizes(graph, self.target.name)
        with self.stage("lower"):
            lowered = lower(graph, self.target.limits, self.target.families)
        self.types = {name: v.type for name, (v, _) in lowered.graph.all_origins().items()}
        self.keep_stage("lower", lowered.graph)
        return lowered

    def run_passes(self, graph: Graph) -> Graph:
        """The target's passes in order, after the change of the I/O layout."""
        from npuc.passes.pipeline import run_passes
        from npuc.passes.set_io_layout import set_io_layout

        with self.stage("passes"):
            if self.io_layout == "channels_last":
                graph = set_io_layout(graph, self.io_layout, self.target.limits)
            return run_passes(graph, self.target.passes, self.target.limits, self.keep_stage)

    def finish(self, lowered: Any, name: str | None) -> Compilation:
        """The passes, the target's file, and the record of the compilation."""
        port = self.with_state(describe(lowered.graph, self.io_layout, self.program.output_names))
        graph = self.run_passes(lowered.graph)
        with self.stage("target"):
            output = self.target.finish(graph, replace(self.target, orders=io_orders(port)))
        return Compilation(
            name=name or self.program.name,
            target=self.target,
            graph=graph,
            output=output,
            io=port,
            coverage=Coverage(lowered.verdicts, self.target.name),
            check=None,
            timings=self.timings,
            stages=self.stages,
            quantization=self.quantization_name,
            io_form=self.io,
            program=self.program,
        )

    def package(self, c: Compilation) -> None:
        """Make the vendor's file of what is checked; what fails then leaves `c` as it is."""
        if self.target.package is None:
            return
        ordered = replace(self.target, orders=io_orders(c.io))
        with self.stage("package"):
            try:
                c.output = self.target.package(c.graph, c.output, ordered)
            except NpucError as error:
                c.output = replace(c.output, files={**c.output.files, **error.files})
                error.left = c
                raise

    def check(self, c: Compilation) -> None:
        """Execute `c` on the example inputs, compare with PyTorch, and keep the report in it."""
        from npuc.check.check import Subject, check
        from npuc.execute_artifact import execute_all

        where = {v.name: str(v.loc) for v in c.coverage}
        subject = Subject(c.graph, c.io, self.program, self.float_program, self.types, where)
        with self.stage("check"):
            undefined: list[str] = []
            values = execute_all(
                c,
                c.input_arrays(self.example_inputs),
                lambda op, why: undefined.append(f"{op.name} of {op.loc}: {why}"),
            )
            c.check = check(subject, self.example_inputs, values, undefined)
            c.reset()

    def with_state(self, port: Any) -> Any:
        """The boundary with the pairs (output, input) that carry mutated buffers."""
        return replace(port, state=tuple(self.program.state_pairs))


def _choose(what: str, value: str | None, choices: Sequence[str | None]) -> None:
    if value not in choices:
        raise BadInput(f"{what}={value!r}", hint=f"one of {', '.join(map(str, choices))}")


def targets() -> Mapping[str, str]:
    """Names of the targets and what they are."""
    from npuc.targets.catalogue import targets as all_targets

    return all_targets()
