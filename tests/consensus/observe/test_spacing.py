"""Rows as far apart as they cost: at most a tenth of the work, by counts that all engines and resumed runs agree on."""

from types import SimpleNamespace

import numpy as np
import pytest

import consensus
import topologies
from consensus.centralized import FedAvg
from consensus.engines import Processes
from consensus.observe import Due
from consensus.observe.spacing import Spacing, cost_of_row
from consensus.solvers import DGD, GTSARAH, NEXT, GradientTracking
from consensus.surrogates import PartialLinearization
from consensus.testing.threads import Threads
from tests.helpers import engine_cases
from tests.helpers.engine_harness import assert_same
from tests.helpers.problems import data, problem

RING = topologies.ring(6)
X, Y = data(samples=240)
TEST = X[:31], Y[:31]


class Counted(consensus.MLP):
    """A network that counts the samples that it evaluates: once forwards, twice backwards."""

    def __init__(self, widths):
        super().__init__(widths)
        self.passes = []

    def __repr__(self):
        return f"Counted({self.widths})"

    def predict(self, w, x):
        self.passes.append(len(w) * x.shape[1])
        return super().predict(w, x)

    def linearize(self, w, x):
        outputs, linearization = super().linearize(w, x)
        self.passes.append(len(w) * x.shape[1])
        model = self

        class Backwards:
            def vjp(self, u, out=None):
                model.passes.append(2 * u.shape[0] * u.shape[1])
                return linearization.vjp(u, out)

        return outputs, Backwards()


def counted():
    return consensus.Problem(
        Counted([4, 5, 1]), consensus.SquaredLoss(), consensus.partition(X, Y, 6, seed=0), consensus.L2(0.1)
    )


def evaluations(solve, *arguments, **options):
    """The run, and the evaluations in it."""
    p = counted()
    return solve(p, *arguments, **options), sum(p.model.passes)


SPACED = [0, 1, 31, 59, 87, 90]  # of that case
RUNS = {
    "batches": (consensus.solve, (RING, DGD(0.05, batch=4)), {"rounds": 500}),
    "a test set": (consensus.solve, (RING, DGD(0.05, batch=4)), {"rounds": 900, "test": TEST}),
    "objectives of agents": (consensus.solve, (RING, GradientTracking(0.02)), {"rounds": 200, "agent_objectives": True}),
    "a sample": (consensus.solve, (RING, GradientTracking(0.02, batch=4)), {"rounds": 200, "metrics_on": 8}),
    "all samples now and then": (consensus.solve, (RING, GTSARAH(0.02, batch=4, period=7)), {"rounds": 200}),
    "a server": (consensus.centralized.solve, (FedAvg(0.05, 3, batch=4),), {"rounds": 200, "test": TEST}),
}


@pytest.mark.parametrize("name", RUNS)
def test_recording_takes_at_most_a_tenth_of_the_work(name):
    solve, arguments, options = RUNS[name]
    result, all_of_it = evaluations(solve, *arguments, **options)
    two, least = evaluations(solve, *arguments, **options | {"record_every": options["rounds"]})
    np.testing.assert_array_equal(result.w, two.w)
    rounds, rows = result.history["round"], result.history.rows
    assert rounds[:2].tolist() == [0, 1]
    assert rounds[-1] == options["rounds"]
    row = (all_of_it - least) / (rows - 2)  # of those two only the first and the last
    work = least - 2 * row
    assert rows >= 6
    assert (rows - 3) * row <= 0.1 * work  # without the first two and the last
    # Nor is it much less: another row and the rounds' rounding would go beyond that.
    assert (rows - 1) * (row + 0.1 * work / options["rounds"]) >= 0.1 * work


def test_local_solves_count_as_work():
    def rows(solver):
        return consensus.solve(problem(model=consensus.MLP([4, 3, 1])), RING, solver, rounds=44).history["round"]

    assert rows(GradientTracking(0.02)).tolist() == [0, 1, 11, 21, 31, 41, 44]
    found = rows(NEXT(PartialLinearization(0.5), 0.3))
    assert np.diff(found)[1:-1].max() <= 5  # a solve, and one iteration at least


def test_costs_that_are_functions_count_their_gradients():
    functions = engine_cases.special()["functions, DGD"]
    found = functions.run(rounds=50, record_every=None, agent_objectives=False).history["round"]
    assert found.tolist() == [0, 1, 15, 29, 43, 50]  # 10 (1 + 3) / 3, rounded up


@pytest.mark.parametrize("engine", [pytest.param(Processes(3), marks=pytest.mark.slow), Threads(2)])
def test_engines_record_the_same_rounds(engine, forked):
    case = engine_cases.special()["spaced rows"]
    whole = case.run()
    assert whole.history["round"].tolist() == SPACED
    assert_same(case.run(engine=engine), whole)


@pytest.mark.parametrize("until", [1, 31, 32])
def test_a_resumed_run_records_the_same_rounds(until, tmp_path):
    case = engine_cases.special()["spaced rows"]
    saved = case._replace(options=case.options | {"keep": "objective", "every": 8})
    whole = saved.run()
    assert whole.history["round"].tolist() == SPACED
    saved.run(rounds=until, checkpoint=tmp_path / "run")
    result = saved.run(resume=tmp_path / "run", checkpoint=tmp_path / "run")
    assert_same(result, whole)
    assert (result.best.round, result.best.value) == (whole.best.round, whole.best.value)
    assert_same(saved.run(rounds=110, resume=tmp_path / "run"), saved.run(rounds=110))


def test_a_server_resumes_the_same(tmp_path):
    def run(rounds, **options):
        return consensus.centralized.solve(problem(), FedAvg(0.05, 2, batch=2), rounds=rounds, **options)

    run(17, checkpoint=tmp_path / "run")
    assert_same(run(60, resume=tmp_path / "run"), run(60))


def test_a_run_recorded_otherwise_goes_on_from_its_rows(tmp_path):
    case, path = engine_cases.special()["spaced rows"], tmp_path / "run"
    case.run(rounds=9, record_every=2, checkpoint=path)
    assert case.run(rounds=12, record_every=1, resume=path).history["round"].tolist() == [0, 2, 4, 6, 8, 9, 10, 11, 12]
    assert case.run(rounds=12, record_every=4, resume=path).history["round"].tolist() == [0, 2, 4, 6, 8, 12]
    assert case.run(resume=path).history["round"][:6].tolist() == [0, 2, 4, 6, 8, 36]


def history(*rows):
    names = ("round", "samples", "gradients", "solves", "iterations")
    found = consensus.History()
    for row in rows:
        found.append(dict(zip(names, row, strict=True)))
    return found


def test_the_next_row_is_where_the_rounds_have_paid_for_it():
    spacing = Spacing(None, cost=300, agents=2)
    assert spacing.after(history((0, 100, 1, 0, 0))) == 1
    assert spacing.after(history((0, 100, 1, 0, 0), (5, 150, 6, 0, 0))) == 5 + 100  # 3 * 10 a round, for 3000
    assert spacing.after(history((0, 100, 1, 0, 0), (5, 150, 6, 5, 20))) == 5 + 25  # each gradient, solve and 2 iterations
    assert spacing.after(history((0, 0, 0, 0, 0), (4, 0, 8, 0, 0))) == 4 + 250  # 3 * 2 * 2 a round
    assert spacing.after(history((0, 0, 1, 0, 0), (4, 0, 1, 4, 0))) == 14  # nothing to go by


def test_the_cost_of_a_row_is_by_hand():
    """In passes over 60 samples: 3 for the gradient, 1 for the objective at each point; the test's 31 at each, too."""
    kind = SimpleNamespace(buffers=None)
    p = SimpleNamespace(network_size=6, shards=SimpleNamespace(samples=60), model=kind, one_pass=True)
    test = SimpleNamespace(samples=31)
    assert cost_of_row(p, 6, None, False, None) == 60 * 3
    assert cost_of_row(p, 6, None, True, None) == 60 * (3 + 6)
    assert cost_of_row(p, 6, test, False, None) == 60 * 3 + 31 * (1 + 6)
    assert cost_of_row(p, 6, None, False, consensus.Minibatches(4)) == 24 * 3
    assert cost_of_row(p, 6, None, False, consensus.Minibatches(11)) == 60 * 3  # of no more samples than there are
    p.one_pass = False
    assert cost_of_row(p, 6, None, True, None) == 60 * (3 + 1 + 6)
    kind.buffers, p.one_pass = "average", True  # the statistics of a point are a pass of their own
    assert cost_of_row(p, 6, None, True, None) == 60 * (3 + 2 + 2 * 6)
    kind.buffers = "keep"
    assert cost_of_row(p, 6, None, False, None) == 60 * 3
    assert cost_of_row(p, 6, test, False, None) == 60 * (3 + 2) + 31 * 7
    assert cost_of_row(SimpleNamespace(network_size=6, shards=None, model=None, one_pass=False), 6, None, False, None) == 6 * (
        3 + 1
    )  # costs by functions


def test_the_row_of_the_start_is_regular():
    assert Spacing(None, cost=300, agents=2).regular(history((0, 100, 1, 0, 0)))
    assert Spacing(4, cost=300, agents=2).regular(history((0, 100, 1, 0, 0)))
    assert not Spacing(4, cost=300, agents=2).regular(history((0, 100, 1, 0, 0), (5, 150, 6, 0, 0)))


def test_engines_that_pass_rounds_record_the_newest():
    due = Due(rounds=50, every=3)
    assert [due.passed(round) for round in (0, 2, 50)] == [0, 0, 50]
    due.next = 6
    assert [due.passed(round) for round in (5, 6, 10)] == [None, 6, 9]
    due = Due(rounds=50, next=6)
    assert [due.passed(round) for round in (5, 6, 10, 51)] == [None, 6, 10, 50]
