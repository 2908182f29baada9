"""`npuc compile | explain | inspect | targets | ops | doctor`."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from typing import Any

import click

from npuc.errors import NpucError

#: libraries that warn about themselves at import
NOISY = ("torch.utils._pytree", "torchao")
MODEL_HELP = "MODEL is file.py:function, package.module:function or a .pt2 file."


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="npuc")
def cli() -> None:
    """Compile PyTorch models for NPUs: TOSA, VGF, Arm Ethos-U, TFLite and NXP Neutron."""


def model_options(command: Any) -> Any:
    """The options that compile and explain share."""
    for option in reversed([
        click.argument("model"),
        click.option("-t", "--target", required=True, help="Where it is to run: `npuc targets`."),
        click.option("-q", "--quantization", help="int8, a16w8, a8w4, fp16 or bf16."),
        click.option("--size", "sizes", multiple=True, metavar="NAME=NUMBER",
                     help="Compile for this number of a size that the program leaves open."),
        click.option("--calib", help=".npz/.npy file, directory of them, or file.py:function."),
        click.option("--json", "as_json", is_flag=True, help="Machine-readable output on stdout."),
        click.option("--quiet", is_flag=True, help="No progress bars."),
    ]):  # fmt: skip
        command = option(command)
    return command


@cli.command("compile", epilog=MODEL_HELP)
@model_options
@click.option("-o", "--output", help="Directory for the artifact (default: build/<name>).")
@click.option("--io", default="float", type=click.Choice(["float", "quantized"]), show_default=True)
@click.option("--io-layout", default="contiguous", show_default=True,
              type=click.Choice(["contiguous", "channels_last"]))  # fmt: skip
@click.option("--format", "format_name", type=click.Choice(["pte"]),
              help="pte: an ExecuTorch program in place of the target's own file.")  # fmt: skip
@click.option("--no-check", is_flag=True, help="Do not execute the result and compare.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE",
              help="An option of the target's tool, e.g. memory_mode=Sram_Only.")  # fmt: skip
@click.option("--verbose", is_flag=True, help="Every op with its place in the model.")
def compile_command(
    model: str, target: str, quantization: str | None, calib: str | None, as_json: bool,
    quiet: bool, output: str | None, io: str, io_layout: str, format_name: str | None,
    no_check: bool, options: tuple[str, ...], verbose: bool, sizes: tuple[str, ...],
) -> None:  # fmt: skip
    """Compile MODEL, check the result against it, and write the artifact."""
    from npuc.cli.load_model import load_calibration, load_model
    from npuc.pipeline import compile as compile_model
    from npuc.targets.catalogue import find_target

    chosen = find_target(target, _parse_options(options))
    with redirect_stdout(sys.stderr):
        source, inputs, name = load_model(model)
        samples = load_calibration(calib) if calib else None
    folder = output or f"build/{name}"
    try:
        with redirect_stdout(sys.stderr):  # what the model prints
            result = compile_model(
                source, inputs, target=chosen, quantization=quantization, name=name,
                calibration=samples, io=io, io_layout=io_layout, check=not no_check,
                progress=False if quiet or as_json else None, format=format_name,
                sizes=_parse_sizes(sizes),
            )  # fmt: skip
    except NpucError as error:
        if error.left is not None:
            path = error.left.save(folder, name)[0]
            click.echo(f"left: {path}, which the vendor's tool was given", err=True)
        raise
    paths = result.save(folder, name)
    if as_json:
        print(json.dumps({**result.as_dict(), "files": [str(p) for p in paths]}, indent=1))
        return
    from npuc.report.terminal import show_compilation

    show_compilation(result, paths, verbose)


@cli.command("explain", epilog=MODEL_HELP)
@model_options
@click.option("--all", "everything", is_flag=True, help="Supported ops too.")
def explain_command(
    model: str, target: str, quantization: str | None, calib: str | None, as_json: bool,
    quiet: bool, everything: bool, sizes: tuple[str, ...],
) -> None:  # fmt: skip
    """Say per op of MODEL whether it can be on the target, and why not."""
    from npuc.cli.load_model import load_calibration, load_model
    from npuc.pipeline import explain
    from npuc.targets.catalogue import find_target

    find_target(target)
    with redirect_stdout(sys.stderr):  # what the model prints
        source, inputs, _ = load_model(model)
        coverage = explain(
            source, inputs, target=target, quantization=quantization,
            calibration=load_calibration(calib) if calib else None,
            progress=False if quiet or as_json else None, sizes=_parse_sizes(sizes),
        )  # fmt: skip
    if as_json:
        print(json.dumps(coverage.as_dict(), indent=1))
    else:
        from npuc.report.terminal import show_coverage

        show_coverage(coverage, everything)
    if not coverage.supported:
        sys.exit(1)


@cli.command("inspect")
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output on stdout.")
def inspect_command(path: str, as_json: bool) -> None:
    """Show what is in a file that npuc writes: .tosa, .vgf, .tflite, .pte, .bin, .npz, .neutron."""
    from npuc.report.inspect_file import inspect_file
    from npuc.report.terminal import show_tree

    found = inspect_file(path)
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        show_tree(path, found)


@cli.command("targets")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output on stdout.")
def targets_command(as_json: bool) -> None:
    """List the targets."""
    from npuc.report.terminal import show_pairs
    from npuc.targets.catalogue import targets

    found = targets()
    print(json.dumps(found, indent=1)) if as_json else show_pairs("target", "what it is", found)


@cli.command("ops")
@click.option("-t", "--target", help="Mark the rules that this target overrides.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output on stdout.")
def ops_command(target: str | None, as_json: bool) -> None:
    """List the PyTorch ops that have a lowering rule, from the rules themselves."""
    from npuc.report.ops_table import ops_table
    from npuc.report.terminal import show_pairs

    found = ops_table(target)
    print(json.dumps(found, indent=1)) if as_json else show_pairs("op", "lowering", found)


@cli.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output on stdout.")
def doctor_command(as_json: bool) -> None:
    """Say which tools are installed, their versions, and whether Vulkan runs."""
    from npuc.report.terminal import show_tools
    from npuc.targets.tools import installed_tools

    tools = installed_tools()
    if as_json:
        print(
            json.dumps(
                [{k: getattr(t, k) for k in t.__dataclass_fields__} for t in tools], indent=1
            )
        )
    else:
        show_tools(tools)


def _parse_options(options: tuple[str, ...]) -> dict[str, Any]:
    from npuc.errors import BadInput

    parsed: dict[str, Any] = {}
    for text in options:
        key, sep, value = text.partition("=")
        if not sep:
            raise BadInput(f"--option {text!r}", hint="the form is KEY=VALUE")
        if key.startswith("extra."):
            parsed.setdefault("extra_options", {})[key[6:]] = value
        elif key == "flags":
            parsed["flags"] = tuple(value.split())
        else:
            parsed[key] = value
    return parsed


def _parse_sizes(texts: tuple[str, ...]) -> dict[str, int]:
    from npuc.errors import BadInput

    sizes: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not name or not number.isdigit():
            raise BadInput(f"--size {text!r}", hint="the form is NAME=NUMBER, e.g. batch=4")
        sizes[name] = int(number)
    return sizes


def main() -> None:
    """Entry point: an NpucError is shown as its message with status 1, never as a traceback."""
    import logging
    import warnings

    warnings.showwarning = _show_warning
    for library in NOISY:
        logging.getLogger(library).setLevel(logging.ERROR)
    try:
        cli(standalone_mode=True)
    except NpucError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


def _show_warning(message: Any, category: type, filename: str, *rest: Any, **named: Any) -> None:
    """npuc's own warnings as one line; those of libraries are not the user's to solve."""
    if category is UserWarning and "/npuc/" in filename.replace("\\", "/"):
        click.echo(f"warning: {message}", err=True)


if __name__ == "__main__":
    main()
