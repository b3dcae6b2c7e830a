"""Shards: blocks of them, and arrays that do not belong together."""

import os

import numpy as np
import pytest

import consensus

SIZES = [20, 1, 13, 7, 20]
ARRAYS = ("features", "targets", "weights", "indices")
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((61, 3)), RNG.standard_normal((61, 2))


@pytest.fixture
def shards():
    return consensus.partition(X, Y, len(SIZES), "sizes", sizes=SIZES)


@pytest.mark.parametrize("rows", [slice(1, 4), slice(None), slice(2, 3), slice(0, 5, 2), [3, 0]], ids=str)
def test_restrict_keeps_the_rows_and_gives_views_of_a_slice(shards, rows):
    block = shards.restrict(rows)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(block, name), getattr(shards, name)[rows])
        assert np.shares_memory(getattr(block, name), getattr(shards, name)) == isinstance(rows, slice)
    assert block.sizes.tolist() == np.array(SIZES)[rows].tolist()
    assert (block.agents, block.samples, block.network_size) == (len(block.sizes), len(X), len(SIZES))


def test_a_block_of_a_block_keeps_its_agents_numbers(shards):
    block = shards.restrict([4, 1, 2]).restrict([2, 0])
    assert block.rows.tolist() == [2, 4]
    assert block.sizes.tolist() == [13, 20]
    assert shards.restrict(slice(1, 4)).restrict(slice(1, 3)).rows.tolist() == [2, 3]


def test_arrays_that_do_not_belong_together_are_rejected(shards):
    parts = {name: getattr(shards, name) for name in (*ARRAYS, "samples")}
    for name in ARRAYS:
        for odd in (None, [1.0], np.array(["x"])):
            with pytest.raises(TypeError, match=rf"^{name} of Shards must be an array of numbers"):
                consensus.Shards(**parts | {name: odd})
        with pytest.raises(ValueError, match=rf"^{'targets' if name == 'features' else name} of Shards must have shape"):
            consensus.Shards(**parts | {name: parts[name][:2]})


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no memory without a name")
@pytest.mark.parametrize("listed", [False, True])
def test_the_padding_of_large_shards_is_never_allocated(listed):
    """Neither by costs and gradients on all samples nor by those on batches."""
    sizes, X = [2000, 150, 50], np.ones((2200, 1000))
    pairs = ((X[: sizes[agent]], np.ones(sizes[agent])) for agent in range(3))
    given = consensus.Shards.from_list(pairs) if listed else consensus.partition(X, X[:, 0], 3, "sizes", sizes=sizes)
    assert given.features.shape == (3, 2000, 1000)
    p = consensus.Problem(consensus.Linear(1000), consensus.SquaredLoss(), given)
    w = np.zeros((3, 1001))
    p.value(w), p.gradient(w), p.gradient(w, consensus.Minibatches(8).at(p, 0))
    room = 512 * os.fstat(given.memory[0].buffer.descriptor).st_blocks
    assert X.nbytes <= room <= 1.01 * X.nbytes
    assert [np.count_nonzero(own.sum(axis=1)) for own in given.features] == sizes
