"""Early stopping: when by hand, the best point kept, and the same after a break and on other engines."""

from types import SimpleNamespace

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes
from consensus.observe import EarlyStopping
from consensus.solvers import GradientTracking
from tests.helpers.refusals import refusals

rng = np.random.default_rng(0)
X, Z = rng.standard_normal((40, 6)), rng.standard_normal((60, 6))
SHARDS = consensus.partition(X, np.sin(X.sum(1)) + 0.5 * rng.standard_normal(40), agents=4)
TEST = (Z, np.sin(Z.sum(1)) + 0.5 * rng.standard_normal(60))
STOPPING = EarlyStopping(column="test_error", patience=5, least=1e-4)


def run(**settings):
    problem = consensus.Problem(consensus.MLP([6, 30, 1]), consensus.SquaredLoss(), SHARDS)
    settings = {"test": TEST, "record_every": 3, "callbacks": [STOPPING], "rounds": 3000} | settings
    return consensus.solve(problem, topologies.ring(4), GradientTracking(0.3), **settings)


def by_hand(errors):
    """The row at which the run stops."""
    best, at = errors[0], 0
    for row, error in enumerate(errors):
        if error < best - 1e-4:
            best, at = error, row
        if row - at == 5:
            return row
    return None


def test_a_run_stops_where_the_column_has_not_fallen_and_keeps_the_best():
    result, everything = run(), run(callbacks=(), rounds=400)
    errors = everything.history["test_error"]
    row = by_hand(errors)
    assert row is not None
    assert 10 < result.rounds < 400
    assert result.rounds == everything.history["round"][row]
    assert result.reason.startswith("test_error has not fallen for 5 recorded rounds, at round")
    assert result.best.value == errors[: row + 1].min()
    assert result.best.round == everything.history["round"][: row + 1][errors[: row + 1].argmin()]
    assert result.history["test_error"][-1] > result.best.value


@pytest.mark.slow
def test_a_resumed_run_and_another_engine_stop_at_the_same_round(tmp_path, forked):
    whole, path = run(), tmp_path / "run.ckpt"
    run(rounds=whole.rounds // 2, checkpoint=path, every=10)
    for again in (run(resume=path), run(engine=Processes(workers=2))):
        assert (again.rounds, again.reason, again.best.round) == (whole.rounds, whole.reason, whole.best.round)
        np.testing.assert_array_equal(again.best.mean, whole.best.mean)


def test_a_point_that_the_user_keeps_goes_first():
    result = run(keep="objective")
    assert result.best.column == "objective"
    assert result.rounds == run().rounds


def said(stop, *values):
    history = consensus.History()
    for value in values:
        history.append({"mine": value})
    return stop(SimpleNamespace(history=history, round=len(values) - 1))


def test_a_value_that_is_as_good_as_the_best_is_no_fall():
    stop = EarlyStopping(column="mine", patience=2)
    assert said(stop, 3.0, 2.0, 2.0) is None
    assert said(stop, 3.0, 2.0, 2.0, 2.0) == "mine has not fallen for 2 recorded rounds, at round 3: it was 2 at best"
    least = EarlyStopping(column="mine", patience=2, least=0.5)
    assert said(least, 3.0, 2.5, 2.0) is None  # a fall by no more than this, and then one by more
    assert said(least, 3.0, 2.75, 2.5) is not None


test_refusals = refusals(
    (lambda: EarlyStopping(column=3), (ValueError, TypeError), "column must be the name of a column of the history; got 3"),
    (lambda: EarlyStopping(patience=0), (ValueError, TypeError), "patience must be a whole number >= 1; got 0"),
    (lambda: EarlyStopping(least=-1.0), (ValueError, TypeError), "least must be a finite number >= 0"),
    *((lambda keep=keep: run(test=None, keep=keep), ValueError,
     r"must have a column of the history, .*; got 'test_error'; a test error needs") for keep in (None, "objective")),
)  # fmt: skip
