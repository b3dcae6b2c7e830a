"""Multigrid reduction in time: its error propagation worked out by hand, and its steps and messages counted."""

import numpy as np
import pytest

import consensus
from consensus.centralized import LayerParallel
from consensus.model_parallel.slab import Line, Multigrid, SlabWork
from consensus.models import ResNet


def alone(counts, coarsening, advance, shape=(1,)):
    """A whole chain in one slab, in this process."""
    return Multigrid(advance, counts, coarsening, shape, np.dtype(float), Line(None, None, False))


@pytest.mark.parametrize("coarsening", [2, 4])
def test_errors_of_a_linear_chain_are_those_of_theory(coarsening):
    """With steps ``u <- a u`` and coarse ones b, an iteration takes errors e of corners to E e, worked out by hand.

    F- and C-relaxation take e_j to ``a^c e_{j-1}``. Then ``A e <- (A - S) e`` with A of the coarse steps and S of c fine ones:
    ``E_ij = (a^c - b) b^(i - 1 - j) a^c`` from corner j - 1.
    """
    steps, a, N = 32, 0.97, 32 // coarsening
    b = 1 - coarsening * 0.03
    grid = alone([steps, N], coarsening, lambda level, place, u: (a, b)[level] * u)
    grid.begin(np.ones(1), np.linspace(0, 3, N + 1)[:, None] ** 2)
    exact = a ** (coarsening * np.arange(N + 1.0))
    relax = np.diag(np.full(N, a**coarsening), -1)
    coarse, fine = (np.eye(N + 1) - np.diag(np.full(N, factor), -1) for factor in (b, a**coarsening))
    E = (np.eye(N + 1) - np.linalg.solve(coarse, fine)) @ relax
    error = grid.corners[:, 0] - exact
    for iteration in range(N // 2 + 1):
        residual = np.linalg.norm((fine @ error)[1:])
        assert np.sqrt(grid.iterate()) == pytest.approx(residual, rel=1e-9, abs=1e-13)
        error = E @ error
        np.testing.assert_allclose(grid.corners[:, 0] - exact, error, rtol=0, atol=1e-13)
        assert (error[: 2 * iteration + 3] == 0).all()  # two more corners are exact
    assert not error.any()


@pytest.mark.parametrize("levels", [2, 3, 4])
def test_steps_are_those_of_the_formula(levels):
    """Counted in one slab. Several take their part of them, but for the march, which waits for all."""
    counts, taken = [64 // 2**level for level in range(levels)], []
    grid = alone(counts, 2, lambda level, place, u: taken.append(level) or u)
    one, four = (SlabWork(64, 6, workers, 2, levels, 3, 20) for workers in (1, 4))
    for cold in (True, False):
        taken.clear()
        grid.begin(np.ones(1), None if cold else np.ones((33, 1)))
        for _ in range(3):
            grid.iterate()
        grid.finish(grid._advance)
        assert len(taken) == one.steps(3, cold)
        marched = counts[-1] * (3 + cold)
        assert four.steps(3, cold) == (len(taken) - marched) / 4 + marched


def test_the_load_prices_messages_in_a_row_and_operations():
    """Two levels of 8 and 2 steps a slab, three slabs, one iteration, warm: counted on paper, there and back."""
    load = LayerParallel(ResNet(2, 5, 24, 1), 3, 4, levels=2, iterations=1).load(samples=10)
    assert load.exchanges.tolist() == [2 * (1 + 2)]  # a swap, and a march past two pipes
    assert load.bytes.tolist() == [2 * (2 + 2) * 10 * 5 * 8]
    steps = 2 * (2 * 8 + 2 + 3 * 2 + 8) + 2 + 8  # twice, sources, march, finish; slopes of the coarse level; gradients
    assert load.flops.tolist() == [2 * 10 * 5 * 5 * steps]
    assert (load.waits, load.adds.tolist()) == (3.0, [8 * 30])
    cluster = consensus.costs.Cluster(latency=1e-3, bandwidth=1e6, flops=1e6, adds=1e6)
    assert cluster.seconds(load)[0] == pytest.approx(6e-3 + 3200e-6 + 5 * steps * 1e-4 + 240e-6)
