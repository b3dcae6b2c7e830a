"""No rank holds the rows of all agents."""

import json

import numpy as np
import pytest

import consensus
import topologies
from consensus import _arguments
from consensus.engines import rank_engine
from consensus.engines.rank_engine import AllRanks
from consensus.engines.states import Begin
from consensus.solvers import GradientTracking
from tests.helpers.engine_harness import HERE, started
from tests.helpers.engine_memory import problem
from tests.helpers.ranks_on_threads import together

AGENTS, PARAMETERS = 100_000, 20
SIZES = np.array([2, 3, 2])
ROWS = np.random.default_rng(0).standard_normal((7, 4))


def on_threads(function):
    """``function(gather, block)`` on three ranks, with their blocks of ``ROWS``."""
    ends = np.cumsum(SIZES)
    return together(3, lambda ranks: function(AllRanks(ranks, SIZES), ROWS[ends[ranks.me] - SIZES[ranks.me] : ends[ranks.me]]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mpi", "torch"])
def test_the_memory_of_a_rank_is_proportional_to_its_agents(kind):
    said = {}
    for ranks in (1, 2, 4):
        done = started(kind, ranks, HERE / "engine_memory.py", AGENTS, PARAMETERS)
        assert done.returncode == 0, done.stderr
        said[ranks] = json.loads(done.stdout)
    alone = said[1]["taken"][0]
    assert alone > 4 * 8 * AGENTS * PARAMETERS  # state, gradients and what is mixed
    assert max(said[2]["taken"]) < 0.6 * alone
    assert max(said[4]["taken"]) < 0.35 * alone
    options = {"start": np.ones(PARAMETERS), "rounds": 4, "record_every": 2}
    solver = GradientTracking(0.1 / AGENTS)
    here = consensus.solve(problem(AGENTS, PARAMETERS), topologies.ring(AGENTS), solver, **options)
    assert [said[ranks]["objective"] for ranks in said] == [here.history["objective"].tolist()] * 3


def test_one_start_for_all_agents_is_in_memory_once():
    asked = problem(1000, 3)
    start = _arguments.start(asked, [1.0, 2.0, 3.0], 0)
    assert start.shape == (1000, 3)
    assert start.strides[0] == 0
    own = Begin.start(start).block(slice(7, 8)).numbers["w"]
    own += 1.0  # a solver may
    assert own.tolist() == [[2.0, 3.0, 4.0]]
    assert start[7].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_parts_are_the_rows_in_their_order(size, monkeypatch):
    monkeypatch.setattr(rank_engine, "_PART_BYTES", size)
    for parts in on_threads(lambda gather, block: list(gather.parts(block))):
        assert max(map(len, parts)) == max(1, min(7, size // 32))
        np.testing.assert_array_equal(np.concatenate(parts), ROWS)


def test_the_first_rank_may_ask_for_the_rows_while_it_decides():
    kept = []

    def asks(everyone):
        kept.append(everyone)
        return [everyone().tolist(), everyone().sum()]

    decided = on_threads(lambda gather, block: gather.decide(asks, block))
    assert decided == [[ROWS.tolist(), ROWS.sum()]] * 3
    assert len(kept) == 1
    with pytest.raises(RuntimeError, match=r"while a callback runs: keep a copy of info\.w then"):
        kept[0]()
    assert on_threads(lambda gather, block: gather.decide(lambda _: None, block)) == [None] * 3
