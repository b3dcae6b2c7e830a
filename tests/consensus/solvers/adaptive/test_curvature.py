"""The kind of curvature is chosen by what a problem offers."""

import numpy as np
import pytest
from problems import AGENTS, SCHEDULES, problem

import consensus
import topologies
from consensus.engines.stacked import StackedNetwork
from consensus.solvers.adaptive import sketch
from consensus.solvers.adaptive.blocks import pack
from consensus.solvers.adaptive.curvature import curvature_of
from consensus.solvers.adaptive.kronecker import Kronecker
from consensus.solvers.adaptive.secants import Secants
from consensus.solvers.adaptive.sketch import Sketch

L1, L2 = consensus.L1(0.1), consensus.L2(0.1)


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


@pytest.mark.parametrize(("regularizer", "bias", "kind"), [(L2, True, Kronecker), (L1, True, Sketch), (L2, False, Sketch)])
def test_many_parameters_of_a_layered_model_make_kronecker_factors(regularizer, bias, kind, monkeypatch):
    p = problem(regularizer=regularizer, model=consensus.Linear(4, bias=bias))
    assert curvature_of(p) is Sketch
    monkeypatch.setattr(sketch, "_NUMBERS", 10)
    assert curvature_of(p) is kind
    assert curvature_of(functions(p)) is Secants


@pytest.mark.parametrize("kind", [Sketch, Secants, Kronecker])
def test_at_first_no_curvature_is_known(kind):
    p = functions(problem()) if kind is Secants else problem()
    H = kind.at_start(p, np.zeros((AGENTS, 5))).unknown()
    assert H.rank().tolist() == [0] * AGENTS


@pytest.mark.parametrize("kind", [Sketch, Secants, Kronecker])
def test_what_is_sent_is_what_is_said(kind):
    p = functions(problem()) if kind is Secants else problem(model=consensus.MLP([4, 3, 1]))
    network = StackedNetwork(SCHEDULES["directed"], p.dtype)
    sent = kind.at_start(p, np.zeros((AGENTS, p.parameters)))
    mixed, rounded = sent.mixed(network), sent.rounded(network)
    assert (pack(mixed)[0].size if mixed else 0) + (0 if rounded is None else rounded[0].size) == kind.numbers(p)


def test_a_problem_of_ones_own_that_can_be_linearised_is_sketched():
    """No class is asked for: what is offered decides."""
    p = problem()
    expected = consensus.solve(p, topologies.ring(AGENTS), rounds=5, start=np.zeros(p.parameters))
    found = consensus.solve(functions(p, linearized=True), topologies.ring(AGENTS), rounds=5, start=np.zeros(p.parameters))
    np.testing.assert_allclose(found.w, expected.w, rtol=0, atol=1e-12)
    assert found.history["floats"][-1] == expected.history["floats"][-1]
