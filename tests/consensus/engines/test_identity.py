"""The identity of a run is all that its history depends on: test sets, metrics and samples of measurements, too."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.observe import EarlyStopping
from consensus.solvers import DGD
from tests.helpers.engine_harness import mpiexec

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = X @ [1.0, 2.0, 3.0]
A, B = (X[40:], Y[40:]), (X[40:], Y[40:] + 1)


def problem():
    return consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), consensus.partition(X[:40], Y[:40], agents=4))


def run(rounds=10, **options):
    return consensus.solve(problem(), topologies.ring(4), DGD(0.1), rounds=rounds, record_every=5, **options)


def first(w):
    return float(w[0])


def second(w):
    return float(w[1])


CHANGES = {
    "test set": ({"test": A}, {"test": B}),
    "shards of tests": ({"test": consensus.partition(*A, agents=4)}, {"test": consensus.partition(*B, agents=4)}),
    "metric m": ({"metrics": {"m": first}}, {"metrics": {"m": second}}),
    "metrics_on": ({"metrics_on": 2}, {}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_run_resumes_with_what_it_recorded(name, tmp_path):
    before, after = CHANGES[name]
    run(checkpoint=tmp_path / "a", **before)
    whole, resumed = run(20, **before), run(20, resume=tmp_path / "a", **before)
    for column in set(whole.history) - {"seconds"}:
        np.testing.assert_array_equal(whole.history[column], resumed.history[column])
    shown = "test set" if name.startswith("shards") else name
    with pytest.raises(ValueError, match=rf"a is a checkpoint of another run: {shown}: .* there, .* here"):
        run(20, resume=tmp_path / "a", **after)


def test_a_metric_that_is_no_number_yet_resumes(tmp_path):
    metric = {"m": correlation}
    options = {"metrics": metric, "keep": "m", "start": np.zeros(4)}
    solver = DGD(0.1)

    def solve(rounds, **more):
        return consensus.solve(problem(), topologies.ring(4), solver, rounds=rounds, record_every=50, **options, **more)

    solve(20, checkpoint=tmp_path / "a")
    resumed, whole = solve(100, resume=tmp_path / "a"), solve(100)
    assert resumed.best[:3] == whole.best[:3]
    np.testing.assert_array_equal(resumed.history["m"], whole.history["m"])


def correlation(w):
    return float("nan") if not w.any() else float(-w[0])


def test_early_stopping_looks_at_each_row_once():
    for least in (0.0, 0.01):
        rule = EarlyStopping(column="value", patience=3, least=least)
        history, values = consensus.History(), [5.0, 4.0, np.nan, 4.5, 3.995, 3.99, 3.5, 3.6, 3.7, 3.8]
        for k, value in enumerate(values):
            history.append({"round": k, "value": value})
            info = consensus.observe.RoundInfo(k, history.last(), history, None, None, None)
            best, since = np.inf, 0
            for one in values[: k + 1]:
                best, since = (one, 0) if one < best - least else (best, since + 1)
            reason = rule(info)
            assert (reason is not None) == (since >= 3)


@pytest.mark.slow
def test_ranks_with_different_test_sets_are_refused(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import numpy as np, consensus, topologies\n"
        "from mpi4py import MPI\n"
        "X = np.random.default_rng(0).standard_normal((30, 3))\n"
        "p = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), consensus.partition(X, X[:, 0], agents=3))\n"
        "test = X, X[:, 0] + MPI.COMM_WORLD.rank\n"
        "try:\n"
        "    consensus.solve(p, topologies.path(3), consensus.solvers.DGD(0.1), rounds=3, engine='mpi', test=test)\n"
        "except ValueError as error:\n"
        "    print('refused:', error)\n"
    )
    found = mpiexec(2, script)
    assert found.stdout.count("refused:") == 2
    assert "test set" in found.stdout
