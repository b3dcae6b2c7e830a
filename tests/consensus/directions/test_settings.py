"""Settings of directions: what is rejected, and what is said."""

import dataclasses
from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.deep.muon import orthogonalized
from consensus.directions import Adam, AdamW, Clip, Direction, Momentum, Muon
from consensus.solvers import DGD, KGT, SGP, GradientTracking, PowerGossip, QGDSGDm

RNG = np.random.default_rng(0)
SHARDS = consensus.partition(RNG.standard_normal((20, 4)), RNG.standard_normal(20), agents=4)
LINEAR = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), SHARDS)
RING = topologies.Static(topologies.ring(4))


@pytest.mark.parametrize(("make", "match"), [
    (lambda: Momentum(1.0), r"momentum of Momentum must be a finite number >= 0 and < 1; got 1.0"),
    (lambda: Momentum(0.5, 1), "nesterov of Momentum"),
    (lambda: Adam(0.9), r"betas of Adam must be two numbers, such as \(0.9, 0.999\); got 0.9"),
    (lambda: Adam((0.9, 1.0)), r"betas\[1\] of Adam must be a finite number >= 0 and < 1"),
    (lambda: AdamW("ab"), r"betas of AdamW must be two numbers"),
    (lambda: Adam(eps=0), "eps of Adam must be a finite number > 0; got 0"),
    (lambda: Adam(saturation=0), "saturation of Adam must be a finite number > 0; got 0"),
    (lambda: AdamW(weight_decay=-0.1), "weight_decay of AdamW must be a finite number >= 0; got -0.1"),
    (lambda: Muon(weight_decay=None), "weight_decay of Muon must be a finite number >= 0; got None"),
    (lambda: Muon(scale="rms"), "scale of Muon must be one of 'original', 'match_rms_adamw', 'none'; got 'rms'"),
    (lambda: Muon(coefficients=(1.0, 2.0)), r"coefficients of Muon must be three numbers \(a, b, c\)"),
    (lambda: Muon(steps=0), "steps of Muon must be a whole number >= 1; got 0"),
    (lambda: Clip(0), "norm of Clip must be a finite number > 0; got 0"),
])  # fmt: skip
def test_bad_settings(make, match):
    with pytest.raises(ValueError, match=f"^{match}"):
        make()


@pytest.mark.parametrize(("make", "match"), [
    (lambda: DGD(0.1, direction="adam"), "direction must be a direction, such as consensus.directions.AdamW"),
    (lambda: SGP(0.1, direction=Adam), r"direction must be .*; got the class Adam: call it"),
    (lambda: Clip(1.0, 2.0), "direction of Clip must be a direction"),
    (lambda: Muon(layers="0.weight"), r"layers of Muon must be a function \(name, shape\) -> bool; got '0.weight'"),
    (lambda: Muon(others=Adam()), "others of Muon must be an AdamW; got Adam"),
    *(
        (
            lambda kind=kind: kind(direction=Adam()),
            rf"{kind.__name__} has no bound .* with direction=Adam .*give step_size=",
        )
        for kind in (DGD, GradientTracking, KGT)
    ),
    (lambda: dataclasses.replace(DGD(), direction=Muon()), "DGD has no bound on its step with direction=Muon"),
    (lambda: DGD(0.1, direction=Adam()).stable_step(LINEAR, RING), "DGD has no bound on its step with direction=Adam"),
    (lambda: QGDSGDm(direction=Adam()), "step_size"),
])  # fmt: skip
def test_bad_directions(make, match):
    with pytest.raises(TypeError, match=match):
        make()


class Bare(consensus.Linear):
    layout = None


def test_muon_needs_the_shapes_of_layers():
    def costs(w):
        return (w**2).sum(axis=1)

    functions = consensus.Problem.from_functions(costs, lambda w: 2 * w, agents=4, parameters=3)
    for solver in (DGD(0.1, direction=Muon()), PowerGossip(DGD(0.1, direction=Clip(1.0, Muon())))):
        with pytest.raises(TypeError, match=r"Muon needs the shapes of the layers' weights, .* has no model: take MLP"):
            consensus.solve(functions, RING, solver, rounds=1)
    bare = consensus.Problem(Bare(4), consensus.SquaredLoss(), SHARDS)
    with pytest.raises(TypeError, match=r"Muon needs .*layout, and Linear\(4, .* has none: take MLP"):
        consensus.solve(bare, RING, DGD(0.1, direction=Muon()), rounds=1)


def test_layouts_and_decays_must_cover_the_parameters():
    class Short(consensus.Linear):
        layout = consensus.Linear(3, bias=False).layout

    short = consensus.Problem(Short(4), consensus.SquaredLoss(), SHARDS)
    with pytest.raises(ValueError, match=r"the layout of .* must cover its 5 parameters; it covers 3"):
        consensus.solve(short, RING, DGD(0.1, direction=Muon()), rounds=1)
    for direction in (AdamW(weight_decay=consensus.L2([0.1, 0.2])), Muon(weight_decay=consensus.L2([0.1, 0.2]))):
        with pytest.raises(ValueError, match="has 2 weights, and the problem 5 parameters"):
            consensus.solve(LINEAR, RING, DGD(0.1, direction=direction), rounds=1)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (1, 6), (6, 1)])
def test_many_steps_of_the_cubic_iteration_find_the_nearest_orthogonal_matrix(shape):
    """Which is U V' of the singular value decomposition: with a = 3/2, b = -1/2, Newton's and Schulz's own."""
    stack = RNG.standard_normal((7, *shape))
    found = orthogonalized(stack, (1.5, -0.5, 0.0), 60, 1e-7)
    for matrix, factor in zip(stack, found, strict=True):
        u, _, v = np.linalg.svd(matrix, full_matrices=False)
        np.testing.assert_allclose(factor, u @ v, rtol=0, atol=1e-12)
    assert (orthogonalized(np.zeros((2, *shape)), (3.4445, -4.775, 2.0315), 5, 1e-7) == 0).all()


@dataclass(frozen=True)
class Sign(Direction):
    """A rule of a user's own."""

    scale: float = 1.0

    def step(self, problem, state, gradient, w):
        return state, self.scale * np.sign(gradient)


def test_directions_of_ones_own():
    solver = GradientTracking(0.01, order="cta", direction=Sign(2.0))
    consensus.testing.check_solver(solver, rounds=3)
    alone = consensus.Problem(
        consensus.Linear(4), consensus.SquaredLoss(), consensus.partition(SHARDS.features[0], SHARDS.targets[0], agents=1)
    )
    found = consensus.solve(
        alone, topologies.Static(nx.empty_graph(1)), DGD(0.01, direction=Sign()), rounds=1, start=np.ones(5)
    )
    np.testing.assert_allclose(found.mean, 1 - 0.01 * np.sign(alone.total_gradient(np.ones(5))), rtol=1e-15)
