"""Other packages' algorithms beside ours: the same iterates, and what is said where a package is missing."""

import itertools
import time
from importlib.util import find_spec

import numpy as np
import pytest
from scipy.special import expit

import consensus
import consensus.centralized
from experiments.benchmarks import flower, peers
from tests.reference.exact_methods import METHODS
from tests.reference.least_squares import Costs

ROUNDS = 30
STATEMENTS = {type(solver): statement for solver, statement in METHODS.items()}
EXAMPLES = [
    pytest.param(name, pair, id=f"{name}-{type(pair.solver).__name__}")
    for name in ("breast_cancer", "diabetes")
    for pair in peers.PAIRS
    if name == "diabetes" or not pair.quadratic
]
installed = pytest.mark.skipif(not find_spec("decent_bench"), reason="decent-bench, which needs Python 3.13, is not installed")


@pytest.fixture(scope="module")
def their_arrays():
    from decent_array import interoperability

    interoperability.set_backend("numpy")


class Logistic(Costs):
    """The logistic loss in place of least squares."""

    def smooth(self, w):
        residuals = expit(self.x @ w[:, :, None]) - self.d
        return (self.x.swapaxes(1, 2) @ (self.scale * residuals))[:, :, 0]


@pytest.mark.parametrize(("name", "pair"), EXAMPLES)
def test_our_iterates_are_those_of_a_plain_statement(name, pair):
    problem = peers.problem_of(name)
    shards, quadratic = problem.shards, problem.loss.quadratic
    costs = (Costs if quadratic else Logistic)(
        shards.features, shards.targets, problem.weights, ridge=0 if quadratic else peers.RIDGE
    )
    solver, run = peers.ours(problem, pair)
    matrix = peers.network_of(problem, pair.weights).weights(0).toarray()
    start = np.zeros((problem.agents, problem.parameters))
    iterates = STATEMENTS[type(solver)](matrix, costs, start, solver)
    np.testing.assert_allclose(run(ROUNDS), next(itertools.islice(iterates, ROUNDS - 1, None)), rtol=0, atol=1e-12)


@installed
@pytest.mark.usefixtures("their_arrays")
@pytest.mark.parametrize(("name", "pair"), EXAMPLES)
def test_iterates_are_those_of_decent_bench(name, pair):
    problem = peers.problem_of(name)
    solver, run = peers.ours(problem, pair)
    np.testing.assert_allclose(run(ROUNDS), peers.theirs(problem, pair, solver)(ROUNDS), rtol=0, atol=1e-12)


@installed
@pytest.mark.usefixtures("their_arrays")
@pytest.mark.parametrize("method", peers.SERVED)
@pytest.mark.parametrize("name", ["breast_cancer", "diabetes"])
def test_federated_methods_are_those_of_decent_bench(name, method):
    mine, other = peers.served(peers.problem_of(name), method)
    np.testing.assert_allclose(mine(ROUNDS), other(ROUNDS), rtol=0, atol=1e-12)


@installed
@pytest.mark.usefixtures("their_arrays")
def test_on_the_same_samples_and_steps_of_each_client_they_are_those_of_decent_bench():
    problem = peers.problem_of("diabetes")
    steps = [1 + k % 3 for k in range(problem.agents)]
    for mine, other in (peers.local_batches(problem), peers.served(problem, "FedNova", steps)):
        np.testing.assert_allclose(mine(ROUNDS), other(ROUNDS), rtol=0, atol=1e-12)


def test_shards_have_equal_sizes_and_both_classes():
    for name in ("breast_cancer", "diabetes", "digits"):
        problem = peers.problem_of(name)
        assert problem.agents == peers.CASES[name]
        np.testing.assert_array_equal(problem.shards.weights, 1)
        if isinstance(problem.loss, consensus.LogisticLoss):
            assert all(set(np.unique(targets)) == {0, 1} for targets in problem.shards.targets)


def test_a_row_needs_iterates_that_agree():
    def run(rounds):
        time.sleep(1e-4 * rounds)
        return np.full((2, 3), 1.0)

    assert peers.compare("Same", (run, run), repeats=2, seconds=0)[::6] == ("Same", 0)
    with pytest.raises(AssertionError, match=r"Other: the iterates differ by 2\.0e-11"):
        peers.compare("Other", (run, lambda rounds: run(rounds) + 2e-11), repeats=2, seconds=0)


@pytest.mark.parametrize(
    ("benchmark", "words"),
    [(peers, r"(?s)Python 3\.13.*pip install -e \. decent-bench"), (flower, r'pip install -e \. "flwr\[simulation\]"')],
    ids=["decent-bench", "Flower"],
)
def test_without_the_package_it_says_what_to_install(benchmark, words, monkeypatch):
    monkeypatch.setattr(benchmark, "find_spec", lambda name: None)
    monkeypatch.setattr("sys.argv", ["peers"])
    with pytest.raises(SystemExit, match=words):
        benchmark.main()


def test_local_steps_by_hand_and_their_mean_are_our_federated_averaging():
    problem, rounds = peers.problem_of("breast_cancer"), 10
    step, w = flower.step_of(problem), np.zeros(problem.parameters)
    for _ in range(rounds):
        shards = zip(problem.shards.features, problem.shards.targets, strict=True)
        w = np.mean([flower.locally(w, x, d, step) for x, d in shards], axis=0)
    ours = consensus.centralized.solve(problem, consensus.centralized.FedAvg(step, peers.LOCAL), rounds=rounds)
    np.testing.assert_allclose(ours.w[0], w, rtol=0, atol=1e-13)
