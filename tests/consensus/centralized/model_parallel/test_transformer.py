"""One transformer block on lines, squares and cubes of ranks: PyTorch's numbers, shares of memory, and what is sent."""

import copy
import os
import signal

import numpy as np
import pytest

import consensus
from consensus.centralized import Grid, ShardedTransformer, SplitTransformer
from consensus.model_parallel.costs import NormMap, Sent, maps_of_transformer
from consensus.model_parallel.maps import attention
from consensus.model_parallel.transformer import TransformerSizes
from tests.helpers.ranks_on_threads import together
from tests.helpers.transformers import by_hand, by_torch, drawn, sizes_for
from tests.helpers.turns import in_turn

GRIDS = [("1d", 1, 1), ("1d", 3, 3), ("2d", 4, 2), ("2d", 9, 3), ("3d", 8, 2), ("3d", 27, 3)]


class Found:
    """Outputs, gradients by parameters and features, and what ranks hold and send: (held, forward, backward) of each."""

    def __init__(self, sizes, split, size, w, x, u):
        self.outputs, self.below, self.gradient = np.full_like(x, np.nan), np.full_like(x, np.nan), np.full_like(w, np.nan)

        def run(ranks):
            block = ShardedTransformer(*sizes[:4], Grid(ranks, split), sizes.activation)
            block.take(w)
            block.put(block.forward(block.block(x)), self.outputs)
            forward = block.grid.numbers
            block.write(block.backward(block.block(u, outputs=True)), self.gradient)
            block.put(block.below, self.below)
            return block.held, forward, block.grid.numbers - forward

        self.ranks = together(size, run)


@pytest.mark.parametrize(("split", "size", "side"), GRIDS)
def test_outputs_are_those_of_a_block_by_hand(split, size, side):
    sizes = sizes_for(side, "tanh")
    w, x, u = drawn(sizes, 3)  # filled up to a multiple of the side
    found = Found(sizes, split, size, w, x, u)
    np.testing.assert_allclose(found.outputs, by_hand(sizes, w, x, np.tanh), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("grid", "activation"), in_turn(GRIDS, ["relu", "sigmoid"]))
def test_gradients_are_those_of_pytorch(grid, activation):
    split, size, side = grid
    torch = pytest.importorskip("torch")
    sizes = sizes_for(side, activation)
    w, x, u = drawn(sizes, 7)
    found = Found(sizes, split, size, w, x, u)
    outputs, gradient, below = by_torch(torch, sizes, w, x, u)
    np.testing.assert_allclose(found.outputs, outputs, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.gradient, gradient, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.below, below, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("split", "size", "side"), [("2d", 4, 2), ("2d", 9, 3), ("3d", 8, 2), ("3d", 27, 3)])
def test_each_rank_has_its_share(split, size, side):
    sizes, samples = TransformerSizes.checked(18 * side**2, side, 36 * side**2, 5, "tanh"), side**2
    tokens = 5 * samples
    # Of a token: itself normalised twice, queries, keys and values, the weights and results of the heads, hidden units.
    numbers = tokens * (2 * sizes.width + 3 * sizes.width + 5 * sizes.heads + sizes.width + sizes.hidden)
    for (parameters, activations), _, _ in Found(sizes, split, size, *drawn(sizes, samples)).ranks:
        assert 0 <= parameters / 8 - sizes.parameters / size < 6  # each flat array is a whole number
        scales = 2 * tokens / (side if split == "2d" else side**2)  # of each row, on all ranks that share it
        assert activations == 8 * (numbers / size + scales)


@pytest.mark.parametrize(("split", "size", "side"), [("1d", 2, 2), ("2d", 4, 2), ("2d", 9, 3), ("3d", 8, 2), ("3d", 27, 3)])
def test_ranks_send_what_the_formulas_say(split, size, side):
    sizes, samples = TransformerSizes.checked(18 * side**2, side, 36 * side**2, 6, "tanh"), side**3
    maps = maps_of_transformer(sizes, split, size, samples)
    forward, backward = (sum(way, Sent()).numbers for way in zip(*((m.forward(), m.backward()) for m in maps), strict=True))
    for _, up, down in Found(sizes, split, size, *drawn(sizes, samples)).ranks:
        assert (up, down) == (forward, backward)


def test_what_is_no_grid_is_refused_by_name():
    for arguments, said in (
        ((8, 3, 16, 5, 4, "2d"), "width must be a multiple of 3, the number of heads; got 8"),
        ((9, 3, 16, 5, 4, "2d"), "heads must be a multiple of 2, the side of 2 x 2 workers for split='2d'; got 3"),
        ((8, 2, 15, 5, 8, "3d"), "hidden must be a multiple of 2, the side of 2 x 2 x 2 workers for split='3d'; got 15"),
        ((8, 2, 16, 5, 6, "3d"), "workers must be a cube number for split='3d', such as 8, 27 or 64; got 6"),
        ((8, 2, 16, 0, 8, "3d"), "sequence must be a whole number >= 1; got 0"),
        ((8, 2, 16, 5, 8, "units"), "split must be one of '1d', '2d', '3d'; got 'units'"),
        ((8, 2, 16, 5, 8, "3d", "gelu"), "activation must be one of"),
    ):
        with pytest.raises(ValueError, match=said):
            SplitTransformer(*arguments)
    block = SplitTransformer(8, 2, 16, 5, 8)
    with pytest.raises(ValueError, match=r"x must have shape \(1, samples, 40\) for "):
        block.predict(np.zeros(600), np.zeros((3, 39)))
    with pytest.raises(TypeError, match="a SplitTransformer has worker processes of its own"):
        copy.deepcopy(block)


@pytest.mark.slow
@pytest.mark.usefixtures("forked", "pids")
@pytest.mark.parametrize(("split", "workers"), [("1d", 2), ("2d", 4), ("3d", 8)])
def test_worker_processes_find_the_same(split, workers):
    sizes = sizes_for(2)
    w, x, u = drawn(sizes, 8)
    alone = Found(sizes, "1d", 1, w, x, u)
    with SplitTransformer(*sizes[:4], workers=workers, split=split) as block:
        np.testing.assert_allclose(block.predict(w, x), alone.outputs, rtol=0, atol=1e-12)
        np.testing.assert_allclose(block.vjp(w[None], x[None], u[None])[0], alone.gradient, rtol=0, atol=1e-12)
        maps = maps_of_transformer(sizes, split, workers, 8)
        assert block.crossed_bytes >= 8 * workers * sum((each.forward() for each in maps), Sent()).numbers


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
def test_a_dead_worker_is_an_error_and_the_next_call_starts_new_ones(pids):
    sizes = sizes_for(2)
    w, x, _ = drawn(sizes, 4)
    with SplitTransformer(*sizes[:4], workers=4, split="2d") as block:
        expected = block.predict(w, x)
        os.kill(pids[0][1], signal.SIGKILL)
        with pytest.raises(consensus.WorkerError, match=r"worker 1 .* died \(exit code -9\)"):
            block.predict(w, x)
        np.testing.assert_array_equal(block.predict(w, x), expected)


@pytest.mark.slow
@pytest.mark.usefixtures("forked", "pids")
def test_it_trains_in_a_problem():
    with SplitTransformer(4, 2, 8, 3, workers=4, split="2d", activation="tanh") as block:
        x = np.random.default_rng(0).standard_normal((20, 12))
        shards = consensus.partition(x, x[:, ::-1].copy(), agents=2, seed=0)
        problem = consensus.Problem(block, consensus.SquaredLoss(), shards)
        history = consensus.centralized.solve(problem, consensus.centralized.FedAvg(0.05, 2), rounds=6, seed=0).history
        with pytest.raises(TypeError, match="a SplitTransformer has gradients alone: take a first-order solver"):
            block.jvp(np.zeros((1, 192)), x[None], np.zeros((1, 192)))
    assert history["objective"][-1] < 0.7 * history["objective"][0]


def test_the_start_is_that_of_glorot():
    """Gains 1, shifts and biases 0, and weights of variance 2 / (inputs + outputs), also those of queries, keys and values."""
    sizes = TransformerSizes.checked(64, 4, 192, 5, "tanh")
    for name, (weights, shift) in sizes.arrays(sizes.init(np.random.default_rng(0)))._asdict().items():
        assert not shift.any()
        if name.startswith("before"):
            assert (weights == 1).all()
        else:
            spread = 4 * np.sqrt(1 / 2 / weights.size)  # of an estimated deviation, relatively
            assert weights.std() == pytest.approx(np.sqrt(2 / sum(weights.shape)), rel=spread)


def test_attention_bears_scores_of_any_size():
    rows = np.array([[1e3, 1e3, 1.0], [-1e3, 1e3, 3.0], [0.0, -1e3, 5.0]])
    with np.errstate(over="raise", invalid="raise"):
        found, weights = attention(rows, 3, 1)
    np.testing.assert_allclose(weights[0, 0], [[0.5, 0.5, 0], [0, 0, 1], [1 / 3] * 3], atol=1e-15)
    np.testing.assert_allclose(found.ravel(), [2, 5, 3], atol=1e-15)


@pytest.mark.parametrize(("split", "workers", "sides"), [("1d", 4, 0), ("2d", 9, 1), ("3d", 27, 2)])
def test_what_layer_normalisation_adds_up_is_by_hand(split, workers, sides):
    rows, width, q = 54, 27, round(workers ** (1 / (sides + 1)))
    forward, backward = NormMap(split, workers, rows, width).forward(), NormMap(split, workers, rows, width).backward()
    if split == "1d":
        assert forward == backward == Sent()
        return
    each = rows // q ** (sides + 1) if rows % q ** (sides + 1) == 0 else -(-rows // q ** (sides + 1))
    two = -(-2 * rows // q ** (sides + 1))
    vector = (q**sides - 1) * -(-2 * width // workers)
    assert forward == Sent(2 * 2 * (q - 1) * each + vector, 2 * 2 + sides, 2 * (q - 1) * each)
    # Gain and shift are gathered, their gradients added up as they are scattered; two means together.
    assert backward == Sent(2 * vector + 2 * (q - 1) * two, 2 * sides + 2, vector + (q - 1) * two)


def test_large_scores_do_not_overflow():
    a = np.random.default_rng(0).normal(size=(4, 2 * 3 * 3))
    a[:, :6] *= 1e3
    with np.errstate(all="raise", under="ignore"):
        found, weights = attention(a, 2, 2)
    np.testing.assert_allclose(weights.sum(axis=-1), 1)
    assert np.isfinite(found).all()
