"""The step that nobody gave: what it is, that it is stable, and that all who know the run know it."""

import inspect
import re

import networkx as nx
import numpy as np
import pytest
from problems import AGENTS, SCHEDULES, problem, smooth_optimum

import consensus
import topologies
from consensus import solvers
from consensus.solvers import DATOS, DGD, Gossip, GradientTracking, PushDIGing, Solver
from consensus.solvers.bounds import gap, lowest_eigenvalue
from consensus.steps import Constant, Stable

STATIC = SCHEDULES["static"]
P = problem("squared", consensus.L2(0.1))


def spectrum(matrix):
    return np.linalg.eigvalsh(matrix)


def test_the_bounds_are_those_of_the_docstrings():
    W, L = STATIC.weights(0).toarray(), P.lipschitz().max()
    lowest = spectrum(W)[0]
    assert lowest < 0
    assert DGD().stable_step(P, STATIC) == pytest.approx((1 + lowest) / L / 2, rel=1e-12)
    assert GradientTracking(order="cta").stable_step(P, STATIC) == pytest.approx((1 + lowest) ** 2 / 2 / L / 2, rel=1e-12)
    atc = min(2, (1 + lowest) ** 2 / (2 * lowest**2)) / L / 2
    assert GradientTracking().stable_step(P, STATIC) == pytest.approx(atc, rel=1e-12)
    twice = Gossip(DGD(), 2).stable_step(P, STATIC)
    assert twice == pytest.approx((1 + spectrum(W @ W)[0]) / L / 2, rel=1e-12)
    gap = topologies.spectral_gap(W)
    chebyshev = (2 * W @ W - (1 - gap) ** 2 * np.eye(AGENTS)) / (2 - (1 - gap) ** 2)
    assert Gossip(DGD(), 2, gap).stable_step(P, STATIC) == pytest.approx((1 + spectrum(chebyshev)[0]) / L / 2, rel=1e-12)


@pytest.mark.parametrize(("order", "factor"), [("cta", 1.9), ("atc", 1.9)])
def test_equal_quadratics_are_stable_below_twice_the_step_and_not_above(order, factor):
    matrix = np.diag([1.0, 3.0])
    p = consensus.Problem.from_functions(
        lambda w: ((w @ matrix) * w).sum(axis=1) / 2, lambda w: w @ matrix, agents=AGENTS, parameters=2, lipschitz=3.0
    )
    step, start = GradientTracking(order=order).stable_step(p, STATIC), np.random.default_rng(0).standard_normal((AGENTS, 2))
    ends = [
        consensus.solve(p, STATIC, GradientTracking(k * step, order), rounds=2000, start=start, record_every=2000).w
        for k in (factor, 2.01)
    ]
    assert abs(ends[0]).max() < 1e-10
    assert abs(ends[1]).max() > 1


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
    """As their docstrings say, whose default is half of that; LED takes several gradients a round."""
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
    assert step == pytest.approx(1 / (4 * AGENTS * steps), rel=1e-12)
    equal = consensus.Problem.from_functions(
        lambda w: (w**2).sum(axis=1) / 2, lambda w: w, agents=AGENTS, parameters=1, lipschitz=np.ones(AGENTS)
    )
    start = np.random.default_rng(0).standard_normal((AGENTS, 1))
    below = 1.9 if steps == 1 else 1.0
    for q, factor, rounds in ((p, 1.0, 3000), (equal, below, 3000), (equal, 2.05 * steps, 200)):
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
    assert repr(result.solver) == f"DGD(alpha=Constant(value={step}))"
    given = consensus.solve(P, STATIC, DGD(step), rounds=20, resume=path)
    np.testing.assert_array_equal(given.w, consensus.solve(P, STATIC, DGD(), rounds=20).w)
    with pytest.raises(ValueError, match=rf"another run: solver: DGD\(alpha=Constant\(value={re.escape(str(step))}\)\) there"):
        consensus.solve(P, STATIC, DGD(0.01), rounds=20, resume=path)
    wrapped = consensus.solve(P, STATIC, Gossip(GradientTracking(), 3), rounds=1).solver
    assert isinstance(wrapped.solver.alpha, Constant)


def test_a_solver_that_was_given_its_step_is_left_as_it_is():
    solver = GradientTracking(0.1)
    assert consensus.solve(P, STATIC, solver, rounds=1).solver is solver


class Own(Solver):
    alpha = Stable()

    def init(self, problem, w):
        raise AssertionError("refused before any work")

    step = init


def test_where_there_is_no_bound_a_step_is_asked_for():
    with pytest.raises(TypeError, match=r"^Own has no bound on its step from theory: give step=$"):
        consensus.solve(P, STATIC, Own(), rounds=1)
    for solver in (DGD(batch=2), GradientTracking(batch=2)):
        with pytest.raises(TypeError, match=r"has no bound on its step for batches from theory: give step="):
            consensus.solve(P, STATIC, solver, rounds=1)
    functions = consensus.Problem.from_functions(np.zeros_like, np.zeros_like, agents=AGENTS, parameters=2)
    with pytest.raises(TypeError, match=r"knows no Lipschitz constants of its gradients: give the solver a step="):
        consensus.solve(functions, STATIC, DGD(), rounds=1)
    with pytest.raises(TypeError, match="step"):
        PushDIGing()
    with pytest.raises(TypeError, match=r"the step is not found yet: solver\.prepared\(problem, network\) is"):
        DGD().alpha(0)


def test_every_bound_is_of_a_problem_and_a_schedule():
    kinds = [kind for kind in vars(solvers).values() if isinstance(kind, type) and issubclass(kind, Solver)]
    bounded = [kind() for kind in kinds if kind.stable_step is not Solver.stable_step and not required(kind)]
    assert len(bounded) > 20
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
    with pytest.raises(ValueError, match=r"no step is known for .* do not come to agree \(spectral gap .*\): give step="):
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
