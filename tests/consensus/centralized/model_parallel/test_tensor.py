"""Linear maps on lines, squares and cubes of ranks: the serial numbers, shares of memory, and what the formulas say is sent."""

import numpy as np
import pytest

from consensus.centralized import Grid, ShardedMLP, SplitMLP
from consensus.model_parallel.costs import Sent, load_of, maps_of
from consensus.models import MLP
from tests.helpers.ranks_on_threads import together

GRIDS = [("1d", 1), ("1d", 3), ("2d", 1), ("2d", 4), ("2d", 9), ("3d", 1), ("3d", 8), ("3d", 27)]


class Whole:
    """A perceptron with parameters, samples and cotangents, and what ranks find of it."""

    def __init__(self, widths, samples, activation="tanh"):
        rng = np.random.default_rng(0)
        self.model = MLP(widths, activation)
        self.w = self.model.init(rng) + 0.1 * rng.standard_normal(self.model.parameters)
        self.x, self.u = (rng.standard_normal((samples, width)) for width in (widths[0], widths[-1]))
        self.outputs, self.gradient = np.full_like(self.u, np.nan), np.full_like(self.w, np.nan)

    def on(self, split, size):
        """The networks of all ranks, and what each sent forward and backward."""

        def run(ranks):
            network = ShardedMLP(self.model.widths, Grid(ranks, split), self.model.activation)
            network.take(self.w)
            network.put(network.forward(network.block(self.x)), self.outputs)
            forward = network.grid.numbers
            network.write(network.backward(network.block(self.u, outputs=True)), self.gradient)
            return network, forward, network.grid.numbers - forward

        return together(size, run)

    def assert_serial(self):
        wanted = self.model.vjp(self.w[None], self.x[None], self.u[None])[0]
        np.testing.assert_allclose(self.outputs, self.model.predict(self.w, self.x), rtol=0, atol=1e-12)
        np.testing.assert_allclose(self.gradient, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("split", "size"), GRIDS)
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_ranks_find_the_serial_outputs_and_gradient(split, size, layers):
    whole = Whole([6, 12, 18, 6][: layers + 1], 11)  # 6: biases are cut unevenly; 11: filled up
    whole.on(split, size)
    whole.assert_serial()


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "softplus", "quadratic"])
def test_every_activation(activation):
    whole = Whole([4, 8, 12, 4], 8, activation)
    whole.on("3d", 8)
    whole.assert_serial()


@pytest.mark.parametrize(("split", "size", "side"), [("2d", 4, 2), ("2d", 9, 3), ("3d", 8, 2), ("3d", 27, 3)])
def test_each_rank_has_its_share_of_parameters_and_activations(split, size, side):
    widths, samples = [9 * 4, 18 * 4, 27 * 4, 9 * 4], 36
    whole = Whole(widths, samples)
    for network, _, _ in whole.on(split, size):
        parameters, activations = network.held
        # A part of a block in a cube is a whole number, whence up to one number a layer more.
        assert 0 <= parameters / 8 - whole.model.parameters / size <= 3 * (side - 1) / side
        assert activations == 8 * samples * sum(widths[:3]) / size


def test_on_a_line_activations_are_shared_inside_pairs_alone():
    whole = Whole([8, 16, 24, 8], 10)
    for network, _, _ in whole.on("1d", 4):
        parameters, activations = network.held
        assert parameters == 8 * whole.model.parameters / 4
        # Whole features, a share of the first hidden layer; the second one is whole after the sum over ranks.
        assert activations == 8 * 10 * (8 + 16 / 4 + 24)


@pytest.mark.parametrize(("split", "size"), [("1d", 2), ("1d", 4), ("2d", 4), ("2d", 16), ("3d", 8), ("3d", 27)])
def test_ranks_send_what_the_formulas_say(split, size):
    widths, samples = (144, 288, 144, 432), 36
    maps = maps_of(widths, split, size, samples)
    forward, backward = sum((each.forward() for each in maps), Sent()), sum((each.backward() for each in maps), Sent())
    for _, up, down in Whole(list(widths), samples).on(split, size):
        assert (up, down) == (forward.numbers, backward.numbers)


def test_formulas_by_hand():
    # One map of 36 rows, 144 inputs and 288 outputs in a cube of 8: blocks of 648 and 1,296, and 145 * 36 of the map.
    (first, second) = maps_of((144, 288, 144), "3d", 8, 36)
    assert first.forward().numbers == 648 + 1296 + 145 * 36
    assert first.backward().numbers == 648 + 1296 + 145 * 36
    assert second.backward().numbers == 1296 + 648 + 289 * 18 + 289 * 18 + 1296
    load = load_of([second], itemsize=4)
    assert load.bytes == 2 * 4 * (second.forward().numbers + second.backward().numbers)
    assert load.flops == 6 * 36 * 288 * 144 / 8
    line = maps_of((144, 288, 144), "1d", 4, 36)
    assert [each.forward().numbers for each in line] == [0, 2 * 3 * 36 * 144 / 4]


class Alone:
    me, size = 0, 6

    def exchange(self, receives, sends):
        raise AssertionError


def test_what_is_no_grid_is_refused_by_name():
    with pytest.raises(ValueError, match=r"ranks must be a cube number for split='3d', such as 8, 27 or 64; got 6"):
        Grid(Alone(), "3d")
    with pytest.raises(TypeError, match="ranks, such as"):
        Grid(6)
    for arguments, said in (
        ((6, "2d"), r"workers must be a square number for split='2d', such as 4, 9 or 16; got 6"),
        ((4, "3d"), r"workers must be a cube number for split='3d', such as 8, 27 or 64; got 4"),
        ((4, "2d"), r"widths\[2\] must be a multiple of 2, the side of 2 x 2 workers for split='2d'; got 5"),
        ((8, "3d"), r"widths\[2\] must be a multiple of 2, the side of 2 x 2 x 2 workers for split='3d'; got 5"),
        ((3, "1d"), r"widths\[0\] must be a multiple of 3, the number of workers for split='1d'; got 4"),
        ((4, "4d"), r"split must be one of 'units', '1d', '2d', '3d'; got '4d'"),
    ):
        with pytest.raises(ValueError, match=said):
            SplitMLP([4, 8, 5], arguments[0], split=arguments[1])


def test_loads_are_those_of_one_worker():
    line, units = (SplitMLP([144, 288, 144], 4, split=split).load(36) for split in ("1d", "units"))
    assert (line.exchanges[0], line.bytes[0]) == (2, 2 * 8 * 2 * 3 * 36 * 144 / 4)  # the first map's inputs need no gradient
    assert (units.exchanges[0], units.bytes[0], units.adds[0]) == (2, 2 * 8 * 2 * 36 * 288 * 3 / 4, 36 * 288 * 3 / 4)
    assert line.flops == (6 + 4) * 36 * 144 * 288 / 4
    with pytest.raises(ValueError, match="samples must be a whole number >= 1 and <= 4096; got 5000"):
        SplitMLP([4, 4], 1).load(5000)
