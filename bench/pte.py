"""Seconds that .pte programs cost: written directly, and through ExecuTorch's own lowering.

    python bench/pte.py [network ...]

Per network (of examples/): CPU seconds from the quantized graph to a whole-model .pte, and of
`to_edge_transform_and_lower` with npuc's partitioner the total, npuc's own part (without Vela,
which runs in the same process), and its share.
"""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

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


def main(networks: list[str]) -> None:
    import torch

    import npuc
    from npuc.quantizer import quantize

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print(f"{'network':<16}{'target':<16}{'.pte':>8}{'exir':>8}{'npuc':>8}{'share':>8}")
    for name in networks:
        example = importlib.import_module(name)
        model, inputs = example.model()
        converted = quantize(model, inputs, "int8", list(example.calibration())[:2], False)
        exported = torch.export.export(converted, tuple(inputs))
        for target in TARGETS:
            options = {"target": target, "format": "pte", "check": False, "progress": False}
            start = time.process_time()
            npuc.compile(converted, inputs, **options)
            direct = time.process_time() - start
            total, ours = lowering(target, exported)
            row = f"{direct:>8.2f}{total:>8.2f}{ours:>8.2f}{ours / total:>8.1%}"
            print(f"{name:<16}{target:<16}{row}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["mobilenet_v2", "dscnn_kws"])
