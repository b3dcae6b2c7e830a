"""Step sizes: numbers, or rules that give one for each round."""

from consensus.step_sizes.rules import Constant, CosineAnnealing, Diminishing, InverseSqrt, StepDecay, Warmup
from consensus.step_sizes.settings import Rule, checked, positive_at, value_at
from consensus.step_sizes.torch_schedule import TorchSchedule

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

for rule in (Constant, CosineAnnealing, Diminishing, InverseSqrt, StepDecay, Warmup):
    rule.__module__ = __name__  # checkpoints and the folders of experiments identify a class by its module
del rule
