"""A step that nobody gave: every run knows it, and who has none asks for it."""

import inspect
import re

import numpy as np
import pytest

import consensus
from consensus import solvers
from consensus.solvers import DATOS, DGD, OPAPC, AccGT, Gossip, GradientTracking, Solver
from tests.helpers.problems import AGENTS, SCHEDULES, problem

STATIC = SCHEDULES["static"]
P = problem("squared", consensus.L2(0.1))


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
