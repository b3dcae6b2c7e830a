"""Samples of any shape: on images a model of images computes the bits of a model of flat samples on flat samples."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.data import load_shards, save_shards
from consensus.engines import Processes
from consensus.solvers import GTSAGA, NEXT, AdaptiveNEXT, DiNNO, GradientTracking
from consensus.surrogates import PartialLinearization
from consensus.testing import check_model
from tests.extensions.convolution import Convolution
from tests.helpers.pictures import Pictures, Shared
from tests.helpers.problems import data

AGENTS, SHAPE = 3, (1, 2, 3)
MLP = consensus.MLP([6, 3, 1])
X, Y = data(samples=30, features=6)
IMAGES = X.reshape(-1, *SHAPE)
GRAPH = topologies.ring(AGENTS)


def problem(model, X, regularizer=consensus.L2(0.02)):  # noqa: B008 (it is frozen)
    shards = consensus.partition(X, Y, AGENTS, "sizes", sizes=[4, 15, 11])
    return consensus.Problem(model, consensus.SquaredLoss(), shards, regularizer)


def test_partition_and_shards_keep_the_shape_of_a_sample():
    flat, shards = (consensus.partition(given, Y, AGENTS, scheme="dirichlet", seed=3) for given in (X, IMAGES.tolist()))
    assert shards.features.shape == (*flat.features.shape[:2], *SHAPE)
    np.testing.assert_array_equal(shards.features.reshape(flat.features.shape), flat.features)
    np.testing.assert_array_equal(shards.indices, flat.indices)
    assert shards.restrict([2]).features.shape == (1, *shards.features.shape[1:])
    with pytest.raises(ValueError, match=r"^features of Shards must have shape \(agents, most, \.\.\.\)"):
        consensus.Shards(shards.features[..., 0, 0, 0], shards.targets, shards.weights, shards.indices, shards.samples)


def test_files_keep_the_shape_of_a_sample(tmp_path):
    shards = consensus.partition(IMAGES.astype(np.float32), Y, AGENTS)
    save_shards(shards, tmp_path)
    found = load_shards(tmp_path)
    np.testing.assert_array_equal(found.features, shards.features)
    assert found.features.dtype == np.float32
    own = dict(np.load(tmp_path / "agent-1.npz"))
    np.savez(tmp_path / "agent-1.npz", **own | {"features": own["features"].swapaxes(2, 3)})
    with pytest.raises(ValueError, match=r"agent 1 .* float32 of shape \(1, 2, 3\) a sample; got float32 of \(1, 3, 2\)"):
        load_shards(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver",
    [NEXT(PartialLinearization(0.5), 0.5, batch=4), AdaptiveNEXT(), GradientTracking(0.05, batch=4), DiNNO(), GTSAGA(0.05, 4)],
    ids=lambda solver: type(solver).__name__,
)
@pytest.mark.parametrize("kind", [Pictures, Shared])
def test_every_kind_of_solver_takes_images(solver, kind, forked):
    options = {"rounds": 4, "agent_objectives": True}
    flat = consensus.solve(problem(kind(MLP, (6,)), X), GRAPH, solver, **options, test=(X[:7], Y[:7]))
    images = problem(kind(MLP, SHAPE), IMAGES)
    for engine in ("stacked", Processes(2)):
        found = consensus.solve(images, GRAPH, solver, **options, test=(IMAGES[:7], Y[:7]), engine=engine)
        np.testing.assert_array_equal(found.w, flat.w)
        for name in {*flat.history} - {"seconds"}:
            np.testing.assert_array_equal(found.history[name], flat.history[name])


def test_constants_and_other_local_problems_take_images():
    flat, images = problem(MLP, X), problem(Pictures(MLP, SHAPE), IMAGES)
    np.testing.assert_allclose(images.lipschitz(), flat.lipschitz(), rtol=1e-12)
    l1 = [problem(*given, consensus.L1(0.02)) for given in ((MLP, X), (Pictures(MLP, SHAPE), IMAGES))]
    one, other = (consensus.solve(p, GRAPH, NEXT(PartialLinearization(0.5), 0.5), rounds=3).w for p in l1)
    np.testing.assert_allclose(other, one, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", [Pictures, Shared])
def test_models_of_images_are_checked_as_others(kind):
    assert max(check_model(kind(MLP, SHAPE)).errors.values()) < 1e-6
    check_model(kind(MLP, SHAPE), SHAPE, dtype="float32")
    for wrong in (0, (1, 0), (), "2x3", [2, 1.5]):
        with pytest.raises(ValueError, match=r"^features(\[1\])? must be a whole number"):
            check_model(kind(MLP, SHAPE), wrong)


def test_samples_of_another_shape_are_rejected():
    with pytest.raises(ValueError, match=r"have \(1, 2, 3\) features a sample, but MLP.* takes 6: X\.reshape\(len\(X\), 6\)$"):
        problem(MLP, IMAGES)
    with pytest.raises(ValueError, match=r"have 6 features a sample, but Pictures.* takes \(2, 2\)$"):
        problem(Pictures(MLP, (2, 2)), X)
    with pytest.raises(ValueError, match=r"test features must have shape \(1, 2, 3\) a sample, as in training; got \(6,\)"):
        consensus.solve(problem(Pictures(MLP, SHAPE), IMAGES), GRAPH, rounds=1, test=(X, Y))
    with pytest.raises(ValueError, match=r"^X must have shape \(samples, features\), or \(samples, \.\.\.\) .* got \(30,\)"):
        consensus.partition(Y, Y, AGENTS)


def test_pixels_far_from_standardised_are_named_by_their_place():
    bright = IMAGES.copy()
    bright[:, 0, 1, 2] += 200
    with pytest.warns(UserWarning, match=r"feature \(0, 1, 2\) \(mean 200"):
        AdaptiveNEXT().check(problem(Pictures(MLP, SHAPE), bright))


def test_a_model_of_any_shape_needs_no_features():
    model = Convolution(2, 2)  # it takes samples of any length
    assert consensus.Problem(model, consensus.SquaredLoss(), consensus.partition(X, Y, AGENTS)).parameters == model.parameters
