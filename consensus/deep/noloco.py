"""NoLoCo: local steps, and an outer step with momentum towards the neighbours."""

from dataclasses import dataclass, field

from consensus.communication.network import Network
from consensus.deep.outer import OuterSolver, OuterState
from consensus.directions import AdamW, Direction
from consensus.problems import BaseProblem, Minibatches
from consensus.solvers.needs import Needs
from consensus.step_sizes import Rule

_ADAMW = AdamW()


@dataclass(frozen=True, repr=False)
class NoLoCo(OuterSolver):
    """Many local steps between two exchanges, then a step with momentum from where they began towards their mixed ends.

    On the average form ``f_i = A g_i + r``, with M = 0 at first, every agent does H times, from x = w_i,

        x <- x - alpha d,    d along grad f_i(x) by the direction, and then    M+ = beta M + a (W X - W0),   W0+ = W0 + M+ ,

    with W0 the rows w_i and W the mixing matrix. On random pairs, :class:`topologies.Matchings`, it is the published method:
    ``mean(x - w) + mean(w) - w`` of a pair is ``W X - W0``. Iterates are averaged with the movement, so that agents stay
    together. Networks may change. Ends of local steps at a constant alpha are biased, as those of :class:`DGD`.

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
    Kolehmainen, Blagoev, Donaghy, Ersoy, Nies, "NoLoCo: no-all-reduce low communication training method for large models",
    arXiv 2506.10911, 2025.

    Examples
    --------
    >>> import numpy as np, consensus, topologies
    >>> from consensus.solvers import NoLoCo
    >>> centres = np.arange(5.0)[:, None]
    >>> problem = consensus.Problem.from_functions(
    ...     lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=5, parameters=1)
    >>> pairs, solver = topologies.Matchings(5), NoLoCo(0.001, local_steps=10, direction=None)
    >>> consensus.solve(problem, pairs, solver, rounds=400).mean.round(1)
    array([2.])
    """

    step_size: float | Rule
    local_steps: int = field(default=50, metadata={"count": 1})
    outer: float = field(default=0.7, metadata={"above": 0})
    momentum: float = field(default=0.5, metadata={"least": 0, "below": 1})
    batch: int | Minibatches | None = None
    direction: Direction | None = _ADAMW

    needs = Needs(regularizer="smooth")

    def step(self, problem: BaseProblem, network: Network, state: OuterState) -> OuterState:
        n, w, m, _ = state
        x, memory = self._walked(problem, state)
        (mixed,) = network.mix(n, x)
        m = self.momentum * m + self.outer * (mixed - w)
        return OuterState(n + 1, w + m, m, memory)
