"""PyTorch's learning-rate schedulers as step-size rules."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from consensus import _checks, _extras

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

_MODULE = "torch.optim.lr_scheduler"


class TorchSchedule:
    """``alpha[n]``, the learning rate that a scheduler of PyTorch sets for an optimiser's n-th step, n = 0, 1, ...

    It is the rate after n calls of ``scheduler.step()``, one a round.

    Parameters
    ----------
    scheduler : class, str or callable
        A class of :mod:`torch.optim.lr_scheduler` or its name, such as ``"CosineAnnealingLR"``; or a function that takes an
        optimiser and makes a scheduler, for several in a row.
    initial : float
        The optimiser's learning rate, > 0; some schedulers, such as ``OneCycleLR``, begin with another one.
    **settings : Any
        Arguments of the scheduler, beside the optimiser.

    Raises
    ------
    ImportError
        Without PyTorch: ``pip install 'consensus-opt[torch]'``.
    ValueError
        If there is no such scheduler; if it is ``ReduceLROnPlateau``, which needs measurements of the run; when it is asked for
        a round after the scheduler's last.
    TypeError
        If ``scheduler`` makes none.

    Examples
    --------
    >>> from consensus.step_sizes import TorchSchedule
    >>> rule = TorchSchedule("MultiStepLR", 0.4, milestones=[2, 4], gamma=0.5)
    >>> [rule(n) for n in range(6)]
    [0.4, 0.4, 0.2, 0.2, 0.1, 0.1]

    A warm-up, then a cosine:

    >>> def two(optimizer):
    ...     from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
    ...     parts = LinearLR(optimizer, start_factor=0.5, total_iters=2), CosineAnnealingLR(optimizer, T_max=4)
    ...     return SequentialLR(optimizer, parts, milestones=[2])
    >>> rule = TorchSchedule(two, 0.4)
    >>> [round(rule(n), 3) for n in range(7)]
    [0.2, 0.3, 0.4, 0.341, 0.2, 0.059, 0.0]
    """

    scheduler: str | Callable[..., LRScheduler]
    initial: float
    settings: dict[str, Any]

    def __init__(
        self,
        scheduler: str | Callable[..., LRScheduler],
        initial: float,
        **settings: Any,  # noqa: ANN401  # what the scheduler takes
    ) -> None:
        initial = _checks.number("initial of TorchSchedule", initial, above=0)
        if getattr(scheduler, "__module__", None) == _MODULE:
            scheduler = getattr(scheduler, "__name__", scheduler)  # a name prints as it is written
        for name, value in (("scheduler", scheduler), ("initial", initial), ("settings", settings)):
            object.__setattr__(self, name, value)
        _made(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"TorchSchedule is frozen: make another one with another {name}")

    def __repr__(self) -> str:
        settings = "".join(f", {name}={value!r}" for name, value in self.settings.items())
        return f"TorchSchedule({self.scheduler!r}, {self.initial!r}{settings})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TorchSchedule) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.scheduler, self.initial, *sorted(self.settings)))

    def __call__(self, round: int) -> float:
        return _rates(self).at(_checks.count("round", round, least=0))


class _Rates:
    """The rates of a rule so far, kept so that any round is reached in constant time, in resumed runs, too."""

    def __init__(self, rule: TorchSchedule) -> None:
        self.rule, self.lock = rule, threading.Lock()
        self.optimizer, self.scheduler = _made(rule)
        self.known = [float(self.scheduler.get_last_lr()[0])]

    def at(self, round: int) -> float:
        while round >= len(self.known):
            with self.lock:
                if round >= len(self.known):
                    self.advance()
        return self.known[round]

    def advance(self) -> None:
        self.optimizer.step()  # of nothing: schedulers warn if it comes later
        try:
            self.scheduler.step()
        except ValueError as error:
            raise ValueError(f"{self.rule} has no step size for round {len(self.known)}: {error}") from error
        self.known.append(float(self.scheduler.get_last_lr()[0]))


_rates = functools.lru_cache(maxsize=64)(_Rates)


def _made(rule: TorchSchedule) -> tuple[Optimizer, LRScheduler]:
    """Return an optimiser of nothing, and its scheduler."""
    torch = _extras.module("torch", "TorchSchedule", "torch")
    schedulers = _extras.module(_MODULE, "TorchSchedule", "torch")
    make: Any = rule.scheduler
    if isinstance(make, str):
        base = schedulers.LRScheduler
        kinds = {name: one for name, one in vars(schedulers).items() if isinstance(one, type) and issubclass(one, base)}
        known = sorted(name for name, one in kinds.items() if one is not base and name[0] != "_")
        if make == "ReduceLROnPlateau":
            raise ValueError("scheduler of TorchSchedule cannot be ReduceLROnPlateau, which needs measurements of the run")
        make = kinds[_checks.choice("scheduler of TorchSchedule", make, known)]
    if not callable(make):
        wanted = "a class of torch.optim.lr_scheduler, its name, or a function optimizer -> scheduler"
        raise TypeError(f"scheduler of TorchSchedule must be {wanted}; got {_checks.shown(make)}")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rule.initial)
    scheduler = make(optimizer, **rule.settings)
    if not isinstance(scheduler, schedulers.LRScheduler):
        raise TypeError(f"scheduler of TorchSchedule must make a scheduler of PyTorch; it made {_checks.shown(scheduler)}")
    return optimizer, scheduler
