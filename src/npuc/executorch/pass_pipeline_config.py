"""The pass settings of ExecuTorch's Arm backend, accepted so that scripts run unchanged.

npuc computes softmax and leaky_relu by one rule each, whatever these settings say; they are kept,
compared and written like every other part of a compile spec.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum

from npuc.errors import BadInput


class SoftmaxDecompositionConfig(Enum):
    """How ExecuTorch's backend would break up softmax."""

    MASKED = "masked"
    STABLE = "stable"


class LeakyReLUDecompositionConfig(Enum):
    """How ExecuTorch's backend would compute leaky_relu."""

    DECOMPOSE = "decompose"
    TABLE = "table"


@dataclass(frozen=True)
class QuantizeInfConfig:
    """Finite numbers that stand for infinities in a quantized model."""

    neg_inf: float = -256.0
    pos_inf: float = 255.0


@dataclass
class ArmPassPipelineConfig:
    """Settings of the passes before quantization."""

    softmax: SoftmaxDecompositionConfig = SoftmaxDecompositionConfig.MASKED
    leaky_relu: LeakyReLUDecompositionConfig = LeakyReLUDecompositionConfig.DECOMPOSE
    quantize_inf: QuantizeInfConfig = field(default_factory=QuantizeInfConfig)

    def is_default(self) -> bool:
        """Whether nothing was set."""
        return self == ArmPassPipelineConfig()

    def serialize(self) -> bytes:
        """The settings as JSON."""
        data = {
            "softmax": self.softmax.value,
            "leaky_relu": self.leaky_relu.value,
            "quantize_inf": asdict(self.quantize_inf),
        }
        return json.dumps(data, sort_keys=True).encode()

    @staticmethod
    def deserialize(data: bytes) -> ArmPassPipelineConfig:
        """What `serialize` wrote. Raises BadInput for anything else."""
        try:
            read = json.loads(data)
            return ArmPassPipelineConfig(
                SoftmaxDecompositionConfig(read["softmax"]),
                LeakyReLUDecompositionConfig(read["leaky_relu"]),
                QuantizeInfConfig(**read["quantize_inf"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise BadInput("compile spec transform_pipeline_config", why=str(error)) from None
