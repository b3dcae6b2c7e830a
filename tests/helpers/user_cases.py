"""Solvers and schedules as users may write them, wrong ones among them."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

import consensus
import topologies
from consensus.solvers import DGD, Solver
from tests.helpers import engine_cases
from tests.helpers.engine_cases import AGENTS, Case

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
    """:class:`Mine` with another method."""
    return type("Mine", (Mine,), {name: method for name, method in (("init", init), ("step", step)) if method})()


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


def _case(solver=None, network=None):
    problem = engine_cases.special()["functions, DGD"].problem
    return Case(problem, network or engine_cases.NETWORKS["static"], solver or DGD(0.02), {"rounds": 3})


def _init(kind, init, *words):
    return _case(faulty(init=lambda self, problem, w: init(w))), kind, ("Mine.init", *words)


def _step(kind, step, *words):
    """A step of the network and the state; a ``words`` that names a call of the network stands for the solver's name."""
    where = () if words[0].startswith("network.") else ("Mine.step",)
    return _case(faulty(step=lambda self, problem, network, state: step(network, state))), kind, (*where, *words)


def _next(state, w):
    return State(state.round + 1, w)


def _schedule(kind, change, *words, since=1):
    return _case(network=Weights(change, since)), kind, words


_NAMED, _UNPACK = "must return a NamedTuple whose first fields are round and w", "(w,) = network.mix(round, w)"
_MIX, _SINGLE = "network.mix(round, *blocks)", "dtype float64; got dtype float32: return w.astype(problem.dtype)"

FAULTY = {
    "a plain tuple": _init(TypeError, lambda w: (0, w), _NAMED, "a tuple"),
    "an array": _init(TypeError, lambda w: w, _NAMED, "a ndarray"),
    "another order": _init(TypeError, lambda w: Plain(w, 0), _NAMED, "a Plain"),
    "a start of another dtype": _init(TypeError, lambda w: State(0, w.astype(np.int64)), "got dtype int64"),
    "no number": _init(ValueError, lambda w: State(None, w), "rounds done, is 0; got None"),
    "a plain tuple later": _step(TypeError, lambda n, s: tuple(s), _NAMED),
    "nothing": _step(TypeError, lambda n, s: None, _NAMED, "got None"),
    "not unpacked": _step(TypeError, lambda n, s: _next(s, n.mix(s.round, s.w)), "a tuple", _UNPACK),
    "not unpacked but used": _step(ValueError, lambda n, s: _next(s, n.mix(s.round, s.w) - 0.1 * s.w), _UNPACK),
    "a list": _step(TypeError, lambda n, s: _next(s, s.w.tolist()), "a list"),
    "the mean": _step(ValueError, lambda n, s: _next(s, s.w.mean(axis=0)), "shape (5,)"),
    "another dtype": _step(TypeError, lambda n, s: _next(s, s.w.astype(np.float32)), _SINGLE),
    "the same round": _step(ValueError, lambda n, s: s, "rounds done, is 1; got 0"),
    "a list sent": _step(TypeError, lambda n, s: n.mix(0, s.w.tolist()), _MIX, "a list"),
    "the round forgotten": _step(TypeError, lambda n, s: n.mix(s.w, s.round), _MIX, "got 0"),
    "rows lost": _step(TypeError, lambda n, s: n.mix(0, s.w[:-1]), _MIX, "a row for each of the"),
    "nothing sent": _step(TypeError, lambda n, s: n.average(0), "network.average", "at least one block"),
    "a dense matrix": _schedule(TypeError, lambda w: w.toarray(), "Weights.weights(key)", "csr_array(matrix)", "a ndarray"),
    "a dense matrix at once": _schedule(TypeError, lambda w: w.toarray(), "Weights.weights(key)", "csr_array(matrix)", since=0),
    "another format": _schedule(TypeError, lambda w: w.tocoo(), "csr_array(matrix)", "COO format"),
    "another shape": _schedule(ValueError, lambda w: w[:5, :5], "shape (agents, agents) = (7, 7); got (5, 5)"),
    "another shape at once": _schedule(ValueError, lambda w: w[:5, :5], "= (7, 7); got (5, 5)", since=0),
    "no matrix": _schedule(TypeError, lambda w: None, "Weights.weights(key)", "got None"),
    "complex": _schedule(TypeError, lambda w: sp.csr_array(w * 1j), "real numbers; got dtype complex128"),
}
