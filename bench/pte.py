"""Seconds that .pte programs cost: written directly, and through ExecuTorch's own lowering.

    python bench/pte.py [--peer] [NETWORK ...]

Per network of examples/ and target, CPU seconds from the quantized graph on: of a whole-model .pte;
of `to_edge_transform_and_lower` with npuc's partitioner the total, npuc's own part (without Vela,
which runs in the same process) and its share. With --peer also of a .pte by ExecuTorch's own Arm
flow (export, lowering, `to_executorch`), in a process of its own, in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networks

TARGETS = ("vgf", "ethos-u85-256")


def seconds_of(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def lowering(target: str, program: Any) -> tuple[float, float]:
    """CPU seconds of to_edge_transform_and_lower, and of npuc in it."""
    from executorch.exir import to_edge_transform_and_lower

    import npuc
    from npuc.executorch.compile_partly import partitioner_of, spec_of
    from npuc.targets import vela

    partitioner = partitioner_of(spec_of(npuc.Target.named(target)))
    backend, spent = type(partitioner).backend, [0.0]

    def timed(function: Callable[..., Any], sign: int = 1) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            seconds, result = seconds_of(lambda: function(*args, **options))
            spent[0] += sign * seconds
            return result

        return call

    preprocess, run_vela = backend.preprocess, vela._run
    vela._run = timed(run_vela, -1)
    partitioner.partition = timed(partitioner.partition)
    partitioner.ops_to_not_decompose = timed(partitioner.ops_to_not_decompose)
    backend.preprocess = staticmethod(timed(preprocess))
    try:
        total, _ = seconds_of(
            lambda: to_edge_transform_and_lower(program, partitioner=[partitioner])
        )
    finally:
        backend.preprocess, vela._run = staticmethod(preprocess), run_vela
    return total, spent[0]


def peer_seconds(name: str, target: str) -> float:
    """CPU seconds of ExecuTorch's own flow; not a number where it fails."""
    from npuc.execute.vgf_file import find_binary

    tool = find_binary("model_converter", "model-converter")
    folders = [str(tool.parent)] if tool is not None else []
    environment = {**os.environ, "PATH": os.pathsep.join([*folders, os.environ["PATH"]])}
    command = [sys.executable, str(Path(__file__).with_name("peer_arm.py")), name, "--pte", target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, env=environment)
    if done.returncode or not done.stdout.strip():
        print(done.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return float("nan")
    seconds = json.loads(done.stdout.strip().splitlines()[-1])["seconds"]
    return float(seconds["reexport"] + seconds["lower"] + seconds["write"])


def row(name: str, target: str, with_peer: bool) -> str:
    """One line of the table."""
    import torch

    import npuc
    from npuc.quantizer import quantize

    model, inputs, calibration = networks.get(name)
    converted = quantize(model, inputs, "int8", list(calibration())[:2], False)
    options = {"target": target, "format": "pte", "check": False, "progress": False}
    direct, _ = seconds_of(lambda: npuc.compile(converted, inputs, **options))
    total, ours = lowering(target, torch.export.export(converted, tuple(inputs)))
    peer = peer_seconds(name, target) if with_peer else float("nan")
    times = f"{direct:>8.2f}{peer:>8.1f}{peer / direct:>8.0f}"
    return f"{name:<16}{target:<16}{times}{total:>8.2f}{ours:>8.2f}{ours / total:>8.1%}"


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=["mobilenet_v2", "dscnn_kws"])
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    titles = ("network", "target", ".pte", "peer", "ratio", "exir", "npuc", "share")
    print("{:<16}{:<16}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}".format(*titles))
    for name in options.networks:
        for target in TARGETS:
            print(row(name, target, options.peer), flush=True)


if __name__ == "__main__":
    main()
