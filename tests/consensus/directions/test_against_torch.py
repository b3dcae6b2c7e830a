"""Each rule alone, at a single agent, is PyTorch's own optimiser, to rounding."""

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.directions import Adam, AdamW, Clip, Momentum, Muon
from consensus.solvers import DGD
from consensus.step_sizes import TorchSchedule

torch = pytest.importorskip("torch")
from torch import nn, optim  # noqa: E402

pytestmark = pytest.mark.slow

ROUNDS, ALONE = 60, topologies.Static(nx.empty_graph(1))
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((30, 4)), RNG.standard_normal((30, 3))
RULES = {
    "momentum": (Momentum(0.8), lambda own, lr: optim.SGD(own, lr, momentum=0.8)),
    "nesterov": (Momentum(0.8, nesterov=True), lambda own, lr: optim.SGD(own, lr, momentum=0.8, nesterov=True)),
    "adam": (Adam(), optim.Adam),
    "adam, betas": (Adam((0.8, 0.9), 1e-3), lambda own, lr: optim.Adam(own, lr, betas=(0.8, 0.9), eps=1e-3)),
    "adamw": (AdamW(), optim.AdamW),
    "adamw, decay": (AdamW(weight_decay=0.5), lambda own, lr: optim.AdamW(own, lr, weight_decay=0.5)),
}


def module(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.LayerNorm(6), nn.Linear(6, 3)).double()


def trained(own, optimisers, rounds=ROUNDS, most=None, schedulers=()):
    for _ in range(rounds):
        for optimiser in optimisers:
            optimiser.zero_grad()
        (0.5 * ((own(torch.from_numpy(X)) - torch.from_numpy(Y)) ** 2).sum() / len(X)).backward()
        if most:
            nn.utils.clip_grad_norm_(own.parameters(), most)
        for step in (*optimisers, *schedulers):
            step.step()
    return np.concatenate([part.detach().numpy().ravel() for part in own.parameters()])


def solved(own, direction, step_size=0.01, rounds=ROUNDS):
    shards = consensus.partition(X, Y, agents=1)
    problem = consensus.Problem(consensus.models.Torch(own), consensus.SquaredLoss(), shards)
    solver = DGD(step_size, direction=direction)
    start = np.concatenate([part.detach().numpy().ravel() for part in own.parameters()])
    return consensus.solve(problem, ALONE, solver, rounds=rounds, start=start, record_every=rounds).mean


@pytest.mark.parametrize("name", RULES)
def test_one_agent_is_the_optimiser(name):
    direction, make = RULES[name]
    own = module()
    found = solved(own, direction)
    np.testing.assert_allclose(found, trained(own, [make(own.parameters(), lr=0.01)]), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("muon", "settings"), [
    (Muon(), {}),
    (Muon(0.8, nesterov=False, weight_decay=0.0), {"momentum": 0.8, "nesterov": False, "weight_decay": 0.0}),
    (Muon(scale="match_rms_adamw", steps=3), {"adjust_lr_fn": "match_rms_adamw", "ns_steps": 3}),
    (Muon(coefficients=(2.0, -1.5, 0.5), eps=10.0), {"ns_coefficients": (2.0, -1.5, 0.5), "eps": 10.0}),
], ids=str)  # fmt: skip
def test_one_agent_is_muon_with_adamw_for_vectors(muon, settings, monkeypatch):
    """PyTorch's, with its rounding to bfloat16 left out."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    own = module()
    found = solved(own, muon)
    matrices = [part for part in own.parameters() if part.ndim == 2]
    vectors = [part for part in own.parameters() if part.ndim < 2]
    optimisers = [optim.Muon(matrices, lr=0.01, **settings), optim.AdamW(vectors, lr=0.01)]
    np.testing.assert_allclose(found, trained(own, optimisers), rtol=0, atol=1e-12)


def test_vectors_have_a_step_and_a_rule_of_their_own(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    own = module()
    found = solved(own, Muon(others=AdamW((0.8, 0.9), weight_decay=0.2), others_step=0.3), 0.02)
    matrices = [part for part in own.parameters() if part.ndim == 2]
    vectors = [part for part in own.parameters() if part.ndim < 2]
    adamw = optim.AdamW(vectors, lr=0.006, betas=(0.8, 0.9), weight_decay=0.2)
    np.testing.assert_allclose(found, trained(own, [optim.Muon(matrices, lr=0.02), adamw]), rtol=0, atol=1e-12)


def test_vectors_may_decay_by_names(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    own = module()
    decay = consensus.L2.by_name(consensus.models.Torch(own), lambda name, shape: 0.3 if name == "2.weight" else 0.1)
    found = solved(own, Muon(weight_decay=decay, others=AdamW(weight_decay=decay)))
    matrices = [part for part in own.parameters() if part.ndim == 2]
    vectors = [part for part in own.parameters() if part.ndim < 2]
    groups = [{"params": [part], "weight_decay": 0.3 if part is own[2].weight else 0.1} for part in vectors]
    optimisers = [optim.Muon(matrices, lr=0.01, weight_decay=0.1), optim.AdamW(groups, lr=0.01)]
    np.testing.assert_allclose(found, trained(own, optimisers), rtol=0, atol=1e-12)


def test_chosen_layers_are_muon_s_and_others_adamw_s(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    own = module()
    found = solved(own, Muon(layers=lambda name, shape: name != "3.weight"))
    first, *others = own.parameters()
    np.testing.assert_allclose(
        found, trained(own, [optim.Muon([first], lr=0.01), optim.AdamW(others, lr=0.01)]), rtol=0, atol=1e-12
    )


def test_convolutions_are_matrices_with_a_row_for_each_output(monkeypatch):
    """PyTorch's refuses them: a convolution over whole images has the gradients of a linear layer."""
    monkeypatch.setattr(torch.Tensor, "bfloat16", torch.Tensor.clone)
    own = nn.Sequential(nn.Linear(4, 3)).double()
    same = nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 3, 2), nn.Flatten()).double()
    with torch.no_grad():
        same[1].weight.copy_(own[0].weight.reshape(3, 1, 2, 2))
        same[1].bias.copy_(own[0].bias)
    np.testing.assert_allclose(solved(same, Muon()), solved(own, Muon()), rtol=0, atol=1e-12)


def test_decay_by_names_is_that_of_groups_of_parameters():
    own = module()
    decay = consensus.L2.by_name(consensus.models.Torch(own), lambda name, shape: 0.3 if len(shape) > 1 else 0.0)
    found = solved(own, AdamW(weight_decay=decay))
    groups = [
        {"params": [part for part in own.parameters() if part.ndim > 1], "weight_decay": 0.3},
        {"params": [part for part in own.parameters() if part.ndim < 2], "weight_decay": 0.0},
    ]
    np.testing.assert_allclose(found, trained(own, [optim.AdamW(groups, lr=0.01)]), rtol=0, atol=1e-12)


def test_a_regularizer_by_names_is_the_decay_of_plain_groups():
    own = module()
    r = consensus.L2.by_name(consensus.models.Torch(own), lambda name, shape: 0.2 if name.endswith("weight") else 0.05)
    groups = [
        {"params": [part for name, part in own.named_parameters() if name.endswith(kind)], "weight_decay": decay}
        for kind, decay in (("weight", 0.2), ("bias", 0.05))
    ]
    shards = consensus.partition(X, Y, agents=1)
    problem = consensus.Problem(consensus.models.Torch(own), consensus.SquaredLoss(), shards, r)
    start = np.concatenate([part.detach().numpy().ravel() for part in own.parameters()])
    solver = DGD(0.01, direction=Momentum())
    found = consensus.solve(problem, ALONE, solver, rounds=ROUNDS, start=start, record_every=ROUNDS).mean
    wanted = trained(own, [optim.SGD(groups, lr=0.01, momentum=0.9)])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_clipping_is_that_of_clip_grad_norm():
    """Which divides by the norm plus 1e-6."""
    own = module()
    found = solved(own, Clip(0.05, Momentum()), 0.1)
    wanted = trained(own, [optim.SGD(own.parameters(), lr=0.1, momentum=0.9)], most=0.05)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)
    assert np.abs(found - solved(module(), Momentum(), 0.1)).max() > 0.1


def test_schedules_are_those_of_the_optimiser():
    own = module()
    found = solved(own, AdamW(), TorchSchedule(optim.lr_scheduler.CosineAnnealingLR, 0.02, T_max=40))
    adamw = optim.AdamW(own.parameters(), lr=0.02)
    wanted = trained(own, [adamw], schedulers=[optim.lr_scheduler.CosineAnnealingLR(adamw, T_max=40)])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
