"""Solvers: every one passes the contract; of wrong ones the broken law is named."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest

import consensus
import topologies
from consensus import solvers
from consensus.engines import Processes
from consensus.step_sizes import value_at
from consensus.testing import check_solver
from tests.extensions.signs import Sign
from tests.helpers import pairs
from tests.helpers.every_solver import OTHERWISE, SOLVERS
from tests.helpers.golden import ALL, OTHER
from tests.helpers.pairs import LOSSES
from tests.helpers.problems import problem
from tests.helpers.refusals import refusals
from tests.helpers.turns import with_slow


class State(NamedTuple):
    """The least that a state has."""

    round: int
    w: np.ndarray


@dataclass(frozen=True)
class Diffusion(solvers.Solver):
    """Right; those below each break a law."""

    memory: list = field(default_factory=list, repr=False, compare=False)

    needs = solvers.Needs(regularizer="smooth")
    exchanges_a_round = 1
    sends = "w"

    def init(self, problem, w):
        return State(0, w)

    def step(self, problem, network, state):
        (w,) = network.mix(state.round, state.w - 0.05 * problem.average_gradient(state.w))
        return State(state.round + 1, w)


class Wider(NamedTuple):
    round: int
    w: np.ndarray
    all: np.ndarray


def broken(**members):
    return type("Broken", (Diffusion,), {"__repr__": lambda self: "Broken(<here>)", **members})()


def stepping(new):
    """A step that makes its state of the last one and of what was mixed."""
    return lambda self, problem, network, state: new(state, *network.mix(state.round, state.w))


def _remembers(self, problem, network, state):
    self.memory.append(1)
    return State(state.round + 1, len(self.memory) * network.mix(state.round, state.w)[0])


def _keeps(self, problem, network, state):
    before = self.memory[-1] if self.memory else state.w  # of the last call
    self.memory[:] = [state.w]
    return State(state.round + 1, network.mix(state.round, state.w)[0] + state.w - before)


def _writes(self, problem, network, state):
    state.w[...] *= 0.5
    return State(state.round + 1, *network.mix(state.round, state.w))


def _first(self, problem, network, state):
    return State(state.round + 1, *network.mix(0, state.w))


FAULTS = {
    "eval\\(repr\\(solver\\)\\) gives an equal solver": {"__repr__": lambda self: "dict()"},
    "dataclasses.replace gives an equal solver": {"__repr__": lambda self: f"Broken(<here>) {id(self)}"},
    "blocks of agents on threads come to the same bits": {
        "step": stepping(lambda s, mixed: State(s.round + 1, mixed - 0.1 * s.w.mean(axis=0)))
    },
    "a step depends on the state alone": {"step": _remembers},
    "a step depends on the state alone: found": {"step": _keeps},
    "a step leaves the arrays of its state as they are": {"step": _writes},
    "states of float32 problems are in float32": {"step": stepping(lambda s, mixed: State(s.round + 1, mixed * np.ones(1)))},
    "round is the number of rounds done": {"step": stepping(lambda s, mixed: State(s.round, mixed))},
    "a state is a NamedTuple that begins with round and w: found tuple": {
        "step": stepping(lambda s, mixed: (s.round + 1, mixed))
    },
    "no two steps meet the matrix of one round: .*: the step of round 1 asks for the matrix of round 0": {"step": _first},
    "all states have the fields": {
        "init": lambda self, p, w: Wider(0, w, np.zeros(len(w))),
        "step": stepping(lambda s, mixed: Wider(s.round + 1, mixed, np.append(s.all, 0.0))),
    },
    "exchanges are exchanges_a_round: found 6 instead of 12": {"exchanges_a_round": 2},
    "floats are the vectors that it sends": {"sends": "w, y"},
    "who finds its number of exchanges says no number": {"needs": solvers.Needs(regularizer="smooth", counts_exchanges=True)},
    "every regularizer is taken, as needs say: L1": {"needs": solvers.Needs()},
}


def test_what_is_broken_below_was_whole():
    check_solver(Diffusion())


@pytest.mark.parametrize("law", FAULTS)
def test_what_is_broken_is_named(law):
    with pytest.raises(AssertionError, match=rf"^(Broken\(<here>\)|dict\(\)).*: {law}"):
        check_solver(broken(**FAULTS[law]))


@dataclass(frozen=True)
class Tracking(solvers.Solver):
    """Gradient tracking with heavy-ball momentum, from CONTRIBUTING.md and the docstrings that it names."""

    step_size: float = 0.05
    momentum: float = 0.3
    kept: float = 1.0

    needs, exchanges_a_round, sends = solvers.Needs(regularizer="smooth"), 1, "w, y"

    def init(self, problem, w):
        gradient = problem.average_gradient(w)
        return TrackingWithMomentum(0, w, w, gradient, gradient)

    def gradient(self, problem, w):
        return problem.average_gradient(w)

    def step(self, problem, network, state):
        n, w, before, y, gradient = state
        mixed, tracker = network.mix(n, w, y)
        new = mixed - value_at(self.step_size, n) * y + self.momentum * (w - before)
        fresh = self.gradient(problem, new)
        return TrackingWithMomentum(n + 1, new, w, tracker + fresh - self.kept * gradient, fresh)


class TrackingWithMomentum(NamedTuple):
    round: int
    w: np.ndarray
    before: np.ndarray
    y: np.ndarray
    gradient: np.ndarray


class OwnCosts(Tracking):
    """It forgets that f_i is A g_i + r."""

    def gradient(self, problem, w):
        return problem.gradient(w)


@dataclass(frozen=True)
class NumbersOnly(Diffusion):
    """A step that is a number, whatever is given."""

    step_size: float = 0.05

    def step(self, problem, network, state):
        return State(state.round + 1, *network.mix(state.round, state.w - self.step_size * state.w))


def difference(state):
    return state.y - state.gradient


def test_what_a_solver_reaches_and_conserves():
    laws = check_solver(Tracking(), tolerance=1e-8, conserved=difference).errors
    assert {"agents agree on a stationary point", "the sum over agents of what is conserved stays that of the start"} <= {*laws}
    check_solver(Tracking(), network=topologies.Matchings(7, seed=0), tolerance=1e-8, conserved=difference)
    with pytest.raises(AssertionError, match="the sum over agents of what is conserved stays that of the start: found"):
        check_solver(Tracking(kept=0.9), conserved=difference)
    with pytest.raises(AssertionError, match=r"agents agree elsewhere: look at the gradients, and at sums"):
        check_solver(OwnCosts(), tolerance=1e-8)
    with pytest.raises(AssertionError, match=r"after 500 rounds .* more than 1e-08; agents do not agree"):
        check_solver(solvers.DGD(0.05), tolerance=1e-8, within=500)
    with pytest.raises(AssertionError, match="agents agree on a stationary point: it diverges, by a wrong sign"):
        check_solver(Tracking(momentum=1.5), tolerance=1e-8)


def test_problems_and_networks_have_the_same_agents():
    check_solver(Tracking(), network=topologies.ring(9))
    with pytest.raises(ValueError, match="the network has 9 agents, the problem 6: they must be the same"):
        check_solver(Tracking(), problem("logistic", consensus.L2(0.1)), topologies.ring(9))


def test_parts_of_ones_own_are_known_where_they_were_written():
    check_solver(solvers.ChocoSGD(Sign(), 0.05, 0.2))


def test_settings_may_be_functions_that_travel_by_value():
    namespace = {"__name__": "__main__"}  # as those of a script
    exec("def falls(round):\n    return 0.05 / (1 + round)", namespace)
    check_solver(Tracking(namespace["falls"]))


@dataclass(frozen=True)
class Scaled(Tracking):
    scale: np.ndarray = field(default_factory=lambda: np.ones(5))
    delays: list = field(default_factory=list)


def test_settings_may_be_arrays_and_lists():
    check_solver(Scaled())


def test_settings_must_be_frozen():
    class Loose(solvers.Solver):
        init, step = Diffusion.init, Diffusion.step

    with pytest.raises(AssertionError, match="settings are the fields of a frozen dataclass: Loose is not a dataclass"):
        check_solver(Loose())


# Every solver passes the contract.


# In double by design: what AdaptiveNEXT judges its steps and averages by, and all that is made of exact sums over a tree.
DOUBLE = {"local", "pace.apart", "sent", "total", "gradient", "direction", "pairs.steps", "pairs.changes", "grid"}
DOUBLE |= {"step.fall", "step.tau", "step.refused", "step.tries", "plan.steps", "plan.step_units", "plan.units"}
DOUBLE |= {f"known.{name}" for name in ("total", "scalars", "promised", "directions", "products", "noise")}
TURN = {"smooth": ["L2"], "prox": ["L1", "box", "groups", "SCAD"], "prox_jvp": ["L1", "ball", "logarithms"]}


def arguments(name):
    tree = SOLVERS[name].needs.tree
    return OTHER.get(name, (None, None)), {"double": DOUBLE if tree or name in ("adaptive", "auto") else ()}


def test_every_solver_is_tried():
    exported = {name for name in solvers.__all__ if isinstance(getattr(solvers, name), type)}
    wanted = {name for name in exported if issubclass(getattr(solvers, name), solvers.Solver)} - {
        "Solver",
        "AggregativeGT",
        "TrackingADMM",
    }  # which have problems of their own
    assert wanted == {type(solver).__name__ for solver in SOLVERS.values()} & wanted


@pytest.mark.parametrize("name", with_slow(SOLVERS, *OTHERWISE))
def test_it_keeps_the_contract(name):
    where, double = arguments(name)
    laws = check_solver(SOLVERS[name], *where, **double).errors
    assert {"blocks of agents on threads come to the same bits", "a resumed run is the run that never stopped"} <= {*laws}


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_it_keeps_the_contract_on_other_problems_and_on_workers(name, forked):
    """Each with one loss and regularizer of all, and a model that is not linear."""
    place, needs = list(SOLVERS).index(name), SOLVERS[name].needs
    regularizer = TURN[needs.regularizer][place % len(TURN[needs.regularizer])]
    loss = "logistic" if name in OTHER else list(LOSSES)[place % len(LOSSES)]
    hidden = (6,) if name in OTHER else (3,) if place % 2 and "OPAPC" not in name and "AccGT" not in name else ()
    problem = pairs.problem(loss, regularizer, hidden, dtype=float)
    network = ALL if name == "attacked" else None
    check_solver(SOLVERS[name], problem, network, engines=[Processes(2)], **arguments(name)[1])


test_refusals = refusals(
    (lambda: check_solver(NumbersOnly()), AssertionError,
     r"step_size is a number or a rule: .*\.value_at\(self\.step_size, round\)"),
    (lambda: check_solver(Tracking(), tolerance=0), (TypeError, ValueError), "tolerance must be a finite number > 0"),
    (lambda: check_solver(Tracking(), within=0), (TypeError, ValueError), "within must be a whole number >= 1"),
    (lambda: check_solver(Tracking(), conserved=3), (TypeError, ValueError), "conserved must be a function of a state; got 3"),
    (lambda: check_solver(Tracking(), conserved=lambda state: state.w.sum(axis=0)[:3]), (TypeError, ValueError),
     r"conserved must return an array \(7, \.\.\.\); got shape \(3,\)"),
    (lambda: check_solver(Tracking(), double="local"), (TypeError, ValueError),
     "double must be a list of names of fields; got 'local'"),
    (lambda: check_solver(type("Elsewhere", (Diffusion,), {"__module__": __name__})()), AssertionError,
     r"eval\(repr\(solver\)\) gives an equal solver: with the names .* NameError: name 'E"),
)  # fmt: skip
