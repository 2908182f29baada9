"""SQNR of quantized networks, as compiled and executed, against the float model.

    python bench/accuracy.py [NETWORK ...] [--varied] [--target T ...] [--peer]

Without names: the examples; with --varied those of `varied.py`. Each is calibrated with what the
example brings, and measured in dB per output over samples that calibration did not see; the mean of
several calibrations. With --peer, ExecuTorch's own quantizer takes the same samples in a
process of its own; its figure is that of PyTorch's quantized graph, before any lowering.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

import networks  # noqa: E402
import torch  # noqa: E402
import varied  # noqa: E402

TARGETS = ("tosa-1.0+int", "ethos-u55-128", "ethos-u85-256")
RECIPES = ("int8", "a16w8")
#: what the recipe's type of activations needs beyond the target's name
EXTENSIONS = {("a16w8", "tosa-1.0+int"): "tosa-1.0+int+int16"}


def measure(name: str, target: str, recipe: str) -> str:
    """SQNR of each output in dB; the first line of an error."""
    import npuc

    model, inputs, calibration = networks.get(name)

    def compiled(samples: list[Any]) -> Callable[..., Any]:
        c = npuc.compile(
            model, inputs, target=EXTENSIONS.get((recipe, target), target), quantization=recipe,
            calibration=samples, progress=False,
        )  # fmt: skip
        return c.run

    try:
        return listed(networks.mean_sqnr(model, calibration, compiled))
    except npuc.NpucError as error:
        return str(error).splitlines()[0][:160]


def run_peer(name: str) -> dict[str, str]:
    """The peer's figures by recipe."""
    command = [sys.executable, str(Path(__file__).with_name("peer_arm.py")), name, "--accuracy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    if done.returncode or not done.stdout.strip():
        return dict.fromkeys(RECIPES, "died: " + done.stderr.strip()[-200:])
    record = json.loads(done.stdout.strip().splitlines()[-1])
    return {k: listed(v) if isinstance(v, list) else v for k, v in record.items()}


def listed(figures: list[float]) -> str:
    return " / ".join(f"{x:.1f}" for x in figures)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--varied", action="store_true")
    parser.add_argument("--target", nargs="+", default=TARGETS)
    parser.add_argument("--recipe", nargs="+", default=RECIPES)
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    columns = [*options.target, *(["peer"] if options.peer else [])]
    print(f"| network | recipe | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 2)}")
    for name in options.networks or (varied.NETWORKS if options.varied else networks.NAMES):
        peer = run_peer(name) if options.peer else {}
        for recipe in options.recipe:
            cells = [measure(name, target, recipe) for target in options.target]
            cells += [peer[recipe]] if peer else []
            print(f"| {name} | {recipe} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
