"""A solver gives the same bits on every engine: iterates and everything that is recorded, counts of messages included."""

import numpy as np
import pytest

import consensus
from consensus.engines import Processes, Stacked
from consensus.solvers import DGD
from tests.helpers import engine_cases
from tests.helpers.engine_harness import assert_same, on_ranks, read

CASES = engine_cases.compared()


@pytest.fixture(scope="module")
def references():
    return engine_cases.Runs(CASES, engine=Stacked(strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_processes(workers, references, forked):
    for name in engine_cases.part(CASES, workers):
        assert_same(CASES[name].run(engine=Processes(workers, strict=True)), references[name], name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "name"),
    [
        (3, "NEXT partial logistic L1, random, unequal"),
        (2, "NEXT blocks, periodic, unequal"),
        (2, "functions, tracking"),
        (3, "float32, NEXT, double rule"),
    ],
)
def test_processes_started_afresh(workers, name, references):
    # Functions defined in a test, data in shared memory and settings all have to find their way into new interpreters.
    assert_same(CASES[name].run(engine=Processes(workers)), references[name], name)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "ranks"), [("mpi", 1), ("mpi", 2), ("mpi", 3), ("mpi", 4), ("torch", 2), ("torch", 3)])
def test_ranks(kind, ranks, references, tmp_path):
    assert on_ranks(ranks, "equality", tmp_path, kind) == {"differ": [], "own rows": True, "steps": [True] * 2 * ranks}
    for number, name in enumerate(engine_cases.part(CASES, ranks)):
        assert_same(read(tmp_path / f"{number}.npz"), references[name], f"{ranks} ranks of {kind}, {name}")


@pytest.mark.slow
def test_the_runs_compared_are_worth_comparing(references):
    stopped = references["tolerance"]
    assert "at most 0.001" in stopped.reason
    assert 7 <= stopped.rounds < 400
    assert references["float32, NEXT, double rule"].w.dtype == np.float32
    assert references["rounds without edges"].history["messages"].tolist() == [0, 2 * (2 * 3 + 2 * 7), 40 + 40, 40 + 40]
    rare = references["edges are rare"].history
    assert 0 < rare["messages"][-1] < 2 * 7 * 2
    assert rare["exchanges"].tolist() == [0, 3, 6, 7]
    for name in CASES:
        result = references[name]
        assert np.isfinite(result.w).all(), name
        agreed = name == "no rounds" or "adaptive" in name or "Tree" in name  # whose sums are exact on static graphs
        assert agreed or not np.array_equal(result.w[0], result.w[1]), name


@pytest.mark.slow
def test_threads_inside_a_worker(references, forked):
    for name in ("NEXT blocks, periodic, unequal", "a larger network to train"):
        assert_same(CASES[name].run(engine=Processes(2, cores=2)), references[name], name)


@pytest.mark.slow
def test_a_run_leaves_the_problem_as_it_was(forked):
    case = CASES["NEXT partial logistic L1, random, unequal"]
    before = [array.copy() for array in (case.problem.shards.features, case.problem.weights)]
    first = case.run(engine=Processes(2))
    assert_same(case.run(engine=Processes(2)), first)
    np.testing.assert_array_equal(case.problem.shards.features, before[0])
    np.testing.assert_array_equal(case.problem.weights, before[1])


@pytest.mark.parametrize("engine", [Stacked(), Processes(2)], ids=["stacked", "processes"])
def test_a_part_of_the_agents_is_refused_where_all_are_needed(engine):
    part = CASES["tolerance"].problem.restrict(slice(0, 3))
    with pytest.raises(ValueError, match=r"3 of 7 agents.*MPI"):
        consensus.solve(part, engine_cases.NETWORKS["static"], DGD(0.05), rounds=3, engine=engine)
