"""Linearizations: products with several tangents, and what models without a ``linearize`` of their own get."""

from types import SimpleNamespace

import numpy as np
import pytest

import consensus
import topologies
from consensus.models import MLP, Linear, ResNet, linearize
from consensus.solvers import NEXT
from consensus.solvers.adaptive import gauss_newton
from consensus.solvers.adaptive.curvature import directions
from consensus.surrogates import PartialLinearization


class Bare:
    """A model without any optional member but those that are named."""

    def __init__(self, model, *optional):
        for name in ("parameters", "outputs", "init", "predict", "vjp", "jvp", *optional):
            setattr(self, name, getattr(model, name))


class Single(Bare):
    """A linearization that takes one tangent at a time."""

    def __init__(self, model):
        super().__init__(model)
        self.model, self.passes = model, 0

    def linearize(self, w, x):
        self.passes += 1
        outputs, whole = self.model.linearize(w, x)

        def vjp(u, out=None):
            assert u.ndim == 3
            return whole.vjp(u, out)

        def jvp(v):
            assert v.ndim == 2
            return whole.jvp(v)

        return outputs, SimpleNamespace(vjp=vjp, jvp=jvp, gram=whole.gram)


@pytest.mark.parametrize("kind", [lambda model: model, Bare, Single], ids=["whole", "bare", "single"])
@pytest.mark.parametrize(
    "model", [Linear(4, outputs=3), Linear(4, bias=False), MLP([3, 5, 4, 2]), MLP([4, 6, 1], "softplus"), ResNet(3, 4, 3, 2)]
)
def test_products_with_several_tangents_are_those_with_each(model, kind):
    rng = np.random.default_rng(5)
    w, x = rng.standard_normal((3, model.parameters)), rng.standard_normal((3, 4, model.features))
    v, u = rng.standard_normal((3, 6, model.parameters)), rng.standard_normal((3, 6, 4, model.outputs))
    linearization = linearize(kind(model), w, x)[1]
    outputs, back = linearization.jvp(v), linearization.vjp(u)
    for cotangents, wanted in ((u, back), (u[:, 0], back[:, 0])):
        out = np.empty_like(wanted)
        assert linearization.vjp(cotangents, out=out) is out
        np.testing.assert_array_equal(out, wanted)
    for k in range(6):
        np.testing.assert_array_equal(outputs[:, k], model.jvp(w, x, v[:, k]))
        np.testing.assert_array_equal(back[:, k], model.vjp(w, x, u[:, k]))
    shared = np.broadcast_to(np.asfortranarray(v[0]), v.shape)  # as AdaptiveNEXT's directions are
    np.testing.assert_allclose(linearization.jvp(shared), linearization.jvp(shared.copy()), rtol=0, atol=1e-13)


def test_one_pass_serves_all_products():
    model, rng = Single(MLP([4, 3, 1])), np.random.default_rng(0)
    shards = consensus.partition(rng.standard_normal((30, 4)), rng.standard_normal(30), agents=3)
    w, basis = rng.standard_normal((3, 19)), directions(19, 7, 0)
    found, whole = (
        gauss_newton.products(consensus.Problem(either, consensus.SquaredLoss(), shards), w, basis)
        for either in (model, model.model)
    )
    assert model.passes == 1
    np.testing.assert_allclose(found, whole, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("optional", [(), ("jacobian",), ("gram",), ("jacobian", "gram")], ids=str)
@pytest.mark.parametrize("model", [Linear(2), MLP([2, 4, 1])], ids=["more samples", "more parameters"])
def test_a_bare_model_has_what_it_offers_and_runs_as_a_whole_one(model, optional):
    bare, rng = Bare(model, *optional), np.random.default_rng(0)
    w, x = rng.standard_normal((3, model.parameters)), rng.standard_normal((3, 4, 2))
    J, linearization = model.jacobian(w, x), linearize(bare, w, x)[1]
    assert hasattr(linearization, "gram") == ("gram" in optional)
    assert not hasattr(linearization, "diagonal")
    tolerance = 0 if "jacobian" in optional else 1e-13  # else it is made by vjp
    for columns in (None, np.array([0, 2])):
        wanted = J if columns is None else J[..., columns]
        np.testing.assert_allclose(linearization.jacobian(columns), wanted, rtol=tolerance, atol=tolerance)
    if "gram" in optional:
        np.testing.assert_array_equal(linearization.gram(), model.gram(w, x))

    shards = consensus.partition(rng.standard_normal((22, 2)), rng.standard_normal(22), agents=4, seed=0)
    start, solver = rng.standard_normal(model.parameters), NEXT(PartialLinearization(0.5), 0.3, tolerance=1e-13)
    problems = [consensus.Problem(either, consensus.SquaredLoss(), shards, consensus.L2(0.1)) for either in (bare, model)]
    one, other = (consensus.solve(problem, topologies.ring(4), solver, rounds=10, start=start).w for problem in problems)
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
