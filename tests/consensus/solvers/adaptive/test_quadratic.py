"""What an agent knows of the network's costs."""

import numpy as np

from consensus.solvers.adaptive.quadratic import LowRank, Quadratic


def drawn(agents=4, size=5, columns=3):
    rng = np.random.default_rng(0)
    slope, V = rng.standard_normal((agents, size)), rng.standard_normal((agents, size, columns))
    model = Quadratic(rng.standard_normal(agents), slope, LowRank.of(V))
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
    assert LowRank.of(V).rank().tolist() == [3, 2]


def test_one_v_for_all_is_as_easy_to_solve_with_as_it_is_to_multiply_by():
    rng, tau = np.random.default_rng(1), np.array([0.1, 1e-6])
    V, d, slope = rng.standard_normal((6, 3)), rng.standard_normal((2, 6)), rng.standard_normal((2, 6))
    common, plain = LowRank.common(V, 2), LowRank.of(np.tile(V, (2, 1, 1)))
    np.testing.assert_allclose(common.square(d), plain.square(d), rtol=1e-13)
    expected = [-np.linalg.solve(V @ V.T + t * np.eye(6), g) for t, g in zip(tau, slope, strict=True)]
    np.testing.assert_allclose(common.minimiser(tau, d, slope, None), expected, rtol=1e-8)
    assert LowRank.common(V.astype(np.float32), 2).squares.size == 0
