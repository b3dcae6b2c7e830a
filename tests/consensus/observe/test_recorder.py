"""Recorded rounds, counts, sums and measured quantities; rows as far apart as they cost, and what acts in every round."""

from types import SimpleNamespace

import numpy as np
import pytest

import consensus
import topologies
from consensus.centralized import FedAvg
from consensus.engines import Processes
from consensus.observe import Due, EarlyStopping, total
from consensus.observe.gather import NAMES, added
from consensus.observe.measure import agents_mean, begun, mean_of, squared_distances
from consensus.observe.recorder import Recorder
from consensus.observe.spacing import Spacing, cost_of_row
from consensus.observe.stopping import Stopper
from consensus.solvers import DGD, GTSARAH, NEXT, GradientTracking
from consensus.surrogates import PartialLinearization
from consensus.testing.threads import Threads
from tests.helpers import engine_cases
from tests.helpers.engine_harness import assert_same, mpiexec
from tests.helpers.problems import data, problem

RING = topologies.ring(6)


def test_due_rounds():
    due = Due(rounds=10, saves=4, next=3)
    assert [round for round in range(11) if due.recorded(round)] == [3, 4, 5, 6, 7, 8, 9, 10]  # one of them, and next moves on
    late = Due(rounds=100, every=10, next=30)
    assert [late.passed(round) for round in (29, 30, 73, 100)] == [None, 30, 70, 100]
    assert late.recorded(70)  # workers that never stop may have passed the next one
    assert [round for round in range(11) if due.saved(round)] == [0, 4, 8, 10]
    assert [round for round in range(11) if due(round)] == [0, 3, 4, 8, 10]
    assert not Due(rounds=10).saved(10)


@pytest.mark.parametrize(("bounds", "reason"), [
    ({}, None),
    ({"tolerance": 1e-3, "exchanges": 15, "seconds": 3.5}, None),
    ({"tolerance": 2e-3, "exchanges": 14}, "stationarity and disagreement at most 0.002 at round 7"),
    ({"exchanges": 14, "seconds": 3.0}, "14 exchanges done at round 7"),
    ({"seconds": 3.0}, "time budget of 3 s used up at round 7"),
])  # fmt: skip
def test_the_first_bound_that_is_reached_is_the_reason(bounds, reason):
    row = {"round": 7, "stationarity": 1e-3, "disagreement": 2e-3, "exchanges": 14, "seconds": 3.0}
    assert Stopper(**bounds).reason(row) == reason


def test_counts_of_blocks_are_summed_unless_they_are_those_of_each_agent():
    blocks = [{name: 10 * k + block for k, name in enumerate(NAMES)} for block in (1, 2)]
    each = ("exchanges", "gradients", "solves")
    assert total(blocks) == {name: 10 * k + 1 if name in each else 20 * k + 3 for k, name in enumerate(NAMES)}


def test_epochs_are_passes_over_the_data_of_all_agents():
    p = problem()
    recorder = Recorder(p, DGD(0.1))
    recorder.attach(p.restrict([0, 1]), recorder.gather)  # the block of a worker or rank
    counts = dict.fromkeys(NAMES, 0) | {"samples": 2 * p.shards.samples, "gradients": 2}
    assert recorder.record(0, np.zeros((2, p.parameters)), np.zeros(p.parameters), None, counts, 0.0)["epochs"] == 2


def test_test_errors_of_the_mean_and_of_the_worst_agent():
    p, w = problem(), np.random.default_rng(0).standard_normal((6, 5))
    X, y = np.random.default_rng(1).standard_normal((9, 4)), np.arange(9.0)
    history = consensus.solve(p, RING, DGD(0.1), rounds=0, start=w, test=(X, y)).history
    errors = ((X @ w[:, :4].T + w[:, 4] - y[:, None]) ** 2).mean(axis=0)
    assert history["test_error_worst"][0] == pytest.approx(errors.max(), rel=1e-12)
    assert history["test_error"][0] == pytest.approx(((X @ w.mean(axis=0)[:4] + w.mean(axis=0)[4] - y) ** 2).mean(), rel=1e-12)


def test_seconds_of_a_resumed_run_include_those_before_the_checkpoint(tmp_path):
    path = tmp_path / "run.ckpt"
    before = consensus.solve(problem(), RING, DGD(0.05), rounds=6, checkpoint=path).history["seconds"]
    with np.load(path) as file:
        np.testing.assert_array_equal(file["history.seconds"], before)
    resumed = consensus.solve(problem(), RING, DGD(0.05), rounds=9, resume=path).history["seconds"]
    assert (np.diff(resumed) >= 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("agents", [3, 6, 7, 49])
def test_agents_that_agree_have_their_point_as_mean_and_no_disagreement(agents, dtype):
    point = np.random.default_rng(agents).standard_normal(100).astype(dtype)
    w = np.tile(point, (agents, 1))
    np.testing.assert_array_equal(agents_mean(w), point)
    assert not squared_distances(w, agents_mean(w)).any()


# Rows as far apart as they cost: at most a tenth of the work, by counts that all engines and resumed runs agree on.


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


def test_rows_may_be_a_part_of_the_rounds_apart(tmp_path):
    wanted = [*range(11), 12, 14, 16, 19, 22, 26, 31, 37, 40]  # by a fifth, rounded down

    def rows(rounds, **options):
        return consensus.solve(counted(), RING, DGD(0.05), rounds=rounds, record_every=0.2, **options)

    whole, path = rows(40), tmp_path / "run.ckpt"
    assert whole.history["round"].tolist() == wanted
    consensus.solve(counted(), RING, DGD(0.05), rounds=17, record_every=0.2, checkpoint=path)
    resumed = rows(40, resume=path)
    assert resumed.history["round"].tolist() == wanted
    np.testing.assert_array_equal(resumed.w, whole.w)
    assert rows(40, engine=Threads(2)).history["round"].tolist() == wanted
    assert rows(40, exchanges=33).history["round"].tolist() == [*wanted[:-2], 33]  # what ends a run acts in each round
    assert rows(40, record=None, tolerance=1e-9).history.rows == 41
    late = Due(rounds=100, every=0.2, next=30)
    assert [late.passed(round) for round in (29, 30, 73, 100)] == [None, 30, 73, 100]
    assert consensus.Record(every=0.2).every == 0.2
    for wrong in (0.0, -0.5, 1.5, np.nan, True, "0.1"):
        with pytest.raises((TypeError, ValueError), match="every must be a whole number >= 1"):
            consensus.solve(counted(), RING, DGD(0.05), rounds=4, record_every=wrong)


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


# Without record_every callbacks and bounds act in every round, and what is counted is as of that round, on every engine.


ENGINES = ["stacked", pytest.param(consensus.engines.Processes(2), marks=pytest.mark.slow)]


def run(rounds=300, **options):
    return consensus.solve(problem(), RING, DGD(0.01), rounds=rounds, **options)


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_callbacks_are_called_in_each_round(engine, forked):
    seen = []

    def watch(info):
        seen.append((info.round, info["round"], info["exchanges"], info.measured, info["objective"], info.mean))

    result = run(60, callbacks=[watch], engine=engine)
    rows = dict(zip(result.history["round"].tolist(), result.history["objective"].tolist(), strict=True))
    assert len(rows) < 20
    assert [entry[:3] for entry in seen] == [(k, k, k) for k in range(61)]
    assert all(objective == rows[measured] for _, _, _, measured, objective, _ in seen)
    assert all(measured == max(k for k in rows if k <= round) for round, _, _, measured, _, _ in seen)
    np.testing.assert_array_equal(seen[37][5], run(37).mean)
    np.testing.assert_array_equal(result.history["objective"], run(60).history["objective"])
    assert [entry[0] for entry in spaced()] == [0, 25, 50, 60]


def spaced():
    seen = []
    run(60, record_every=25, callbacks=[lambda info: seen.append((info.round,))])
    return seen


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_bounds_act_in_the_first_round_that_reaches_them(engine, forked):
    assert run(exchanges=137, engine=engine).rounds == 137
    assert run(stop="exchanges >= 91", engine=engine).rounds == 91
    assert run(callbacks=[lambda info: "enough" if info.round == 83 else None], engine=engine).rounds == 83
    every = run(200, record_every=1).history
    bound = float(0.9 * every["objective"][0])
    below = int(np.argmax(every["objective"] < bound))
    assert run(stop=f"objective < {bound!r}", engine=engine).rounds == below
    at = np.maximum(every["stationarity"], every["disagreement"])
    tolerance = float(np.sort(at)[20])
    assert run(tolerance=tolerance, engine=engine).rounds == int(np.argmax(at <= tolerance))
    assert run(record_every=50, exchanges=137).rounds == 150


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_the_history_ends_where_the_run_does(engine, tmp_path, forked):
    every = run(60, record_every=1).history
    for end in (2, 17, 18, 53):
        told = run(60, callbacks=[lambda info, end=end: "enough" if info.round == end else None], engine=engine)
        for result in (told, run(60, exchanges=end, engine=engine, checkpoint=tmp_path / "run", keep="objective")):
            assert result.history["round"][-1] == result.rounds == end
            for name in ("objective", "stationarity", "exchanges"):
                assert result.history[name][-1] == every[name][end]
        assert result.best.round == end
        on = run(60, resume=tmp_path / "run", engine=engine)
        np.testing.assert_array_equal(on.history["objective"], run(60).history["objective"])


def test_early_stopping_acts_on_rows_and_adds_none():
    result = run(callbacks=[EarlyStopping(column="objective", patience=300)])
    np.testing.assert_array_equal(result.history["round"], run().history["round"])


def test_a_resumed_run_stops_where_a_whole_one_does(tmp_path):
    run(40, checkpoint=tmp_path / "a")
    whole, resumed = run(exchanges=57), run(exchanges=57, resume=tmp_path / "a")
    assert whole.rounds == resumed.rounds == 57
    np.testing.assert_array_equal(whole.w, resumed.w)
    np.testing.assert_array_equal(whole.history["objective"], resumed.history["objective"])


def test_a_test_set_is_not_cut_to_whole_numbers():
    torch = pytest.importorskip("torch")

    class Line(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.line = torch.nn.Linear(3, 1)

        def forward(self, x):
            return self.line(x.float())

    X = np.arange(36).reshape(12, 3) % 7
    shards = consensus.partition(X, X[:, 0], agents=2)
    p = consensus.Problem(consensus.models.Torch(Line), consensus.SquaredLoss(), shards)

    def errors(test):
        return consensus.solve(p, topologies.path(2), DGD(1e-3), rounds=1, start=np.ones(4), test=test).history["test_error"]

    whole = errors((X, X[:, 0]))
    np.testing.assert_array_equal(errors((X.astype(float), X[:, 0])), whole)
    with pytest.raises(
        ValueError, match=r"test must have whole numbers as features, .* got 0\.25 in sample 0: train on X.astype"
    ):
        errors((X + 0.25, X[:, 0]))


@pytest.mark.slow
def test_callbacks_of_the_first_rank_alone(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import numpy as np, consensus, topologies\n"
        "engine = consensus.engines.MPI()\n"
        "X = np.random.default_rng(0).standard_normal((60, 3))\n"
        "p = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), consensus.partition(X, X[:, 0], agents=4))\n"
        "seen = []\n"
        "callbacks = [lambda info: seen.append(info.mean)] if engine.root else []\n"
        "solver = consensus.solvers.DGD(0.1)\n"
        "consensus.solve(p, topologies.ring(4), solver, rounds=60, engine=engine, callbacks=callbacks)\n"
        "if engine.root:\n"
        "    print('calls', len(seen))\n"
    )
    assert "calls 61" in mpiexec(2, script).stdout


# Sums over agents: one after the other, wherever the agents are.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("parameters", [1, 2, 3, 8, 121, 2047, 2048, 5000])
def test_rows_are_added_in_their_order(parameters, dtype):
    rows = np.random.default_rng(parameters).standard_normal((300, parameters)).astype(dtype)
    expected = np.zeros(parameters, dtype)
    for row in rows:
        expected = expected + row
    total = added(np.zeros(parameters, dtype), rows)
    assert total.dtype == dtype
    np.testing.assert_array_equal(total, expected)
    np.testing.assert_array_equal(added(np.zeros(parameters, dtype), np.asfortranarray(rows)), expected)


@pytest.mark.parametrize("parameters", [1, 7, 3000])
@pytest.mark.parametrize("cuts", [(), (1,), (1, 2, 40), (13, 13, 170, 200)])
def test_processes_that_go_on_with_a_sum_have_the_bits_of_one(cuts, parameters):
    rows = np.random.default_rng(1).standard_normal((200, parameters))
    parts = np.split(rows, cuts)
    total, sums = np.zeros(parameters), None
    for part in parts:
        total = added(total, part)
        if len(part):
            sums = begun(part, sums)
    np.testing.assert_array_equal(total, added(np.zeros(parameters), rows))
    np.testing.assert_array_equal(mean_of(sums, 200), agents_mean(rows))
    np.testing.assert_allclose(agents_mean(rows), rows.mean(axis=0), rtol=1e-11, atol=1e-15)
