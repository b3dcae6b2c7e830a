"""Local steps of some agents before those of the others: when that is done, and that no result shows it."""

import numpy as np
import pytest

import consensus
import topologies
from consensus import DivergenceError, centralized, solvers
from consensus.directions import Clip
from consensus.engines import Processes
from consensus.problems import samples
from consensus.step_sizes import InverseSqrt

AGENTS, SMALL, LARGE = 16, 60, 110  # features of samples that fit into a cache, and of some that do not

METHODS = [
    solvers.KGT(0.01),
    solvers.LED(0.01),
    solvers.LTADMM(0.01),
    solvers.DiNNO(0.01),
    solvers.DiLoCo(InverseSqrt(0.01), local_steps=3, direction=None),
    solvers.NoLoCo(0.01, local_steps=3, direction=None),
    centralized.FedAvg(0.01),
    centralized.FedProx(0.01, share=0.9),
    centralized.FedDyn(0.01),
    centralized.FedNova(0.01, local_steps=[2] * 2 + [5] * 14),
    centralized.FedAdam(0.01),
    centralized.SCAFFOLD(0.01),
]


def problem_of(features, loss=None, regularizer=None, dtype=np.float64, agents=AGENTS):
    rng, sizes = np.random.default_rng(0), 640 + 8 * np.arange(agents)  # smaller shards are padded
    x = rng.standard_normal((sizes.sum(), features)).astype(dtype)
    shards = consensus.partition(x, (x[:, 0] > 0).astype(dtype), agents, scheme="sizes", sizes=sizes)
    return consensus.Problem(
        consensus.Linear(features), loss or consensus.LogisticLoss(), shards, regularizer or consensus.L2(0.1)
    )


def solved(problem, method, rounds=3, **options):
    if isinstance(method, solvers.Solver):
        result = consensus.solve(problem, topologies.ring(problem.agents), method, rounds=rounds, **options)
    else:
        result = centralized.solve(problem, method, rounds=rounds, **options)
    return result.w, {name: result.history[name] for name in result.history if name != "seconds"}


def check_equal(one, other):
    np.testing.assert_array_equal(one[0], other[0])
    assert one[1].keys() == other[1].keys()
    for name, column in one[1].items():
        np.testing.assert_array_equal(column, other[1][name])


@pytest.fixture
def at_once(monkeypatch):
    """The function that tells of how many agents the gradients of local steps were that a call took, as a set."""
    found, walk = [], samples.in_turn

    def noted(steps, problem, batch, *rows):
        def counted(own, *arrays):
            found.append(own.agents)
            return steps(own, *arrays)

        return walk(counted, problem, batch, *rows)

    for module in ("problems.minibatches", "federated.base", "deep.outer"):
        monkeypatch.setattr(f"consensus.{module}.in_turn", noted)

    def agents_of(function, *given, **options):
        found.clear()
        function(*given, **options)
        return found.copy()

    return agents_of


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_results_and_counts_are_those_of_all_agents_together(method, monkeypatch):
    apart = solved(problem_of(LARGE), method)
    monkeypatch.setattr(samples, "_MUCH", np.inf)
    check_equal(apart, solved(problem_of(LARGE), method))


@pytest.mark.parametrize("options", [
    {"loss": consensus.SquaredLoss()},
    {"loss": consensus.Huber(0.5), "dtype": np.float32, "features": 2 * LARGE},
    {"regularizer": consensus.L2(np.linspace(0.1, 1, LARGE + 1))},
])  # fmt: skip
def test_other_costs_too(options, monkeypatch):
    given = {"features": LARGE} | options
    apart = solved(problem_of(**given), solvers.KGT(0.01))
    monkeypatch.setattr(samples, "_MUCH", np.inf)
    check_equal(apart, solved(problem_of(**given), solvers.KGT(0.01)))


def test_agents_by_themselves_and_threads_change_nothing(at_once, monkeypatch):
    problem = problem_of(LARGE)
    together = solved(problem, solvers.LED(0.01))
    for name, value in (("CHUNK_BYTES", 1), ("cores", lambda: 3)):
        monkeypatch.setattr(f"consensus._arrays.parallel.{name}", value)
    monkeypatch.setattr("consensus._arrays.parallel._Guard.threads", 3)
    problem = problem_of(LARGE)
    assert set(at_once(solved, problem, solvers.LED(0.01))) == {1}
    check_equal(together, solved(problem, solvers.LED(0.01)))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_it_is_done_with_many_samples_only(method, at_once):
    large, small = (at_once(solved, problem_of(features), method, rounds=1) for features in (LARGE, SMALL))
    assert small == {"FedProx": [14], "FedNova": [16, 14]}.get(type(method).__name__, [16])
    assert max(large) <= 4
    assert sum(large) == sum(small)


def test_it_is_not_done_where_samples_are_not_read_again(at_once):
    problem = problem_of(LARGE)
    for method in (
        solvers.KGT(0.01, batch=8),
        solvers.KGT(0.01, direction=Clip(1.0)),
        solvers.LED(0.01, batch=8),
        centralized.FedAvg(0.01, batch=8),
        solvers.DiLoCo(0.01, local_steps=2),
    ):
        assert set(at_once(solved, problem, method, rounds=1)) <= {AGENTS}
    centres = np.arange(4.0)[:, None] * np.ones((1, 1 << 19))
    functions = consensus.Problem.from_functions(
        lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=4, parameters=1 << 19
    )
    assert at_once(solved, functions, solvers.LED(0.01), rounds=1) == [4]


def test_workers_have_the_same_bits():
    problem = problem_of(LARGE, agents=2 * AGENTS)  # each worker has many samples, too
    check_equal(solved(problem, solvers.DiNNO(0.01)), solved(problem, solvers.DiNNO(0.01), engine=Processes(2)))


def test_a_run_that_diverges_ends_in_the_same_round(monkeypatch):
    messages = []
    for much in (samples._MUCH, np.inf):
        monkeypatch.setattr(samples, "_MUCH", much)
        with pytest.raises(DivergenceError) as error:
            solved(problem_of(LARGE, consensus.SquaredLoss()), solvers.LTADMM(1e3), rounds=100)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
