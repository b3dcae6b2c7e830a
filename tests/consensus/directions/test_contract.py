"""Solvers keep their contract with every direction, on every engine."""

import dataclasses
import itertools

import numpy as np
import pytest

import consensus
import topologies
from consensus import directions
from consensus.checkpoints import checkpoint
from consensus.directions import AccumAdam, Adam, AdamW, Clip, Momentum, Muon
from consensus.engines import Processes
from consensus.robust import NNA
from consensus.solvers import DGD, KGT, SGP, Gossip, GradientTracking, PowerGossip, QGDSGDm
from consensus.step_sizes import CosineAnnealing
from consensus.testing import check_solver
from tests.helpers.problems import problem
from tests.helpers.turns import with_slow

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
RING = topologies.Static(topologies.ring(6))
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
    return DIRECTED if isinstance(solver, SGP) else RING


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
    check_solver(solver, MODEL, RING, rounds=3)


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
        check_solver(DGD(0.01, direction=direction), p, RING, rounds=2)


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
    consensus.solve(MODEL, RING, DGD(0.01, direction=Adam()), rounds=2, checkpoint=path)
    for other in (DGD(0.01), DGD(0.01, direction=AdamW()), DGD(0.01, direction=Adam((0.8, 0.999)))):
        with pytest.raises(ValueError, match="is a checkpoint of another run: solver"):
            consensus.solve(MODEL, RING, other, rounds=4, resume=path)
