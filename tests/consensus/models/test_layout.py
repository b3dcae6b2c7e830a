"""Names, places and shapes of models' parameters, and weights of L2 by them."""

import math

import numpy as np
import pytest

import consensus
from consensus.models import JAX, Torch

MODELS = {
    "MLP": lambda: consensus.MLP([3, 4, 2]),
    "Linear": lambda: consensus.Linear(3, 2),
    "Linear without bias": lambda: consensus.Linear(3, 2, bias=False),
    "torch": lambda: Torch(module()),
    "tied": lambda: Torch(tied()),
    "jax": lambda: jax_model(),
}


def module():
    nn = pytest.importorskip("torch").nn
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.Flatten(), nn.Linear(8, 3, bias=False))


def tied():
    nn = pytest.importorskip("torch").nn
    own = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    own[1].weight = own[0].weight
    return own


def jax_model():
    pytest.importorskip("jax")
    draw = np.random.default_rng(0).standard_normal
    layer = {"kernel": draw((3, 2)), "bias": draw(2), "scale": draw(2)}
    return JAX(lambda p, x: (x @ p["b"][0]["kernel"] + p["b"][0]["bias"]) * p["b"][0]["scale"], {"b": [layer]})


@pytest.mark.parametrize("name", MODELS)
def test_layouts_cover_the_parameters_in_order(name):
    model, end = MODELS[name](), 0
    for part in model.layout:
        assert part.start == end
        end += math.prod(part.shape)
    assert end == model.parameters
    assert len({part.name for part in model.layout}) == len(model.layout)


def test_layouts_are_the_places_of_the_arrays():
    model = MODELS["torch"]()
    w = np.random.default_rng(0).standard_normal(model.parameters)
    state = model.unflatten(w)
    for name, start, shape, outputs in model.layout:
        np.testing.assert_array_equal(state[name].numpy(), w[start : start + math.prod(shape)].reshape(shape))
        assert outputs == 0
    assert [part.name for part in model.layout] == ["0.weight", "0.bias", "1.weight", "1.bias", "3.weight"]
    mlp = consensus.MLP([3, 4, 2], activation="relu")
    first, bias, second, last = mlp.layout
    w, x = np.random.default_rng(0).standard_normal((1, mlp.parameters)), np.ones((1, 5, 3))

    def of(part):
        return w[0, part.start : part.start + math.prod(part.shape)].reshape(part.shape)

    np.testing.assert_allclose(mlp.predict(w, x)[0], np.maximum(x[0] @ of(first) + of(bias), 0) @ of(second) + of(last))
    assert [(part.name, part.outputs) for part in mlp.layout] == [(f"{n}.{k}", -1) for n in (0, 1) for k in ("weight", "bias")]


def test_names_in_jax_are_the_paths_in_the_tree():
    model = jax_model()
    assert [tuple(part) for part in model.layout] == [
        ("b.0.bias", 0, (2,), -1),
        ("b.0.kernel", 2, (3, 2), -1),
        ("b.0.scale", 8, (2,), -1),
    ]
    w = np.arange(10.0)
    np.testing.assert_array_equal(model.unflatten(w)["b"][0]["kernel"], w[2:8].reshape(3, 2))


@pytest.mark.parametrize("name", MODELS)
def test_l2_by_name_weighs_each_array(name):
    model = MODELS[name]()
    r = consensus.L2.by_name(model, lambda name, shape: 0.5 if "bias" in name else len(shape) / 10)
    w = np.random.default_rng(1).standard_normal((3, model.parameters))
    value = sum(
        (0.5 if "bias" in part.name else len(part.shape) / 10)
        / 2
        * np.square(w[:, part.start : part.start + math.prod(part.shape)]).sum(1)
        for part in model.layout
    )
    np.testing.assert_allclose(r.value(w), value, rtol=1e-14)


def test_weights_of_each_parameter_are_a_value():
    one, other = consensus.L2([0.1, 0.0]), consensus.L2(np.array([0.1, 0.0]))
    assert one == other
    assert hash(one) == hash(other)
    assert repr(one) == repr(other)
    assert one != consensus.L2([0.1, 0.1])
    assert one != consensus.L2([0.1])
    assert consensus.L2([0.1]) != consensus.L2(0.2)
    assert repr(one) != repr(consensus.L2([0.0, 0.1]))
    with pytest.raises(ValueError, match="read-only"):
        one.weight[0] = 1.0


def test_bad_weights_by_name():
    model = consensus.MLP([3, 4, 2])
    with pytest.raises(ValueError, match=r"weight\('0.weight', \(3, 4\)\) must be a finite number >= 0; got -1"):
        consensus.L2.by_name(model, lambda name, shape: -1)
    with pytest.raises(TypeError, match=r"weight must be a function \(name, shape\) -> weight; got 0.1"):
        consensus.L2.by_name(model, 0.1)
    with pytest.raises(TypeError, match=r"model must have a layout, .* give L2 a weight for each parameter"):
        consensus.L2.by_name(object(), lambda name, shape: 0.1)
