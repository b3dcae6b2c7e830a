"""The step that nobody gave: what it is, that it is stable, and that all who know the run know it."""

import dataclasses
import inspect
import re

import networkx as nx
import numpy as np
import pytest
import scipy.linalg
from problems import AGENTS, SCHEDULES, problem, smooth_optimum
from quadratics import hessians, iteration_matrix, quadratic

import consensus
import topologies
from consensus import solvers
from consensus.solvers import ATG, DADMM, DATOS, DGD, EXTRA, LTADMM, PGEXTRA, Gossip, GradientTracking, PushDIGing, Solver
from consensus.solvers.bounds import gap, lowest_eigenvalue

STATIC = SCHEDULES["static"]
P = problem("squared", consensus.L2(0.1))


def spectrum(matrix):
    return np.linalg.eigvalsh(matrix)


def test_the_bounds_are_those_of_the_docstrings():
    W, L = STATIC.weights(0).toarray(), P.lipschitz().max()
    lowest = spectrum(W)[0]
    assert lowest < 0
    assert DGD().stable_step(P, STATIC) == pytest.approx((1 + lowest) / L / 2, rel=1e-12)
    twice = Gossip(DGD(), 2).stable_step(P, STATIC)
    assert twice == pytest.approx((1 + spectrum(W @ W)[0]) / L / 2, rel=1e-12)
    gap = topologies.spectral_gap(W)
    chebyshev = (2 * W @ W - (1 - gap) ** 2 * np.eye(AGENTS)) / (2 - (1 - gap) ** 2)
    assert Gossip(DGD(), 2, gap).stable_step(P, STATIC) == pytest.approx((1 + spectrum(chebyshev)[0]) / L / 2, rel=1e-12)


def half_of(factor):
    """2 V V' for a matrix V: its pseudo-inverse is the bound."""
    return 2 * factor @ factor.T


BOUNDS = {  # inverses of the bounds on alpha times the Hessians, as matrices
    "cta": (GradientTracking(order="cta"), lambda one, W: half_of(np.linalg.inv(one + W))),
    "atc": (GradientTracking(), lambda one, W: half_of(np.linalg.inv(one + W) @ W)),
    "EXTRA": (EXTRA(), lambda one, W: np.linalg.inv(5 * one + 3 * W) * 4),
    "PGEXTRA": (PGEXTRA(), lambda one, W: np.linalg.inv(5 * one + 3 * W) * 4),
}


def edge_of(inverse, network, limits):
    """The largest alpha with ``alpha diag(limits)`` below the bound."""
    return (
        1 / scipy.linalg.eigh(inverse(np.eye(AGENTS), network.weights(0).toarray()), np.diag(1 / limits), eigvals_only=True)[-1]
    )


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("network", [STATIC, topologies.Static(topologies.star(AGENTS))], ids=["random", "star"])
def test_the_default_is_a_share_of_the_edge_of_quadratics_that_differ(name, network):
    """An agent with ten times the curvature of the others: alpha diag(L_i) up to the matrix, by a generalised eigenvalue."""
    solver, inverse = BOUNDS[name]
    rng, limits = np.random.default_rng(0), np.array([3.0, 30.0, 1.0, 2.0, 0.5, 3.0])
    edge = edge_of(inverse, network, limits)
    turns = np.linalg.qr(rng.standard_normal((AGENTS, 2, 2))).Q
    below, full = rng.uniform(0, 1, (AGENTS, 2)) * limits[:, None], np.tile(limits[:, None], 2)
    assert solver.stable_step(of_hessians(turns, full, limits), network) == pytest.approx(0.9 * edge, rel=1e-9)
    for factor, curvatures, stable in ((0.999, below, True), (0.999, full, True), (1.001, full, False)):
        ready = with_step(solver, factor * edge)
        moduli = abs(np.linalg.eigvals(iteration_matrix(ready, of_hessians(turns, curvatures, limits), network)))
        assert (moduli.max() < 1 + 1e-7) == stable


def of_hessians(turns, curvatures, limits):
    """Quadratics f_i = A g_i about zero, in two parameters."""
    H = (turns * curvatures[:, None, :]) @ turns.swapaxes(1, 2) / AGENTS
    return consensus.Problem.from_functions(
        lambda w: np.einsum("ip,ipq,iq->i", w, H, w) / 2,
        lambda w: np.einsum("ipq,iq->ip", H, w),
        agents=AGENTS,
        parameters=2,
        lipschitz=limits / AGENTS,
    )


def with_step(solver, step):
    ready = dataclasses.replace(solver, step_size=step)
    return ready


@pytest.mark.parametrize("kind", [LTADMM, ATG])
@pytest.mark.parametrize("seed", range(3))
def test_quadratics_that_differ_are_stable_up_to_the_edge(kind, seed):
    rng, network = np.random.default_rng(seed), STATIC
    limits = 10 ** rng.uniform(-1, 1, AGENTS)
    turns, curvatures = np.linalg.qr(rng.standard_normal((AGENTS, 2, 2))).Q, rng.uniform(0, 1, (AGENTS, 2)) * limits[:, None]
    curvatures[limits.argmax()] = limits.max()
    p = of_hessians(turns, curvatures, limits)
    ready = kind().prepared(p, network)
    step = kind().stable_step(p, network) / 0.9
    assert step * limits.max() == pytest.approx(1.0 if kind is LTADMM else 6.6, rel=0.05)
    moduli = abs(np.linalg.eigvals(iteration_matrix(with_step(ready, 0.999 * step), p, network)))
    assert moduli.max() < 1 + 1e-7


def test_the_edge_of_atg_is_one_for_equal_quadratics():
    turns, full = np.tile(np.eye(2), (AGENTS, 1, 1)), np.full((AGENTS, 2), 2.0)
    p = of_hessians(turns, full, np.full(AGENTS, 2.0))
    for options in ({}, {"gamma": 0.9, "penalty": 0.5, "relaxation": 0.4}):
        edge = ATG(**options).stable_step(p, STATIC) / 0.9
        for factor in (0.999, 1.001):
            solver = ATG(factor * edge, **options)
            moduli = abs(np.linalg.eigvals(iteration_matrix(solver, p, STATIC)))
            assert (moduli.max() < 1 + 1e-7) == (factor < 1)


def test_models_that_are_not_linear_get_half_and_slow_networks_what_balances():
    network = problem("squared", consensus.L2(0.1), consensus.MLP([4, 3, 1]))
    for solver, inverse in BOUNDS.values():
        assert solver.stable_step(network, STATIC) == pytest.approx(edge_of(inverse, STATIC, network.lipschitz()) / 2, rel=1e-9)
    agents, p = 40, quadratic(40)
    slow = topologies.Static(topologies.ring(agents))
    H, values = hessians(p)[0], spectrum(slow.weights(0).toarray())
    curvatures = np.linalg.eigvalsh(H)
    middle, gap = np.sqrt(curvatures.max() * curvatures[:, 0].mean()), 1 - values[-2]
    balanced = {EXTRA(): np.sqrt(gap / 2), GradientTracking(): gap, GradientTracking(order="cta"): gap}
    balanced |= {DADMM(): np.sqrt(gap / 2), LTADMM(): np.sqrt(gap / 2) / 5, ATG(): np.sqrt(2 * 3 * 0.9 / 0.5 * gap)}
    for solver, expected in balanced.items():
        assert solver.stable_step(p, slow) == pytest.approx(expected / middle, rel=1e-9)


def test_an_agent_alone_has_the_steps_of_gradient_descent():
    p = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=1, parameters=1, lipschitz=2.0)
    alone = topologies.Static(nx.empty_graph(1))
    for solver, share in ((EXTRA(), 1.8), (GradientTracking(), 1.8), (GradientTracking(order="cta"), 1.8), (LTADMM(), 0.9)):
        assert solver.stable_step(p, alone) == pytest.approx(share / 2, rel=1e-9)
    assert 2 < ATG().stable_step(p, alone) < 4


def test_large_networks_are_bounded_by_the_largest_constant():
    """As small ones are by theirs, where all are the same."""
    for agents in (20, 320):
        p = consensus.Problem.from_functions(
            lambda w: w[:, 0] ** 2 / 2, np.copy, agents=agents, parameters=1, lipschitz=1 / agents
        )
        network = topologies.Static(topologies.complete(agents))
        assert EXTRA().stable_step(p, network) == pytest.approx(0.9 * 5 / 4, rel=1e-6)
        assert GradientTracking(order="cta").stable_step(p, network) == pytest.approx(0.9 / 2, rel=1e-6)


@pytest.mark.parametrize("order", ["cta", "atc"])
@pytest.mark.parametrize("own", [0.1, 0.3, 0.5, 0.75])
def test_the_default_step_of_gradient_tracking_is_below_the_edge_and_not_far_below(own, order):
    """Two agents with equal quadratics: W has the eigenvalues 1 and ``2 own - 1``, negative, zero or positive."""
    W = topologies.schedule_from_matrix([[own, 1 - own], [1 - own, own]])
    p = consensus.Problem.from_functions(
        lambda w: 3 * (w**2).sum(axis=1) / 2, lambda w: 3 * w, agents=2, parameters=1, lipschitz=3.0
    )  # A g_i has twice the curvature of g_i
    edge = min((1 + mode) ** 2 / 2 / (1 if order == "cta" else max(mode**2, 1e-9)) for mode in (1.0, 2 * own - 1)) / 6
    assert edge / 3 < GradientTracking(order=order).stable_step(p, W) < edge
    result = consensus.solve(p, W, GradientTracking(order=order), rounds=4000, start=[[1.0], [-3.0]], record_every=4000)
    assert abs(result.w).max() < 1e-12


LAZY = topologies.Static(nx.path_graph(AGENTS), weights=topologies.lazy(topologies.metropolis))


@pytest.mark.parametrize(
    "kind", [solvers.NIDS, solvers.ExactDiffusion, solvers.D2, solvers.ProxSkip, solvers.LED], ids=lambda kind: kind.__name__
)
def test_steps_below_two_over_the_lipschitz_constant_are_stable_on_every_network(kind):
    """As their docstrings say, whose default is half of that, LED's 0.9 of the half."""
    curvature = np.linspace(1, 4, AGENTS)[:, None]  # of the g_i; L is that of A times the steepest
    p = consensus.Problem.from_functions(
        lambda w: (curvature * w**2).sum(axis=1) / 2,
        lambda w: curvature * w,
        agents=AGENTS,
        parameters=1,
        lipschitz=curvature[:, 0],
    )
    steps = getattr(kind(), "local_steps", 1)
    step = kind().stable_step(p, LAZY)
    share = 1.0 if steps == 1 else 0.9
    assert step == pytest.approx(share / (4 * AGENTS), rel=1e-12)
    equal = consensus.Problem.from_functions(
        lambda w: (w**2).sum(axis=1) / 2, lambda w: w, agents=AGENTS, parameters=1, lipschitz=np.ones(AGENTS)
    )
    start = np.random.default_rng(0).standard_normal((AGENTS, 1))
    below = 1.9 if steps == 1 else 1.0
    for q, factor, rounds in ((p, 1.0, 3000), (equal, below, 3000), (equal, 2.05 / share, 200)):
        solver = kind(factor * kind().stable_step(q, LAZY))
        end = abs(consensus.solve(q, LAZY, solver, rounds=rounds, start=start, record_every=rounds).w).max()
        assert end < 1e-6 if rounds == 3000 else end > 10


@pytest.mark.parametrize(("network", "order"), [("static", "cta"), ("static", "atc"), ("random", "atc")])
def test_gradient_tracking_with_its_own_step_finds_the_optimum(network, order):
    options = {"rounds": 20_000, "record_every": 100, "tolerance": 1e-11}
    result = consensus.solve(P, SCHEDULES[network], GradientTracking(order=order), **options)
    np.testing.assert_allclose(result.w, np.tile(smooth_optimum(P), (AGENTS, 1)), rtol=0, atol=1e-9)


def test_a_run_knows_its_step(tmp_path):
    path = tmp_path / "run.ckpt"
    result = consensus.solve(P, STATIC, DGD(), rounds=10, checkpoint=path)
    step = float(f"{DGD().stable_step(P, STATIC):.6g}")
    assert repr(result.solver) == f"DGD(step_size={step}, batch=None)"
    given = consensus.solve(P, STATIC, DGD(step), rounds=20, resume=path)
    np.testing.assert_array_equal(given.w, consensus.solve(P, STATIC, DGD(), rounds=20).w)
    value = re.escape(str(step))
    with pytest.raises(ValueError, match=rf"another run: solver: DGD\(step_size={value}, batch=None\) \[\w+\] there"):
        consensus.solve(P, STATIC, DGD(0.01), rounds=20, resume=path)
    wrapped = consensus.solve(P, STATIC, Gossip(GradientTracking(), 3), rounds=1).solver
    assert isinstance(wrapped.solver.step_size, float)


def test_a_solver_that_was_given_its_step_is_left_as_it_is():
    solver = GradientTracking(0.1)
    assert consensus.solve(P, STATIC, solver, rounds=1).solver is solver


class Own(Solver):
    step_size = None

    def init(self, problem, w):
        raise AssertionError("refused before any work")

    step = init


def test_where_there_is_no_bound_a_step_is_asked_for():
    with pytest.raises(TypeError, match=r"^Own has no bound on its step from theory: give step_size=$"):
        consensus.solve(P, STATIC, Own(), rounds=1)
    for solver in (DGD(batch=2), GradientTracking(batch=2)):
        with pytest.raises(TypeError, match=r"has no bound on its step for batches from theory: give step_size="):
            consensus.solve(P, STATIC, solver, rounds=1)
    functions = consensus.Problem.from_functions(np.zeros_like, np.zeros_like, agents=AGENTS, parameters=2)
    with pytest.raises(TypeError, match=r"knows no Lipschitz constants of its gradients: give the solver a step_size="):
        consensus.solve(functions, STATIC, DGD(), rounds=1)
    with pytest.raises(TypeError, match="step"):
        PushDIGing()


def test_every_bound_is_of_a_problem_and_a_schedule():
    kinds = [kind for kind in vars(solvers).values() if isinstance(kind, type) and issubclass(kind, Solver)]
    bounded = [kind() for kind in kinds if kind.stable_step is not Solver.stable_step and not required(kind)]
    assert len(bounded) >= 20
    for solver in (*bounded, DATOS()):
        with pytest.raises(TypeError, match=r"^problem must be a problem, such as .*; got None"):
            solver.stable_step(None, STATIC)
        with pytest.raises(TypeError, match=r"^network must be a schedule, such as topologies\.Static\(graph\); got 'ring'"):
            solver.stable_step(P, "ring")
    with pytest.raises(TypeError, match=r"^DATOS has no bound on its step from theory: it takes none$"):
        DATOS().stable_step(P, STATIC)


def required(kind):
    """Whether its constructor takes arguments that have no default."""
    return any(argument.default is argument.empty for argument in inspect.signature(kind).parameters.values())


def test_networks_that_never_agree_have_no_gap():
    apart = topologies.Static(nx.disjoint_union(topologies.path(3), topologies.path(3)))
    with pytest.raises(ValueError, match=r"no step is known for .* do not come to agree \(spectral gap .*\): give step_size="):
        gap(apart)


def test_wrappers_refuse_what_is_no_network():
    with pytest.raises(TypeError, match="network must be a schedule"):
        Gossip(DGD(), exchanges=2).stable_step(P, P.shards)


def test_the_lowest_eigenvalue_is_of_symmetric_parts_and_of_all_first_rounds():
    one_way = topologies.OnePeerExponential(5)
    parts = [(W + W.T) / 2 for W in (one_way.weights(key).toarray() for key in range(3))]
    assert lowest_eigenvalue(one_way) == pytest.approx(min(spectrum(part)[0] for part in parts), abs=1e-12)
    turns = [nx.empty_graph(6), nx.cycle_graph(6), nx.complete_graph(6)]
    least = [spectrum(topologies.metropolis(graph).toarray())[0] for graph in turns]
    assert np.argmin(least) == 1
    assert lowest_eigenvalue(topologies.Periodic(turns)) == pytest.approx(least[1], abs=1e-12)
