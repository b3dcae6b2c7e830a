"""What solvers say that they need and send is what they need and send."""

import re
import warnings
from contextlib import nullcontext
from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus import solvers
from consensus.solvers import DGD, NEXT, SONATA, Gossip, Needs, Solver, check_needs
from consensus.solvers.dgd import DGDState
from consensus.solvers.needs import needs_of
from consensus.surrogates import Blocks, FullLinearization, PartialLinearization
from tests.helpers.every_solver import SOLVERS
from tests.helpers.problems import AGENTS, CIRCLE, GRAPH, PUSH, SCHEDULES, problem
from tests.helpers.refusals import refusals

STATIC = SCHEDULES["static"]
FULL, PARTIAL = FullLinearization(4.0), PartialLinearization(1.0)
SKIPPED = {"PowerGossip", "PowerGossip, tracking", "BEER, low rank", "attacked"}  # they need matrices, or a complete graph
ALL = [solver for name, solver in SOLVERS.items() if name not in SKIPPED]
every = pytest.mark.parametrize("solver", ALL, ids=lambda solver: str(solver)[:60])
L2 = consensus.L2(0.1)


@dataclass(frozen=True)
class Averaging(Solver):
    """Averages; it needs what its tests say."""

    def init(self, problem, w):
        return DGDState(0, w)

    def step(self, problem, network, state):
        return DGDState(state.round + 1, *network.mix(state.round, state.w))


def averaging(**needs):
    return type("Averaging", (Averaging,), {"needs": Needs(**needs)})()


def fits(solver, p=None, schedule=STATIC):
    """No refusal and no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_needs(solver, p or problem("squared", L2), schedule)
    return True


# What they say against what they do ---------------------------------------------------------------------------------


@every
def test_they_run_on_directed_graphs_with_the_weights_that_they_say(solver):
    name = needs_of(solver).directed
    p, start = problem("squared", L2), np.random.default_rng(0).standard_normal((AGENTS, 5))
    if name is None:
        directed = topologies.Static(CIRCLE, weights=topologies.sinkhorn)
        entries = r"symmetric doubly.*entries \(\d, \d\) and \(\d, \d\) of round 0 differ by"
        with pytest.raises(ValueError, match="tree, and the network is directed" if needs_of(solver).tree else entries):
            consensus.solve(p, directed, solver, rounds=1)
    else:
        directed = topologies.Static(CIRCLE, weights=getattr(topologies, name))
        rounds = 40 if needs_of(solver).counts_exchanges else 120
        found = consensus.solve(p, directed, solver, rounds=rounds, start=start).history
        assert found["objective"][-1] < 0.9 * found["objective"][0]
        assert found["disagreement"][-1] < 0.1 * found["disagreement"][0]


@every
def test_they_take_costs_without_a_model_as_they_say(solver):
    value, gradient = lambda w: (w**2).sum(axis=1), lambda w: 2 * w
    p = consensus.Problem.from_functions(value, gradient, agents=AGENTS, parameters=3, lipschitz=2.0)
    refused = "minibatches need a problem with samples" if getattr(solver, "batch", None) else ""
    if needs_of(solver).model:
        refused = r"\w(\(.*PartialLinearization\)+)? needs a model to linearise, and Problem.from_func"
    elif "OPAPC" in str(solver) or "AccGT" in str(solver):
        refused = "has no known modulus of strong convexity: give the solver a convexity="
    with pytest.raises(TypeError, match=refused) if refused else nullcontext():
        consensus.solve(p, STATIC, solver, rounds=3)


# The checker --------------------------------------------------------------------------------------------------------


class Bare:
    """The least a regularizer can be."""

    def value(self, w):
        return 0 * w.sum(axis=-1)

    def prox(self, v, step):
        return v


@pytest.mark.parametrize(("needs", "regularizer", "error", "match"), [
    ({"regularizer": "smooth"}, Bare(), ValueError, "Averaging needs a smooth regularizer, and .*Bare"),
    ({"regularizer": "none"}, L2, ValueError, r"takes no regularizer, and the problem has L2\(weight=0\.1\)"),
    ({"regularizer": "none"}, Bare(), ValueError, "takes no regularizer"),
    ({"regularizer": "prox_jvp"}, Bare(), TypeError, r"Averaging needs Bare\.prox_jvp, which is missing"),
    ({"loss": ("curvature_root", "magic")}, L2, TypeError, r"Averaging needs SquaredLoss\.magic, which is missing"),
])  # fmt: skip
def test_what_a_method_cannot_run_on_is_refused(needs, regularizer, error, match):
    p = problem("squared", regularizer)
    assert fits(averaging(), p)
    with pytest.raises(error, match=match):
        check_needs(averaging(**needs), p, STATIC)


@pytest.mark.parametrize(("needs", "regularizer", "model", "schedule", "match"), [
    ({"convex": True}, L2, consensus.MLP([4, 3, 1]), STATIC, "theory needs convex costs, and a loss of MLP"),
    ({"convex": True}, consensus.SCAD(0.1), None, STATIC, "theory needs a convex regularizer, and SCAD"),
    ({"static": True}, L2, None, SCHEDULES["random"], "condition 'static'.*one matrix for all rounds"),
])  # fmt: skip
def test_what_only_a_theory_asks_for_is_warned_of_where_solve_was_called(needs, regularizer, model, schedule, match):
    p = problem("squared", regularizer, model)
    assert fits(averaging(), p, schedule)
    with pytest.warns(UserWarning, match=match) as said:
        consensus.solve(p, schedule, averaging(**needs), rounds=1)
    assert [warning.filename for warning in said] == [__file__]


def test_what_fits_is_neither_refused_nor_warned_of():
    for needs in ({"convex": True}, {"static": True}, {"regularizer": "prox_jvp"}, {"mixing": "symmetric"}):
        assert fits(averaging(**needs), problem("squared", consensus.ElasticNet(0.1, 0.1)))
    for r in (None, consensus.L2(0.0)):
        assert fits(averaging(regularizer="none"), problem("squared", r))


@pytest.mark.parametrize(("weights", "fitting"), [
    (topologies.metropolis, {"symmetric", "doubly stochastic", "column stochastic", "row stochastic"}),
    (topologies.sinkhorn, {"doubly stochastic", "column stochastic", "row stochastic"}),
    (topologies.push, {"column stochastic"}),
    (topologies.pull, {"row stochastic"}),
])  # fmt: skip
def test_matrices_of_every_kind(weights, fitting):
    schedule = topologies.Static(GRAPH if weights is topologies.metropolis else CIRCLE, weights=weights)
    for mixing in ("symmetric", "doubly stochastic", "column stochastic", "row stochastic"):
        solver = averaging(mixing=mixing)
        if mixing in fitting:
            assert fits(solver, schedule=schedule)
            assert topologies.check(schedule, solver).refusal is None
        else:
            with pytest.raises(ValueError, match=rf"^Averaging needs {mixing}( doubly stochastic)? mixing matrices, but"):
                check_needs(solver, problem("squared"), schedule)
            assert topologies.check(schedule, solver).needs[0][:2] == (mixing, False)


def test_a_solvers_own_checks_come_after_its_needs():
    called = []

    class Careful(Averaging):
        needs = Needs(regularizer="smooth")

        def check(self, problem):
            called.append("problem")

        def check_network(self, schedule):
            called.append("network")

    with pytest.raises(ValueError, match=r"^Gossip\(Careful\) needs a smooth regularizer"):
        check_needs(Gossip(Careful(), 2), problem("squared", consensus.L1(0.1)), STATIC)
    assert called == []
    check_needs(Careful(), problem("squared"), STATIC)
    assert called == ["problem", "network"]


def test_what_is_no_solver_problem_or_schedule_is_refused():
    arguments = {"solver": DGD(0.1), "problem": problem("squared"), "schedule": STATIC}
    for name in arguments:
        with pytest.raises(TypeError, match=f"^{name} must be"):
            check_needs(**arguments | {name: 3})


# The record ---------------------------------------------------------------------------------------------------------


class Own(Averaging):
    """Needs column stochastic matrices."""

    needs = Needs(mixing="column stochastic")


class Delegate:
    """No Solver by descent."""

    history_columns = {}  # noqa: RUF012

    def __init__(self, solver):
        for name in ("init", "step", "check", "report", "width", "prox"):
            setattr(self, name, getattr(solver, name))


def test_needs_are_read_off_objects_and_classes():
    consensus.solve(problem("squared"), PUSH, Own(), rounds=2)
    assert needs_of(Own) == needs_of(Own()) == Own.needs
    with pytest.raises(ValueError, match="Own needs column stochastic"):
        consensus.solve(problem("squared"), topologies.Static(CIRCLE, weights=topologies.pull), Own(), rounds=2)


def test_a_solver_without_needs_needs_doubly_stochastic_matrices():
    consensus.solve(problem("squared"), STATIC, Delegate(Averaging()), rounds=2)
    with pytest.raises(ValueError, match="Delegate needs doubly stochastic mixing matrices"):
        consensus.solve(problem("squared"), PUSH, Delegate(Own()), rounds=2)


def test_settings_change_needs():
    assert not NEXT.needs.model
    assert not NEXT(FULL, 0.1).needs.model
    assert NEXT(PARTIAL, 0.1).needs.model
    assert SONATA(Blocks(PARTIAL, 2), 0.1).needs == Needs(model=True, exact=True, mixing="column stochastic")
    assert Gossip(SONATA(FULL, 0.1), 2).needs == SONATA.needs
    assert Gossip(DGD(0.1), 2, gap=0.1).needs == Needs(regularizer="smooth", mixing="symmetric", static=True)
    assert str(NEXT(FULL, 0.1)) == (  # what a checkpoint knows a solver by
        "NEXT(surrogate=FullLinearization(tau=4.0), step_size=0.1, local=None, tolerance=1e-08, batch=None, averaging=None)"
    )


test_refusals = refusals(
    (lambda: Needs(mixing="stochastic"), ValueError,
     "mixing of Needs must be one of 'symmetric', 'doubly stochastic'.*'stochastic'"),
    (lambda: Needs(regularizer=None), ValueError,
     "regularizer of Needs must be one of 'none', 'smooth', 'prox', 'prox_jvp'; got N"),
    (lambda: Needs(convex=1), ValueError, "convex of Needs must be True or False, got 1"),
    (lambda: Needs(static="yes"), ValueError, "static of Needs must be True or False"),
    (lambda: Needs(loss="curvature"), TypeError, "loss of Needs must be a tuple of attributes' names; got 'curvature'"),
)  # fmt: skip


# What an error of a solver recommends works in that very case: it is built from the message, and run.

CYCLE = nx.DiGraph([(0, 1), (1, 2), (2, 0), (0, 2)])
NETWORKS = {
    "undirected": topologies.Static(topologies.ring(3)),
    "push": topologies.Static(CYCLE, weights=topologies.push),
    "pull": topologies.Static(CYCLE, weights=topologies.pull),
    "changing": topologies.RandomEdges(topologies.complete(3), 0.5, seed=0),
}
GIVEN = {"tau": 4.0, "step_size": 0.3, "FullLinearization": FullLinearization} | {
    name: getattr(solvers, name) for name in ("NEXT", "SONATA", "AdaptiveNEXT")
}
SMOOTH = [solvers.DGD(0.1), solvers.PushDIGing(0.1), solvers.GradientTracking(0.1), solvers.PushPull(0.1), solvers.EXTRA(0.1)]


def followed(remedy, network):
    """The solver that a message recommends, and the network with the weights that it asks for, if any."""
    solver, _, weights = remedy.partition(" with ")
    if weights:
        assert weights == "weights=topologies.push"
        network = topologies.Static(network.graph(0), weights=topologies.push)
    return eval(solver, GIVEN), network


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("solver", SMOOTH, ids=str)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_regularizer_that_is_not_smooth(solver, network):
    target = np.array([2.0, -1.0])
    problem = consensus.Problem.from_functions(
        lambda w: ((w - target) ** 2).sum(1), lambda w: 2 * (w - target), 3, 2, regularizer=consensus.Box(0, 1), lipschitz=2.0
    )
    with pytest.raises(ValueError, match=r"needs a smooth regularizer, and Box.* is not: (.*) takes it") as error:
        consensus.solve(problem, network, solver, rounds=3)
    recommended, network = followed(re.search(r"is not: (.*) takes it", str(error.value))[1], network)
    result = consensus.solve(problem, network, recommended, rounds=200)
    np.testing.assert_allclose(result.mean, [1, 0], atol=1e-3)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_surrogate_that_needs_a_model(network):
    problem = consensus.Problem.from_functions(lambda w: (w**2).sum(1), lambda w: 2 * w, 3, 2, lipschitz=2.0)
    kind = solvers.SONATA if network is NETWORKS["push"] else solvers.NEXT
    with pytest.raises(TypeError, match=r"needs a model to linearise, .* or use (.*)") as error:
        consensus.solve(problem, network, kind(consensus.surrogates.PartialLinearization(1.0), 0.5), rounds=3)
    recommended, network = followed(re.search(r"or use (.*)$", str(error.value))[1], network)
    np.testing.assert_allclose(consensus.solve(problem, network, recommended, rounds=200).mean, 0, atol=1e-6)
