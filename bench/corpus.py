"""How many programs of a corpus compile and compute the right values, by mode.

    python bench/corpus.py DIRECTORY [--modes FP,INT,...] [--out results.jsonl]

DIRECTORY holds `index.jsonl` (a case per line: program, mode, tosa_spec, tolerances) and
`programs/NAME/{program.pt2,inputs.pt}`. A case is compiled for the target of its mode, with its own
inputs as calibration, self-checked, executed and compared with PyTorch: floats by the tolerances of
the case, quantized results by their relative Frobenius error (0.15 unless the case says otherwise).
"""

from __future__ import annotations

import argparse
import collections
import copy
import json
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree

warnings.filterwarnings("ignore")

#: family of a mode -> its target (None: the case's own), and precision of a mode -> quantization
TARGETS = {"U55": "ethos-u55-128", "U65": "ethos-u65-256", "U85": "ethos-u85-256", "VGF": "vgf"}
QUANTIZATIONS = {"INT": "int8", "A16W8": "a16w8", "A8W4": "a8w4"}
FLOATS = ("FP", "FP16", "BF16", "FP8")
STATUSES = ("pass", "wrong", "refused", "error")


def configuration(case: dict[str, Any]) -> tuple[str, str | None] | None:
    """Target and quantization of a case; None for modes that name no configuration of ours."""
    words = case["mode"].split("_")
    target = TARGETS.get(words[0], case["tosa_spec"])
    kinds = [w for w in words if w not in TARGETS]
    if all(k in FLOATS for k in kinds):
        return target, None
    return (target, QUANTIZATIONS[kinds[0]]) if kinds[0] in QUANTIZATIONS else None


def run(root: Path, case: dict[str, Any], target: str, quantization: str | None) -> tuple[str, str]:
    """The status of a case, and why it did not pass."""
    import npuc

    folder = root / "programs" / case["program"]
    program = torch.export.load(folder / "program.pt2")
    inputs = torch.load(folder / "inputs.pt", weights_only=False)
    try:
        want = _tensors(program.module(check_guards=False)(*copy.deepcopy(inputs)))
    except NotImplementedError as error:  # eager PyTorch has no kernel: nothing to compare with
        return "error", f"PyTorch: {error}"
    try:
        c = npuc.compile(
            program, copy.deepcopy(inputs), target=target, quantization=quantization,
            calibration=[copy.deepcopy(inputs)] if quantization else None, progress=False,
        )  # fmt: skip
        got = _tensors(c.run(*copy.deepcopy(inputs)))
    except npuc.Unsupported as error:
        return "refused", str(error)
    except Exception as error:  # a fault, to be counted
        return "error", f"{type(error).__name__}: {error}"
    why = difference(got, want, case.get("tolerances") or {}, quantization is not None)
    return ("wrong", why) if why else ("pass", "")


def _tensors(results: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]


def difference(
    got: list[torch.Tensor], want: list[torch.Tensor], limits: dict[str, Any], quantized: bool
) -> str:
    """What is wrong with the results; empty where nothing is."""
    if [t.shape for t in got] != [t.shape for t in want]:
        return f"shapes {[tuple(t.shape) for t in got]}, not {[tuple(t.shape) for t in want]}"
    for index, (g, w) in enumerate(zip(got, want, strict=True)):
        g, w = g.double(), w.double()
        seen = torch.isfinite(w)
        error, size = (g - w)[seen], w[seen]
        if quantized and size.norm() > 1e-3:
            relative = float(error.norm() / size.norm())
            if relative > (limits.get("frobenius_threshold") or 0.15):
                return f"output {index}: relative error {relative:.3f}"
        elif not quantized:
            atol, rtol = (limits.get(k) or 1e-3 for k in ("atol", "rtol"))
            if bool((error.abs() > atol + rtol * size.abs()).any()):
                return f"output {index}: off by {float(error.abs().max()):.4g}"
    return ""


def main() -> None:
    """Run the cases and print a line per mode, then each reason with how many cases have it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--modes", help="comma-separated; default: all that name a configuration")
    parser.add_argument("--out", type=Path, help="a JSON line per case")
    options = parser.parse_args()
    torch.set_num_threads(1)
    modes = options.modes.split(",") if options.modes else None
    counts: dict[str, collections.Counter[str]] = {}
    reasons: collections.Counter[tuple[str, str]] = collections.Counter()
    rows = []
    for line in (options.directory / "index.jsonl").open():
        case = json.loads(line)
        chosen = configuration(case)
        skipped = case.get("skip") or case.get("dynamic_shapes")
        if chosen is None or skipped or (modes and case["mode"] not in modes):
            continue
        status, why = run(options.directory, case, *chosen)
        counts.setdefault(case["mode"], collections.Counter())[status] += 1
        rows.append({"case": case["case"], "mode": case["mode"], "status": status, "why": why})
        if why:
            reasons[status, why[:100]] += 1
    for mode, count in sorted(counts.items()):
        total = sum(count.values())
        figures = "  ".join(f"{s} {count[s]}" for s in STATUSES if count[s])
        print(f"{mode:14} {100 * count['pass'] / total:5.1f} % of {total:4}  {figures}")
    for (status, why), number in reasons.most_common():
        print(f"{number:5} {status}: {why}")
    if options.out:
        options.out.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
