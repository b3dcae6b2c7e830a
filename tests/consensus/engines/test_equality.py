"""A solver gives the same bits on every engine: iterates and everything that is recorded, counts of messages included."""

import numpy as np
import pytest

import consensus
from consensus import solvers
from consensus.engines import Processes, Stacked
from consensus.local import newton
from consensus.local.subproblem import Subproblem
from consensus.solvers import DGD
from consensus.surrogates import PartialLinearization
from tests.helpers import engine_cases, golden, problem_ranks
from tests.helpers.engine_harness import assert_same, on_ranks, read, started
from tests.helpers.golden import lines
from tests.helpers.pairs import AGENTS, PAIRS, problem

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
@pytest.mark.parametrize(("workers", "name"), [
    (3, "NEXT partial logistic L1, random, unequal"),
    (2, "NEXT blocks, periodic, unequal"),
    (2, "functions, tracking"),
    (3, "float32, NEXT, double rule"),
])  # fmt: skip
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


# Every solver has the same bits on workers and on ranks as in one process, whether it is recorded, tested, kept or resumed.


@pytest.fixture(scope="module")
def stacked():
    return list(golden.lines(golden.runs()))


@pytest.mark.slow
def test_every_solver_runs_in_every_mode(stacked):
    assert len({line.partition("\t")[0] for line in stacked}) == len(golden.SOLVERS) * len(golden.MODES)
    assert [line for line in stacked if "Error" in line] == []
    by_mode = [line.rpartition(" ")[0].rpartition("\t")[2] for line in stacked]  # digests of w
    assert by_mode[0::4] == by_mode[1::4] == by_mode[2::4] == by_mode[3::4]


@pytest.mark.slow
def test_workers(stacked, forked):
    found = list(golden.lines(golden.runs(Processes(2), few=True)))  # a new pair of processes for each run
    assert len(found) == len(golden.SOLVERS)
    assert set(found) <= set(stacked)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "modes"), [("mpi", "all"), ("torch", "few")])
def test_every_solver_on_ranks(kind, modes, stacked):
    done = started(kind, 2, golden.__file__, modes, timeout=500)
    assert done.returncode == 0, done.stderr
    found = done.stdout.splitlines()
    assert len(found) == len(golden.SOLVERS) * (len(golden.MODES) if modes == "all" else 1)
    assert set(found) <= set(stacked)


# Online, aggregative and zeroth-order problems, and accumulated gradients, have the bits of one process on ranks.


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mpi", "torch"])
def test_ranks_have_the_bits_of_one_process(kind):
    wanted = list(lines(problem_ranks.runs()))
    assert [line for line in wanted if "Error" in line] == []
    done = started(kind, 2, problem_ranks.__file__)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == wanted


# Runs in float32 stay in float32, in local solves, too: a NumPy double turns an array into float64 in silence.


@pytest.mark.filterwarnings("ignore::consensus.errors.UnfinishedWarning")
@pytest.mark.parametrize(("loss", "regularizer"), PAIRS)
def test_local_solves_stay_in_single_precision_where_steps_are_searched(loss, regularizer, monkeypatch):
    """With so small a tau Newton's whole step is too long for some agents: a search along it begins."""
    p, searched, seen = problem(loss, regularizer, (3,), scale=2), [], set()
    least = newton._least

    def watched(method):
        def call(sub, x, *arrays):
            result = method(sub, x, *arrays)
            seen.add((sub.w.dtype, *(array.dtype for array in (x, *arrays, result))))
            return result

        return call

    for name in ("value", "terms", "gradient"):
        monkeypatch.setattr(Subproblem, name, watched(getattr(Subproblem, name)))
    monkeypatch.setattr(newton, "_least", lambda *arguments: searched.append(1) or least(*arguments))
    w = np.random.default_rng(1).standard_normal((AGENTS, p.parameters)).astype(np.float32)
    gradient = p.gradient(w)
    consensus.local.Exact().solve(PartialLinearization(0.1).at(p, w, gradient), 6 * gradient, p.regularizer)
    assert searched or loss == "squared" or regularizer in ("ball", "box", "nonnegative")
    assert [dtypes for dtypes in seen if len(set(dtypes)) > 1] == []


@pytest.mark.filterwarnings("ignore::consensus.errors.UnfinishedWarning")
@pytest.mark.parametrize(("loss", "hidden"), [
    ("logistic", ()),
    *(pytest.param(loss, (3,), marks=pytest.mark.slow) for loss in ("Huber", "logistic", "cross-entropy")),
])  # fmt: skip
def test_engines_agree_where_some_agents_search_along_a_step(loss, hidden, forked):
    solver = solvers.NEXT(PartialLinearization(1e-3), 0.5)
    case = engine_cases.Case(problem(loss, "L2", hidden, 8), engine_cases.NETWORKS["random"], solver, engine_cases.OBSERVED)
    assert_same(case.run(engine=Processes(3)), case.run())
