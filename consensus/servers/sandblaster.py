"""Sandblaster L-BFGS: replicas that take portions, shards that keep the vectors."""

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import line_search

from consensus import _checks
from consensus.problems import BaseProblem
from consensus.problems.state import SharedProblem
from consensus.servers.pool import Pool, WorkerDied, pool
from consensus.servers.system import Advance, System, Traffic
from consensus.solvers.check import check_true_gradients
from consensus.workers.blocks import blocks_by_load, blocks_of
from consensus.workers.shared_memory import SharedArray


class Evaluator(NamedTuple):
    """A replica that evaluates U in portions.

    Attributes
    ----------
    problem : SharedProblem
        The problem.
    blocks : list of slice
        The agents of each portion. One more portion, the last, evaluates r.
    point : SharedArray (1, P)
        The point at which U is evaluated.
    slots : SharedArray (slots, P)
        Gradients of the portions.
    """

    problem: SharedProblem
    blocks: list[slice]
    point: SharedArray
    slots: SharedArray

    def begin(self) -> Callable[[int, int], tuple[float, int]]:
        """Return ``evaluate(portion, slot)``, which writes the gradient to the slot and returns the value and the samples."""
        problem = self.problem.problem()
        parts = [problem.restrict(rows) for rows in self.blocks]

        def evaluate(portion: int, slot: int) -> tuple[float, int]:
            point = self.point.array
            if portion == len(parts):
                self.slots.array[slot] = problem.regularizer.gradient(point)[0]
                return float(problem.regularizer.value(point[0])), 0
            part = parts[portion]
            w, before = np.broadcast_to(point, (part.agents, part.parameters)), part.work.samples
            self.slots.array[slot] = part.gradient(w).sum(axis=0)
            return float(part.value(w).sum()), part.work.samples - before

        return evaluate


class Portions:
    """Hands out the portions of one evaluation after the other: ``count``, with a slot each and one more for each worker.

    Attributes
    ----------
    samples : int
        Those in all portions, each counted once.
    moves, most : int
        How many points and gradients were sent, by all workers and by the busiest one, if each portion is computed once, and
        all workers are equally fast: counts that repeat from run to run.
    duplicated : int
        How many portions were given to a second worker; these copies are counted nowhere else.
    """

    def __init__(self, pool: Pool, count: int) -> None:
        self.pool, self.count = pool, count
        self.samples = self.moves = self.most = self.duplicated = self._evaluation = 0
        self._free = list(range(count + len(pool.pids)))
        self._at_work: dict[int, tuple[int, int, int]] = {}  # by worker: evaluation, portion, slot

    def evaluate(self) -> tuple[float, list[int]]:
        """Return U at the point, and the slots of the portions' gradients, in order, valid until the next evaluation.

        If no worker is left it raises a ``WorkerError``.
        """
        self._evaluation += 1
        waiting, values, slots = deque(range(self.count)), dict[int, float](), dict[int, int]()
        workers = min(len(self.pool.alive), self.count)
        self.moves += workers + self.count
        self.most += 1 + -(-self.count // workers)
        while len(values) < self.count:
            for worker in sorted(self.pool.alive - self.pool.busy):
                portion = waiting.popleft() if waiting else self._slowest(values)
                if portion is None:
                    break
                self._at_work[worker] = self._evaluation, portion, self._free.pop()
                self.pool.submit(worker, portion, self._at_work[worker][2])
            try:
                worker, (value, samples) = self.pool.result()
            except WorkerDied as death:
                evaluation, portion, slot = self._at_work.pop(death.worker)
                self._free.append(slot)
                if not self.pool.alive:
                    raise self.pool.lost(death.worker) from None
                if evaluation == self._evaluation and portion not in values and not self._copies(portion):
                    waiting.appendleft(portion)
                continue
            evaluation, portion, slot = self._at_work.pop(worker)
            if evaluation == self._evaluation and portion not in values:
                values[portion], slots[portion] = value, slot
                self.samples += samples
            else:  # another was faster
                self._free.append(slot)
        self._free += slots.values()  # nobody writes there before the next evaluation
        return sum(values[portion] for portion in range(self.count)), [slots[portion] for portion in range(self.count)]

    def _copies(self, portion: int) -> int:
        """Return how many workers compute this portion of the present evaluation."""
        return sum(work[:2] == (self._evaluation, portion) for work in self._at_work.values())

    def _slowest(self, values: Mapping[int, float]) -> int | None:
        """Return the portion handed out first of those that one worker alone computes, None if there is none."""
        for evaluation, portion, _ in list(self._at_work.values()):
            if evaluation == self._evaluation and portion not in values and self._copies(portion) == 1:
                self.duplicated += 1
                return portion
        return None


class Vectors(NamedTuple):
    """The vectors of a run in shared memory: each shard works on its slice.

    Attributes
    ----------
    x, g : SharedArray (P,)
        Iterate, and gradient there.
    d : SharedArray (P,)
        Direction.
    trial : SharedArray (P,)
        Gradient at the trial point.
    s, y : SharedArray (m, P)
        Steps, and changes of the gradient.
    point : SharedArray (1, P)
        Trial point.
    slots : SharedArray (slots, P)
        Gradients of the portions, which the replicas write.
    """

    x: SharedArray
    g: SharedArray
    d: SharedArray
    trial: SharedArray
    s: SharedArray
    y: SharedArray
    point: SharedArray
    slots: SharedArray

    @classmethod
    def of(cls, parameters: int, memory: int, slots: int, dtype: np.dtype) -> "Vectors":
        """Return vectors of P ``parameters``, for ``memory`` pairs s, y."""
        shapes = [(parameters,)] * 4 + [(memory, parameters)] * 2 + [(1, parameters), (slots, parameters)]
        return cls(*(SharedArray(shape, dtype) for shape in shapes))


class VectorShard(NamedTuple):
    """The shard with the slice ``part`` of all ``vectors``."""

    vectors: Vectors
    part: slice

    def begin(self) -> Callable[..., object]:
        """Return ``order(name, *arguments)``, which does the vector operation of that name."""
        x, g, d, trial, s, y, point, slots = (shared.array[..., self.part] for shared in self.vectors)

        def gram(places: Sequence[int]) -> np.ndarray:
            """Return all inner products of s, y, at the ``places``, and g."""
            basis = np.concatenate([s[places], y[places], g[None]]).astype(np.float64)
            products: np.ndarray = basis @ basis.T
            return products

        def direct(places: Sequence[int], coefficients: np.ndarray) -> None:
            """Set ``d``, the sum of coefficients times s, y, at the places, and g."""
            d[...] = coefficients @ np.concatenate([s[places], y[places], g[None]])

        def move(step: float) -> None:
            """Set ``point = x + step d``."""
            point[0] = x + step * d

        def gather(places: Sequence[int]) -> float:
            """Set the gradient at the point, the sum of ``slots``; return its product with d."""
            trial[...] = slots[places].sum(axis=0)
            return float(trial @ d)

        def accept(place: int | None) -> None:
            """Go to the point; store the step and the change of the gradient at ``place``, if one is given."""
            if place is not None:
                s[place], y[place] = point[0] - x, trial - g
            x[...], g[...] = point[0], trial

        orders: dict[str, Callable[..., object]]
        orders = {"gram": gram, "direct": direct, "move": move, "gather": gather, "accept": accept}
        return lambda name, *arguments: orders[name](*arguments)


def two_loops(gram: np.ndarray) -> np.ndarray:
    """Return the coefficients of L-BFGS's direction in s_1 .. s_k, y_1 .. y_k, g, from their inner products (2k + 1, 2k + 1).

    The two loops of L-BFGS on coefficients instead of vectors; without any pair the direction is ``-g / |g|``. See Chen, Wang,
    Zhou, "Large-scale L-BFGS using MapReduce", NeurIPS 2014.
    """
    pairs = len(gram) // 2
    q = np.zeros(len(gram))
    q[-1] = -1.0
    if not pairs:
        q[-1] /= np.sqrt(gram[-1, -1])
        return q
    alpha = np.zeros(pairs)
    for k in reversed(range(pairs)):
        alpha[k] = (q @ gram[:, k]) / gram[k, pairs + k]
        q[pairs + k] -= alpha[k]
    newest = pairs - 1
    q *= gram[newest, pairs + newest] / gram[pairs + newest, pairs + newest]
    for k in range(pairs):
        beta = (q @ gram[:, pairs + k]) / gram[k, pairs + k]
        q[k] += alpha[k] - beta
    return q


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
    >>> from consensus.centralized import SandblasterLBFGS
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
