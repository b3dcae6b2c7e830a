"""Problems keep the contract; of wrong ones the broken law is named."""

import functools

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes
from consensus.robust import NNA, NNM, Bucketing, ClippedGossip, CSPlus, Robust
from consensus.solvers import DGD
from consensus.testing import check_problem, check_robust
from consensus.testing.threads import Threads
from tests.helpers import frameworks, pairs
from tests.helpers.combinations import SCHEDULES, outcome, simple
from tests.helpers.engine_cases import AGENTS, GRAPH, SIZES
from tests.helpers.every_solver import SOLVERS

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((40, 6)), RNG.integers(2, size=40)
CENTRES = RNG.standard_normal((3, 4))
SLOPE = "gradient is the slope of value"


def functions(value=None, gradient=None, parameters=4, **more):
    value = value or (lambda w: 0.5 * ((w - CENTRES) ** 2).sum(axis=1))
    gradient = gradient or (lambda w: w - CENTRES)
    return consensus.Problem.from_functions(value, gradient, 3, parameters, **more)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", [consensus.Linear(6), consensus.MLP([6, 5, 1])], ids=repr)
@pytest.mark.parametrize("regularizer", [None, consensus.L1(0.1), consensus.regularizers.SCAD(0.1)], ids=repr)
def test_models_keep_the_contract(model, regularizer, dtype):
    shards = consensus.partition(X.astype(dtype), Y.astype(dtype), 4)
    report = check_problem(consensus.Problem(model, consensus.LogisticLoss(), shards, regularizer))
    assert report.errors[SLOPE] < (1e-8 if dtype == np.float64 else 1e-3)


def test_functions_keep_it_and_their_constants():
    law = "gradients change by at most lipschitz times the distance"
    assert law in check_problem(functions(lipschitz=1.0)).errors
    assert law in check_problem(functions(lipschitz=[1.0, 2.0, 3.0], regularizer=consensus.L2(0.3))).errors
    assert law not in check_problem(functions()).errors
    with pytest.raises(AssertionError, match=rf"{law}: found 1, more than 0.9 at \(1,\)"):
        check_problem(functions(lipschitz=[1.0, 0.9, 1.0]))


def test_functions_of_single_precision_are_compared_more_coarsely():
    def value(w):
        return np.exp(w.astype(np.float32)).sum(axis=1)

    assert 1e-7 < check_problem(functions(value, lambda w: np.exp(w.astype(np.float32)))).errors[SLOPE] < 1e-3
    with pytest.raises(AssertionError, match=SLOPE):
        check_problem(functions(value, lambda w: 1.05 * np.exp(w.astype(np.float32))))


def test_the_points_are_not_data_that_the_same_seed_drew():
    centres = np.random.default_rng(0).standard_normal((3, 4))
    wrong = functions(lambda w: 0.5 * ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres))
    with pytest.raises(AssertionError, match=SLOPE):  # which is zero at the centres, as it should be
        check_problem(wrong)


def test_the_points_may_be_given():
    logarithm = functions(lambda w: np.log(w).sum(axis=1), lambda w: 1 / w)
    with np.errstate(invalid="ignore"), pytest.raises(AssertionError, match="value is finite"):
        check_problem(logarithm)
    assert check_problem(logarithm, np.ones(4)).errors[SLOPE] < 1e-8  # where costs are zero, and gradients one
    assert check_problem(logarithm, np.arange(1.0, 13.0).reshape(3, 4)).errors[SLOPE] < 1e-8
    with pytest.raises(ValueError, match=r"w must hold finite numbers, \(P,\) = \(4,\) or .*"):
        check_problem(logarithm, np.ones(5))
    with pytest.raises(TypeError, match=r"problem must be a consensus\.Problem, .*; got .*function"):
        check_problem(test_the_points_may_be_given)


def _one_entry(w):
    gradient = w - 1
    gradient[1, 77] += 0.01
    return gradient


def _written(w):
    w -= CENTRES
    return w


FAULTS = {
    rf"{SLOPE}: found .* at \(\d, \d\), a relative error of 1 ": functions(gradient=lambda w: 2 * (w - CENTRES)),
    rf"{SLOPE} in random directions: .* at \(1, \d\)": functions(
        lambda w: 0.5 * ((w - 1) ** 2).sum(axis=1), _one_entry, parameters=200
    ),
    "value of an agent does not depend on the others": functions(
        lambda w: 0.5 * ((w - w.mean(axis=0)) ** 2).sum(axis=1), lambda w: w - w.mean(axis=0)
    ),
    "gradient of an agent does not depend on the others": functions(gradient=lambda w: w - CENTRES + w.mean()),
    "value of an agent is the same without the others": functions(
        lambda w, rows: 0.5 * ((w - CENTRES[: len(rows)]) ** 2).sum(axis=1)
    ),
    "the functions leave w as it is": functions(gradient=_written),
}


@pytest.mark.parametrize("law", FAULTS)
def test_what_is_broken_is_named(law):
    with pytest.raises(AssertionError, match=rf"^Problem\.from_functions\(3 agents, .*\): {law}"):
        check_problem(FAULTS[law])


# Every aggregation rule passes the contract; of wrong ones the broken law is named.

RULES = [CSPlus, NNA, ClippedGossip]
REGULAR = topologies.Static(topologies.random_regular(20, 12, seed=0), weights=topologies.max_degree)


@pytest.mark.parametrize("before", [None, NNM(), Bucketing(2)], ids=repr)
@pytest.mark.parametrize("rule", RULES)
def test_it_keeps_the_contract(rule, before):
    for weight in (0.05, 0.2):
        assert "Byzantine rows take no honest agent far" in check_robust(rule(DGD(0.1), weight, before)).errors
    check_robust(rule(DGD(0.1), 2 / 13, before), REGULAR)


def _together(self, messages):  # by all that the block receives
    apart = np.tanh(np.nan_to_num(messages.differences())).sum()
    return NNA.aggregate(self, messages) + (1e-3 * apart if self.byzantine_weight else 0)


def _written_rule(self, messages):
    messages.own[:] = messages.mixed()
    return messages.own


def _trusting(self, messages):
    rows = np.clip(messages.rows, -1, 1) if self.byzantine_weight else messages.rows
    return messages._replace(rows=rows).mixed()


FAULTS_OF_RULES = {
    "Byzantine rows take no honest agent far: found": lambda self, messages: messages.mixed(),
    "Byzantine rows of nan take no honest agent far: found nan": _trusting,
    "Byzantine rows of inf take no honest agent far: found nan": lambda self, m: NNA.aggregate(self, m) + 0 * m.mixed(),
    "agents that agree stay where they are": lambda self, messages: 0.9 * NNA.aggregate(self, messages),
    "with byzantine_weight=0 the rule is W x": lambda self, messages: messages.own.copy(),
    "blocks of agents come to the same bits": _together,
    "the rule leaves its messages as they are": _written_rule,
    "new rows have the shape and dtype of the rows: found dtype float64": lambda self, m: NNA.aggregate(self, m).astype(float),
}


def test_every_rule_is_tried():
    exported = [getattr(consensus.robust, name) for name in consensus.robust.__all__]
    assert {kind for kind in exported if isinstance(kind, type) and issubclass(kind, Robust)} == {Robust, *RULES}


@pytest.mark.parametrize("law", FAULTS_OF_RULES)
def test_what_is_broken_in_a_rule_is_named(law):
    with pytest.raises(AssertionError, match=rf"^Broken\(.*\): {law}"):
        check_robust(type("Broken", (NNA,), {"aggregate": FAULTS_OF_RULES[law]})(DGD(0.1), 0.2))


def test_a_network_on_which_nothing_is_tolerated_is_refused():
    with (
        pytest.warns(UserWarning, match="less than one neighbour's weight"),
        pytest.raises(ValueError, match="must have an agent"),
    ):
        check_robust(NNA(DGD(0.1), 0.05), REGULAR)
    with pytest.raises(TypeError, match=r"^rule must be a consensus.robust.Robust; got 3"):
        check_robust(3)


# Solvers on every schedule and with every model: equal bits on all engines, or refused on all in the same words.


@functools.cache
def problems():
    """All losses on networks in both precisions, and models of PyTorch and JAX."""
    made = [pairs.problem(loss, "L2", (3,), dtype=dtype) for loss in pairs.LOSSES for dtype in (np.float32, np.float64)]
    X, y = np.random.default_rng(0).standard_normal((60, frameworks.WIDTHS[0])), np.arange(60) % frameworks.WIDTHS[-1]
    shards = consensus.partition(X, y, AGENTS, "sizes", sizes=SIZES["unequal"])
    models = frameworks.torch_mlp(), frameworks.jax_mlp()
    return made + [consensus.Problem(model, consensus.CrossEntropy(), shards, consensus.L2(0.02)) for model in models]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SOLVERS)
def test_engines_agree(name, forked):
    """A third of the schedules and of the models with each solver."""
    ran, turn = 0, slice(list(SOLVERS).index(name) % 3, None, 3)
    cases = [(simple(name), schedule) for schedule in SCHEDULES[turn]]
    cases += [(problem, topologies.Static(GRAPH)) for problem in problems()[turn]]
    for number, (problem, schedule) in enumerate(cases):
        alone = outcome(problem, schedule, SOLVERS[name], "stacked")
        ours = isinstance(problem.model, consensus.MLP | consensus.Linear)  # copies of a process cannot use JAX
        others = [Threads(3), *([Processes(2)] if ours and (number + list(SOLVERS).index(name) // 3) % 4 == 0 else [])]
        for engine in others:
            assert outcome(problem, schedule, SOLVERS[name], engine) == alone, (schedule, problem, engine)
        ran += isinstance(alone, list)
    assert ran or name in ("Push-DIGing", "attacked", "PowerGossip, tracking", "BEER, low rank")
