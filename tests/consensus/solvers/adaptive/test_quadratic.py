"""What an agent knows of the network's costs."""

import numpy as np

from consensus.solvers.adaptive.quadratic import LowRank, Quadratic


def drawn(agents=4, size=5, columns=3):
    rng = np.random.default_rng(0)
    model = Quadratic(
        rng.standard_normal(agents), rng.standard_normal((agents, size)), LowRank(rng.standard_normal((agents, size, columns)))
    )
    return model, rng.standard_normal((agents, size))


def test_the_change_is_that_of_the_quadratic():
    model, d = drawn()
    for agent in range(4):
        H = model.H.V[agent] @ model.H.V[agent].T + 0.7 * np.eye(5)
        expected = model.slope[agent] @ d[agent] + d[agent] @ H @ d[agent] / 2
        np.testing.assert_allclose(model.change(d, 0.7)[agent], expected, rtol=1e-12)


def test_of_some_agents():
    model, d = drawn()
    some = np.array([2, 0])
    np.testing.assert_array_equal(model.of(some).change(d[some], 0.1), model.change(d, 0.1)[some])
    assert model.of(some).total.tolist() == model.total[some].tolist()


def test_the_rank_is_how_many_columns_are_not_zero():
    V = np.ones((2, 4, 3))
    V[1, :, 0] = 0
    assert LowRank(V).rank().tolist() == [3, 2]
