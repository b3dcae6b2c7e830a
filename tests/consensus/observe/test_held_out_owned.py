"""Test sets of owners: the errors of the pooled test set, and each owner's; the same on every engine and after a break."""

import numpy as np
import pandas as pd
import pytest

import consensus
import topologies
from consensus.data import own
from consensus.engines import Processes
from consensus.observe import EarlyStopping
from consensus.solvers import DGD
from consensus.testing.threads import Threads
from tests.helpers import owners


@pytest.fixture(scope="module")
def tables():
    return [table.drop(columns="outcome") for table in owners.hospitals()]


@pytest.fixture(scope="module")
def owned(tables):
    return own(tables, "days", categories=["ward"], test_size=0.25, seed=3)


def run(owned, test=None, **settings):
    settings = {"rounds": 30, "record_every": 10, "test": owned.test if test is None else test} | settings
    problem = consensus.Problem(consensus.MLP([7, 5, 1]), consensus.SquaredLoss(), owned.shards)
    return consensus.solve(problem, topologies.ring(4), DGD(0.5), **settings)


def test_each_owner_puts_its_own_rows_aside(owned, tables):
    sizes = [round(0.25 * size) for size in owners.SIZES]
    assert owned.test.sizes.tolist() == sizes
    assert (owned.shards.sizes + owned.test.sizes).tolist() == list(owners.SIZES)
    everything, training = pd.concat(tables, ignore_index=True)[tables[0].columns], owned.shards.indices
    training, tested = (np.sort(part[part >= 0]) for part in (training, owned.test.indices))
    np.testing.assert_array_equal(np.sort(np.concatenate([training, tested])), np.arange(len(everything)))
    ages = everything.age.to_numpy()
    np.testing.assert_allclose(owned.pipeline.mean[0], ages[training].mean(), rtol=1e-14)  # of training rows alone
    np.testing.assert_allclose(owned.pipeline.scale[0], ages[training].std(), rtol=1e-13)
    for row in range(4):
        at = owned.test.indices[row, : sizes[row]]
        np.testing.assert_array_equal(owned.test.features[row, : sizes[row]], owned.pipeline.transform(everything.iloc[at]))
        np.testing.assert_array_equal(owned.test.targets[row, : sizes[row]], owned.pipeline.targets(everything.iloc[at]))
    other = own(tables, "days", categories=["ward"], test_size=0.25, seed=4)
    assert not np.array_equal(other.test.indices, owned.test.indices)


def test_errors_are_those_of_the_pooled_test_set_and_of_each_owner(owned):
    real = owned.test.weights > 0
    pooled = owned.test.features[real], owned.test.targets[real]
    here, there = run(owned).history, run(owned, pooled).history
    for column in ("test_error", "test_error_worst"):
        np.testing.assert_allclose(here[column], there[column], rtol=1e-13)
    for owner, size in enumerate(owned.test.sizes):
        alone = run(owned, (owned.test.features[owner, :size], owned.test.targets[owner, :size])).history
        np.testing.assert_allclose(here["agent_test_error"][:, owner], alone["test_error"], rtol=1e-13)
    shares = owned.test.sizes / owned.test.sizes.sum()
    np.testing.assert_allclose(here["agent_test_error"] @ shares, here["test_error"], rtol=1e-13)
    assert here["test_error"][-1] < 0.7 * here["test_error"][0]


@pytest.mark.slow
def test_engines_and_a_break_change_no_bit(owned, tmp_path, forked):
    whole, path = run(owned), tmp_path / "run.ckpt"
    run(owned, rounds=20, checkpoint=path)
    for again in (run(owned, resume=path), run(owned, engine=Processes(workers=2)), run(owned, engine=Threads(2))):
        for column in ("test_error", "test_error_worst", "agent_test_error"):
            np.testing.assert_array_equal(again.history[column], whole.history[column])
    stopped = run(owned, callbacks=[EarlyStopping(patience=3)], record_every=5, rounds=3000)
    assert stopped.rounds < 3000
    assert stopped.best.column == "test_error"
    whole.history.to_csv(tmp_path / "run.csv")
    assert "agent_test_error_3" in consensus.History.from_csv(tmp_path / "run.csv")


def test_labels_that_do_not_count_are_left_out():
    rng = np.random.default_rng(0)
    X, y, whose = rng.standard_normal((40, 3)), rng.integers(0, 3, 40), np.arange(40) % 4
    y[:9] = 0
    shards, test = (consensus.partition(X, y, groups=whose) for _ in range(2))
    loss = consensus.CrossEntropy(ignore_index=0)
    problem = consensus.Problem(consensus.Linear(3, 3), loss, shards, consensus.L2(0.1))
    settings = {"rounds": 3, "record_every": 1}
    here, there = (consensus.solve(problem, topologies.ring(4), DGD(0.5), test=each, **settings) for each in (test, (X, y)))
    np.testing.assert_allclose(here.history["test_error"], there.history["test_error"], rtol=1e-13)


def test_test_sets_that_do_not_fit_are_refused(owned, tables):
    X, y = np.ones((8, 3)), np.ones(8)
    other = consensus.partition(X, y, agents=4)
    for test, error in (
        (other, r"test features must have shape \(7,\) a sample, as in training; got \(3,\)"),
        (
            consensus.partition(X, y, agents=3),
            r"test must have the agents \[0, 1, 2, 3\] of 4, as the problem; got \[0, 1, 2\]",
        ),
        (owned.test.restrict([0, 1]), r"test must have the agents \[0, 1, 2, 3\] of 4, as the problem; got \[0, 1\] of 4"),
        (
            consensus.partition(np.ones((8, 7)), y, agents=4, sample_weight=np.full(8, 2.0)),
            "test must have samples of weight 1; got a total weight of 16",
        ),
    ):
        with pytest.raises(ValueError, match=error):
            run(owned, test)
    functions = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=4, parameters=1)
    with pytest.raises(TypeError, match=r"test of owners needs a consensus.Problem"):
        consensus.solve(functions, topologies.ring(4), DGD(0.1), rounds=1, test=owned.test)
    with pytest.raises(ValueError, match="test_size must be a finite number > 0 and < 1; got 1"):
        own(tables, "days", categories=["ward"], test_size=1)
    with pytest.raises(ValueError, match="data must have at least 2 rows, one of them for the test; got 1"):
        own(tables[0][:1], "days", categories=["ward"], test_size=0.5)
