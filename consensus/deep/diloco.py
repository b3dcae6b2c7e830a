"""DiLoCo: local steps, and an outer step by Nesterov's momentum."""

from dataclasses import dataclass, field

from consensus.communication.network import Network
from consensus.deep.outer import OuterSolver, OuterState
from consensus.directions import AdamW, Direction
from consensus.problems import BaseProblem, Minibatches
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule

_ADAMW = AdamW()


@dataclass(frozen=True, repr=False)
class DiLoCo(OuterSolver):
    """Many local steps between two exchanges, then Nesterov's step along the way to their mixed ends.

    On the average form ``f_i = A g_i + r``, with M = 0 at first, every agent does H times, from x = w_i,

        x <- x - alpha d,    d along grad f_i(x) by the direction, and then    D = W0 - W X,

        M+ = beta M + D,     W0+ = W0 - a (D + beta M+) ,

    with W0 the rows w_i and W the mixing matrix. On the complete graph, where W averages all, it is the published method,
    which has a server. On others the outer iterates are mixed together with their changes, as in ``W X``: with the changes
    alone, ``W (W0 - X)`` in place of D, agents would drift apart. Networks may change, with symmetric W.

    Parameters
    ----------
    step_size : float or rule
        Step alpha > 0 of the local steps; a rule counts these.
    local_steps : int
        H.
    outer : float
        Step a > 0 of the outer steps.
    momentum : float
        Weight beta of the past, in [0, 1).
    batch : int or Minibatches, optional
        Number of samples of each agent in every local step, fresh ones each time, instead of all.
    direction : Direction, optional
        Rule of the local steps: see :mod:`consensus.directions`. It remembers from one round to the next. With AdamW, the
        default, agents count alike, whatever number of samples they have; shards of different sizes are warned of.

    References
    ----------
    Douillard, Feng, Rusu, Chhaparia, Donchev, Kuncoro, Ranzato, Szlam, Shen, "DiLoCo: distributed low-communication training of
    language models", arXiv 2311.08105, 2023, Algorithm 1 (with a server).

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import DiLoCo
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> solver = DiLoCo(0.001, local_steps=10, direction=None)
    >>> consensus.solve(problem, topologies.ring(5), solver, rounds=400).mean.round(6)
    array([2.])
    """

    step_size: float | Rule
    local_steps: int = field(default=50, metadata={"count": 1})
    outer: float = field(default=0.7, metadata={"above": 0})
    momentum: float = field(default=0.9, metadata={"least": 0, "below": 1})
    batch: int | Minibatches | None = None
    direction: Direction | None = _ADAMW

    needs = Needs(regularizer="smooth", mixing="symmetric")  # its momentum swings where eigenvalues are complex

    def step(self, problem: BaseProblem, network: Network, state: OuterState) -> OuterState:
        n, w, m, _ = state
        x, memory = self._walked(problem, state)
        (mixed,) = network.mix(n, x)
        d = w - mixed
        m = self.momentum * m + d
        return OuterState(n + 1, w - self.outer * (d + self.momentum * m), m, memory)
