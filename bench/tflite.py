"""The TFLite route beside the TOSA route: file, accuracy on unseen samples, Vela's cycles.

    python bench/tflite.py [NETWORK ...] [--peer PYTHON] [--json FILE]

Without names: every example. Inputs and outputs of images are channels-last. Where the routes'
cycles differ by more than 3 %, the operators of Vela that make the difference are named. With
--peer, litert-torch converts the same network in the environment of the interpreter PYTHON, and
Vela compiles its file too. CPU seconds; the best of three runs from the quantized program.
"""

from __future__ import annotations

import argparse
import base64
import collections
import json
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

import networks  # noqa: E402
import torch  # noqa: E402

CHIPS = ("ethos-u55-128", "ethos-u85-256")
#: difference in cycles from which on it is explained
NOTABLE = 0.03


def measure(name: str) -> dict[str, Any]:
    """The record of a network: its file, the seconds, SQNR by route, cycles by chip and route."""
    import npuc

    model, inputs, calibration = networks.get(name)
    images = any(x.dim() == 4 for x in inputs)
    layout = "channels_last" if images else "contiguous"
    samples, unseen = calibration(), calibration(*networks.UNSEEN)

    def made(target: Any) -> Any:
        return npuc.compile(
            model, inputs, target=target, quantization="int8", calibration=samples,
            io_layout=layout, progress=False, check=target == "tflite",
        )  # fmt: skip

    start = time.process_time()
    c = made("tflite")
    whole = time.process_time() - start
    chips = {}
    for chip in CHIPS:
        routes = {
            "tflite": made(npuc.Target.named(chip, route="tflite")), "tosa": made(chip),
        }  # fmt: skip
        chips[chip] = {route: cost(x.performance, x.output.op_costs) for route, x in routes.items()}
    return {
        "network": name, "layout": layout, "bytes": len(c.artifact), **c.performance,
        "check": c.check.summary(),
        "seconds": {"whole": whole, "convert": conversion(model, inputs, samples, layout)},
        "sqnr": {
            "tflite": networks.sqnr(model, lambda *x: c.run(*x, on="litert-xnnpack"), unseen),
            "tosa": networks.sqnr(model, made("tosa-1.0+int+int16").run, unseen),
        },
        "chips": chips,
    }  # fmt: skip


def conversion(model: Any, inputs: Any, samples: list[Any], layout: str) -> float:
    """CPU seconds from the quantized program to the TFLite file."""
    import npuc
    from npuc.frontend.canonicalize import spelled_kinds
    from npuc.frontend.capture import capture
    from npuc.lowering.registry import known_kinds
    from npuc.quantizer import Recipe, quantize

    known = spelled_kinds(known_kinds("tflite")).__contains__
    program = quantize(
        capture(model, inputs), inputs, Recipe.named("int8"), samples, False, known=known,
        tables16=True,
    )  # fmt: skip
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        npuc.compile(
            program, inputs, target="tflite", io_layout=layout, check=False, progress=False
        )
        best = min(best, time.process_time() - start)
    return best


def cost(performance: Any, operations: Any) -> dict[str, Any]:
    """Cycles, SRAM, what stays on the CPU, and cycles by Vela's operator. TOSA's linear layers are
    convolutions, so those of TFLite count as such."""
    by_operator: collections.Counter[str] = collections.Counter()
    for op in operations:
        by_operator[op.operator.replace("FullyConnected", "Conv2D")] += op.op_cycles
    return {
        "cycles": performance["total_cycles"], "sram_kb": performance["sram_peak"] / 1024,
        "cpu": performance.get("cpu_operators", []), "by_operator": dict(by_operator),
    }  # fmt: skip


def run_peer(python: str, name: str) -> dict[str, Any]:
    """The peer's record, with Vela's figures for its file."""
    from npuc.errors import NpucError
    from npuc.targets.vela_tflite import compile_vela_tflite

    command = [python, str(Path(__file__).with_name("peer_litert.py")), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    if done.returncode or not done.stdout.strip():
        return {"error": done.stderr.strip().splitlines()[-1][:200] if done.stderr else "died"}
    record = json.loads(done.stdout.strip().splitlines()[-1])
    data = base64.b64decode(record.pop("tflite"))
    record |= {"bytes": len(data), "chips": {}}
    for chip in CHIPS:
        try:
            result = compile_vela_tflite(data, chip)
        except NpucError as error:
            record["chips"][chip] = {"error": str(error).splitlines()[0][:160]}
            continue
        record["chips"][chip] = cost(
            result.perf | {"cpu_operators": list(result.cpu_operators)}, result.ops
        )
    return record


def show(row: dict[str, Any]) -> None:
    """A network in lines: the file, the accuracy, each chip by both routes, the peer."""
    left = " " * 17
    sqnr = {route: " / ".join(f"{x:.1f}" for x in db) for route, db in row["sqnr"].items()}
    print(
        f"{row['network']:17}{row['bytes'] / 1024:.0f} kB, {row['operators'].get('TRANSPOSE', 0)} "
        f"TRANSPOSE ({row['layout']}), {row['float_operators']} float operators, "
        f"{row['seconds']['convert']:.2f} s from the quantized program, {row['check']}"
    )
    print(f"{left}SQNR {sqnr['tflite']} dB, by TOSA {sqnr['tosa']} dB")
    for chip, routes in row["chips"].items():
        show_routes(f"{left}{chip}", routes)
    if "peer" in row:
        show_peer(left, row, row["peer"])


def show_routes(head: str, routes: dict[str, Any]) -> None:
    ours, other = routes["tflite"], routes["tosa"]
    ratio = ours["cycles"] / other["cycles"] - 1
    cpu = ", ".join(sorted(ours["cpu"])) or "none"
    print(f"{head} {ours['cycles']:,} cycles, by TOSA {other['cycles']:,} ({ratio:+.1%}), "
          f"{ours['sram_kb']:.0f} / {other['sram_kb']:.0f} kB, on the CPU: {cpu}")  # fmt: skip
    if abs(ratio) > NOTABLE:
        print(f"{' ' * len(head)} {differences(ours['by_operator'], other['by_operator'])}")


def differences(ours: dict[str, int], other: dict[str, int]) -> str:
    """The operators whose cycles differ most between two routes."""
    gap = {k: ours.get(k, 0) - other.get(k, 0) for k in ours.keys() | other.keys()}
    largest = sorted(gap, key=lambda k: -abs(gap[k]))[:5]
    return ", ".join(f"{k} {gap[k]:+,}" for k in largest if gap[k])


def show_peer(left: str, row: dict[str, Any], peer: dict[str, Any]) -> None:
    if "error" in peer:
        print(f"{left}peer: {peer['error']}")
        return
    seconds = peer["seconds"]["convert"]
    sqnr = " / ".join(f"{x:.1f}" for x in peer["sqnr"])
    print(f"{left}peer: {peer['bytes'] / 1024:.0f} kB, {seconds:.1f} s to convert = "
          f"{seconds / row['seconds']['convert']:.0f} times ours, SQNR {sqnr} dB, {peer['operators']}")  # fmt: skip
    for chip, c in peer["chips"].items():
        if "error" in c:
            print(f"{left}peer {chip}: {c['error']}")
            continue
        cpu = collections.Counter(name for name, _ in c["cpu"])
        print(
            f"{left}peer {chip} {c['cycles']:,} cycles, {c['sram_kb']:.0f} kB, on the CPU: {dict(cpu) or 'none'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--peer", metavar="PYTHON")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in options.networks or networks.NAMES:
        row = measure(name)
        if options.peer:
            row["peer"] = run_peer(options.peer, name)
        rows.append(row)
        show(row)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
