"""Modules of PyTorch that draw random numbers in training."""

import sys

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes
from consensus.frameworks import torch_gradients
from consensus.frameworks.torch_draws import runs_python, seeded
from consensus.models import Torch
from consensus.problems import Batch
from consensus.problems.batch import NumberedBatch
from consensus.solvers import DGD, GTSARAH, GTVR, NEXT, AdaptiveNEXT, GradientTracking, TreeLBFGS
from consensus.surrogates import PartialLinearization
from tests.helpers import frameworks

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")
nn = torch.nn
checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
RING = topologies.ring(4)
X = np.random.default_rng(0).standard_normal((41, 1, 6, 6)).astype(np.float32)
Y = np.arange(41) % 3


class Noise(nn.Module):
    """Noise on images and a shift by chance, as augmentation does, in training."""

    def forward(self, x):
        if not self.training:
            return x
        return torch.roll(x + 0.1 * torch.randn_like(x), int(torch.randint(3, ())), dims=-1)


def cnn():
    head = nn.Linear(48, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3)
    return nn.Sequential(Noise(), nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Dropout2d(0.3), nn.Flatten(), *head)


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 3))


class Recurrent(nn.Module):
    """Dropout inside a layer of PyTorch, in C++."""

    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.GRU(6, 5, num_layers=2, dropout=0.5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(self.inner(x[:, 0])[0][:, -1])


def problem(module=cnn, seed=3, dtype=np.float32, agents=4):
    shards = consensus.partition(X.astype(dtype), Y, agents=agents, scheme="sizes", sizes=[5, 16, 9, 11][:agents])
    return consensus.Problem(Torch(module, seed=seed), consensus.CrossEntropy(), shards, consensus.L2(1e-3))


OTHERS = [(module, (1, 2, 3)) for module in (cnn, mlp, Recurrent)]


@pytest.mark.parametrize(("module", "counts"), [(cnn, ()), *OTHERS])
def test_the_same_on_every_engine_and_after_a_checkpoint(module, counts, tmp_path):
    p, solver = problem(module), GradientTracking(0.1, batch=4)
    path, state = tmp_path / "run.npz", torch.get_rng_state()
    whole = consensus.solve(p, RING, solver, rounds=8).w
    torch.rand(3)  # the process's own generator is no part of a run
    for workers in counts:
        frameworks.assert_close(consensus.solve(p, RING, solver, rounds=8, engine=Processes(workers)).w, whole)
    consensus.solve(p, RING, solver, rounds=5, checkpoint=path, every=5)
    frameworks.assert_close(consensus.solve(p, RING, solver, rounds=8, resume=path).w, whole)
    assert not np.array_equal(consensus.solve(problem(module, seed=4), RING, solver, rounds=8).w, whole)
    with pytest.raises(ValueError, match="is a checkpoint of another run: model"):
        consensus.solve(problem(module, seed=4), RING, solver, rounds=8, resume=path)
    torch.set_rng_state(state)
    torch.rand(3)


@pytest.mark.parametrize("module", [cnn, mlp, Recurrent])
def test_descent_is_a_loop_in_pytorch_with_the_same_draws(module):
    p, rounds, alpha = problem(module, dtype=np.float64), 6, 0.2
    start = p.model.init(np.random.default_rng(0))
    before = torch.get_rng_state()
    found = consensus.solve(p, RING, DGD(alpha, batch=4), rounds=rounds, start=start)
    assert torch.equal(torch.get_rng_state(), before)

    rule, mixing = consensus.Minibatches(4), topologies.Static(RING).weights(0).toarray()
    w = np.tile(start, (4, 1)).astype(np.float64)
    for n in range(rounds):
        batch, gradients = rule.at(p, n), np.empty_like(w)
        for agent in range(4):
            net = module().double()
            net.load_state_dict(p.model.state_dict(w[agent]))
            places = batch.indices[agent][batch.weights[agent] > 0]
            x, labels = p.shards.features[agent, places], p.shards.targets[agent, places, 0]
            torch.manual_seed(p.model.draw_seed(agent, n))
            loss = nn.functional.cross_entropy(net(torch.tensor(x)), torch.tensor(labels).long())
            (p.shards.sizes[agent] / 41 * loss).backward()
            gradients[agent] = 4 * torch.cat([part.grad.ravel() for part in net.parameters()]).numpy() + 1e-3 * w[agent]
        w = mixing @ w - alpha * gradients
    np.testing.assert_allclose(found.w, w, rtol=0, atol=1e-12)
    net.load_state_dict(p.model.state_dict(found.mean))
    with torch.no_grad():
        error = nn.functional.cross_entropy(net.eval()(torch.tensor(X, dtype=torch.float64)), torch.tensor(Y))
    expected = float(error) + 0.5e-3 * float(found.mean @ found.mean)
    np.testing.assert_allclose(found.history["objective"][-1], expected, rtol=1e-12)  # in evaluation mode


def test_agents_and_draws_have_seeds_of_their_own():
    model = problem().model
    seeds = [model.draw_seed(agent, draw) for agent in range(30) for draw in range(30)]
    assert len(set(seeds)) == 900
    assert all(0 <= seed < 2**63 for seed in seeds)  # as PyTorch takes them
    assert model.draw_seed(3, 5) != problem(seed=4).model.draw_seed(3, 5)
    p, w = problem(mlp, dtype=np.float64), np.tile(problem(mlp).model.init(np.random.default_rng(0)), (4, 1)).astype(float)
    batch = consensus.Minibatches(5).at(p, 0)
    p.shards.features[:], p.shards.targets[:] = p.shards.features[:1], p.shards.targets[:1]  # agents differ in draws alone
    same = [np.tile(part[:1], (4, 1)) for part in (batch.indices, batch.weights)]
    found = p.gradient(w, NumberedBatch.of(*same, 0))
    assert len({row.tobytes() for row in found}) == 4


class Redrawn(torch.autograd.Function):
    """Dropout that draws again on the way back, as a module does whose forward pass is repeated there for memory."""

    @staticmethod
    def forward(ctx, x):
        return x * (torch.rand_like(x) < 0.5)

    @staticmethod
    def backward(ctx, u):
        return u * (torch.rand_like(u) < 0.5)


class Again(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(36, 8), nn.Linear(8, 3)

    def forward(self, x):
        x = self.first(torch.flatten(x, 1))
        return self.last(Redrawn.apply(x) if self.training else x)


def test_a_checkpointed_module_draws_the_same_in_the_backward_pass(monkeypatch):
    """The generator is set before the backward pass, too, whenever that runs Python: also the first one, which finds it out."""
    p = problem(Again, dtype=np.float64)
    w = np.random.default_rng(1).standard_normal((4, p.parameters))
    batch = consensus.Minibatches(4).at(p, 0)
    twice = [p.gradient(w, batch), p.gradient(w, batch)]
    np.testing.assert_array_equal(*twice)
    seen = []

    def noted(torch, seed, device):
        seen.append(seed)
        return seeded(torch, seed, device)

    monkeypatch.setattr(torch_gradients, "seeded", noted)
    p.gradient(w, batch)
    assert [seen.count(p.model.draw_seed(agent, 0)) for agent in range(4)] == [2] * 4  # forwards and backwards


def test_whoever_looks_at_calls_of_functions_goes_on_doing_so():
    def look(frame, event, function):
        return None

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        x = torch.ones(3, requires_grad=True)
        assert not runs_python((x * 2).sum().backward)
        assert sys.getprofile() is look
    finally:
        sys.setprofile(before)


def test_all_samples_are_in_evaluation_mode():
    p, w = problem(), np.random.default_rng(0).standard_normal((4, 449)).astype(np.float32)
    plain = problem(lambda: cnn().eval())
    assert p.model.stochastic
    assert not plain.model.stochastic
    np.testing.assert_array_equal(p.gradient(w), plain.gradient(w))
    np.testing.assert_array_equal(p.value(w), plain.value(w))
    batch = consensus.Minibatches(4).at(p, 7)
    np.testing.assert_array_equal(
        p.gradient(w, batch)[1:3],
        p.restrict(slice(1, 3)).gradient(w[1:3], consensus.Minibatches(4).at(p.restrict(slice(1, 3)), 7)),
    )
    assert not np.array_equal(p.gradient(w, batch), plain.gradient(w, batch))
    other = p.gradient(w, NumberedBatch.of(*batch, 8))
    assert not np.array_equal(p.gradient(w, batch), other)
    with pytest.warns(UserWarning, match="^DGD has no batch, and gradients of all samples are in evaluation mode"):
        consensus.solve(p, RING, DGD(0.1), rounds=1)


@pytest.mark.parametrize(
    "solver",
    [AdaptiveNEXT(), TreeLBFGS(), GTSARAH(0.1, batch=4), GTVR(0.1, batch=4), NEXT(PartialLinearization(1.0), 0.1, batch=4)],
)
def test_solvers_that_need_one_function_are_refused_by_name(solver):
    with pytest.raises(ValueError, match=rf"^{type(solver).__name__}.* needs a deterministic model, and Torch.*seed=3\) draws"):
        consensus.solve(problem(), RING, solver, rounds=1)


def test_a_batch_without_its_draw_is_refused():
    p = problem()
    batch = Batch(np.zeros((4, 2), int), np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"^batch must have the number of its draw, as NumberedBatch.of\(indices"):
        p.gradient(np.zeros((4, p.parameters)), batch)


class Kept(nn.Module):
    """Layers whose intermediate results are computed again in the backward pass, dropout included."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)


def test_layers_computed_again_in_the_backward_pass_draw_the_same_numbers():
    kept, plain = (problem(lambda make=make: make(mlp())) for make in (Kept, nn.Sequential))
    start = kept.model.init(np.random.default_rng(0))
    runs = [consensus.solve(p, RING, DGD(0.1, batch=4), rounds=3, start=start) for p in (kept, plain)]
    np.testing.assert_array_equal(*[run.w for run in runs])
