"""The TFLite dialect: builtin operators, shape rules, quantization rules, versions, limits."""

from npuc.dialects.tflite.definition import DEFINITIONS, Definition
from npuc.dialects.tflite.infer import InvalidOp, broadcast, infer, same_padding, window_size
from npuc.dialects.tflite.limits import ChipPolicy, TfliteLimits
from npuc.dialects.tflite.op_builder import TfliteOpBuilder
from npuc.dialects.tflite.quantization import QUANTIZED, fixed_quant, same_parameters
from npuc.dialects.tflite.versions import lowest_version, runtime_of

__all__ = [
    "DEFINITIONS",
    "QUANTIZED",
    "ChipPolicy",
    "Definition",
    "InvalidOp",
    "TfliteLimits",
    "TfliteOpBuilder",
    "broadcast",
    "fixed_quant",
    "infer",
    "lowest_version",
    "runtime_of",
    "same_padding",
    "same_parameters",
    "window_size",
]
