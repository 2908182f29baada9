"""The peer: litert-torch on one network, in its own environment; a JSON line on stdout.

    PEER/bin/python bench/peer_litert.py mobilenet_v2

Flow: export -> prepare/convert with its PT2EQuantizer (static, symmetric, per channel) -> convert to
TFLite, images channels-last. The environment: litert-torch 0.10.0, torch 2.13.0, torchao 0.18.0.
"""

from __future__ import annotations

import argparse
import base64
import collections
import json
import logging
import os
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import networks  # noqa: E402
import torch  # noqa: E402


def quantized(program, quantizer, calibration):
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    module = prepare_pt2e(program.module(check_guards=False), quantizer)
    with torch.no_grad():
        for sample in calibration:
            module(*sample)
    return convert_pt2e(module, fold_quantize=False)


def runner(data):
    """A function of float inputs that runs the file in LiteRT, as an application does."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()

    def run(*inputs):
        for port, x in zip(interpreter.get_input_details(), inputs):
            scale, zero = port["quantization"]
            if scale:
                x = (x / scale).round().add(zero).clamp(-128, 127)
            interpreter.set_tensor(port["index"], x.numpy().astype(port["dtype"]))
        interpreter.invoke()
        found = []
        for port in interpreter.get_output_details():
            y = torch.as_tensor(interpreter.get_tensor(port["index"])).float()
            scale, zero = port["quantization"]
            found.append((y - zero) * scale if scale else y)
        return found[0] if len(found) == 1 else tuple(found)

    names = collections.Counter(op["op_name"] for op in interpreter._get_ops_details())
    names.pop("DELEGATE", None)
    return run, dict(names.most_common())


def channels_last(sample):
    return tuple(x.permute(0, 2, 3, 1).contiguous() if x.dim() == 4 else x for x in sample)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sys.stdout.flush()
    out = os.dup(1)
    os.dup2(2, 1)  # the tools print on stdout
    import litert_torch
    from litert_torch.quantize import pt2e_quantizer
    from litert_torch.quantize.quant_config import QuantConfig

    model, inputs, calibration = networks.get(options.network)
    images = [i for i, x in enumerate(inputs) if x.dim() == 4]
    if images:
        model = litert_torch.to_channel_last_io(model, args=images).eval()
        inputs = channels_last(inputs)
    seconds: dict[str, float] = {}
    stage = partial(networks.timed, seconds)
    quantizer = pt2e_quantizer.PT2EQuantizer().set_global(
        pt2e_quantizer.get_symmetric_quantization_config(is_per_channel=True, is_dynamic=False)
    )
    samples = [channels_last(s) for s in calibration()]
    program = stage("capture", lambda: torch.export.export(model, inputs, strict=False))
    module = stage("quantize", lambda: quantized(program, quantizer, samples))
    config = QuantConfig(pt2e_quantizer=quantizer)
    made = stage("convert", lambda: litert_torch.convert(module, inputs, quant_config=config))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "peer.tflite"
        made.export(str(path))
        data = path.read_bytes()
    run, operators = runner(data)
    unseen = [channels_last(s) for s in calibration(*networks.UNSEEN)]
    result = {
        "seconds": seconds, "operators": operators, "sqnr": networks.sqnr(model, run, unseen),
        "tflite": base64.b64encode(data).decode(),
    }  # fmt: skip
    os.write(out, (json.dumps(result) + "\n").encode())
    os._exit(0)


if __name__ == "__main__":
    main()
