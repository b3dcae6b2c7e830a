"""Every solver passes the contract; of wrong ones the broken law is named."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pairs
import pytest
from engine_harness import mpiexec
from every_solver import SOLVERS
from pairs import LOSSES
from problems import problem
from signs import Sign

import consensus
import topologies
from consensus import solvers
from consensus.engines import MPI, Processes
from consensus.step_sizes import value_at
from consensus.testing import check_regularizer, check_solver

# In double by design: what AdaptiveNEXT judges its steps and averages by, and all that is made of exact sums over a tree.
DOUBLE = {"local", "pace.apart", "sent", "total", "gradient", "direction", "pairs.steps", "pairs.changes"}
DOUBLE |= {f"step.{name}" for name in ("fall", "tau", "refused", "tries")} | {
    f"plan.{x}" for x in ("steps", "step_units", "units")
}
DOUBLE |= {f"known.{name}" for name in ("total", "scalars", "promised", "directions", "products", "noise")}
MLP = problem("logistic", consensus.L2(0.1), consensus.MLP([4, 6, 1]), "sizes")
RING, ALL = topologies.Static(topologies.ring(6)), topologies.Static(topologies.complete(7))
OTHER = {"attacked": (None, ALL), **dict.fromkeys(("PowerGossip", "PowerGossip, tracking", "BEER, low rank"), (MLP, RING))}
TURN = {"smooth": ["L2"], "prox": ["L1", "box", "groups", "SCAD"], "prox_jvp": ["L1", "ball", "logarithms"]}


def arguments(name):
    tree = SOLVERS[name].needs.tree
    return OTHER.get(name, (None, None)), {"double": DOUBLE if tree or name == "adaptive" else ()}


def test_every_solver_is_tried():
    exported = {name for name in solvers.__all__ if isinstance(getattr(solvers, name), type)}
    wanted = {name for name in exported if issubclass(getattr(solvers, name), solvers.Solver)} - {"Solver"}
    assert wanted == {type(solver).__name__ for solver in SOLVERS.values()} & wanted


@pytest.mark.parametrize("name", SOLVERS)
def test_it_keeps_the_contract(name):
    where, double = arguments(name)
    laws = check_solver(SOLVERS[name], *where, **double).errors
    assert {"blocks of agents on threads come to the same bits", "a resumed run is the run that never stopped"} <= {*laws}


@pytest.mark.parametrize("name", SOLVERS)
def test_it_keeps_the_contract_on_other_problems(name):
    """Each with one loss and regularizer of all, and a model that is not linear."""
    place, needs = list(SOLVERS).index(name), SOLVERS[name].needs
    regularizer = TURN[needs.regularizer][place % len(TURN[needs.regularizer])]
    loss = "logistic" if name in OTHER else list(LOSSES)[place % len(LOSSES)]
    hidden = (6,) if name in OTHER else (3,) if place % 2 and "OPAPC" not in name and "AccGT" not in name else ()
    problem = pairs.problem(loss, regularizer, hidden, dtype=float)
    check_solver(SOLVERS[name], problem, ALL if name == "attacked" else None, **arguments(name)[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_it_keeps_the_contract_on_workers(name, forked):
    where, double = arguments(name)
    check_solver(SOLVERS[name], *where, engines=[Processes(2)], **double)


@pytest.mark.slow
def test_it_keeps_the_contract_on_ranks():
    done = mpiexec(2, Path(__file__), timeout=500)
    assert (done.returncode, done.stdout) == (0, "all\n" * 2), done.stderr


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


def broken(**members):
    return type("Broken", (Diffusion,), {"__repr__": lambda self: "Broken(<here>)", **members})()


def _sums(self, problem, network, state):
    return State(state.round + 1, network.mix(state.round, state.w)[0] - 0.1 * state.w.mean(axis=0))


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


def _doubles(self, problem, network, state):
    return State(state.round + 1, network.mix(state.round, state.w)[0] * np.ones(1))


def _stays(self, problem, network, state):
    return State(state.round, *network.mix(state.round, state.w))


class Wider(NamedTuple):
    round: int
    w: np.ndarray
    all: np.ndarray


def _forgets(self, problem, network, state):
    return (state.round + 1, *network.mix(state.round, state.w))


def _first(self, problem, network, state):
    return State(state.round + 1, *network.mix(0, state.w))


def _grows(self, problem, network, state):
    return Wider(state.round + 1, *network.mix(state.round, state.w), np.append(state.all, 0.0))


FAULTS = {
    "eval\\(repr\\(solver\\)\\) gives an equal solver": {"__repr__": lambda self: "dict()"},
    "dataclasses.replace gives an equal solver": {"__repr__": lambda self: f"Broken(<here>) {id(self)}"},
    "blocks of agents on threads come to the same bits": {"step": _sums},
    "a step depends on the state alone": {"step": _remembers},
    "a step depends on the state alone: found": {"step": _keeps},
    "a step leaves the arrays of its state as they are": {"step": _writes},
    "states of float32 problems are in float32": {"step": _doubles},
    "round is the number of rounds done": {"step": _stays},
    "a state is a NamedTuple that begins with round and w: found tuple": {"step": _forgets},
    "no two steps meet the matrix of one round: .*: the step of round 1 asks for the matrix of round 0": {"step": _first},
    "all states have the fields": {"init": lambda self, p, w: Wider(0, w, np.zeros(len(w))), "step": _grows},
    "exchanges are exchanges_a_round: found 6 instead of 12": {"exchanges_a_round": 2},
    "floats are the vectors that it sends": {"sends": "w, y"},
    "who finds its number of exchanges says no number": {"needs": solvers.Needs(regularizer="smooth", counts_exchanges=True)},
    "every regularizer is taken, as needs say: L1": {"needs": solvers.Needs()},
}


@pytest.mark.parametrize("law", FAULTS)
def test_what_is_broken_is_named(law):
    check_solver(Diffusion())
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


def test_a_step_size_is_a_number_or_a_rule():
    with pytest.raises(AssertionError, match=r"step_size is a number or a rule: .*\.value_at\(self\.step_size, round\)"):
        check_solver(NumbersOnly())


def test_arguments_are_checked():
    for wrong, error in (
        ({"tolerance": 0}, "tolerance must be a finite number > 0"),
        ({"within": 0}, "within must be a whole number >= 1"),
        ({"conserved": 3}, "conserved must be a function of a state; got 3"),
        (
            {"conserved": lambda state: state.w.sum(axis=0)[:3]},
            r"conserved must return an array \(7, \.\.\.\); got shape \(3,\)",
        ),
        ({"double": "local"}, "double must be a list of names of fields; got 'local'"),
    ):
        with pytest.raises((TypeError, ValueError), match=error):
            check_solver(Tracking(), **wrong)


def test_problems_and_networks_have_the_same_agents():
    check_solver(Tracking(), network=topologies.ring(9))
    with pytest.raises(ValueError, match="the network has 9 agents, the problem 6: they must be the same"):
        check_solver(Tracking(), MLP, topologies.ring(9))


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


def test_classes_of_a_script_stay_as_they_are():
    namespace = {"__name__": "__main__", "Regularizer": consensus.regularizers.Regularizer, "np": np, "dataclass": dataclass}
    exec(SCRIPT, namespace)
    kind = namespace["Squares"]
    check_regularizer(kind(), 4)
    assert dataclass(frozen=True)(type("Derived", (kind,), {}))().weight == 0.5


SCRIPT = """
@dataclass(frozen=True)
class Squares(Regularizer):
    weight: float = 0.5

    def value(self, w):
        return np.square(w).sum(axis=-1) * w.dtype.type(self.weight)

    def prox(self, v, step):
        return (v / (1 + 2 * self.weight * np.asarray(step))).astype(v.dtype)
"""


def test_what_prints_as_no_expression_is_named():
    Elsewhere = type("Elsewhere", (Diffusion,), {"__module__": __name__})
    with pytest.raises(
        AssertionError, match=r"eval\(repr\(solver\)\) gives an equal solver: with the names .* NameError: name 'E"
    ):
        check_solver(Elsewhere())


def test_settings_must_be_frozen():
    class Loose(solvers.Solver):
        init, step = Diffusion.init, Diffusion.step

    with pytest.raises(AssertionError, match="settings are the fields of a frozen dataclass: Loose is not a dataclass"):
        check_solver(Loose())


if __name__ == "__main__":
    for name in SOLVERS:
        where, double = arguments(name)
        check_solver(SOLVERS[name], *where, engines=[MPI()], **double)
    sys.stdout.write("all\n")
