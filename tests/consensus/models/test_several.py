"""Products with several tangents at once are those with each alone, whatever a model offers."""

from types import SimpleNamespace

import numpy as np
import pytest

import consensus
from consensus.models import MLP, Linear, linearize
from consensus.solvers.adaptive import gauss_newton
from consensus.solvers.adaptive.curvature import directions

MODELS = [
    Linear(4, outputs=3),
    Linear(4, bias=False),
    *(MLP(widths, name) for name in ("tanh", "softplus") for widths in ([3, 2], [3, 5, 4, 2], [4, 6, 1])),
]


class Bare:
    """A model stripped of everything that is optional."""

    def __init__(self, model):
        for name in ("parameters", "outputs", "init", "predict", "vjp", "jvp"):
            setattr(self, name, getattr(model, name))


class Shared(Bare):
    """With a linearization that takes one tangent at a time."""

    def __init__(self, model):
        super().__init__(model)
        self.model, self.passes = model, 0

    def linearize(self, w, x):
        self.passes += 1
        outputs, whole = self.model.linearize(w, x)
        return outputs, SimpleNamespace(
            vjp=lambda u, out=None: whole.vjp(single(u, 3), out), jvp=lambda v: whole.jvp(single(v, 2)), gram=whole.gram
        )


def single(array, axes):
    assert array.ndim == axes
    return array


@pytest.mark.parametrize("kind", [lambda model: model, Bare, Shared], ids=["whole", "bare", "shared"])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_several_tangents_are_as_each_alone(model, kind):
    rng = np.random.default_rng(5)
    w, x = rng.standard_normal((3, model.parameters)), rng.standard_normal((3, 4, model.features))
    v, u = rng.standard_normal((3, 6, model.parameters)), rng.standard_normal((3, 6, 4, model.outputs))
    linearization = linearize(kind(model), w, x)[1]
    moved, back = linearization.jvp(v), linearization.vjp(u)
    out = np.empty_like(back)
    assert linearization.vjp(u, out=out) is out
    np.testing.assert_array_equal(out, back)
    for k in range(6):
        np.testing.assert_array_equal(moved[:, k], model.jvp(w, x, v[:, k]))
        np.testing.assert_array_equal(back[:, k], model.vjp(w, x, u[:, k]))
    shared = np.broadcast_to(np.asfortranarray(v[0]), v.shape)  # as AdaptiveNEXT's directions are
    np.testing.assert_allclose(linearization.jvp(shared), linearization.jvp(shared.copy()), rtol=0, atol=1e-13)


def test_a_shared_pass_serves_all_products():
    shared = Shared(MLP([4, 3, 1]))
    rng = np.random.default_rng(0)
    shards = consensus.partition(rng.standard_normal((30, 4)), rng.standard_normal(30), agents=3)
    problem = consensus.Problem(shared, consensus.SquaredLoss(), shards)
    w, basis = rng.standard_normal((3, 19)), directions(19, 7, 0)
    found = gauss_newton.products(problem, w, basis)
    assert shared.passes == 1
    whole = gauss_newton.products(consensus.Problem(shared.model, consensus.SquaredLoss(), shards), w, basis)
    np.testing.assert_allclose(found, whole, rtol=1e-12, atol=1e-15)
