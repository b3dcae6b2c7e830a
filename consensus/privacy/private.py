"""A solver whose agents take noisy gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import networkx as nx
import numpy as np

from consensus import _checks
from consensus.communication.network import Network
from consensus.privacy.accountant import checked, epsilon, noisy_edges
from consensus.privacy.gradients import Noise, PrivateProblem
from consensus.privacy.keys import PairKeys
from consensus.privacy.sampling import MOST
from consensus.problems import BaseProblem, Problem
from consensus.problems.samples import has_buffers, of_batches
from consensus.solvers.needs import needs_of
from consensus.solvers.wrapper import Wrapper
from topologies.schedules import ScheduleLike, is_static

_NOT_PREPARED = "the edges are not known yet: solver.prepared(problem, network) is the solver that has them"


@dataclass(frozen=True)
class Private(Wrapper):
    """Another solver, with differentially private gradients: what an agent sends depends on its data through them alone.

    The gradient of every sample, times ``a_i = A n_i / N`` for n_i of N samples, is clipped to norm C. To their mean the agent
    adds independent noise of standard deviation s, and for each of its edges correlated noise of standard deviation c, which
    its neighbour subtracts:

        mean_m { h_m min(1, C / |h_m|) }  +  s z_i  +  c sum_{j > i} v_ij  -  c sum_{j < i} v_ji,      h_m = a_i grad l_m,

    with z, v ~ N(0, I).

    Exchanges cancel the correlated noise, so that s may be several times less than without, for the same privacy.

    *On ranks* (``MPI()``, ``Torch()``) an agent's own noise comes from the cryptographic generator of its operating system and
    is kept nowhere, that of an edge from a key that its two agents agree on by X25519 (extra ``secure``). So two runs differ,
    and a run that is resumed goes on with fresh noise. Objective and stationarity, which are of the data, are not recorded:
    they are NaN, and what needs them is refused. *In one process*, workers included, it is a simulation: all noise follows from
    ``seed``, which hides nothing from anybody who knows it, and the history is measured on the data.

    Private are all messages of a run on ranks, against who sees them all and knows no edge's noise. Not private are the numbers
    of samples, and settings that were tuned on the data.

    Parameters
    ----------
    solver : Solver
        The solver, with a ``step_size``, as ``DGD(0.1, batch=8)``: of gradients alone, and mixing with neighbours.
    clip : float
        Norm C > 0.
    noise, correlated : float
        Standard deviations s > 0 and c >= 0, in the units of gradients.
    seed : int
        Seed of the noise of a simulation, at least 0; on ranks it is not used.
    grid : float, optional
        Gradients and noise are whole multiples of it, so that no bit of a floating-point number tells anything: the mean is
        rounded towards zero, and the noise is a discrete Gaussian, drawn by integers alone. ``noise`` must be a multiple of it,
        and ``correlated`` zero, as no theorem is used for both. It costs about a microsecond a number.

    Raises
    ------
    TypeError
        If ``solver`` needs more than gradients, or wakes without rounds.
    ValueError
        If a number is out of range.

    References
    ----------
    Allouah, Koloskova, El Firdoussi, Jaggi, Guerraoui, "The privacy power of correlated noise in decentralized learning",
    ICML 2024, Algorithm 1 (DECOR); Abadi et al., "Deep learning with differential privacy", CCS 2016, for the clipping;
    Mironov, "On significance of the least significant bits for differential privacy", CCS 2012, and Canonne, Kamath, Steinke,
    "The discrete Gaussian for differential privacy", NeurIPS 2020, for the grid.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.privacy import Private
    >>> from consensus.solvers import DGD
    >>> X, y = np.arange(80.0).reshape(40, 2) / 40, np.arange(40.0) / 40
    >>> problem = consensus.Problem(
    ...     consensus.Linear(2), consensus.SquaredLoss(), consensus.partition(X, y, agents=4), consensus.L2(0.1))
    >>> solver = Private(DGD(0.05, batch=5), clip=1.0, noise=0.5, correlated=20.0)
    >>> network = topologies.ring(4)
    >>> result = consensus.solve(problem, network, solver, rounds=50)
    >>> round(solver.epsilon(network, gradients=50), 1)  # of such a run on ranks; this one, of one process, has none
    168.0
    """

    clip: float
    noise: float
    correlated: float = 0.0
    seed: int = 0
    grid: float | None = None
    edges_of_noise: tuple[np.ndarray, np.ndarray] | None = field(default=None, init=False, repr=False, compare=False)
    # Whether noise comes from the system and from keys of edges, which are in no digest, text or file.
    noise_is_secret: bool = field(default=False, init=False, repr=False, compare=False)
    keys_of_edges: PairKeys | None = field(default=None, init=False, repr=False, compare=False)

    secret = True

    def __post_init__(self) -> None:
        super().__post_init__()
        needs, inner = needs_of(self.solver), type(self.solver).__name__
        if needs.model or needs.deterministic or needs.coupled:
            raise TypeError(
                f"solver of Private must be one of gradients alone, such as DGD or GradientTracking; {inner} needs more"
            )
        for name in ("step_size", "momentum"):
            if getattr(self.solver, name, 0) is None:
                raise ValueError(f"solver of Private must have a {name}: the default of {inner} would depend on the data")
        for name, value in zip(("clip", "noise", "correlated"), checked(self.clip, self.noise, self.correlated), strict=True):
            object.__setattr__(self, name, value)
        _checks.count("seed", self.seed, least=0)
        if self.grid is not None:
            object.__setattr__(self, "grid", _checks.number("grid", self.grid, above=0))
            _check_grid(self.grid, self.noise, self.correlated)

    def around(self, network: Network) -> Network:
        return network

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        model = problem.model
        if not isinstance(problem, Problem):
            raise TypeError(
                f"Private clips the gradients of samples, and {problem} has none in memory: give a consensus.Problem"
            )
        if getattr(model, "differs", False) or getattr(model, "stochastic", False) or has_buffers(model):
            raise TypeError(f"Private needs gradients of single samples, and {model} has dropout or batch normalisation")
        if of_batches(problem.loss):
            raise TypeError(f"Private needs gradients of single samples, and {problem.loss} is a loss of whole batches")

    def check_network(self, schedule: ScheduleLike) -> None:
        super().check_network(schedule)
        if self.correlated and not is_static(schedule):
            raise ValueError(
                f"correlated noise cancels between neighbours on a static network, and {schedule} changes or loses messages: "
                "give correlated=0.0, or a static network"
            )

    def prepared(self, problem: BaseProblem, network: ScheduleLike) -> Self:
        ready = super().prepared(problem, network)
        none = np.zeros(0, int)
        ready = replace(ready) if ready is self else ready
        object.__setattr__(ready, "edges_of_noise", noisy_edges(network) if self.correlated else (none, none))
        return ready

    def among_owners(self, agents: range, everyone: Callable[[np.ndarray], np.ndarray]) -> Self:
        if self.edges_of_noise is None:
            raise TypeError(_NOT_PREPARED)
        ready, keys = copy.copy(super().among_owners(agents, everyone)), None
        if self.correlated:
            keys = PairKeys(agents, "consensus-opt: noise of an edge", "correlated noise on ranks")
            first, second = self.edges_of_noise
            keys.agree(everyone(keys.public), zip(first.tolist(), second.tolist(), strict=True))
        object.__setattr__(ready, "noise_is_secret", True)
        object.__setattr__(ready, "keys_of_edges", keys)
        return ready

    def epsilon(self, network: ScheduleLike | nx.Graph, gradients: int, delta: float = 1e-5) -> float:
        """Return the epsilon of (epsilon, delta)-differential privacy after so many gradients on ranks: see :func:`epsilon`.

        A simulation has none: it shows what a run on ranks would reveal, and how accurate it would be.

        Parameters
        ----------
        network : schedule or networkx.Graph
            The network.
        gradients : int
            The ``gradients`` of a run's history, those before a checkpoint included; of several runs on the same data the sum.
            A run that was killed has sent those of the rounds after its last checkpoint, too, and they are sent again, with
            fresh noise, when it is resumed: add them.
        delta : float
            In (0, 1).

        Returns
        -------
        float
            Epsilon.
        """
        return epsilon(network, gradients, self.clip, self.noise, self.correlated, delta)

    def _seen(self, problem: BaseProblem, round: int) -> BaseProblem:
        if self.edges_of_noise is None:
            raise TypeError(_NOT_PREPARED)
        settings = self.clip, self.noise, self.correlated, self.seed, *self.edges_of_noise
        noise = Noise(*settings, self.grid, self.noise_is_secret, self.keys_of_edges)
        return cast(BaseProblem, PrivateProblem(cast(Problem, problem), noise, round))

    def init(self, problem: BaseProblem, w: np.ndarray) -> Any:  # noqa: ANN401
        return self.solver.init(self._seen(problem, 0), w)

    def step(self, problem: BaseProblem, network: Network, state: Any) -> Any:  # noqa: ANN401
        return self.solver.step(self._seen(problem, state.round + 1), network, state)


def _check_grid(grid: float, noise: float, correlated: float) -> None:
    """Raise ``ValueError`` unless the noise is a multiple of the grid, and there is no correlated noise."""
    if correlated:
        raise ValueError(
            f"grid is for independent noise, whose discrete form has a theorem; got correlated={correlated:g}: give "
            "correlated=0.0, or grid=None"
        )
    multiple = noise / grid
    if not 1 <= round(multiple) <= MOST or abs(multiple - round(multiple)) > 1e-9 * multiple:
        good = min(max(1, round(multiple)), MOST)
        raise ValueError(
            f"noise must be a whole multiple of grid, from 1 to {MOST:,} times; got {noise:g} and {grid:g}: give for example "
            f"grid={noise / good!r}"
        )
