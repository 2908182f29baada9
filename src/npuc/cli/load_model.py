"""Finds the user's model and calibration data from what stands on the command line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import BadZipFile

from npuc.errors import BadInput

FORMS = "MODEL is file.py:function, package.module:function or a .pt2 file"


def load_model(text: str) -> tuple[Any, tuple[Any, ...] | None, str]:
    """(model, example inputs or None, name) of `file.py:function`, `module:function` or a .pt2 path.

    The function returns `(model, example_inputs)`, or a model beside a function or value named
    `example_inputs` in the same module. Raises BadInput, with the user's own line where it fails.
    """
    if text.endswith(".pt2"):
        if not Path(text).is_file():
            raise BadInput(f"no file {text}")
        return text, None, Path(text).stem
    source, _, function = text.rpartition(":")
    if not source or not function.isidentifier():
        raise BadInput(f"cannot read MODEL {text!r}", hint=FORMS)
    module = _import(source)
    made = call_user(module, function, source)
    name = Path(source).stem if function in ("model", "make", "build") else function
    if isinstance(made, tuple) and len(made) == 2:
        return made[0], _as_tuple(made[1]), name
    if made is None or isinstance(made, tuple):
        what = "None" if made is None else f"a tuple of {len(made)}"
        raise BadInput(f"{text} returns {what}", hint="return (model, example_inputs)")
    inputs = getattr(module, "example_inputs", None)
    if inputs is None:
        raise BadInput(
            f"{text} returns a model without example inputs",
            hint="return (model, example_inputs), or define example_inputs in the same file",
        )
    if callable(inputs):
        inputs = call_user(module, "example_inputs", source)
    return made, _as_tuple(inputs), name


def load_calibration(text: str) -> list[tuple[Any, ...]]:
    """Calibration samples of an .npz or .npy file, a directory of them, or `file.py:function`."""
    path = Path(text)
    if path.is_dir():
        files = sorted([*path.glob("*.npz"), *path.glob("*.npy")])
        if not files:
            raise BadInput(f"{text} has no .npz or .npy files")
        return [_sample(f) for f in files]
    if path.suffix in (".npz", ".npy"):
        if not path.is_file():
            raise BadInput(f"no file {text}")
        return [_sample(path)]
    source, _, function = text.rpartition(":")
    if not source:
        hint = "an .npz or .npy file, a directory of them, or file.py:function"
        raise BadInput(f"cannot read calibration {text!r}", hint=hint)
    samples = call_user(_import(source), function, source)
    return [_as_tuple(s) for s in _iterate(samples, text, source)]


def _iterate(samples: Any, text: str, source: str) -> Iterator[Any]:
    try:
        samples = iter(samples)
    except TypeError as error:
        raise BadInput(
            f"{text} does not return an iterable of input tuples", why=str(error)
        ) from None
    try:
        yield from samples
    except Exception as error:
        raise BadInput(f"{text} raised", user_line(error, source), _text(error)) from None


def _sample(path: Path) -> tuple[Any, ...]:
    import numpy as np
    import torch

    try:
        data = np.load(path, allow_pickle=False)
        arrays = [data[k] for k in data.files] if path.suffix == ".npz" else [data]
        return tuple(torch.from_numpy(a) for a in arrays)
    except (ValueError, TypeError, OSError, BadZipFile) as error:
        raise BadInput(f"cannot read {path}", why=str(error)) from None


def _as_tuple(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def _import(source: str) -> ModuleType:
    if not source.endswith(".py"):
        try:
            return importlib.import_module(source)
        except ModuleNotFoundError as error:
            raise BadInput(f"no module {source}", why=str(error), hint=FORMS) from None
    path = Path(source)
    if not path.is_file():
        raise BadInput(f"no file {source}")
    spec = importlib.util.spec_from_file_location(f"npuc_user_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise BadInput(f"cannot import {source}", user_line(error, source), _text(error)) from None
    finally:
        sys.path.pop(0)
    return module


def call_user(module: ModuleType, name: str, source: str) -> Any:
    """Call a function of the user's; an exception in it becomes BadInput with its line."""
    function = getattr(module, name, None)
    if not callable(function):
        names = ", ".join(n for n, v in vars(module).items() if callable(v) and n[0] != "_")
        raise BadInput(f"{source} has no function {name}", hint=f"it has: {names or 'none'}")
    try:
        return function()
    except (Exception, SystemExit) as error:
        raise BadInput(
            f"{name}() of {source} raised", user_line(error, source), _text(error)
        ) from None


def user_line(error: BaseException, source: str) -> str:
    """`file:line` of the innermost frame of `source` in an exception's traceback, else of the
    innermost one that is not npuc's or the interpreter's own."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    own = [f for f in frames if Path(f.filename).name == Path(source).name]
    found = own or [f for f in frames if not f.filename.startswith("<")]
    return f"{found[-1].filename}:{found[-1].lineno}" if found else ""


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".strip().splitlines()[0]
