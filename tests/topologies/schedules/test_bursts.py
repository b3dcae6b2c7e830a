"""Losses in bursts and agents that are active at random: their laws."""

import numpy as np
import pytest

import topologies
from consensus.testing import check_schedule
from topologies.schedules.bursts import _Chains


def lengths(down):
    """Return the lengths of the runs of True in each column that begin and end inside."""
    found = []
    for column in down.T:
        edges = np.flatnonzero(np.diff(column.astype(int)))
        spans = np.diff(edges)
        found += spans[0 if column[edges[0] + 1] else 1 :: 2].tolist() if len(edges) > 1 else []
    return np.array(found)


@pytest.mark.parametrize(("loss", "burst"), [(0.2, 4.0), (0.5, 2.0), (0.05, 10.0)])
def test_the_loss_rate_and_the_mean_burst_are_those_that_are_asked_for(loss, burst):
    chains = _Chains(b"test", 3, loss, burst)
    down = np.array([chains.at(round, 500) for round in range(150)])
    assert abs(down.mean() - loss) < 0.1 * loss + 0.003
    assert abs(down[0].mean() - loss) < 0.06  # from the first round on
    assert abs(lengths(down[:, :]).mean() - burst) < 0.12 * burst
    follows = down[1:][down[:-1]].mean()
    assert abs(follows - (1 - 1 / burst)) < 0.02  # the chance to stay: the chain is Markov's
    twice = down[2:][down[1:-1] & ~down[:-2]].mean()
    assert abs(twice - follows) < 0.06  # whatever was before


def test_rounds_do_not_depend_on_their_order():
    network = topologies.GilbertElliott(topologies.Static(topologies.ring(8)), 0.3, 6.0, seed=1)
    rounds = [17, 3, 40, 0, 17]
    first = [network.weights(network.key(n)).toarray() for n in rounds]
    again = topologies.GilbertElliott(topologies.Static(topologies.ring(8)), 0.3, 6.0, seed=1)
    assert all((again.weights(n).toarray() == W).all() for n, W in reversed(list(zip(rounds, first))))
    assert network == again
    assert network != topologies.GilbertElliott(topologies.Static(topologies.ring(8)), 0.3, 7.0, seed=1)


def test_every_matrix_is_doubly_stochastic_and_inactive_agents_are_alone():
    static = topologies.Static(topologies.complete(6))
    for network in (
        topologies.GilbertElliott(static, 0.4, 3.0),
        topologies.RandomActivation(static, 0.5),
        topologies.RandomActivation(static, 0.5, idle=5.0),
    ):
        check_schedule(network, mixing="symmetric")
    network = topologies.RandomActivation(static, 0.5, idle=5.0, seed=2)
    for n in range(30):
        W, active = network.weights(n).toarray(), network.active(n)
        away = sorted(set(range(6)) - set(active))
        assert (W[away] == np.eye(6)[away]).all()
        assert all(W[i, j] > 0 for i in active for j in active)
        assert set(network.graph(n).edges) == {(i, j) for i in active for j in active if i < j}


def test_what_cannot_be_is_refused():
    static = topologies.Static(topologies.ring(5))
    with pytest.raises(ValueError, match=r"burst must be a number >= 1 / \(1 - loss\) = 2"):
        topologies.GilbertElliott(static, 0.5, 1.5)
    with pytest.raises(ValueError, match=r"loss must be a number in \[0, 1\)"):
        topologies.GilbertElliott(static, 1.0, 3.0)
    with pytest.raises(ValueError, match=r"probability must be a number in \(0, 1\]"):
        topologies.RandomActivation(static, 0.0)
    with pytest.raises(ValueError, match=r"idle must be a number >= 1 / probability = 2"):
        topologies.RandomActivation(static, 0.5, idle=1.0)
    assert topologies.RandomActivation(static, 1.0).static
    assert topologies.GilbertElliott(static, 0.0, 1.0).static
