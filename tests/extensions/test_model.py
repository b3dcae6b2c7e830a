"""A model of one's own, in a file of its own: convolution.py. It has the required methods alone, and is not slow for that."""

from collections import Counter
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes
from consensus.models import linearize
from consensus.solvers import NEXT, AdaptiveNEXT, GradientTracking
from consensus.surrogates import PartialLinearization
from consensus.testing import check_model
from tests.extensions import convolution
from tests.extensions.convolution import Convolution

FEATURES, AGENTS = 8, 4
SOLVERS = {"NEXT": NEXT(PartialLinearization(0.1), 0.2), "AdaptiveNEXT": AdaptiveNEXT()}


class Counted(Convolution):
    """Counts the passes of all its copies in this process."""

    passes: ClassVar = Counter()

    def _forward(self, w, x):
        self.passes["forward"] += 1
        return super()._forward(w, x)


def problem(model, samples=40):
    """Whether a pulse is somewhere in noise, told by how fast it falls: what a convolution finds."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, samples)
    X = 0.3 * rng.standard_normal((samples, FEATURES))
    starts = rng.integers(0, FEATURES - 3, samples)
    for row, start, label in zip(X, starts, y, strict=True):
        row[start : start + 3] += [2, 1, 0] if label else [0, 1, 2]
    shards = consensus.partition(X, y, AGENTS, "sizes", sizes=[4, 13, 9, 14])
    return consensus.Problem(model, consensus.LogisticLoss(), shards, consensus.L2(1e-3))


def test_it_is_one_short_file_with_the_required_methods_alone():
    assert len(Path(convolution.__file__).read_text().splitlines()) <= 60
    public = {name for name in dir(Convolution) if not name.startswith("_")}
    assert public == {"parameters", "init", "predict", "jvp", "vjp", "outputs"}  # beside two settings without a value


@pytest.mark.parametrize("outputs", [1, 3])
def test_it_passes_the_check(outputs):
    report = check_model(Convolution(3, 2, outputs), FEATURES)
    assert max(report.errors.values()) < 1e-7
    assert {"jacobian made by vjp and jvp", "predict of some samples and of all"} <= set(report.errors)


@pytest.mark.parametrize(
    ("name", "rounds", "seed", "falls"),
    [pytest.param("NEXT", 300, 1, 0.1, marks=pytest.mark.slow), ("AdaptiveNEXT", 120, 1, 1e-5)],
)
def test_it_learns(name, rounds, seed, falls):
    # From the first start AdaptiveNEXT comes to the least of the minima seen, where Gauss and Newton's curvature is nearest to
    # the Hessian: how far they are apart sets its linear rate, which is slower at others.
    p = problem(Convolution(3, 2))
    result = consensus.solve(p, topologies.ring(AGENTS), SOLVERS[name], rounds=rounds, seed=seed, record_every=rounds)
    assert result.history["stationarity"][-1] < falls * result.history["stationarity"][0]
    assert result.history["objective"][-1] < 0.3 * result.history["objective"][0]
    X, y = p.shards.features, p.shards.targets
    right = (p.model.predict(result.w, X) > 0) == (y > 0)
    assert right[p.shards.weights > 0].mean() > 0.95


@pytest.mark.parametrize(("name", "most"), [("NEXT", 4), ("AdaptiveNEXT", 10)])
def test_a_round_takes_a_few_passes_through_the_model(name, most):
    """A gradient takes two, the Jacobian two; AdaptiveNEXT's costs one, their local models some: none takes one a product."""
    rounds = {}
    for number in (2, 7):
        Counted.passes.clear()
        options = {"rounds": number, "record_every": number, "seed": 1}
        consensus.solve(problem(Counted(3, 2)), topologies.ring(AGENTS), SOLVERS[name], **options)
        rounds[number] = Counted.passes["forward"]
    assert 2 * 5 < rounds[7] - rounds[2] <= most * 5


def test_a_large_jacobian_is_formed_for_some_samples_at_a_time(monkeypatch):
    from consensus.solvers.adaptive import gauss_newton
    from consensus.solvers.adaptive.curvature import directions

    p = problem(Counted(3, 2))
    w = np.random.default_rng(2).standard_normal((AGENTS, p.parameters))
    basis = directions(p.parameters, 7, 0)
    whole = gauss_newton.products(p, w, basis)
    monkeypatch.setattr(gauss_newton, "_FORMED", 5 * p.parameters)
    Counted.passes.clear()
    np.testing.assert_allclose(gauss_newton.products(p, w, basis), whole, rtol=1e-12, atol=1e-15)
    assert Counted.passes["forward"] == 3 * 2  # 14 samples, five at a time: their outputs and their Jacobian


def test_its_jacobian_is_that_of_products_and_several_of_them_are_those_of_each():
    rng = np.random.default_rng(3)
    model = Convolution(3, 2, outputs=2)
    w, x = rng.standard_normal((AGENTS, model.parameters)), rng.standard_normal((AGENTS, 5, FEATURES))
    v, u = rng.standard_normal((AGENTS, 6, model.parameters)), rng.standard_normal((AGENTS, 6, 5, 2))
    _, linearization = linearize(model, w, x)
    J = linearization.jacobian()
    np.testing.assert_allclose(linearization.jvp(v), (v @ J.swapaxes(1, 2)).reshape(AGENTS, 6, 5, 2), atol=1e-12)
    np.testing.assert_allclose(linearization.vjp(u), u.reshape(AGENTS, 6, 10) @ J, atol=1e-12)
    out = np.empty((AGENTS, 6, model.parameters))
    assert linearization.vjp(u, out=out) is out
    np.testing.assert_array_equal(out[:, 2], model.vjp(w, x, u[:, 2]))


@pytest.mark.parametrize(
    "solver",
    [pytest.param(SOLVERS["AdaptiveNEXT"], marks=pytest.mark.slow), GradientTracking(0.1, batch=3)],
    ids=["AdaptiveNEXT", "batches"],
)
def test_workers_come_to_the_same_bits(solver, forked):
    run = lambda engine: consensus.solve(problem(Convolution(3, 2)), topologies.ring(AGENTS), solver, rounds=8, engine=engine)  # noqa: E731
    one, other = run("stacked"), run(Processes(2))
    np.testing.assert_array_equal(one.w, other.w)
    np.testing.assert_array_equal(one.history["objective"], other.history["objective"])
