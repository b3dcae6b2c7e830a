"""Sandblaster L-BFGS: a coordinator without parameters, replicas that compute portions, shards that hold the vectors."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import line_search

from consensus import _checks
from consensus.centralised.portions import Evaluator, Portions
from consensus.centralised.system import Advance, System, Traffic
from consensus.centralised.vector_shards import Vectors, VectorShard, two_loops
from consensus.problems import BaseProblem
from consensus.solvers.check import check_true_gradients
from consensus.workers.blocks import blocks_by_load, blocks_of
from consensus.workers.pool import Pool, pool

_ARMIJO, _CURVATURE = 1e-4, 0.9  # of the strong Wolfe conditions
_TRIES = 20  # of a line search


class SandblasterState(NamedTuple):
    """The state of the shards and of the coordinator.

    Attributes
    ----------
    round : int
        Number of rounds so far.
    w, g : ndarray (1, P)
        Iterate, and gradient of U there.
    value : ndarray (1,)
        U at the iterate; NaN before the first round.
    s, y : ndarray (1, m, P)
        Pairs: steps, and changes of the gradient.
    places : ndarray of int (1, m)
        Places of the pairs in use, oldest first; -1 for none.
    duplicated : ndarray (1, 1)
        Number of portions handed out twice.
    """

    round: int
    w: np.ndarray
    g: np.ndarray
    value: np.ndarray
    s: np.ndarray
    y: np.ndarray
    places: np.ndarray
    duplicated: np.ndarray


@dataclass(frozen=True)
class SandblasterLBFGS(System[SandblasterState]):
    """L-BFGS on the whole batch, whose coordinator receives scalars alone.

    The data are cut into small portions of agents. For U and its gradient at a point the coordinator hands portions to idle
    replicas, so that faster ones compute more; in the end the slowest portions are given to idle replicas, too, and the first
    answer is taken. The parameters, the gradient and the last m pairs ``s = w+ - w, y = grad U(w+) - grad U(w)`` are stored in
    slices on shards, processes that do all vector operations: the direction ``d = -H grad U(w)`` is made from inner products
    that the shards send, and the step t satisfies the strong Wolfe conditions

        U(w + t d) <= U(w) + 1e-4 t d'grad U(w),     |d'grad U(w + t d)| <= 0.9 |d'grad U(w)| .

    A round is one step. Portions are added in their order: the iterates do not depend on which replica computed them. A replica
    that dies, even by ``kill -9``, does not stop the run: others compute its portion. If all replicas or one shard die:
    ``WorkerError``. A round that finds no better point, at the limit of rounding, keeps the iterate.

    The history counts the samples and messages of each portion once, as replicas of equal speed would share them, so that the
    counts are the same in every run. The column ``duplicated`` counts portions handed out twice, which depend on the clock.

    Parameters
    ----------
    replicas : int
        Processes that compute portions.
    portions : int, optional
        At most one for each agent; by default four for each replica, or one for each agent if that is fewer.
    shards : int
        Processes that hold the parameters.
    memory : int
        The number m of pairs.

    References
    ----------
    Dean et al., "Large scale distributed deep networks", NeurIPS 2012, section 4.2.

    Examples
    --------
    >>> from consensus.centralised import SandblasterLBFGS
    >>> SandblasterLBFGS(replicas=4, shards=2)
    SandblasterLBFGS(replicas=4, portions=None, shards=2, memory=10)
    """

    replicas: int
    portions: int | None = None
    shards: int = 1
    memory: int = 10

    history_columns = MappingProxyType({"duplicated": np.max})
    smooth = True

    def __post_init__(self) -> None:
        for name in ("replicas", "shards", "memory"):
            _checks.count(name, getattr(self, name))
        if self.portions is not None:
            _checks.count("portions", self.portions)

    def check(self, problem: BaseProblem) -> None:
        super().check(problem)
        check_true_gradients(type(self).__name__, problem)
        self._at_most(problem, portions=self.portions, shards=self.shards)

    def init(self, problem: BaseProblem, w: np.ndarray) -> SandblasterState:
        pairs = np.zeros((1, self.memory, problem.parameters), w.dtype)
        places, value = np.full((1, self.memory), -1), np.full(1, np.nan)
        return SandblasterState(0, w, np.zeros_like(w), value, pairs, pairs, places, np.zeros((1, 1)))

    def report(self, state: SandblasterState) -> np.ndarray:
        return state.duplicated

    @contextmanager
    def running(self, problem: BaseProblem, traffic: Traffic, state: SandblasterState) -> Iterator[Advance[SandblasterState]]:
        blocks = blocks_by_load(problem.load, min(self.portions or 4 * self.replicas, problem.agents))
        vectors = Vectors.of(problem.parameters, self.memory, len(blocks) + 1 + self.replicas, problem.dtype)
        for name, value in (("x", state.w), ("g", state.g), ("s", state.s), ("y", state.y)):
            getattr(vectors, name).array[...] = value[0]
        evaluator = Evaluator(problem.shared(), blocks, vectors.point, vectors.slots)
        parts = blocks_of(problem.parameters, self.shards)
        with (
            pool([evaluator] * self.replicas, "replica") as replicas,
            pool([VectorShard(vectors, part) for part in parts], "shard") as shards,
        ):
            coordinator = _Coordinator(shards, Portions(replicas, len(blocks) + 1), state)
            before = float(state.duplicated[0, 0])

            def advance(state: SandblasterState, due: int) -> SandblasterState:
                coordinator.step()
                portions, largest = coordinator.portions, max(part.stop - part.start for part in parts)
                _count(traffic, portions, coordinator.evaluations, problem.parameters, largest, self.shards)
                places = np.full((1, self.memory), -1)
                places[0, : len(coordinator.places)] = coordinator.places
                kept = {name: getattr(vectors, name).array[None].copy() for name in ("g", "s", "y")}
                return SandblasterState(
                    round=state.round + 1,
                    w=vectors.x.array[None].copy(),
                    value=np.array([coordinator.value]),
                    places=places,
                    duplicated=np.array([[before + portions.duplicated]]),
                    **kept,
                )

            yield advance


class _Coordinator:
    """Directs the steps of L-BFGS; it receives scalars alone."""

    def __init__(self, shards: Pool, portions: Portions, state: SandblasterState) -> None:
        self.shards, self.portions, self.evaluations = shards, portions, 0
        self.value = float(state.value[0])
        self.places = [int(place) for place in state.places[0] if place >= 0]  # of the pairs, oldest first
        self.memory = state.places.shape[1]

    def step(self) -> None:
        if not np.isfinite(self.value):
            self.value, _ = self._at(0.0)
            self.shards.all("accept", None)
        if not self._searched() and self.places:
            self.places = []  # perhaps the pairs are at fault
            self._searched()

    def _searched(self) -> bool:
        """Go to a better point along L-BFGS's direction; return False if there is none."""
        gram = np.add.reduce(self.shards.all("gram", self.places))
        if gram[-1, -1] == 0:  # stationary
            return True
        coefficients = two_loops(gram)
        slope = float(coefficients @ gram[-1])
        if not slope < 0:
            return False
        self.shards.all("direct", self.places, coefficients)
        known: dict[float, tuple[float, float]] = {}

        def at(step: ArrayLike) -> tuple[float, float]:
            step = float(np.ravel(step)[0])
            if step not in known:
                known.clear()  # but the newest, the point's
                known[step] = self._at(step)
            return known[step]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the answer says if there is no such step
            step, *_ = line_search(
                lambda t: at(t)[0],
                lambda t: np.array([at(t)[1]]),
                np.zeros(1),
                np.ones(1),
                np.array([slope]),
                self.value,
                c1=_ARMIJO,
                c2=_CURVATURE,
                maxiter=_TRIES,
            )
        if step is None:
            return False
        self.value, _ = at(step)
        place = self.places.pop(0) if len(self.places) == self.memory else len(self.places)
        self.places.append(place)
        self.shards.all("accept", place)
        return True

    def _at(self, step: float) -> tuple[float, float]:
        """Return U at ``x + step d``, and its slope there along d."""
        self.shards.all("move", step)
        value, slots = self.portions.evaluate()
        self.evaluations += 1
        return value, sum(self.shards.all("gather", slots))


def _count(traffic: Traffic, portions: Portions, evaluations: int, parameters: int, largest: int, shards: int) -> None:
    """Count what was sent and computed since the run began, without the coordinator's scalars."""
    traffic.total(
        exchanges=evaluations,
        messages=portions.moves * shards,
        numbers=portions.moves * parameters,
        busiest=max(portions.most * parameters, portions.moves * largest),
        gradients=evaluations,
        samples=portions.samples,
    )
