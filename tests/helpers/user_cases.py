"""Solvers and schedules as users may write them, wrong ones among them."""

from typing import NamedTuple

import engine_cases
import numpy as np
import scipy.sparse as sp
from engine_cases import AGENTS, Case

import consensus
import topologies
from consensus.solvers import DGD, Solver

PROBLEMS = {
    "unequal": engine_cases.problem("squared", consensus.L2(0.02)),
    "single precision": engine_cases.problem("logistic", consensus.L1(0.02), consensus.Linear(4), dtype=np.float32),
    "nonconvex": engine_cases.problem("squared", consensus.SCAD(0.02)),
    "functions": engine_cases.special()["functions, DGD"].problem,
}


class State(NamedTuple):
    """The least that a state has."""

    round: int
    w: np.ndarray


class Plain(NamedTuple):
    """The same fields in another order."""

    w: np.ndarray
    round: int


# Looking


def attributes(problem):
    """Every public attribute of a problem and of its shards that is no method, by name; objects as they print."""
    found = {}
    for prefix, thing in (("", problem), ("shards.", getattr(problem, "shards", None))):
        for name in dir(thing) if thing is not None else ():
            if name.startswith("_") or name in ("cache", "work", "shards", "memory"):  # memory: what keeps shared arrays alive
                continue
            value = getattr(thing, name)
            if not callable(value) or not hasattr(value, "__self__"):
                plain = isinstance(value, np.ndarray | np.dtype | int | float | str | type(None))
                found[prefix + name] = value if plain else repr(value)
    return {name: value for name, value in found.items() if not callable(value)}


class Seen(Exception):
    """Carries what one block of agents has seen."""

    def __init__(self, rows, seen):
        super().__init__(rows, seen)


class Look(Solver):
    """Shows what the block with agent ``of`` sees; the other blocks do nothing."""

    def __init__(self, of):
        self.of = of

    def init(self, problem, w):
        if self.of in problem.rows:
            raise Seen(slice(int(problem.rows[0]), int(problem.rows[-1]) + 1), attributes(problem))
        return State(0, w)

    def step(self, problem, network, state):
        return State(state.round + 1, *network.mix(state.round, state.w))


def looks(problem, engine):
    """What every block of agents sees, in order, with its rows."""
    found, agent = [], 0
    while agent < problem.agents:
        try:
            consensus.solve(problem, engine_cases.NETWORKS["static"], Look(agent), rounds=1, engine=engine)
        except Seen as seen:
            found.append(seen.args)
            agent = found[-1][0].stop
    return found


class Keep(Look):
    """Keeps what its block sees in a list of the caller's."""

    def __init__(self, kept):
        self.kept = kept

    def init(self, problem, w):
        self.kept.append((slice(int(problem.rows[0]), int(problem.rows[-1]) + 1), attributes(problem)))
        return State(0, w)


# Faults


def faulty(init=None, step=None):
    """A solver with a method of one's own."""
    methods = {} if init is None else {"init": init}
    return type("Mine", (Mine,), methods | ({} if step is None else {"step": step}))()


class Mine(Solver):
    """Averages."""

    def init(self, problem, w):
        return State(0, w)

    def step(self, problem, network, state):
        return State(state.round + 1, *network.mix(state.round, state.w))


class Weights(topologies.Static):
    """The matrix of a ring, from round 1 on as ``change`` makes it."""

    def __init__(self, change, since=1):
        super().__init__(topologies.ring(AGENTS))
        self.change, self.since = change, since

    def key(self, round):
        return int(round >= self.since)

    def weights(self, key):
        return self.change(self._matrix) if key else self._matrix


def _solver(kind, *words, **methods):
    problem = engine_cases.special()["functions, DGD"].problem
    return Case(problem, engine_cases.NETWORKS["static"], faulty(**methods), {"rounds": 3}), kind, words


def _schedule(kind, change, *words, since=1):
    problem = engine_cases.special()["functions, DGD"].problem
    return Case(problem, Weights(change, since), DGD(0.02), {"rounds": 3}), kind, words


_NAMED, _UNPACK = "must return a NamedTuple whose first fields are round and w", "(w,) = network.mix(round, w)"

FAULTY = {
    "a plain tuple": _solver(TypeError, "Mine.init", _NAMED, "a tuple", init=lambda s, p, w: (0, w)),
    "an array": _solver(TypeError, "Mine.init", _NAMED, "a ndarray", init=lambda s, p, w: w),
    "another order": _solver(TypeError, "Mine.init", _NAMED, "a Plain", init=lambda s, p, w: Plain(w, 0)),
    "a plain tuple later": _solver(TypeError, "Mine.step", _NAMED, step=lambda s, p, n, state: tuple(state)),
    "nothing": _solver(TypeError, "Mine.step", _NAMED, "got None", step=lambda s, p, n, state: None),
    "not unpacked": _solver(
        TypeError,
        "Mine.step",
        "a tuple",
        _UNPACK,
        step=lambda s, p, n, state: State(state.round + 1, n.mix(state.round, state.w)),
    ),
    "not unpacked but used": _solver(
        ValueError,
        "Mine.step",
        _UNPACK,
        step=lambda s, p, n, state: State(state.round + 1, n.mix(state.round, state.w) - 0.1 * state.w),
    ),
    "a list": _solver(TypeError, "Mine.step", "a list", step=lambda s, p, n, state: State(state.round + 1, state.w.tolist())),
    "the mean": _solver(
        ValueError, "Mine.step", "shape (5,)", step=lambda s, p, n, state: State(state.round + 1, state.w.mean(axis=0))
    ),
    "another dtype": _solver(
        TypeError,
        "Mine.step",
        "dtype float64; got dtype float32: return w.astype(problem.dtype)",
        step=lambda s, p, n, state: State(state.round + 1, state.w.astype(np.float32)),
    ),
    "a start of another dtype": _solver(
        TypeError, "Mine.init", "got dtype int64", init=lambda s, p, w: State(0, w.astype(np.int64))
    ),
    "the same round": _solver(ValueError, "Mine.step", "rounds done, is 1; got 0", step=lambda s, p, n, state: state),
    "no number": _solver(ValueError, "Mine.init", "rounds done, is 0; got None", init=lambda s, p, w: State(None, w)),
    "a list sent": _solver(
        TypeError, "network.mix(round, *blocks)", "a list", step=lambda s, p, n, state: n.mix(0, state.w.tolist())
    ),
    "the round forgotten": _solver(
        TypeError, "network.mix(round, *blocks)", "got 0", step=lambda s, p, n, state: n.mix(state.w, state.round)
    ),
    "rows lost": _solver(
        TypeError, "network.mix(round, *blocks)", "a row for each of the", step=lambda s, p, n, state: n.mix(0, state.w[:-1])
    ),
    "nothing sent": _solver(TypeError, "network.average", "at least one block", step=lambda s, p, n, state: n.average(0)),
    "a dense matrix": _schedule(TypeError, lambda w: w.toarray(), "Weights.weights(key)", "csr_array(matrix)", "a ndarray"),
    "a dense matrix at once": _schedule(TypeError, lambda w: w.toarray(), "Weights.weights(key)", "csr_array(matrix)", since=0),
    "another format": _schedule(TypeError, lambda w: w.tocoo(), "csr_array(matrix)", "COO format"),
    "another shape": _schedule(ValueError, lambda w: w[:5, :5], "shape (agents, agents) = (7, 7); got (5, 5)"),
    "another shape at once": _schedule(ValueError, lambda w: w[:5, :5], "= (7, 7); got (5, 5)", since=0),
    "no matrix": _schedule(TypeError, lambda w: None, "Weights.weights(key)", "got None"),
    "complex": _schedule(TypeError, lambda w: sp.csr_array(w * 1j), "real numbers; got dtype complex128"),
}
