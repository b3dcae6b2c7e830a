"""What solve does with a server as without one: how runs end before their last round, and which arguments are errors."""

import numpy as np
import pytest

import consensus
from consensus import centralized
from consensus.centralized import DownpourSGD, FedAvg, MapReduceGradientDescent, SandblasterLBFGS, SynchronousSGD, solve

SYSTEM = FedAvg(0.2, 2)
FEDERATED = {"learning_rate": 0, "local_steps": 0, "batch": 0, "share": 1.5, "seed": -1}
WRONG = {  # settings that are right, and one wrong value for each of the others
    "SynchronousSGD": ({"batch": 8, "learning_rate": 0.1}, {"batch": 0, "learning_rate": 0, "momentum": 1, "drop_slowest": 1}),
    "MapReduceGradientDescent": ({"learning_rate": 0.1}, {"reduce": "ring"}),
    "Joblib": ({}, {"jobs": 0}),
    "DownpourSGD": (
        {"replicas": 2},
        {"fetch": 0, "push": 0, "shards": 0, "seed": -1, "learning_rate": 0, "batch": 0, "warm_start": -1, "adagrad": 1},
    ),
    "SandblasterLBFGS": ({"replicas": 2}, {"replicas": 0, "portions": 0, "shards": 0, "memory": 0}),
    "SplitMLP": ({"widths": [5, 7, 6, 2], "workers": 2}, {"workers": 8, "activation": "step"}),
    "FedAvg": ({"learning_rate": 0.1}, FEDERATED),
    "SCAFFOLD": ({"learning_rate": 0.1}, FEDERATED | {"server_rate": 0}),
    "FedAdam": ({"learning_rate": 0.1}, FEDERATED | {"server_rate": 0, "betas": (0.9, 1.0), "tau": -1}),
}


def test_ctrl_c_gives_the_result_so_far_and_a_checkpoint_goes_on(problem, start, tmp_path):
    def stop(seen):
        if seen.round == 3:
            raise KeyboardInterrupt

    path = tmp_path / "run"
    with pytest.raises(consensus.Interrupted, match="resume=") as caught:
        solve(problem, SYSTEM, rounds=6, record_every=1, start=start, callbacks=[stop], checkpoint=path, every=2)
    partial = caught.value.result
    assert (partial.rounds, partial.reason) == (3, "stopped by the user")
    np.testing.assert_array_equal(partial.w, solve(problem, SYSTEM, rounds=3, start=start).w)
    again = solve(problem, SYSTEM, rounds=6, start=start, resume=path)
    np.testing.assert_array_equal(again.w, solve(problem, SYSTEM, rounds=6, start=start).w)
    with pytest.raises(ValueError, match="rounds must be at least the checkpoint's, 2; got 1"):
        solve(problem, SYSTEM, rounds=1, start=start, resume=path)
    with pytest.raises(ValueError, match="a checkpoint of another run: solver: "):
        solve(problem, FedAvg(0.1, 2), rounds=6, start=start, resume=path)


def test_a_callback_ends_it_with_its_reason_or_an_error_that_has_the_history(problem, start):
    def end(seen):
        return "enough" if seen.round == 4 else None

    def fail(seen):
        if seen.round == 2:
            raise LookupError("of the user's")

    run = solve(problem, SYSTEM, rounds=6, record_every=1, start=start, callbacks=[end])
    assert (run.rounds, run.reason) == (4, "enough")
    with pytest.raises(LookupError, match="of the user's") as caught:
        solve(problem, SYSTEM, rounds=6, record_every=1, start=start, callbacks=[fail])
    assert caught.value.history["round"].tolist() == [0, 1, 2]


def test_an_error_in_a_worker_is_raised_here(forked):
    def gradient(w):
        raise FileNotFoundError("the data are gone")

    broken = consensus.Problem.from_functions(lambda w: w.sum(axis=1), gradient, 2, 3)
    with pytest.raises(FileNotFoundError, match="the data are gone"):
        solve(broken, MapReduceGradientDescent(0.1), rounds=1, start=np.ones(3))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_settings_are_errors_by_name(name):
    right, wrong = WRONG[name]
    for setting, value in wrong.items():
        with pytest.raises((ValueError, TypeError), match=rf"{setting}(\[1\])? must be"):
            getattr(centralized, name)(**right | {setting: value})


def test_incompatible_arguments_are_errors_before_any_work(problem, start, forked):
    costs = consensus.Problem.from_functions(lambda w: w.sum(axis=1), lambda w: w, 2, 3)
    sparse = consensus.Problem(problem.model, problem.loss, problem.shards, consensus.L1(0.1))
    descent = MapReduceGradientDescent(0.1)
    for other, system, given, message in (
        (costs, SynchronousSGD(8, 0.1), None, "minibatches need a problem with samples"),
        (problem, MapReduceGradientDescent(0.1, 7), None, "workers must be at most the problem's agents, 6; got 7"),
        (problem.restrict(slice(0, 3)), descent, None, "a server needs all of them"),
        (problem, DownpourSGD(7), None, "replicas must be at most the problem's agents, 6; got 7"),
        (problem, DownpourSGD(1, shards=99), None, "shards must be at most the problem's parameters, 21; got 99"),
        (problem, SandblasterLBFGS(2, 7), None, "portions must be at most the problem's agents, 6; got 7"),
        (sparse, SYSTEM, None, "FedAvg needs a smooth regularizer"),
        (sparse, SandblasterLBFGS(2), None, "SandblasterLBFGS needs a smooth regularizer"),
        (problem, descent, np.tile(start, (6, 1)), r"the server has one; got \(6, 21\)"),
        (problem, "sgd", None, "system must be a system"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            solve(other, system, rounds=1, start=given)
    with pytest.raises(consensus.DivergenceError):
        solve(problem, MapReduceGradientDescent(1e30), rounds=20, start=start)


@pytest.mark.slow
def test_a_worker_that_starts_afresh_gives_the_same_bits(problem, start, pids, request):
    system = MapReduceGradientDescent(0.5, workers=1)
    afresh = solve(problem, system, rounds=3, start=start)
    assert [len(each) for each in pids] == [1]
    request.getfixturevalue("forked")
    np.testing.assert_array_equal(solve(problem, system, rounds=3, start=start).w, afresh.w)
