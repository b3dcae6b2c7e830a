"""The kind of curvature is chosen by what a problem offers."""

import numpy as np
import pytest
from problems import AGENTS, problem

import consensus
import topologies
from consensus.solvers.adaptive.curvature import curvature_of
from consensus.solvers.adaptive.secants import Secants
from consensus.solvers.adaptive.sketch import Sketch


def functions(p, linearized=False):
    """The same costs given by functions; with the model's linearization, too, as a user's class of problems may offer it."""
    made = consensus.Problem.from_functions(p.value, p.gradient, agents=AGENTS, parameters=p.parameters)
    if linearized:
        for name in ("linearize", "model", "loss", "shards", "weights"):
            setattr(made, name, getattr(p, name))
    return made


def test_models_are_sketched_and_functions_leave_secants():
    assert curvature_of(problem()) is Sketch
    assert curvature_of(functions(problem())) is Secants


@pytest.mark.parametrize("kind", [Sketch, Secants])
def test_what_is_sent_is_what_is_said(kind):
    p = problem() if kind is Sketch else functions(problem())
    sent = kind.at_start(p, np.zeros((AGENTS, p.parameters))).sent()
    assert sum(block[0].size for block in sent) == kind.numbers(p)


def test_a_problem_of_ones_own_that_can_be_linearised_is_sketched():
    """No class is asked for: what is offered decides."""
    p = problem()
    expected = consensus.solve(p, topologies.ring(AGENTS), rounds=5, start=np.zeros(p.parameters))
    found = consensus.solve(functions(p, linearized=True), topologies.ring(AGENTS), rounds=5, start=np.zeros(p.parameters))
    np.testing.assert_allclose(found.w, expected.w, rtol=0, atol=1e-12)
    assert found.history["floats"][-1] == expected.history["floats"][-1]
