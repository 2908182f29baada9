"""The peer: ExecuTorch's own Arm flow on one network, in a process of its own; a JSON line on stdout.

    python bench/peer_arm.py mobilenet_v2 [--float | --accuracy | --pte TARGET]

Flow: export -> prepare/convert with TOSAQuantizer (symmetric per-channel int8) -> export ->
to_edge_transform_and_lower with TOSAPartitioner -> its TOSA flatbuffers. --accuracy: only the
quantizer, with 8 and with 16 bits of activations, on samples that calibration did not see. --pte: the
.pte program for "vgf" or an Ethos-U instead of the flatbuffers.
"""

from __future__ import annotations

import argparse
import base64
import collections
import json
import logging
import os
import resource
import sys
import warnings
from functools import partial

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import networks  # noqa: E402
import torch  # noqa: E402


def lowered(program, spec):
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
    from executorch.exir import to_edge_transform_and_lower

    return to_edge_transform_and_lower(
        program, partitioner=[TOSAPartitioner(TosaCompileSpec(spec))]
    )


def program_for(target, program):
    """The edge program with the delegates of a target."""
    from executorch.backends.arm import ethosu, vgf
    from executorch.exir import to_edge_transform_and_lower

    partitioner = (
        vgf.VgfPartitioner(vgf.VgfCompileSpec("TOSA-1.0+INT"))
        if target == "vgf"
        else ethosu.EthosUPartitioner(ethosu.EthosUCompileSpec(target))
    )
    return to_edge_transform_and_lower(program, partitioner=[partitioner])


def quantized(program, calibration, recipe="int8"):
    from executorch.backends.arm import quantizer as arm
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer = arm.TOSAQuantizer(TosaCompileSpec("TOSA-1.0+INT+int16"))
    quantizer.set_global(
        arm.get_symmetric_quantization_config()
        if recipe == "int8"
        else arm.get_symmetric_a16w8_quantization_config()
    )
    module = prepare_pt2e(program.module(check_guards=False), quantizer)
    with torch.no_grad():
        for sample in calibration:
            module(*sample)
    return convert_pt2e(module)


def parts(edge):
    """(TOSA flatbuffers, ops left outside) of a lowered program."""
    program = edge.exported_program()
    module, buffers, outside = program.graph_module, [], collections.Counter()
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        if "executorch_call_delegate" in str(node.target):
            buffers.append(bytes(getattr(module, node.args[0].target).processed_bytes))
        elif "getitem" not in str(node.target):
            outside[str(node.target)] += 1
    return buffers, outside


def accuracies(model, inputs, calibration):
    """SQNR of the outputs for each kind of activations; the error where there is one."""
    program = torch.export.export(model, inputs, strict=False)
    found = {}
    for recipe in ("int8", "a16w8"):
        try:
            found[recipe] = networks.mean_sqnr(
                model,
                calibration,
                lambda samples, recipe=recipe: quantized(program, samples, recipe),
            )
        except Exception as error:
            found[recipe] = f"{type(error).__name__}: {error}"[:200]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network")
    parser.add_argument("--float", action="store_true", dest="is_float")
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--pte", metavar="TARGET")
    options = parser.parse_args()
    torch.set_num_threads(1)
    import executorch.backends.arm.tosa.partitioner  # noqa: F401

    model, inputs, calibration = networks.get(options.network)
    seconds: dict[str, float] = {}
    stage = partial(networks.timed, seconds)
    sys.stdout.flush()
    out = os.dup(1)
    os.dup2(2, 1)  # the tools print on stdout
    if options.accuracy:
        os.write(out, (json.dumps(accuracies(model, inputs, calibration)) + "\n").encode())
        os._exit(0)
    program = stage("capture", lambda: torch.export.export(model, inputs, strict=False))
    result = {"sqnr": None}
    if not options.is_float:
        samples = calibration()
        module = stage("quantize", lambda: quantized(program, samples))
        with torch.no_grad():
            want, got = model(*inputs), module(*inputs)
        pairs = [
            (a, b) for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (want, got)))
        ]
        result["sqnr"] = [
            float(10 * torch.log10(a.pow(2).sum() / (a - b).pow(2).sum())) for a, b in pairs
        ]
        program = stage("reexport", lambda: torch.export.export(module, inputs, strict=False))
    if options.pte:
        edge = stage("lower", lambda: program_for(options.pte, program))
        made = stage("write", lambda: bytes(edge.to_executorch().buffer))
        result |= {"seconds": seconds, "bytes": len(made)}
        os.write(out, (json.dumps(result) + "\n").encode())
        os._exit(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spec = "TOSA-1.0+FP" if options.is_float else "TOSA-1.0+INT"
    edge = stage("lower", lambda: lowered(program, spec))
    buffers, outside = parts(edge)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result |= {
        "seconds": seconds, "lower_mb": (after - before) / 1024, "partitions": len(buffers),
        "outside": dict(outside), "tosa": [base64.b64encode(b).decode() for b in buffers],
    }  # fmt: skip
    os.write(out, (json.dumps(result) + "\n").encode())
    os._exit(0)


if __name__ == "__main__":
    main()
