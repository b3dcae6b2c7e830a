"""A shared body, and heads of the agents' own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self, cast

import numpy as np

from consensus import _checks
from consensus.communication import Network, Packed
from consensus.personal.measured import Personal
from consensus.problems import BaseProblem
from consensus.robust.changed_network import ChangedNetwork, MessageWrapper
from consensus.solvers.base import settled
from topologies.schedules import ScheduleLike


@dataclass(frozen=True)
class SharedBody(MessageWrapper):
    """Another solver whose agents share some parameters u of their models and keep the others, v_i, to themselves.

    With the average form ``f_i = A g_i + r``, of which the agents look for

        minimise  (1/A) sum_i f_i(u, v_i)     over u, v_1, ..., v_A ,

    exchanges mix the shared parameters alone: where the solver has ``W X``, own parameters stay as they are. Its trackers and
    corrections of own parameters are then those of an agent by itself. Nothing about own parameters is sent, or counted. Body
    and heads move together, in every round, as in FedSim; FedRep lets the heads move first.

    The history's ``objective``, ``stationarity`` and test errors are those of the agents' own models, with the mean u, and
    ``disagreement`` is that of u. ``result.w`` has the agents' models, and ``result.predictor(pipeline, agent=i)`` one of them.
    Around it may be :class:`Gossip`, :class:`consensus.robust.NNA` and its kin, and :class:`consensus.privacy.Private`.

    Parameters
    ----------
    solver : Solver
        One that mixes with symmetric or doubly stochastic matrices.
    own : str, sequence of str, or array_like of int
        The parameters that agents keep, by names: those of ``problem.model.layout``, or what these begin with up to a dot, as
        ``"head"`` stands for ``"head.weight"`` and ``"head.bias"``, and ``"1"`` for the second layer of an MLP. Of costs given
        by functions, their places.

    Raises
    ------
    TypeError, ValueError
        If the solver takes messages one by one, compresses them or divides by masses; if a name is not there, or nothing is
        left to share.

    References
    ----------
    Pillutla, Malik, Mohamed, Rabbat, Sanjabi, Xiao, "Federated learning with partial model personalization", ICML 2022, for
    FedSim; Collins, Hassani, Mokhtari, Shakkottai, "Exploiting shared representations for personalized federated learning",
    ICML 2021, for FedRep.

    Examples
    --------
    One slope for all agents, and an intercept for each:

    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import EXTRA, SharedBody
    >>> x, offsets = np.linspace(-1, 1, 8)[:, None], [0.0, 1.0, 5.0, -2.0]
    >>> shards = consensus.Shards.from_list([(x, 3 * x[:, 0] + offset) for offset in offsets])
    >>> problem = consensus.Problem(consensus.Linear(1), consensus.SquaredLoss(), shards)
    >>> solver = SharedBody(EXTRA(), own="0.bias")
    >>> result = consensus.solve(problem, topologies.ring(4), solver, rounds=500)
    >>> (result.w.round(6) + 0.0).tolist()
    [[3.0, 0.0], [3.0, 1.0], [3.0, 5.0], [3.0, -2.0]]
    """

    own: str | Sequence[str] | Sequence[int]
    # Which parameters (P,) agents keep; prepared finds them.
    kept: np.ndarray | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._takes_mix()
        if hasattr(self.solver, "compressor"):
            raise TypeError(f"solver of SharedBody must send rows as they are; {type(self.solver).__name__} compresses them")
        object.__setattr__(self, "own", _names_or_places(self.own))

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        self.personal(problem)

    def personal(self, problem: BaseProblem) -> Personal:
        own, count = np.zeros(_checks.problem(problem).parameters, bool), len(self.own)
        if not count or isinstance(self.own[0], str):
            own |= _named(problem.model, cast(tuple[str, ...], self.own), problem)
        else:
            places = np.array(self.own)
            if places.min() < 0 or places.max() >= len(own):
                raise ValueError(f"own must be places from 0 to {len(own) - 1}; got {places.min()} to {places.max()}")
            own[places] = True
        if not own.any() or own.all():
            raise ValueError(f"own must leave some of the {len(own)} parameters to share, and keep some; it keeps {own.sum()}")
        return Personal(own)

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        ready = super().prepared(problem, network)
        ready = replace(ready) if ready is self else ready
        object.__setattr__(ready, "kept", self.personal(problem).own)
        return ready

    def around(self, network: Network) -> Network:
        # The rest of the protocol is in ChangedNetwork.__getattr__, which type checkers do not see.
        return cast(Network, _SharedNetwork(network, settled(self.kept, "own")))


@dataclass(frozen=True)
class _SharedNetwork(ChangedNetwork):
    """A network that mixes the shared parameters of vectors (agents, P), or several side by side, and leaves those kept."""

    kept: np.ndarray

    def mix(self, round: int, *blocks: np.ndarray | Packed, beside: int = 0) -> tuple[np.ndarray, ...]:
        places = [self._shared(block) for block in blocks]
        sent = [block if at is None else cast(np.ndarray, block)[:, at] for block, at in zip(blocks, places, strict=True)]
        mixed = list(self.network.mix(round, *sent, beside=beside))
        for number, (block, at) in enumerate(zip(blocks, places, strict=True)):
            if at is not None:
                whole = cast(np.ndarray, block).astype(self.network.dtype)  # a new array
                whole[:, at], mixed[number] = mixed[number], whole
        return tuple(mixed)

    def _shared(self, block: np.ndarray | Packed) -> np.ndarray | None:
        """Return the columns of shared parameters; None if the rows are no vectors, such as single numbers."""
        if hasattr(block, "unpack"):
            raise TypeError("SharedBody takes solvers that mix arrays; this one packs its rows")
        vectors, rest = divmod(block.shape[1], len(self.kept)) if block.ndim == 2 else (0, 1)
        return None if rest else np.flatnonzero(np.tile(~self.kept, vectors))

    def aggregate(self, *_: object, beside: int = 0) -> NoReturn:
        raise TypeError("SharedBody changes network.mix, and there is no network.aggregate or send_each of it")

    send_each = aggregate


def _names_or_places(own: object) -> tuple[str, ...] | tuple[int, ...]:
    """Return names or places as a tuple; raise ``TypeError`` if they are neither."""
    if isinstance(own, str):
        return (own,)
    if isinstance(own, list | tuple) and all(isinstance(name, str) for name in own):
        return tuple(own)
    places = _checks.dense("own", own)
    if places.ndim != 1 or places.dtype.kind not in "iu":
        raise TypeError(f"own must be names of parameters, such as 'head', or their places; got {_checks.shown(own)}")
    return tuple(places.tolist())


def _named(model: Any, names: tuple[str, ...], problem: object) -> np.ndarray:  # noqa: ANN401  # layouts are optional
    """Return which parameters (P,) have the names, or begin with them."""
    layout = getattr(model, "layout", None)
    if layout is None:
        raise TypeError(f"own must be places of parameters, such as [0, 1], because those of {problem} have no names")
    found = np.zeros(model.parameters, bool)
    for name in names:
        parts = [part for part in layout if part.name == name or part.name.startswith(f"{name}.")]
        if not parts:
            there = ", ".join(part.name for part in layout)
            raise ValueError(f"own must name parameters of the model, or what these begin with, {there}; got {name!r}")
        for part in parts:
            found[part.start : part.start + math.prod(part.shape)] = True
    return found
