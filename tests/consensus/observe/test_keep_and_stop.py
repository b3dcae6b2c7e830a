"""Stop rules as text, and the best point of a run beside the last one."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

import consensus
import topologies
from consensus.observe.stopping import Keeper, StopRule
from consensus.solvers import DGD

NETWORK = topologies.ring(4)
RNG = np.random.default_rng(0)
X, TEST = RNG.standard_normal((40, 3)), RNG.standard_normal((15, 3))
Y, TEST = X[:, 0] + RNG.standard_normal(40), (TEST, TEST[:, 0])
SOLVER = DGD(0.1, batch=2)  # whose errors rise and fall


def problem():
    return consensus.Problem(consensus.MLP([3, 6, 1]), consensus.SquaredLoss(), consensus.partition(X, Y, agents=4))


def solve(rounds=40, **options):
    return consensus.solve(problem(), NETWORK, SOLVER, rounds=rounds, test=TEST, **options)


@pytest.mark.parametrize("record_every", [1, 3])
def test_the_best_point_is_that_of_the_least_value(record_every):
    points = {}
    result = solve(
        keep="test_error", record_every=record_every, callbacks=[lambda info: points.update({info.round: info.mean})]
    )
    errors, best = result.history["test_error"], result.best
    place = int(np.argmin(errors))
    assert 0 < place < len(errors) - 1
    assert (best.column, best.value, best.round) == ("test_error", errors[place], result.history["round"][place])
    np.testing.assert_array_equal(best.mean, points[best.round])
    assert solve().best is None
    np.testing.assert_array_equal(result.w, solve(record_every=record_every).w)


def test_metrics_of_ones_own_are_kept_and_nan_is_never_best():
    values = iter([np.nan, 3.0, np.nan, 2.0, 2.0, 5.0])
    result = solve(5, keep="mine", record_every=1, metrics={"mine": lambda w: next(values)})
    assert (result.best.value, result.best.round) == (2.0, 3)


def test_worker_processes_keep_the_same_point(forked):
    one, two = (solve(keep="test_error", stop="test_error < 0", engine=engine) for engine in ("stacked", "processes"))
    assert one.best[:3] == two.best[:3]
    np.testing.assert_array_equal(one.best.mean, two.best.mean)


@pytest.mark.parametrize("first", [12, 13, 37])
@pytest.mark.parametrize("every", [1, 4])
def test_a_resumed_run_keeps_what_the_whole_one_does(tmp_path, first, every):
    whole = solve(keep="test_error", record_every=every)
    solve(first, keep="test_error", record_every=every, checkpoint=tmp_path / "run")
    back = solve(keep="test_error", record_every=every, resume=tmp_path / "run")
    assert back.best[:3] == whole.best[:3]
    np.testing.assert_array_equal(back.best.mean, whole.best.mean)


@dataclass
class Given:
    """A metric with given values, which make no other metric of it."""

    values: Iterator = field(compare=False)

    def __call__(self, w):
        return next(self.values)


def test_a_point_of_the_last_round_alone_is_not_that_of_a_longer_run(tmp_path):
    def rising(rounds, **options):
        # Least at round 5, which a run of 5 rounds records, and one of 8 does not.
        values = {0: 3.0, 4: 2.0, 5: 1.0, 8: 2.5}
        rows = iter([values[round] for round in ([0, 4, 5] if rounds == 5 else [8] if "resume" in options else [0, 4, 8])])
        metrics = {"mine": Given(rows)}
        return solve(rounds, keep="mine", record_every=4, metrics=metrics, **options).best

    assert rising(5, checkpoint=tmp_path / "run").round == 5
    assert rising(8, resume=tmp_path / "run")[:3] == rising(8)[:3] == ("mine", 2.0, 4)


def test_a_checkpoint_of_another_best_point_is_refused(tmp_path):
    solve(3, checkpoint=tmp_path / "none")
    solve(3, checkpoint=tmp_path / "objective", keep="objective")
    with pytest.raises(ValueError, match="none has no best point, and this run keeps that by test_error: give the same keep="):
        solve(keep="test_error", resume=tmp_path / "none")
    with pytest.raises(ValueError, match="has the best point by objective, and this run keeps that by test_error"):
        solve(keep="test_error", resume=tmp_path / "objective")


def test_files_of_results_have_the_best_point(tmp_path):
    result = solve(keep="test_error")
    result.save(tmp_path / "run.npz")
    back = consensus.load(tmp_path / "run.npz")
    assert back.best[:3] == result.best[:3]
    np.testing.assert_array_equal(back.best.mean, result.best.mean)
    solve().save(tmp_path / "plain.npz")
    assert consensus.load(tmp_path / "plain.npz").best is None


SIGNS = {"<=": np.less_equal, "<": np.less, ">": np.greater, ">=": np.greater_equal}


@pytest.mark.parametrize("sign", SIGNS)
def test_a_run_stops_at_the_first_round_where_the_rule_holds(sign):
    errors = solve(record_every=2).history["test_error"]
    bound = float(errors[4])
    place = int(np.argmax(SIGNS[sign](errors, bound)))
    result = solve(record_every=2, stop=f"test_error {sign} {bound!r}")
    assert result.rounds == 2 * place
    assert result.reason == f"test_error {sign} {bound:g}: it is {errors[place]:.6g} at round {2 * place}"


@pytest.mark.slow
def test_systems_with_a_server_stop_and_keep_too():
    system = consensus.centralized.SynchronousSGD(batch=2, learning_rate=0.05)
    result = consensus.centralized.solve(problem(), system, rounds=30, test=TEST, keep="objective", stop="epochs>=1")
    assert result.history["epochs"][-1] >= 1 > result.history["epochs"][-2]
    assert result.best.value == result.history["objective"].min()


@pytest.mark.parametrize(("options", "words"), [
    ({"stop": "test_error"}, r"stop must be a column of the history, one of <=, >=, < and >, and a number, as 'test_error"),
    ({"stop": "test_error <= __import__('os')"}, r"where __import__\('os'\) is no finite number"),
    ({"stop": "test_error <= nan"}, "where nan is no finite number"),
    ({"stop": "test_error == 3"}, "stop must be a column"),
    ({"stop": "1 < test_error < 2"}, "stop must be a column"),
    ({"stop": "a.b < 2"}, "stop must be a column"),
    ({"stop": 3}, "stop must be a column .* got 3"),
    ({"stop": "accuracy > 0.9"}, r"stop must have a column of the history, round, objective, .*; got 'accuracy'"),
    ({"stop": "test_error < 1", "test": None}, r"got 'test_error'; a test error needs test=\(X, y\)"),
    ({"keep": "accuracy"}, r"keep must have a column of the history, round, .*; got 'accuracy'"),
    ({"keep": ""}, r"keep must have a column of the history, .*; got ''"),
    ({"keep": ["objective"]}, r"keep must have a column of the history, .*; got \['objective'\]"),
    ({"keep": "agent_objective", "agent_objectives": True}, r"keep must have a column"),
])  # fmt: skip
def test_wrong_rules_and_columns_are_named_before_any_work(options, words):
    p = problem()
    with pytest.raises(ValueError, match=words):
        consensus.solve(p, NETWORK, SOLVER, rounds=3, **{"test": TEST} | options)
    assert p.work.gradients == 0


def test_rules_are_read_with_and_without_spaces():
    assert StopRule.parse("  seconds>=1e2 ") == StopRule("seconds", ">=", 100.0)
    assert StopRule.parse("objective <-.5") == StopRule("objective", "<", -0.5)


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "1e999", "one"])
def test_a_bound_is_a_finite_number(number):
    with pytest.raises(ValueError, match=f"where {number} is no finite number"):
        StopRule.parse(f"objective <= {number}")


def test_the_kept_point_is_a_copy():
    keeper, mean, w = Keeper("mine"), np.ones(3), np.ones((2, 3))
    keeper.keep({"mine": 1.0, "round": 4}, mean, w, True)
    mean[:], w[:] = 9.0, 9.0
    assert (keeper.best.mean == 1).all()
    assert (keeper.best.w == 1).all()
    assert keeper.regular is keeper.best
    keeper.keep({"mine": 0.5, "round": 5}, mean, None, False)  # of the last round alone
    assert (keeper.best.round, keeper.regular.round) == (5, 4)
    again = Keeper("mine")
    again.resume(keeper.regular, {}, "run")
    assert again.best is again.regular is keeper.regular  # what is saved again if nothing better comes
