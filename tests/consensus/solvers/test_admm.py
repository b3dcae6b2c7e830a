"""ADMM and its kin: the papers' forms with variables of the edges, stable penalties, and where a gradient is saved."""

import dataclasses
import itertools

import numpy as np
import pytest

import consensus
import topologies
from consensus.solvers import ATG, DADMM, DLM, LTADMM
from tests.helpers.quadratics import NETWORKS, costs, dense, iteration_matrix, quadratic, rate
from tests.helpers.steps_by_hand import states
from tests.reference import multipliers


def lt_admm(G, W, x, solver):
    """With z_ij for every edge and direction, in an array (agents, agents, P)."""
    gamma, rho = solver.step_size, 1 / (solver.local_steps * solver.step_size)
    z = rho * W[:, :, None] * x[None]
    while True:
        v = x
        for _ in range(solver.local_steps):
            v = v - gamma * G(v) - gamma * (rho * W.sum(axis=1)[:, None] * x - z.sum(axis=1))
        x, z = v, (z - z.swapaxes(0, 1)) / 2 + rho * W[:, :, None] * v[None]
        yield x


def atg(G, W, x, solver):
    rho, alpha, z = solver.penalty, solver.relaxation, np.zeros((*W.shape, 2 * x.shape[1]))
    while True:
        q = (np.concatenate([x, G(x)], axis=1) + z.sum(axis=1)) / (1 + rho * W.sum(axis=1)[:, None])
        y, s = np.split(q, 2, axis=1)
        z = (1 - alpha) * z + alpha * (2 * rho * W[:, :, None] * q[None] - z.swapaxes(0, 1))
        x = x + solver.gamma * (y - solver.step_size * s - x)
        yield x


@pytest.mark.parametrize("network", ["ring of 8", "geometric of 8"])
@pytest.mark.parametrize(("solver", "plain"), [(LTADMM(), lt_admm), (ATG(), atg)])
def test_sums_over_the_edges_are_all_that_matters_of_the_edges_variables(solver, plain, network):
    p, schedule = quadratic(8), NETWORKS[network]
    solver = solver.prepared(p, schedule)
    first, *found = (state.w for state in states(solver, p, schedule, 12))
    for w, expected in zip(found, plain(costs(p).gradient, dense(schedule), first, solver), strict=False):
        np.testing.assert_allclose(w, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("penalty", [1e-3, 0.1, 10.0, 1e3])
def test_admm_is_stable_with_any_penalty(penalty):
    assert rate(iteration_matrix(DADMM(penalty), quadratic(4, parameters=2), topologies.Static(topologies.ring(4)))) < 1


@pytest.mark.parametrize("penalty", [1e-3, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("graph", [topologies.star(6), topologies.erdos_renyi(6, 0.5, seed=2)], ids=["star", "random"])
def test_dlm_is_stable_below_two_over_the_lipschitz_constant_with_any_penalty(graph, penalty):
    p, network = quadratic(6, parameters=2), topologies.Static(graph)
    L = p.lipschitz().max()
    assert DLM().stable_step(p, network) == pytest.approx(1.8 / L, rel=1e-12)
    for factor in (1.999, 2.02):
        solver = DLM(factor / L, penalty * L).prepared(p, network)
        moduli = np.abs(np.linalg.eigvals(iteration_matrix(solver, p, network)))
        if factor < 2 or penalty == 1e-3:  # agents that are hardly joined have the edge of gradient descent
            assert (moduli.max() < 1 + 1e-7) == (factor < 2)


def single(problem):
    """The same in single precision."""
    arrays = {name: np.float32(getattr(problem.shards, name)) for name in ("features", "targets", "weights")}
    return consensus.Problem(problem.model, problem.loss, dataclasses.replace(problem.shards, **arrays), problem.regularizer)


@pytest.mark.parametrize(("p", "error"), [(quadratic(8), 1e-13), (single(quadratic(8)), 6e-6)], ids=["double", "single"])
def test_where_costs_are_quadratic_dadmm_takes_a_gradient_in_every_fiftieth_round(p, error, tmp_path):
    """From there on it has the minimisers by linear algebra alone; in single precision they are as near as with all gradients,
    where rounding of the sum of the duals leaves 4.3e-6. A run that is resumed goes on from the same gradient."""
    solver, network = DADMM(1.5), NETWORKS["ring of 8"]
    result = consensus.solve(p, network, solver, rounds=120, record_every=10)
    assert result.history["gradients"].tolist() == [0, *[1] * 5, *[2] * 5, *[3] * 2]
    assert result.history["solves"][-1] == 120
    path = tmp_path / "run.ckpt"
    consensus.solve(p, network, solver, rounds=73, checkpoint=path)
    again = consensus.solve(p, network, solver, rounds=120, resume=path)
    np.testing.assert_array_equal(again.w, result.w)
    plain = multipliers.dadmm(dense(network), costs(quadratic(8)), np.zeros((8, 3)), solver)
    np.testing.assert_allclose(result.w, next(itertools.islice(plain, 119, None)), rtol=0, atol=error)
