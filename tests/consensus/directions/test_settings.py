"""Settings of directions: what is rejected, and what is said."""

import dataclasses
import itertools
from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus import directions
from consensus.checkpoints import checkpoint
from consensus.deep.muon import orthogonalized
from consensus.directions import AccumAdam, Adam, AdamW, Clip, Direction, Momentum, Muon
from consensus.engines import Processes
from consensus.robust import NNA
from consensus.solvers import DGD, KGT, SGP, Gossip, GradientTracking, PowerGossip, QGDSGDm
from consensus.step_sizes import CosineAnnealing
from consensus.testing import check_solver
from tests.helpers.problems import problem
from tests.helpers.turns import with_slow

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


# Solvers keep their contract with every direction, on every engine.

DECAY = consensus.L2.by_name(consensus.MLP([4, 6, 1]), lambda name, shape: 0.1 if len(shape) > 1 else 0.0)
DIRECTIONS = [
    Momentum(0.8, nesterov=True),
    Adam(),
    Adam(saturation=1e-3),
    AdamW(weight_decay=0.1),
    AdamW(weight_decay=DECAY),
    Clip(0.3),
    Clip(0.3, AdamW()),
    Muon(),
    Clip(1.0, Muon(weight_decay=DECAY, others=AdamW(weight_decay=DECAY), others_step=0.3)),
    AccumAdam(window=2, weight_decay=DECAY),
]
SOLVERS = [
    DGD(0.01, 3), GradientTracking(CosineAnnealing(0.01, 20)), GradientTracking(0.01, "cta", 3), KGT(0.01, 2, batch=3),
    QGDSGDm(0.005, 3), SGP(0.01),
]  # fmt: skip
MODEL = problem("logistic", consensus.L2(0.1), consensus.MLP([4, 6, 1]), "sizes")
RING_OF_SIX = topologies.Static(topologies.ring(6))
DIRECTED = topologies.Static(topologies.ring(6).to_directed(), weights=topologies.push)
# Each solver with some of the directions, each direction with some of the solvers.
PAIRS = [
    dataclasses.replace(solver, direction=direction)
    for (i, solver), (j, direction) in itertools.product(enumerate(SOLVERS), enumerate(DIRECTIONS))
    if (i + j) % 3 == 0
]


def named(solver):
    return f"{type(solver).__name__}-{solver.direction}"[:60]


def network(solver):
    return DIRECTED if isinstance(solver, SGP) else RING_OF_SIX


@pytest.mark.parametrize(
    "solver", with_slow(PAIRS, *PAIRS[1::2]), ids=lambda solver: f"{type(solver).__name__}-{solver.direction}"[:60]
)
def test_it_keeps_the_contract(solver):
    laws = check_solver(solver, MODEL, network(solver), rounds=4).errors
    assert {"blocks of agents on threads come to the same bits", "a resumed run is the run that never stopped"} <= {*laws}


@pytest.mark.parametrize("direction", DIRECTIONS[:4], ids=str)
def test_it_keeps_the_contract_without_layers(direction):
    check_solver(DGD(0.01, direction=direction), rounds=3)


@pytest.mark.parametrize("solver", [
    Gossip(GradientTracking(0.01, direction=Adam()), 2),
    NNA(DGD(0.01, direction=Muon()), 0.2),
    PowerGossip(GradientTracking(0.01, "cta", direction=AdamW())),
], ids=lambda solver: type(solver).__name__)  # fmt: skip
def test_wrappers_take_solvers_with_directions(solver):
    check_solver(solver, MODEL, RING_OF_SIX, rounds=3)


@pytest.mark.slow
@pytest.mark.parametrize("solver", PAIRS, ids=named)
def test_it_keeps_the_contract_on_workers(solver, forked):
    check_solver(solver, MODEL, network(solver), rounds=4, engines=[Processes(2)])


def test_large_layers_have_equal_bits_in_blocks():
    """Where arrays are cut into chunks, and BLAS takes other ways."""
    rng = np.random.default_rng(0)
    shards = consensus.partition(rng.standard_normal((60, 40)), rng.standard_normal((60, 3)), agents=6)
    p = consensus.Problem(consensus.MLP([40, 150, 3]), consensus.SquaredLoss(), shards)
    for direction in (Muon(), Clip(0.1, AdamW())):
        check_solver(DGD(0.01, direction=direction), p, RING_OF_SIX, rounds=2)


def test_every_direction_is_tried():
    tried = {type(one).__name__ for one in DIRECTIONS}
    assert tried == {*directions.__all__} - {"Direction"}


@pytest.mark.parametrize("solver", [DGD(0.1), GradientTracking(0.1), KGT(0.1), QGDSGDm(0.1), SGP(0.1)], ids=repr)
def test_without_a_direction_checkpoints_know_solvers_as_before_there_were_any(solver):
    assert "direction" not in checkpoint.known_by(solver)
    assert "direction" not in solver.__reduce_ex__(4)[2]
    assert not [name for name in consensus.communication.flatten(solver.init(MODEL, np.zeros((6, 37)))) if "direction" in name]
    other = dataclasses.replace(solver, direction=Adam())
    assert "direction=Adam" in repr(other)
    assert checkpoint.known_by(other) != checkpoint.known_by(dataclasses.replace(solver, direction=Adam(eps=1e-7)))


def test_a_checkpoint_with_another_direction_is_rejected(tmp_path):
    path = tmp_path / "run.ckpt"
    consensus.solve(MODEL, RING_OF_SIX, DGD(0.01, direction=Adam()), rounds=2, checkpoint=path)
    for other in (DGD(0.01), DGD(0.01, direction=AdamW()), DGD(0.01, direction=Adam((0.8, 0.999)))):
        with pytest.raises(ValueError, match="is a checkpoint of another run: solver"):
            consensus.solve(MODEL, RING_OF_SIX, other, rounds=4, resume=path)
