"""Batch normalisation: what is refused, samples without weight, and measurements on ranks."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.data import LazyShards
from consensus.models import Torch
from consensus.observe.recorder import Recorder
from consensus.options import RunOptions
from consensus.problems import Batch, LazyProblem
from consensus.solvers import DGD, GTSAGA, NEXT, AdaptiveNEXT, Gossip, GradientTracking, NewtonTracking, TreeLBFGS
from consensus.surrogates import FullLinearization, PartialLinearization
from consensus.testing import check_model
from tests.helpers.ranks_on_threads import together

torch = pytest.importorskip("torch")
nn = torch.nn
RING = topologies.ring(4)
X = np.random.default_rng(0).standard_normal((41, 5))
Y = np.arange(41) % 3


def mlp():
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 3))


def images():
    return nn.Sequential(nn.Unflatten(1, (1, 5)), nn.Conv1d(1, 2, 2), nn.BatchNorm1d(2), nn.Flatten(), nn.Linear(8, 3))


def problem(module=mlp, sizes=(6, 15, 9, 11), agents=4, **settings):
    shards = consensus.partition(X, Y, agents=agents, scheme="sizes", sizes=sizes)
    return consensus.Problem(Torch(module, **settings), consensus.CrossEntropy(), shards)


@pytest.mark.parametrize("solver", [
    NewtonTracking(0.1), AdaptiveNEXT(), TreeLBFGS(), GTSAGA(0.1, batch=3), NEXT(PartialLinearization(1.0), 0.1),
    Gossip(NEXT(PartialLinearization(1.0), 0.1, batch=3), 2),
])  # fmt: skip
def test_solvers_that_need_one_function_are_refused_by_name(solver):
    with pytest.raises(
        ValueError, match=rf"^{type(solver).__name__}.* needs a deterministic model, and Torch.* normalises batches in training"
    ):
        consensus.solve(problem(), RING, solver, rounds=1)


@pytest.mark.slow
def test_solvers_of_gradients_alone_descend():
    for solver in (NEXT(FullLinearization(4.0), 0.3, batch=3), Gossip(DGD(0.1), 2), GradientTracking(0.1, order="cta")):
        objective = consensus.solve(problem(), RING, solver, rounds=30, record_every=10).history["objective"]
        assert objective[-1] < 0.97 * objective[0]
    with pytest.raises(ValueError, match=r"has batch normalisation, and no outputs without statistics.* need a step_size="):
        consensus.solve(problem(), RING, GradientTracking(), rounds=1)


def test_a_batch_of_one_sample_is_refused_before_the_run_unless_it_has_several_values_a_channel():
    with pytest.raises(
        ValueError, match=r"^Torch.* two samples or more, and DGD with batch=.*size=4.* draws single ones: take"
    ):
        consensus.solve(problem(), RING, DGD(0.1, batch=4), rounds=1)
    with pytest.raises(ValueError, match=r"^Torch.* normalises two samples or more, and agent 2 has one: call module.eval"):
        consensus.solve(problem(sizes=(6, 15, 1, 19)), RING, DGD(0.1), rounds=1)
    p = problem()
    single = Batch(np.zeros((4, 2), int), np.array([[1.0, 1], [1, 0], [1, 1], [1, 1]]))
    with pytest.raises(ValueError, match=r"^agent 1 has a batch of one sample, and Torch"):
        p.gradient(np.zeros((4, p.parameters)), single)
    consensus.solve(problem(), RING, DGD(0.1, batch=consensus.Minibatches(4, replacement=True)), rounds=5)
    consensus.solve(problem(images), RING, DGD(0.1, batch=4), rounds=5)


def test_least_is_the_smallest_batch():
    p = problem(images)
    for size in (1, 2, 4, 5, 7, 10):
        rule = consensus.Minibatches(size)
        drawn = [np.count_nonzero(rule.at(p, n).weights, axis=1).min() for n in range(60)]
        assert rule.least(p) == min(drawn)
        assert consensus.Minibatches(size, replacement=True).least(p) == min(size, 6)


def test_batches_are_normalised_by_the_samples_with_weight_alone():
    p = problem()
    w = np.random.default_rng(1).standard_normal((4, p.parameters))
    holes = Batch(np.array([[0, 1, 2, 3]] * 4), np.array([[2.0, 0, 2, 2], [1, 0, 0, 1], [0, 0, 3, 3], [1, 1, 1, 1]]))
    for agent in range(4):
        used = np.flatnonzero(holes.weights[agent])
        alone = Batch(holes.indices[[agent]][:, used], holes.weights[[agent]][:, used])
        expected = p.restrict([agent]).gradient(w[[agent]], alone)
        np.testing.assert_array_equal(p.gradient(w, holes)[agent], expected[0])
    sampled = p.sampled(holes)
    np.testing.assert_array_equal(sampled.gradient(w), p.gradient(w, holes))


@pytest.mark.slow
def test_other_normalisation_and_frozen_layers_have_no_buffers():
    torch.manual_seed(0)  # layers whose variance is tiny at the points drawn are curved at the scale of differences
    layers = nn.GroupNorm(2, 4), nn.LayerNorm(4), nn.BatchNorm1d(4).eval()
    plain = [nn.Sequential(nn.Linear(5, 4), layer, nn.Linear(4, 3)) for layer in layers]
    plain.append(
        nn.Sequential(nn.Unflatten(1, (1, 5)), nn.Conv1d(1, 2, 2), nn.InstanceNorm1d(2), nn.Flatten(), nn.Linear(8, 3))
    )
    for module in plain:
        p = problem(module)
        assert p.model.buffers is None
        assert set(p.model.state_dict(np.zeros(p.parameters))) == set(module.state_dict())
        check_model(p.model)
        with pytest.raises(TypeError, match="has no buffers: its model has no batch normalisation in training mode"):
            p.buffers(np.zeros(p.parameters))
        with pytest.raises(TypeError, match="has no buffers: its model has no batch normalisation in training mode"):
            p.evaluated(np.zeros(8))


def test_what_needs_statistics_says_where_they_come_from():
    p, kept = problem(), problem(buffers="keep")
    w = np.zeros(p.parameters)
    with pytest.raises(
        ValueError, match=r"no outputs without statistics: evaluate it by model.evaluated\(problem.buffers\(w\)\)"
    ):
        p.model.predict(w, X)
    with pytest.raises(ValueError, match=r"^buffers must be given for Torch.*: those of problem.buffers\(w\)$"):
        p.model.state_dict(w)
    with pytest.raises(ValueError, match=r"^buffers must have shape \(8,\) for Torch"):
        p.model.evaluated(np.zeros(3))
    with pytest.raises(ValueError, match=r"^w must have shape \(4, 47\), as each agent keeps its own buffers; got \(47,\)"):
        kept.buffers(w)
    with pytest.raises(ValueError, match=r"^buffers must be one of 'average', 'keep'; got 'share'"):
        Torch(mlp, buffers="share")
    lazy = LazyShards.from_list([(X[:20], Y[:20]), (X[20:], Y[20:])])
    with pytest.raises(ValueError, match="has batch normalisation, which is evaluated by statistics of all samples"):
        LazyProblem(Torch(mlp), consensus.CrossEntropy(), lazy)
    frozen = LazyProblem(Torch(mlp().eval()), consensus.CrossEntropy(), lazy)
    assert frozen.gradient(np.zeros((2, 47))).shape == (2, 47)
    check_model(p.model.evaluated(p.buffers(w)))
    check_model(Torch(mlp).evaluated(p.buffers(w)), features=5)


class Together:
    """The ``Gather`` of ranks."""

    def __init__(self, ranks):
        self.ranks = ranks

    def rows(self, block):
        return np.concatenate(self.ranks.allgather(block))

    def parts(self, block):
        yield from self.ranks.allgather(block)

    def chain(self, step, value):
        for their in self.ranks.allgather(step):
            value = their(value)
        return value


@pytest.mark.parametrize("honest", [None, np.array([0, 2, 3])])
@pytest.mark.parametrize("buffers", ["average", "keep"])
def test_ranks_measure_what_one_process_does(buffers, honest):
    p = problem(buffers=buffers)
    test = RunOptions(rounds=1, test=(X[:20] + 0.5, Y[:20])).fitted(p, DGD(0.1)).test
    w = np.random.default_rng(1).standard_normal((4, p.parameters))

    def measured(ranks):
        recorder = Recorder(p, DGD(0.1), test, agent_objectives=True, honest=honest)
        own = slice(2 * ranks.me, 2 * ranks.me + 2)
        recorder.attach(p.restrict(own), Together(ranks))
        return recorder.measure(w[own], recorder.mean(w[own]))

    alone = Recorder(p, DGD(0.1), test, agent_objectives=True, honest=honest)
    alone = alone.measure(w, alone.mean(w))
    for row in together(2, measured):
        for name in alone:
            np.testing.assert_array_equal(row[name], alone[name], err_msg=name)
