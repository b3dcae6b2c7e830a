"""Worst cases by performance estimation: closed forms, never below what is measured, and what cannot be estimated."""

import numpy as np
import pytest

import consensus
import topologies
from consensus import solvers
from consensus.solvers import DGD, EXTRA, NIDS, GradientTracking, Normalized
from consensus.worst_cases import worst_case

RING = topologies.Static(topologies.ring(4))
needs_pepit = pytest.mark.skipif("not __import__('importlib.util').util.find_spec('PEPit')", reason="needs PEPit")


@needs_pepit
@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 3])
def test_gradient_descent_of_one_agent_has_its_closed_form(rounds):
    """Drori and Teboulle's of convex costs, and the contraction of strongly convex ones."""
    one, L = topologies.path(1), 2.0
    found = worst_case(DGD(1 / L), one, rounds, lipschitz=L, distance=3.0).value
    assert found == pytest.approx(L * 9 / (4 * rounds + 2), rel=1e-6)
    for step in (0.3, 0.8):
        found = worst_case(DGD(step), one, rounds, lipschitz=L, convexity=0.4, measure="distance").value
        assert found == pytest.approx(max(1 - 0.4 * step, L * step - 1) ** (2 * rounds), rel=1e-6)


@needs_pepit
@pytest.mark.slow
def test_tracking_on_a_complete_graph_is_gradient_descent_on_the_mean():
    """However much the agents differ."""
    for heterogeneity in (0.0, 5.0):
        options = {"lipschitz": 1.0, "convexity": 0.2, "measure": "distance", "heterogeneity": heterogeneity}
        found = worst_case(GradientTracking(0.5), topologies.complete(3), 2, **options)
        assert found.value == pytest.approx(0.9**4, rel=1e-5)
    assert found.solver == GradientTracking(0.5)


@needs_pepit
@pytest.mark.slow
@pytest.mark.parametrize("solver", [DGD(0.4), GradientTracking(0.4), EXTRA(), NIDS(), solvers.KGT(0.2, 2)], ids=str)
def test_what_is_measured_is_never_worse(solver):
    """On quadratics whose start and heterogeneity are as far away as the class allows; their Hessians are the extremes."""
    L, mu, rounds = 1.0, 0.1, 3
    bound = worst_case(solver, RING, rounds, lipschitz=L, convexity=mu, measure="distance")
    rng, largest = np.random.default_rng(0), 0.0
    for _ in range(40):
        bases = np.linalg.qr(rng.standard_normal((4, 3, 3)))[0]
        H = bases * rng.choice([mu, L], (4, 1, 3)) @ bases.swapaxes(1, 2)
        slopes = rng.standard_normal((4, 3))
        slopes -= slopes.mean(axis=0)
        slopes /= np.sqrt((slopes**2).sum(axis=1).mean())
        start = rng.standard_normal(3)
        problem = consensus.Problem.from_functions(
            lambda w, H=H, b=slopes: (np.einsum("ap,apq,aq->a", w, H, w) / 2 + (b * w).sum(axis=1)) / 4,
            lambda w, H=H, b=slopes: (np.einsum("apq,aq->ap", H, w) + b) / 4,
            agents=4,
            parameters=3,
            lipschitz=L / 4,
        )
        run = consensus.solve(problem, RING, bound.solver, rounds=rounds, start=start / np.linalg.norm(start))
        largest = max(largest, (run.w**2).sum(axis=1).mean())  # the optimum is the origin
    assert 0.5 * bound.value < largest <= bound.value * (1 + 1e-6)


@needs_pepit
@pytest.mark.slow
def test_what_cannot_be_estimated_is_refused_with_what_works():
    with pytest.raises(ValueError, match=r"linear in the start and .* of Normalized.* take one such as DGD"):
        worst_case(Normalized(0.1), RING, 2, lipschitz=1.0)
    with pytest.raises(ValueError, match="compares costs along its steps"):
        worst_case(solvers.DATOS(), RING, 2, lipschitz=1.0)
    with pytest.raises(TypeError, match="needs a model"):
        worst_case(solvers.DADMM(), RING, 2, lipschitz=1.0)
    with pytest.raises(TypeError, match="minibatches need"):
        worst_case(DGD(0.1, batch=2), RING, 2, lipschitz=1.0)
    with pytest.raises(ValueError, match=r"200 rounds .* among 4 agents have 805 points, and at most 400 are allowed"):
        worst_case(DGD(0.1), RING, 200, lipschitz=1.0)
    with pytest.raises(ValueError, match="convexity must be"):
        worst_case(DGD(0.1), RING, 2, lipschitz=1.0, convexity=1.0)
    with pytest.raises(ValueError, match="measure must be"):
        worst_case(DGD(0.1), RING, 2, lipschitz=1.0, measure="error")


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PEPit.functions", None)
    with pytest.raises(ImportError, match=r"worst_case needs PEPit: pip install 'consensus-opt\[pep\]'"):
        worst_case(DGD(0.1), RING, 2, lipschitz=1.0)
