"""Five deep networks over agents, each as a model of ours and as rounds of D-PSGD written by hand in its framework."""

import copy
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import consensus
from experiments import language

SAMPLES, BATCH, CLASSES = 48, 16, 10  # of an agent, of a batch; they divide


class Network(NamedTuple):
    """A model, samples (agents, samples, ...) with their labels, and ``rounds(run) -> w``, the updates by hand."""

    model: object
    features: np.ndarray
    labels: np.ndarray
    batch: int
    step: float
    rounds: Callable


class Run(NamedTuple):
    """Inputs of a loop by hand: places and seeds of all batches, mixing matrices, and the start of all agents."""

    places: np.ndarray  # (rounds, agents, batch)
    seeds: np.ndarray  # (rounds, agents)
    matrices: np.ndarray  # (rounds, agents, agents)
    start: np.ndarray  # (agents, P)


def in_torch(module, features, labels, step, draws=False):
    """Every agent has a module, whose parameters and gradients are views of a row of two tensors."""
    import torch

    module = copy.deepcopy(module)
    x, y = torch.from_numpy(features), torch.from_numpy(labels)

    def rounds(run):
        w = torch.from_numpy(run.start.copy())
        gradients = torch.zeros_like(w)
        nets = [copy.deepcopy(module) for _ in w]
        for net, *rows in zip(nets, w, gradients, strict=True):
            parts = [part for part in net.parameters() if part.requires_grad]
            values, slopes = (row.split([part.numel() for part in parts]) for row in rows)
            for part, value, slope in zip(parts, values, slopes, strict=True):
                part.data, part.grad = value.view_as(part), slope.view_as(part)
        for places, seeds, matrix in zip(run.places, run.seeds, run.matrices, strict=True):
            gradients.zero_()
            for agent, net in enumerate(nets):
                if draws:
                    torch.manual_seed(seeds[agent])
                chosen = places[agent]
                torch.nn.functional.cross_entropy(net(x[agent, chosen]), y[agent, chosen]).backward()
            w.copy_(torch.from_numpy(matrix) @ w - step * gradients)
        return w.numpy()

    return rounds


def torch_loss(module):
    """``(w, x, y) -> the mean cross-entropy`` of a module at parameters w (P,)."""
    import torch

    named = dict(module.named_parameters())
    sizes = [part.numel() for part in named.values()]

    def loss(w, x, y):
        parts = zip(named.items(), w.split(sizes), strict=True)
        parameters = {name: part.view_as(like) for (name, like), part in parts}
        return torch.nn.functional.cross_entropy(torch.func.functional_call(module, parameters, (x,)), y)

    return loss


def jax_loss(apply, parameters, dtype):
    """``(w, x, y) -> the mean cross-entropy`` of a function at parameters of this kind in w (P,)."""
    import jax
    from jax.flatten_util import ravel_pytree

    _, restore = ravel_pytree(jax.tree.map(lambda part: part.astype(dtype), parameters))

    def loss(w, x, y):
        outputs = jax.nn.log_softmax(apply(restore(w), x))
        return -jax.numpy.take_along_axis(outputs, y[..., None], axis=-1).mean()

    return loss


def in_jax(apply, parameters, features, labels, step):
    """A round is one compiled call, with the gradients of all agents by vmap."""
    import jax

    gradients = jax.vmap(jax.grad(jax_loss(apply, parameters, np.float32)))

    @jax.jit
    def one_round(w, x, y, matrix):
        return matrix @ w - step * gradients(w, x, y)

    agents = np.arange(len(features))[:, None]

    def rounds(run):
        w = jax.numpy.asarray(run.start)
        for places, matrix in zip(run.places, run.matrices, strict=True):
            w = one_round(w, features[agents, places], labels[agents, places], matrix)
        return np.asarray(w)

    return rounds


def of_module(make, features, labels, step, draws=False):
    import torch

    torch.manual_seed(0)
    module = make()
    rounds = in_torch(module, features, labels, step, draws)
    return Network(consensus.models.Torch(module), features, labels, BATCH, step, rounds)


def images(agents, small):
    """A convolutional network of half a million parameters, with batch normalisation, flips and shifts.

    It is smooth: at a kink of ReLU or of a maximum over pixels, rounding decides a gradient.
    """
    import torch
    from torch import nn

    class Augment(nn.Module):
        def forward(self, x):
            if not self.training:
                return x
            x = torch.where(torch.rand(len(x), 1, 1, 1) < 0.5, x.flip(-1), x)
            shifts = torch.randint(-2, 3, (2,)).tolist()
            return torch.roll(x, shifts, (-2, -1))

    side, widths = (8, (3, 4, 6)) if small else (32, (3, 32, 64, 128, 352))

    def make():
        layers = [Augment()]
        for number, (before, after) in enumerate(itertools.pairwise(widths)):
            layers += [nn.AvgPool2d(2)] if number else []
            layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.SiLU()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], CLASSES))

    return of_module(make, normal(agents, 3, side, side), classes(agents), 0.05, draws=True)


def gpt(agents, small):
    """The decoder of :mod:`experiments.language`, of a million parameters."""
    size = {"width": 16, "blocks": 1} if small else {"width": language.WIDTH, "blocks": language.BLOCKS}
    apply, parameters = language.gpt(language.HEADS), language.start(0, **size)
    length, characters = language.LENGTH, language.CHARACTERS
    drawn = np.random.default_rng(0).integers(0, characters, (agents, SAMPLES, length + 1))
    features, labels = drawn[..., :-1].astype(np.float32), drawn[..., 1:]
    model, step = consensus.models.JAX(apply, parameters), 0.1
    return Network(model, features, labels, language.BATCH, step, in_jax(apply, parameters, features, labels, step))


def low_rank(agents, small):
    """Low-rank additions to the two last layers of a frozen network of a million parameters."""
    from torch import nn

    width, rank = (16, 2) if small else (512, 8)

    class LowRank(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.frozen = nn.Linear(inputs, outputs).requires_grad_(False)
            self.down, self.up = nn.Linear(inputs, rank, bias=False), nn.Linear(rank, outputs, bias=False)

        def forward(self, x):
            return self.frozen(x) + self.up(self.down(x))

    def make():
        body = nn.Sequential(nn.Linear(64, width), nn.GELU(), *(nn.Linear(width, width), nn.GELU()) * 3).requires_grad_(False)
        return nn.Sequential(body, LowRank(width, width), nn.GELU(), LowRank(width, CLASSES))

    return of_module(make, normal(agents, 64), classes(agents), 0.1)


def graphs(agents, small):
    """Messages along the edges of small graphs; a sample's rows are a node's features and its neighbours."""
    import torch
    from torch import nn

    nodes, width = (6, 5) if small else (20, 32)

    class Messages(nn.Module):
        def __init__(self):
            super().__init__()
            sizes = 8, width, width, width
            pairs = list(itertools.pairwise(sizes))
            self.own = nn.ModuleList(nn.Linear(*pair) for pair in pairs)
            self.others = nn.ModuleList(nn.Linear(*pair, bias=False) for pair in pairs)
            self.head = nn.Linear(width, CLASSES)

        def forward(self, x):
            h, edges = x[..., :8], x[..., 8:]
            for own, others in zip(self.own, self.others, strict=True):
                h = torch.nn.functional.silu(own(h) + edges @ others(h))
            return self.head(h.mean(1))

    edges = np.random.default_rng(1).random((agents, SAMPLES, nodes, nodes)) < 0.2
    features = np.concatenate([normal(agents, nodes, 8), edges / np.maximum(1, edges.sum(-1, keepdims=True))], axis=-1)
    return of_module(Messages, features.astype(np.float32), classes(agents), 0.1)


def words(agents, small):
    """Embeddings with a GRU."""
    from torch import nn

    vocabulary, length, width = (30, 5, 6) if small else (2000, 24, 64)

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(vocabulary, width // 2), nn.Linear(width, CLASSES)
            self.unit = nn.GRU(width // 2, width, batch_first=True)

        def forward(self, x):
            return self.head(self.unit(self.embed(x))[0][:, -1])

    features = np.random.default_rng(0).integers(0, vocabulary, (agents, SAMPLES, length))
    return of_module(Reader, features, classes(agents), 0.1)


NETWORKS = {"CNN": images, "GPT": gpt, "LoRA": low_rank, "graphs": graphs, "GRU": words}


def normal(agents, *shape):
    return np.random.default_rng(0).standard_normal((agents, SAMPLES, *shape)).astype(np.float32)


def classes(agents):
    return np.random.default_rng(1).integers(0, CLASSES, (agents, SAMPLES))
