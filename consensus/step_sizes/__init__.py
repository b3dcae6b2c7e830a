"""Step sizes: numbers, or rules that give one for each round."""

from typing import TYPE_CHECKING

from consensus._elsewhere import elsewhere
from consensus.step_sizes.rules import Constant, CosineAnnealing, Diminishing, InverseSqrt, StepDecay, Warmup
from consensus.step_sizes.settings import Rule, checked, positive_at, value_at

if TYPE_CHECKING:
    from consensus.frameworks.torch_schedule import TorchSchedule as TorchSchedule

__getattr__, __dir__ = elsewhere(
    __name__,
    {
        "TorchSchedule": "consensus.frameworks.torch_schedule",
    },
)

__all__ = [
    "Constant",
    "CosineAnnealing",
    "Diminishing",
    "InverseSqrt",
    "Rule",
    "StepDecay",
    "TorchSchedule",
    "Warmup",
    "checked",
    "positive_at",
    "value_at",
]
