"""Shards: blocks of them, and parts that do not belong together."""

import numpy as np
import pytest

import consensus

SIZES = [20, 1, 13, 7, 20]
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((61, 3)), RNG.standard_normal((61, 2))


@pytest.fixture
def shards():
    return consensus.partition(X, Y, len(SIZES), "sizes", sizes=SIZES)


@pytest.mark.parametrize("rows", [slice(1, 4), slice(None), slice(2, 3), slice(0, 5, 2)])
def test_restrict_to_a_slice_gives_views(shards, rows):
    block = shards.restrict(rows)
    for name in ("features", "targets", "weights", "indices"):
        np.testing.assert_array_equal(getattr(block, name), getattr(shards, name)[rows])
        assert getattr(block, name).base is not None
        assert np.shares_memory(getattr(block, name), getattr(shards, name))
    assert block.sizes.tolist() == SIZES[rows]
    assert (block.agents, block.samples) == (len(SIZES[rows]), len(X))


def test_restrict_takes_a_list_of_agents(shards):
    block = shards.restrict([3, 0])
    assert block.sizes.tolist() == [7, 20]
    np.testing.assert_array_equal(block.features[0, :7], shards.features[3, :7])


def test_shards_of_parts_that_do_not_belong_together_are_refused(shards):
    parts = {name: getattr(shards, name) for name in ("features", "targets", "weights", "indices", "samples")}
    for name in ("features", "targets", "weights", "indices"):
        for odd in (None, [1.0], np.array(["x"])):
            with pytest.raises(TypeError, match=rf"^{name} of Shards must be an array of numbers"):
                consensus.Shards(**parts | {name: odd})
        with pytest.raises(ValueError, match=rf"^{'targets' if name == 'features' else name} of Shards must have shape"):
            consensus.Shards(**parts | {name: parts[name][:2]})
