"""What a solver of a user's sees is the same on every engine, and what it gets wrong is said where it does."""

import numpy as np
import pytest

from consensus.engines import Processes, Stacked
from tests.helpers import user_cases
from tests.helpers.engine_harness import on_ranks
from tests.helpers.turns import in_turn, with_slow

ENGINES = {"stacked": Stacked(), "processes": Processes(2)}


# What it sees


def equal(mine, theirs):
    if isinstance(mine, np.ndarray):
        return mine.dtype == theirs.dtype and np.array_equal(mine, theirs)
    return mine == theirs


@pytest.mark.parametrize("name", with_slow(user_cases.PROBLEMS, "unequal", "nonconvex"))
def test_workers_see_the_problem_that_one_process_sees(name, forked):
    problem = user_cases.PROBLEMS[name]
    for rows, seen in user_cases.looks(problem, Processes(3)):
        expected = user_cases.attributes(problem.restrict(rows))
        assert list(seen) == list(expected)
        assert not {key for key in expected if not equal(seen[key], expected[key])}


@pytest.mark.slow
def test_unequal_shards_keep_their_sizes_in_workers(forked):
    problem = user_cases.PROBLEMS["unequal"]
    assert len(set(problem.shards.sizes.tolist())) > 3
    sizes = [seen["shards.sizes"] for _, seen in user_cases.looks(problem, Processes(3))]
    np.testing.assert_array_equal(np.concatenate(sizes), problem.shards.sizes)


@pytest.mark.slow
def test_ranks_see_the_problem_that_one_process_sees(tmp_path):
    assert on_ranks(2, "look", tmp_path) == [{name: [] for name in user_cases.PROBLEMS}] * 2


# What it gets wrong


@pytest.mark.parametrize(("name", "engine"), in_turn(user_cases.FAULTY, ENGINES))
def test_a_faulty_solver_or_schedule_is_named(name, engine, forked):
    case, kind, words = user_cases.FAULTY[name]
    with pytest.raises(kind) as caught:
        case.run(engine=ENGINES[engine])
    assert type(caught.value) is kind
    for part in words:
        assert part in str(caught.value)


@pytest.mark.slow
def test_a_faulty_solver_or_schedule_is_named_under_mpi(tmp_path):
    said = on_ranks(1, "faulty", tmp_path)
    for name, (_, kind, words) in user_cases.FAULTY.items():
        assert said[name][0] == kind.__name__, name
        for part in words:
            assert part in said[name][1]
