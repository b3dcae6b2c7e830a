"""Step-size rules: functions of the round."""

import functools
import math
from dataclasses import dataclass, field

import numpy as np

from consensus import _checks
from consensus._bounds import check_fields
from consensus.step_sizes.settings import Rule, checked, value_at


@dataclass(frozen=True)
class Constant:
    """``alpha[n] = value``.

    Parameters
    ----------
    value : float
        Step size, > 0.

    Examples
    --------
    >>> from consensus.step_sizes import Constant
    >>> Constant(0.1)(1000)
    0.1
    """

    value: float = field(metadata={"above": 0})

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, round: int) -> float:
        _checks.count("round", round, least=0)
        return self.value


@dataclass(frozen=True)
class Diminishing:
    """``alpha[0] = initial``, ``alpha[n] = alpha[n-1] (1 - decay alpha[n-1])``: not summable but square summable.

    Parameters
    ----------
    initial : float
        First step size, > 0.
    decay : float
        In (0, 1 / initial), so that the sequence stays positive; it falls like 1 / (decay n).

    References
    ----------
    Di Lorenzo, Scutari, "NEXT: in-network nonconvex optimization", IEEE TSIPN 2(2), 2016 (second example of a rule).

    Examples
    --------
    >>> from consensus.step_sizes import Diminishing
    >>> rule = Diminishing(initial=0.5, decay=0.1)
    >>> rule(0), rule(1)
    (0.5, 0.475)
    """

    initial: float = field(metadata={"above": 0})
    decay: float

    def __post_init__(self) -> None:
        check_fields(self)
        decay = _checks.number("decay of Diminishing", self.decay, above=0, below=1 / self.initial)
        object.__setattr__(self, "decay", decay)

    def __call__(self, round: int) -> float:
        round = _checks.count("round", round, least=0)
        values = _diminishing(self)
        while len(values) <= round:
            values.append(values[-1] * (1 - self.decay * values[-1]))
        return values[round]


@functools.lru_cache(maxsize=64)
def _diminishing(rule: Diminishing) -> list[float]:
    """Return the rule's sequence so far, kept so that any round is reached in constant time, in resumed runs, too."""
    return [rule.initial]


@dataclass(frozen=True)
class InverseSqrt:
    """``alpha[n] = initial / sqrt(n + 1)``, the customary rule of subgradient and stochastic methods.

    Parameters
    ----------
    initial : float
        First step size, > 0.

    Examples
    --------
    >>> from consensus.step_sizes import InverseSqrt
    >>> InverseSqrt(0.5)(3)
    0.25
    """

    initial: float = field(metadata={"above": 0})

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, round: int) -> float:
        return float(self.initial / np.sqrt(_checks.count("round", round, least=0) + 1))


@dataclass(frozen=True)
class StepDecay:
    """``alpha[n] = initial gamma^floor(n / every)``, PyTorch's ``StepLR``.

    Parameters
    ----------
    initial : float
        First step size, > 0.
    every : int
        Rounds between two falls, PyTorch's ``step_size``.
    gamma : float
        In (0, 1].

    Examples
    --------
    >>> from consensus.step_sizes import StepDecay
    >>> rule = StepDecay(0.4, every=30, gamma=0.5)
    >>> rule(29), rule(30), rule(60)
    (0.4, 0.2, 0.1)
    """

    initial: float = field(metadata={"above": 0})
    every: int = field(metadata={"count": 1})
    gamma: float = field(default=0.1, metadata={"above": 0, "most": 1})

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, round: int) -> float:
        return self.initial * self.gamma ** (_checks.count("round", round, least=0) // self.every)


@dataclass(frozen=True)
class CosineAnnealing:
    """``alpha[n] = final + (initial - final) (1 + cos(pi n / rounds)) / 2``, and ``final`` from round ``rounds`` on.

    PyTorch's ``CosineAnnealingLR`` without the return to ``initial``.

    Parameters
    ----------
    initial : float
        First step size, > 0.
    rounds : int
        Over which it falls, PyTorch's ``T_max``: those of the run.
    final : float
        In [0, initial], PyTorch's ``eta_min``. At zero agents only mix; methods that divide by the step need more.

    References
    ----------
    Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017, eq. (5).

    Examples
    --------
    >>> from consensus.step_sizes import CosineAnnealing
    >>> rule = CosineAnnealing(0.4, rounds=100)
    >>> rule(0), round(rule(50), 6), rule(100)
    (0.4, 0.2, 0.0)
    """

    initial: float = field(metadata={"above": 0})
    rounds: int = field(metadata={"count": 1})
    final: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        final = _checks.number("final of CosineAnnealing", self.final, least=0, most=self.initial)
        object.__setattr__(self, "final", final)

    def __call__(self, round: int) -> float:
        round = _checks.count("round", round, least=0)
        if round >= self.rounds:
            return self.final
        return self.final + (self.initial - self.final) * (1 + math.cos(math.pi * round / self.rounds)) / 2


@dataclass(frozen=True)
class Warmup:
    """Linear warm-up of another rule: ``alpha[n] = rule[n] min(1, (n + 1) / rounds)``.

    Parameters
    ----------
    rule : float or rule
        Its rounds include the warm-up.
    rounds : int
        Length of the warm-up.

    References
    ----------
    Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1 hour", arXiv 1706.02677, 2017, section 2.2.

    Examples
    --------
    >>> from consensus.step_sizes import CosineAnnealing, Warmup
    >>> rule = Warmup(CosineAnnealing(0.4, rounds=1000), rounds=10)
    >>> round(rule(0), 6), rule(9) == rule.rule(9)
    (0.04, True)
    """

    rule: float | Rule
    rounds: int = field(metadata={"count": 1})

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "rule", checked(self.rule, "rule"))

    def __call__(self, round: int) -> float:
        return value_at(self.rule, round) * min(1.0, (_checks.count("round", round, least=0) + 1) / self.rounds)
