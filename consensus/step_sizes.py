"""Step-size rules: what a solver multiplies its direction by, round by round."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

import numpy as np

from consensus import _checks

Rule: TypeAlias = Callable[[int], float]  # of the round


@dataclass(frozen=True)
class Constant:
    """``alpha[n] = value``, > 0.

    Examples
    --------
    >>> from consensus.step_sizes import Constant
    >>> Constant(0.1)(1000)
    0.1
    """

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", _checks.number("value of Constant", self.value, above=0))

    def __call__(self, round: int) -> float:
        _checks.count("round", round, least=0)
        return self.value


@dataclass(frozen=True)
class Diminishing:
    """``alpha[0] = initial``, ``alpha[n] = alpha[n-1] (1 - decay alpha[n-1])``: not summable but square summable.

    Parameters
    ----------
    initial : float
        > 0.
    decay : float
        In (0, 1 / initial), so that the sequence stays positive; it falls like 1 / (decay n).

    References
    ----------
    Di Lorenzo, Scutari, "NEXT: in-network nonconvex optimization", IEEE TSIPN 2(2), 2016 (its second
    example of a step-size rule).

    Examples
    --------
    >>> from consensus.step_sizes import Diminishing
    >>> rule = Diminishing(initial=0.5, decay=0.1)
    >>> rule(0), rule(1)
    (0.5, 0.475)
    """

    initial: float
    decay: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", _checks.number("initial of Diminishing", self.initial, above=0))
        most = 1 / self.initial
        object.__setattr__(self, "decay", _checks.number("decay of Diminishing", self.decay, above=0, below=most))

    def __call__(self, round: int) -> float:
        round = _checks.count("round", round, least=0)
        values = _diminishing(self)
        while len(values) <= round:
            values.append(values[-1] * (1 - self.decay * values[-1]))
        return values[round]


@functools.lru_cache(maxsize=64)
def _diminishing(rule: Diminishing) -> list[float]:
    """The rule's sequence so far, kept so that any round is reached in constant time, from a resumed run too."""
    return [rule.initial]


@dataclass(frozen=True)
class InverseSqrt:
    """``alpha[n] = initial / sqrt(n + 1)``, the customary rule of subgradient and stochastic methods; ``initial`` > 0.

    Examples
    --------
    >>> from consensus.step_sizes import InverseSqrt
    >>> InverseSqrt(0.5)(3)
    0.25
    """

    initial: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", _checks.number("initial of InverseSqrt", self.initial, above=0))

    def __call__(self, round: int) -> float:
        return float(self.initial / np.sqrt(_checks.count("round", round, least=0) + 1))


@dataclass(frozen=True)
class StepDecay:
    """``alpha[n] = initial gamma^floor(n / every)``: the step falls by a factor now and then, as by PyTorch's ``StepLR``.

    Parameters
    ----------
    initial : float
        > 0.
    every : int
        Rounds between two falls, PyTorch's ``step_size``.
    gamma : float
        The factor, in (0, 1].

    Examples
    --------
    >>> from consensus.step_sizes import StepDecay
    >>> rule = StepDecay(0.4, every=30, gamma=0.5)
    >>> rule(29), rule(30), rule(60)
    (0.4, 0.2, 0.1)
    """

    initial: float
    every: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "initial", _checks.number("initial of StepDecay", self.initial, above=0))
        object.__setattr__(self, "every", _checks.count("every of StepDecay", self.every))
        object.__setattr__(self, "gamma", _checks.number("gamma of StepDecay", self.gamma, above=0, most=1))

    def __call__(self, round: int) -> float:
        return self.initial * self.gamma ** (_checks.count("round", round, least=0) // self.every)


@dataclass(frozen=True)
class CosineAnnealing:
    """``alpha[n] = final + (initial - final) (1 + cos(pi n / rounds)) / 2``, and ``final`` from round ``rounds`` on.

    It is PyTorch's ``CosineAnnealingLR`` without its return to ``initial`` afterwards.

    Parameters
    ----------
    initial : float
        > 0.
    rounds : int
        Over which it falls, PyTorch's ``T_max``: those of the run.
    final : float
        In [0, initial], PyTorch's ``eta_min``. With zero, agents only mix once the rounds are over; methods that divide by the
        step ask for more.

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

    initial: float
    rounds: int
    final: float = 0.0

    def __post_init__(self) -> None:
        initial = _checks.number("initial of CosineAnnealing", self.initial, above=0)
        object.__setattr__(self, "initial", initial)
        object.__setattr__(self, "rounds", _checks.count("rounds of CosineAnnealing", self.rounds))
        object.__setattr__(self, "final", _checks.number("final of CosineAnnealing", self.final, least=0, most=initial))

    def __call__(self, round: int) -> float:
        round = _checks.count("round", round, least=0)
        if round >= self.rounds:
            return self.final
        return self.final + (self.initial - self.final) * (1 + math.cos(math.pi * round / self.rounds)) / 2


@dataclass(frozen=True)
class Warmup:
    """Another rule, reached along a line: ``alpha[n] = rule[n] min(1, (n + 1) / rounds)``.

    Parameters
    ----------
    rule : float or rule
        It counts the rounds of the warm-up, too.
    rounds : int
        From round ``rounds - 1`` on the step is the rule's.

    References
    ----------
    Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1 hour", arXiv 1706.02677, 2017, section 2.2 (gradual
    warmup).

    Examples
    --------
    >>> from consensus.step_sizes import CosineAnnealing, Warmup
    >>> rule = Warmup(CosineAnnealing(0.4, rounds=1000), rounds=10)
    >>> round(rule(0), 6), rule(9) == rule.rule(9)
    (0.04, True)
    """

    rule: float | Rule
    rounds: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", checked(self.rule, "rule"))
        object.__setattr__(self, "rounds", _checks.count("rounds of Warmup", self.rounds))

    def __call__(self, round: int) -> float:
        return value_at(self.rule, round) * min(1.0, (_checks.count("round", round, least=0) + 1) / self.rounds)


def value_at(step_size: float | Rule | None, round: int) -> float:
    """The step in ``round``: the number ``step_size``, or what the rule ``step_size`` says of the round.

    Raises
    ------
    TypeError
        If ``step_size`` is None: ``solver.prepared(problem, network)`` is the solver with the step of its theory.

    Examples
    --------
    >>> from consensus.step_sizes import Diminishing, value_at
    >>> value_at(0.1, 1), value_at(Diminishing(0.5, 0.1), 1)
    (0.1, 0.475)
    """
    if callable(step_size):
        return float(step_size(round))
    if step_size is None:
        raise TypeError("no step is found yet: solver.prepared(problem, network) is the solver with one, or give step_size=")
    return step_size


def positive_at(step_size: float | Rule | None, round: int) -> float:
    """As :func:`value_at`, for methods that divide by it; ``ValueError`` if it is not positive."""
    return _checks.number(f"step_size={step_size} in round {round}", value_at(step_size, round), above=0)


def checked(
    step_size: float | Rule | None, name: str = "step_size", most: float | None = None, optional: bool = False
) -> float | Rule | None:
    """``step_size`` as a setting: a number as a float; a rule, any callable round -> float, as it is.

    Parameters
    ----------
    step_size : float, rule or None
    name : str
        What errors call it.
    most : float, optional
        The largest first value.
    optional : bool
        Whether None, for a step that is found when a run begins, is fine.

    Raises
    ------
    TypeError
        If it is neither number nor callable.
    ValueError
        If its first value is not in (0, most].

    Examples
    --------
    >>> from consensus.step_sizes import checked
    >>> checked(1)
    1.0
    """
    if step_size is None and optional:
        return None
    if not callable(step_size):
        if isinstance(step_size, bool) or not isinstance(step_size, Real):
            wanted = "a number or a rule such as Diminishing(0.5, 0.01)"
            raise TypeError(f"{name} must be {wanted}; got {_checks.shown(step_size)}")
        return _checks.number(name, step_size, above=0, most=most)
    first = step_size(0)
    first = first.item() if isinstance(first, np.ndarray) and first.ndim == 0 else first
    _checks.number(f"the first value of {name}={step_size}", first, above=0, most=most)
    return step_size
