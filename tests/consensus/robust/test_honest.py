"""What is measured are the honest agents."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

import consensus
from consensus.engines import Processes
from consensus.robust import Attack, CSPlus, SignFlip
from consensus.solvers import DGD
from tests.helpers.byzantine import AGENTS, BYZANTINE
from tests.helpers.three_of_twenty import OTHERS, THREE, case, honest_optimum
from tests.helpers.turns import with_slow

HONEST = np.setdiff1d(np.arange(AGENTS), BYZANTINE)


def honest_problem():
    """The problem of the honest agents alone: of shards of one size, so that A/H sum_i g_i is the mean over their samples."""
    shards = case()[0].shards.restrict(OTHERS)
    own = consensus.partition(shards.features.reshape(-1, 10), shards.targets.reshape(-1), agents=17)
    return consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), own, consensus.L2(0.01))


@pytest.mark.parametrize("way", with_slow(["attack", "told", "processes"], "processes"))
def test_what_is_measured_is_of_the_honest_agents(way, forked):
    problem, network, weight = case(flipped=way == "told")
    solver, seen = CSPlus(DGD(0.05), weight), []
    more = {"honest": OTHERS[::-1]} if way == "told" else {"engine": Processes(3)} if way == "processes" else {}
    if way != "told":
        solver = Attack(solver, THREE, SignFlip())
    X, y = np.random.default_rng(3).standard_normal((9, 10)), np.arange(9.0)
    result = consensus.solve(
        problem, network, solver, rounds=5, test=(X, y), metrics={"norm": np.linalg.norm}, agent_objectives=True,
        callbacks=[lambda row: seen.append(row.mean)], **more,
    )  # fmt: skip
    own, last, theirs = result.w[OTHERS], result.history.last(), honest_problem()
    mean, objective = own.mean(axis=0), honest_optimum()[1]
    for found in (result.mean, seen[-1]):
        np.testing.assert_allclose(found, mean, rtol=1e-12)
    expected = {
        "objective": objective(mean),
        "stationarity": np.linalg.norm(theirs.gradient(np.tile(mean, (17, 1))).sum(axis=0) + 0.01 * mean),
        "disagreement": np.sqrt(np.square(own - mean).sum(axis=1).mean()),
        "test_error": np.square(X @ mean[:-1] + mean[-1] - y).mean(),
        "test_error_worst": np.square(own[:, :-1] @ X.T + own[:, -1:] - y).mean(axis=1).max(),
        "norm": np.linalg.norm(mean),
        "agent_objective": [objective(w) for w in own],
    }
    for name, value in expected.items():
        if name == "stationarity":  # prox of the regularizer at w - grad G: w - prox(w - g) = (g + 0.01 w) / 1.01
            value = value / 1.01
        np.testing.assert_allclose(last[name], value, rtol=1e-10, err_msg=name)
    np.testing.assert_array_equal(result.honest, OTHERS)
    assert last["messages"] == 5 * 2 * network.graph(0).number_of_edges()  # all that are sent


def test_a_solvers_own_columns_are_of_the_honest_agents_and_a_file_keeps_who_they_are(tmp_path):
    class Rows(DGD):
        history_columns: ClassVar = {"first": np.max}

        def report(self, state):
            return np.arange(20.0)[:, None]

    problem, network, weight = case()
    result = consensus.solve(
        problem, network, Attack(CSPlus(Rows(0.05), weight), [19, 18], SignFlip()), rounds=2, record_every=1
    )
    assert result.history["first"].tolist() == [17.0] * 3
    result.save(tmp_path / "run.npz")
    again = consensus.load(tmp_path / "run.npz")
    np.testing.assert_array_equal(again.honest, np.arange(18))
    np.testing.assert_array_equal(again.mean, result.mean)
    with pytest.raises(ValueError, match="all agents whose rows are here are Byzantine"):
        _ = replace(result, w=result.w[18:], honest=np.arange(0)).mean


def test_whom_a_run_measures_is_checked_and_known_to_its_checkpoint(tmp_path):
    problem, network, _ = case()
    for honest, kind in (([], TypeError), ("all", TypeError), ([0.5], TypeError), ([3, 3], ValueError), ([20], ValueError)):
        with pytest.raises(kind, match=r"honest must be (agents' numbers|different agents among 0 .. 19)"):
            consensus.solve(problem, network, DGD(0.05), rounds=1, honest=honest)
    options = {"rounds": 2, "checkpoint": tmp_path / "run"}
    consensus.solve(problem, network, DGD(0.05), honest=OTHERS, **options)
    with pytest.raises(ValueError, match=r"is a checkpoint of another run: honest"):
        consensus.solve(problem, network, DGD(0.05), resume=tmp_path / "run", rounds=3)
    assert consensus.solve(problem, network, DGD(0.05), rounds=1, honest=range(20)).honest is None
