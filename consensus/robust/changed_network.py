"""Wrappers of solvers that change every exchange of their network."""

from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np

from consensus.communication import Network, Packed
from consensus.solvers.needs import needs_of
from consensus.solvers.wrapper import Wrapper

Block: TypeAlias = np.ndarray | Packed


@dataclass(frozen=True)
class MessageWrapper(Wrapper):
    """A wrapper that handles every message of an exchange by itself.

    All exchanges of its solver must be ``network.mix`` with doubly stochastic matrices: rows of push-sum are divided by
    weights that differ from agent to agent, so they cannot be compared.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        mixing = needs_of(self.solver).mixing
        if mixing not in ("doubly stochastic", "symmetric"):
            outer, inner = type(self).__name__, type(self.solver).__name__
            raise TypeError(
                f"solver of {outer} must be one for doubly stochastic matrices, such as DGD or GradientTracking; {inner} takes "
                f"{mixing} ones"
            )


@dataclass(frozen=True)
class ChangedNetwork:
    """A network whose ``mix`` is changed; other attributes are those of ``network``, and other exchanges are rejected."""

    network: Network

    def __getattr__(self, name: str) -> object:
        return getattr(self.network, name)

    def average(self, *_: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} changes network.mix, and there is no network.average of it")

    mix_and_average = average
