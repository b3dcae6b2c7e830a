"""A network that does something else than the one there is, wherever it mixes."""

from dataclasses import dataclass
from typing import Any, NoReturn

from consensus.communication.network import Network
from consensus.solvers.needs import needs_of
from consensus.solvers.wrapper import Wrapper


@dataclass(frozen=True)
class MessageWrapper(Wrapper):
    """A wrapper that looks at every message of an exchange by itself.

    Its solver must have all its exchanges by ``network.mix`` with doubly stochastic matrices: the masses of push-sum are no
    rows that could be compared.
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
    """What else ``network`` offers, it has by ``__getattr__``; the exchanges that are not changed it must not have."""

    network: Network

    def __getattr__(self, name: str) -> Any:
        return getattr(self.network, name)

    def average(self, *_: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} changes network.mix, and there is no network.average of it")

    mix_and_average = average
