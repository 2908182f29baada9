"""Times every stage of npuc, in microseconds per op, with peak memory, cycles and accuracy.

    python bench/lowering.py [NETWORK ...] [--float] [--peer] [--repeat 3] [--json FILE]

Without names: every example and the depthwise nets of 4, 16, 64 and 256 blocks. CPU seconds of this
process; the best of `--repeat` runs. With --peer, ExecuTorch's own Arm flow runs on the same network in a
process of its own, in the same run, and the ratios are printed. Vela gives the cycles of both.
"""

from __future__ import annotations

import argparse
import base64
import collections
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

import networks  # noqa: E402
import torch  # noqa: E402

CHIPS = ("ethos-u55-128", "ethos-u85-256")
COLUMNS = ("capture", "quantize", "import", "lower", "passes", "target")


def rss_mb() -> float:
    """Largest resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, is_float: bool, repeat: int) -> dict[str, Any]:
    """Stage times (CPU seconds, best of `repeat`), op counts, memory, waste, cycles, SQNR."""
    import npuc
    from npuc.frontend.capture import capture

    model, inputs, calibration = networks.get(name)
    weights = sum(p.numel() * p.element_size() for p in model.parameters()) / 2**20
    target = "tosa-1.0+fp" if is_float else "tosa-1.0+int"
    seconds: dict[str, float] = {}
    start = time.process_time()
    program = capture(model, inputs)
    seconds["capture"] = time.process_time() - start
    subject: Any = torch.export.export(model, inputs, strict=False)
    if not is_float:
        start = time.process_time()
        subject = quantized(program, inputs, calibration(), target)
        seconds["quantize"] = time.process_time() - start
    best: dict[str, float] | None = None
    before = rss_mb()
    for _ in range(repeat):
        start = time.process_time()
        c = npuc.compile(subject, inputs, target=target, check=False, progress=False)
        total = time.process_time() - start
        if best is None or total < best["total"]:
            best = {**c.timings, "total": total}
    memory = rss_mb() - before
    seconds |= {k: best[k] for k in ("import", "lower", "passes", "target", "total")}
    kinds = collections.Counter(op.name for op in c.graph.ops if op.kind != "const")
    return {
        "network": name, "ops": len(c.coverage), "tosa_ops": sum(kinds.values()),
        "kinds": dict(kinds), "seconds": seconds, "memory_mb": memory, "weights_mb": weights,
        "bytes": len(c.artifact), "tosa": c.artifact,
    } | ({} if is_float else chips(program, inputs, model, calibration()))  # fmt: skip


def quantized(program: Any, inputs: Any, samples: list[Any], target: str) -> Any:
    """The program quantized to int8 as `npuc.compile` does it for `target`."""
    import npuc
    from npuc.frontend.canonicalize import spelled_kinds
    from npuc.lowering.registry import known_kinds
    from npuc.quantizer import Recipe, quantize

    known = spelled_kinds(known_kinds("tosa")).__contains__
    wide = "EXT-INT16" in npuc.Target.named(target).limits.offered
    return quantize(
        program, inputs, Recipe.named("int8"), samples, False, known=known, tables16=wide
    )


def chips(program: Any, inputs: Any, model: Any, samples: list[Any]) -> dict[str, Any]:
    """Cycles and SRAM on each chip, and the SQNR of the compiled graph against the float model."""
    import npuc
    from npuc.check.report import sqnr_db

    found: dict[str, Any] = {"cycles": {}}
    subject = quantized(program, inputs, samples, CHIPS[0])
    for chip in CHIPS:
        try:
            c = npuc.compile(subject, inputs, target=chip, check=False, progress=False)
        except npuc.NpucError as error:
            found["cycles"][chip] = {"error": str(error).splitlines()[0][:160]}
            continue
        p = c.performance
        found["cycles"][chip] = {
            "cycles": p["total_cycles"], "sram_kb": p["sram_peak"] / 1024, "overhead": p["overhead"],
        }  # fmt: skip
        with torch.no_grad():
            want, got = model(*inputs), c.run(*inputs)
        tuples = [x if isinstance(x, (tuple, list)) else (x,) for x in (got, want)]
        found["sqnr"] = [sqnr_db(g.numpy(), w.numpy()) for g, w in zip(*tuples)]
    return found


def run_peer(name: str, is_float: bool) -> dict[str, Any]:
    """The peer's record for the same network."""
    from npuc.errors import NpucError
    from npuc.serialize.read_tosa import read_tosa
    from npuc.targets.vela import compile_vela

    command = [sys.executable, str(Path(__file__).with_name("peer_arm.py")), name]
    command += ["--float"] if is_float else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    if done.returncode or not done.stdout.strip():
        return {"error": done.stderr.strip().splitlines()[-1][:200] if done.stderr else "died"}
    record = json.loads(done.stdout.strip().splitlines()[-1])
    blobs = [base64.b64decode(b) for b in record.pop("tosa")]
    kinds: collections.Counter[str] = collections.Counter()
    for blob in blobs:
        kinds.update(op.name for op in read_tosa(blob).walk() if op.kind != "const")
    record["kinds"] = dict(kinds)
    record["cycles"] = {}
    for chip in CHIPS if not is_float else ():
        try:
            results = [compile_vela(b, chip) for b in blobs]
            record["cycles"][chip] = {
                "cycles": sum(r.perf["total_cycles"] for r in results),
                "sram_kb": max(r.perf["sram_peak"] for r in results) / 1024,
            }
        except NpucError as error:
            record["cycles"][chip] = {"error": str(error).splitlines()[0][:160]}
    return record


def show(row: dict[str, Any]) -> None:
    """One network: a line of stages, a line per chip, a line of ratios to the peer."""
    s, n = row["seconds"], max(row["ops"], 1)
    stages = "  ".join(f"{k} {s[k]:.2f}" for k in COLUMNS if k in s)
    print(f"{row['network']:17} {n:5} ops  {stages}  | program to TOSA {s['total']:.3f} s, "
          f"{s['total'] / n * 1e6:.0f} us/op, +{row['memory_mb']:.0f} MB (weights "
          f"{row['weights_mb']:.0f} MB)")  # fmt: skip
    k = row["kinds"]
    sqnr = ", ".join(f"{x:.1f}" for x in row.get("sqnr", []))
    print(
        f"{'':17} TRANSPOSE {k.get('TRANSPOSE', 0)}, RESCALE {k.get('RESCALE', 0)}, "
        f"{row['tosa_ops']} TOSA ops, {row['bytes'] / 1024:.0f} kB"
        + (f", SQNR {sqnr} dB" if sqnr else "")
    )
    for chip, c in row.get("cycles", {}).items():
        print(
            f"{'':17} {chip}: "
            + (
                c.get("error")
                or f"{c['cycles']:,} cycles, {c['sram_kb']:.0f} kB, overhead {c['overhead']}"
            )
        )
    if "peer" in row:
        show_peer(row, row["peer"])
    sys.stdout.flush()


def show_peer(row: dict[str, Any], peer: dict[str, Any]) -> None:
    """The peer's figures and its ratio to ours."""
    if "error" in peer:
        print(f"{'':17} peer: {peer['error']}")
        return
    lower = peer["seconds"]["lower"]
    k = peer["kinds"]
    print(f"{'':17} peer: {lower:.1f} s to TOSA = {lower / row['seconds']['total']:.0f} times ours, "
          f"+{peer['lower_mb']:.0f} MB, {peer['partitions']} partitions, {sum(peer['outside'].values())} ops outside, "
          f"TRANSPOSE {k.get('TRANSPOSE', 0)}, RESCALE {k.get('RESCALE', 0)}, SQNR {peer['sqnr']}")  # fmt: skip
    for chip, c in peer["cycles"].items():
        ours = row.get("cycles", {}).get(chip, {})
        ratio = (
            f" = {c['cycles'] / ours['cycles']:.2f} times ours"
            if "cycles" in c and "cycles" in ours
            else ""
        )
        print(
            f"{'':17} peer {chip}: "
            + (c.get("error") or f"{c['cycles']:,} cycles, {c['sram_kb']:.0f} kB{ratio}")
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--float", action="store_true", dest="is_float")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in options.networks or [*networks.NAMES, *[f"dwnet_{n}" for n in networks.DEPTHS]]:
        try:
            row = measure(name, options.is_float, options.repeat)
        except Exception as error:
            print(
                f"{name:17} {type(error).__name__}: {str(error).splitlines()[0][:200]}", flush=True
            )
            continue
        row.pop("tosa")
        if options.peer:
            row["peer"] = run_peer(name, options.is_float)
        rows.append(row)
        show(row)
    by = {r["network"]: r["seconds"]["total"] for r in rows}
    if "dwnet_64" in by and "dwnet_256" in by:
        print(f"256 blocks take {by['dwnet_256'] / by['dwnet_64']:.2f} times 64 blocks")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
