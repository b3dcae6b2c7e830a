"""Without record_every callbacks and bounds act in every round, and what is counted is as of that round, on every engine."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.observe import EarlyStopping
from consensus.solvers import DGD
from tests.helpers.engine_harness import mpiexec
from tests.helpers.problems import problem

RING = topologies.ring(6)
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
