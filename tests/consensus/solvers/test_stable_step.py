"""Default steps: the bounds of docstrings, from both sides; every run knows them, and who has none asks for a step."""

import dataclasses
import inspect
import re

import networkx as nx
import numpy as np
import pytest
import scipy.linalg

import consensus
import topologies
from consensus import solvers
from consensus.solvers import ATG, DADMM, DATOS, DGD, EXTRA, LTADMM, OPAPC, PGEXTRA, AccGT, Gossip, GradientTracking, Solver
from consensus.solvers.bounds import gap, lowest_eigenvalue
from tests.helpers.problems import AGENTS, SCHEDULES, problem, smooth_optimum
from tests.helpers.quadratics import NETWORKS, dense, hessians, iteration_matrix, quadratic

STATIC = SCHEDULES["static"]
P = problem("squared", consensus.L2(0.1))
CTA = GradientTracking(order="cta")


def spectrum(matrix):
    return np.linalg.eigvalsh(matrix)


def of_hessians(turns, curvatures, limits):
    """Quadratics f_i = A g_i about zero, with Hessians ``turns diag(curvatures) turns'``."""
    agents = len(limits)
    H = (turns * curvatures[:, None, :]) @ turns.swapaxes(1, 2) / agents
    return consensus.Problem.from_functions(
        lambda w: np.einsum("ip,ipq,iq->i", w, H, w) / 2,
        lambda w: np.einsum("ipq,iq->ip", H, w),
        agents=agents,
        parameters=H.shape[1],
        lipschitz=limits / agents,
    )


def bowls(curvature, agents=AGENTS):
    """The same, in one parameter."""
    curvatures = np.broadcast_to(curvature, agents).astype(float)
    return of_hessians(np.ones((agents, 1, 1)), curvatures[:, None], curvatures)


def stable(solver, p, network, step):
    """Whether the solver is, with this step: moduli of eigenvalues are at most one."""
    ready = dataclasses.replace(solver, step_size=step)
    return abs(np.linalg.eigvals(iteration_matrix(ready, p, network))).max() < 1 + 1e-7


# Bounds -------------------------------------------------------------------------------------------------------------


def test_the_bound_of_gossip_is_that_of_its_polynomial():
    W, L = dense(STATIC), P.lipschitz().max()
    lowest, gap = spectrum(W)[0], topologies.spectral_gap(W)
    assert lowest < 0
    chebyshev = (2 * W @ W - (1 - gap) ** 2 * np.eye(AGENTS)) / (2 - (1 - gap) ** 2)
    for solver, polynomial in ((DGD(), W), (Gossip(DGD(), 2), W @ W), (Gossip(DGD(), 2, gap), chebyshev)):
        assert solver.stable_step(P, STATIC) == pytest.approx((1 + spectrum(polynomial)[0]) / L / 2, rel=1e-12)


def half_of(factor):
    """2 V V' for a matrix V: its pseudo-inverse is the bound."""
    return 2 * factor @ factor.T


BOUNDS = {  # inverses of the bounds on alpha times the Hessians, as matrices
    CTA: lambda one, W: half_of(np.linalg.inv(one + W)),
    GradientTracking(): lambda one, W: half_of(np.linalg.inv(one + W) @ W),
    EXTRA(): lambda one, W: np.linalg.inv(5 * one + 3 * W) * 4,
    PGEXTRA(): lambda one, W: np.linalg.inv(5 * one + 3 * W) * 4,
}


def edge_of(solver, network, limits):
    """The largest alpha with ``alpha diag(limits)`` below the bound."""
    inverse = BOUNDS[solver](np.eye(AGENTS), dense(network))
    return 1 / scipy.linalg.eigh(inverse, np.diag(1 / limits), eigvals_only=True)[-1]


@pytest.mark.parametrize("solver", BOUNDS, ids=str)
@pytest.mark.parametrize("network", [STATIC, topologies.Static(topologies.star(AGENTS))], ids=["random", "star"])
def test_the_default_is_a_share_of_the_edge_of_quadratics_that_differ(solver, network):
    """An agent with ten times the curvature of the others: alpha diag(L_i) up to the matrix, by a generalised eigenvalue."""
    rng, limits = np.random.default_rng(0), np.array([3.0, 30.0, 1.0, 2.0, 0.5, 3.0])
    edge = edge_of(solver, network, limits)
    turns = np.linalg.qr(rng.standard_normal((AGENTS, 2, 2))).Q
    below, full = rng.uniform(0, 1, (AGENTS, 2)) * limits[:, None], np.tile(limits[:, None], 2)
    assert solver.stable_step(of_hessians(turns, full, limits), network) == pytest.approx(0.9 * edge, rel=1e-9)
    for factor, curvatures in ((0.999, below), (0.999, full), (1.001, full)):
        assert stable(solver, of_hessians(turns, curvatures, limits), network, factor * edge) == (factor < 1)


@pytest.mark.parametrize("kind", [LTADMM, ATG])
@pytest.mark.parametrize("seed", range(3))
def test_quadratics_that_differ_are_stable_up_to_the_edge(kind, seed):
    rng = np.random.default_rng(seed)
    limits = 10 ** rng.uniform(-1, 1, AGENTS)
    turns, curvatures = np.linalg.qr(rng.standard_normal((AGENTS, 2, 2))).Q, rng.uniform(0, 1, (AGENTS, 2)) * limits[:, None]
    curvatures[limits.argmax()] = limits.max()
    p = of_hessians(turns, curvatures, limits)
    step = kind().stable_step(p, STATIC) / 0.9
    assert step * limits.max() == pytest.approx(1.0 if kind is LTADMM else 6.6, rel=0.05)
    assert stable(kind().prepared(p, STATIC), p, STATIC, 0.999 * step)


@pytest.mark.parametrize("solver", [ATG(), ATG(gamma=0.9, penalty=0.5, relaxation=0.4)], ids=str)
def test_the_edge_of_atg_is_one_for_equal_quadratics(solver):
    p = bowls(2.0)
    edge = solver.stable_step(p, STATIC) / 0.9
    assert stable(solver, p, STATIC, 0.999 * edge)
    assert not stable(solver, p, STATIC, 1.001 * edge)


def test_models_that_are_not_linear_get_half_and_slow_networks_what_balances():
    mlp = problem("squared", consensus.L2(0.1), consensus.MLP([4, 3, 1]))
    for solver in BOUNDS:
        assert solver.stable_step(mlp, STATIC) == pytest.approx(edge_of(solver, STATIC, mlp.lipschitz()) / 2, rel=1e-9)
    p, slow = quadratic(40), topologies.Static(topologies.ring(40))
    curvatures, gap = np.linalg.eigvalsh(hessians(p)[0]), 1 - spectrum(dense(slow))[-2]
    middle = np.sqrt(curvatures.max() * curvatures[:, 0].mean())
    balanced = {EXTRA(): np.sqrt(gap / 2), GradientTracking(): gap, CTA: gap}
    balanced |= {DADMM(): np.sqrt(gap / 2), LTADMM(): np.sqrt(gap / 2) / 5, ATG(): np.sqrt(2 * 3 * 0.9 / 0.5 * gap)}
    for solver, expected in balanced.items():
        assert solver.stable_step(p, slow) == pytest.approx(expected / middle, rel=1e-9)


def test_an_agent_alone_has_the_steps_of_gradient_descent():
    p, alone = bowls(2.0, agents=1), topologies.Static(nx.empty_graph(1))
    for solver, share in ((EXTRA(), 1.8), (GradientTracking(), 1.8), (CTA, 1.8), (LTADMM(), 0.9)):
        assert solver.stable_step(p, alone) == pytest.approx(share / 2, rel=1e-9)
    assert 2 < ATG().stable_step(p, alone) < 4


@pytest.mark.slow
@pytest.mark.parametrize("agents", [20, 320])
def test_large_networks_are_bounded_by_the_largest_constant(agents):
    """As small ones are by theirs, where all are the same."""
    p, network = bowls(1.0, agents), topologies.Static(topologies.complete(agents))
    assert EXTRA().stable_step(p, network) == pytest.approx(0.9 * 5 / 4, rel=1e-6)
    assert CTA.stable_step(p, network) == pytest.approx(0.9 / 2, rel=1e-6)


@pytest.mark.parametrize("solver", [CTA, GradientTracking()], ids=str)
@pytest.mark.parametrize("own", [0.1, 0.3, 0.5, 0.75])
def test_the_default_step_of_gradient_tracking_is_below_the_edge_and_not_far_below(own, solver):
    """Two agents with equal quadratics: W has the eigenvalues 1 and ``2 own - 1``, negative, zero or positive."""
    W, p = topologies.schedule_from_matrix([[own, 1 - own], [1 - own, own]]), bowls(6.0, agents=2)
    power = 0 if solver is CTA else 2
    edge = min((1 + mode) ** 2 / 2 / max(mode**power, 1e-9) for mode in (1.0, 2 * own - 1)) / 6
    assert edge / 3 < solver.stable_step(p, W) < edge
    result = consensus.solve(p, W, solver, rounds=4000, start=[[1.0], [-3.0]], record_every=4000)
    assert abs(result.w).max() < 1e-12


LAZY = topologies.Static(nx.path_graph(AGENTS), weights=topologies.lazy(topologies.metropolis))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [solvers.NIDS, solvers.ExactDiffusion, solvers.D2, solvers.ProxSkip, solvers.LED])
def test_steps_below_two_over_the_lipschitz_constant_are_stable_on_every_network(kind):
    """As their docstrings say, whose default is half of that, LED's 0.9 of the half."""
    share, below = (0.9, 1.0) if kind is solvers.LED else (1.0, 1.9)
    unlike, alike = bowls(np.linspace(1, 4, AGENTS)), bowls(1.0)
    assert kind().stable_step(unlike, LAZY) == pytest.approx(share / 4, rel=1e-12)
    start = np.random.default_rng(0).standard_normal((AGENTS, 1))
    for q, factor, rounds in ((unlike, 1.0, 3000), (alike, below, 3000), (alike, 2.05 / share, 200)):
        solver = kind(factor * kind().stable_step(q, LAZY))
        end = abs(consensus.solve(q, LAZY, solver, rounds=rounds, start=start, record_every=rounds).w).max()
        assert end < 1e-6 if rounds == 3000 else end > 10


@pytest.mark.parametrize(("solver", "network"), [
    (CTA, "static"),
    (GradientTracking(), "static"),
    pytest.param(GradientTracking(), "random", marks=pytest.mark.slow),
    (AccGT(), "random"),
    (solvers.ProxGT(), "random"),
])  # fmt: skip
def test_on_changing_networks_too_the_default_step_finds_the_optimum(solver, network):
    result = consensus.solve(P, SCHEDULES[network], solver, rounds=20_000, record_every=100, tolerance=1e-11)
    np.testing.assert_allclose(result.w, np.tile(smooth_optimum(P), (AGENTS, 1)), rtol=0, atol=1e-9)


def test_the_settings_of_opapc_are_those_of_its_theorem():
    p, network = quadratic(8), NETWORKS["ring of 8"]
    values, L, solver = spectrum(dense(network)), p.lipschitz().max(), OPAPC().prepared(p, network)
    assert solver.convexity == float(f"{p.strong_convexity().min():.6g}")
    tau = min(1, np.sqrt((1 - values[0]) / (1 - values[-2]) * solver.convexity / L) / 2)
    assert solver.momentum == pytest.approx(tau, rel=1e-5)
    assert solver.step_size == pytest.approx(1 / (4 * tau * L), rel=1e-4)
    assert 0.9999 < solver.dual * solver.step_size * (1 - values[0]) < 1


def test_networks_that_never_agree_have_no_gap():
    apart = topologies.Static(nx.disjoint_union(topologies.path(3), topologies.path(3)))
    with pytest.raises(ValueError, match=r"no step is known for .* do not come to agree \(spectral gap .*\): give step_size="):
        gap(apart)


def test_the_lowest_eigenvalue_is_of_symmetric_parts_and_of_all_first_rounds():
    one_way = topologies.OnePeerExponential(5)
    parts = [(W + W.T) / 2 for W in (one_way.weights(key).toarray() for key in range(3))]
    assert lowest_eigenvalue(one_way) == pytest.approx(min(spectrum(part)[0] for part in parts), abs=1e-12)
    turns = [nx.empty_graph(6), nx.cycle_graph(6), nx.complete_graph(6)]
    least = [spectrum(topologies.metropolis(graph).toarray())[0] for graph in turns]
    assert np.argmin(least) == 1
    assert lowest_eigenvalue(topologies.Periodic(turns)) == pytest.approx(least[1], abs=1e-12)


# A step that nobody gave: every run knows it, and who has none asks for it.


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
    with pytest.raises(TypeError, match=r"has no known Lipschitz constants of its gradients: give the solver a step_size="):
        consensus.solve(functions, STATIC, DGD(), rounds=1)
    for solver in (AccGT(), OPAPC()):
        with pytest.raises(ValueError, match=r"not known to be strongly convex \(mu = 0\): give convexity=, or an L2"):
            consensus.solve(problem("logistic"), STATIC, solver, rounds=1)
    for kind in (solvers.PushDIGing, solvers.NetworkGIANT):
        with pytest.raises(TypeError, match="step"):
            kind()


def test_every_bound_is_of_a_problem_and_a_schedule():
    listed = [getattr(solvers, name) for name in solvers.__all__]
    kinds = [kind for kind in listed if isinstance(kind, type) and issubclass(kind, Solver)]
    bounded = [kind() for kind in kinds if kind.stable_step is not Solver.stable_step and not required(kind)]
    assert len(bounded) >= 20
    for solver in (*bounded, DATOS(), Gossip(DGD(), 2)):
        with pytest.raises(TypeError, match=r"^problem must be a problem, such as .*; got None"):
            solver.stable_step(None, STATIC)
        with pytest.raises(TypeError, match=r"^network must be a schedule, such as topologies\.Static\(graph\); got 'ring'"):
            solver.stable_step(P, "ring")
    with pytest.raises(TypeError, match=r"^DATOS has no bound on its step from theory: it takes none$"):
        DATOS().stable_step(P, STATIC)


def required(kind):
    """Whether its constructor takes arguments that have no default."""
    return any(argument.default is argument.empty for argument in inspect.signature(kind).parameters.values())
