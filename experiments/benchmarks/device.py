"""Rounds of gradient tracking with batches on a device, against the same loop written by hand in PyTorch, and one process.

On CUDA the loop by hand is a graph, too, that is captured once and replayed.

With ``--count`` no time is taken: calls of PyTorch in a round and for a recorded row, and the most bytes that tensors hold at
one time, over those of the loop by hand, which records nothing.
"""

import weakref
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import consensus
import topologies
from consensus.device import Device
from consensus.solvers import GradientTracking
from experiments.shared.timing import Rows, in_turn, options, timed

BATCH, STEP = 32, 0.05
_LARGE = 1 << 26  # numbers of all agents from which one process would take minutes a round
WAYS = "Device", "by hand", "graph by hand", "one process"


class Attention(torch.nn.Module):
    """A small transformer of one block, as a classifier of rows of tokens."""

    def __init__(self, tokens=16, width=32, classes=10):
        super().__init__()
        self.tokens, self.into = tokens, torch.nn.Linear(784 // tokens, width)
        self.keys, self.norm = torch.nn.Linear(width, 3 * width), torch.nn.LayerNorm(width)
        self.out = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, classes))

    def forward(self, x):
        x = self.into(x.reshape(len(x), self.tokens, -1))
        q, k, v = self.keys(self.norm(x)).chunk(3, dim=-1)
        x = x + torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1) @ v
        return self.out(x.mean(dim=1))


class Residual(torch.nn.Module):
    """A block of a ResNet, whose norms are those of groups: norms of batches keep what they saw."""

    def __init__(self, before, width, stride):
        super().__init__()
        inner = [convolution(before, width, 3, stride), torch.nn.ReLU(), convolution(width, width, 3)]
        self.inner = torch.nn.Sequential(*inner)
        self.around = torch.nn.Identity() if before == width else convolution(before, width, 1, stride)

    def forward(self, x):
        return torch.relu(self.inner(x) + self.around(x))


def convolution(before, width, size, stride=1):
    return torch.nn.Sequential(
        torch.nn.Conv2d(before, width, size, stride, size // 2, bias=False), torch.nn.GroupNorm(4, width)
    )


def resnet(width=64):
    """ResNet-18 for images of 32 x 32 pixels."""
    widths = [width, *(width << stage for stage in range(4) for _ in range(2))]
    blocks = [Residual(one, two, 1 if one == two else 2) for one, two in pairwise(widths)]
    begin = [torch.nn.Unflatten(1, (3, 32, 32)), convolution(3, width, 3), torch.nn.ReLU()]
    return torch.nn.Sequential(
        *begin, *blocks, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(widths[-1], 10)
    )


class Block(torch.nn.Module):
    """A block of GPT-2."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.before, self.after = heads, torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.keys, self.mixed = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.within = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU("tanh"), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x):
        q, k, v = self.keys(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        seen = torch.softmax((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(later, -torch.inf), dim=-1) @ v
        x = x + self.mixed(seen.transpose(1, 2).flatten(2))
        return x + self.within(self.after(x))


class GPT2(torch.nn.Module):
    """GPT-2 for rows of tokens, and the next one; its 124 million parameters by default."""

    def __init__(self, width=768, depth=12, words=50_257):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(words, width), torch.nn.Embedding(1024, width)
        self.blocks = torch.nn.Sequential(*(Block(width, width // 64) for _ in range(depth)), torch.nn.LayerNorm(width))
        torch.nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, x):
        x = self.words(x) + self.places.weight[: x.shape[1]]
        return self.blocks(x)[:, -1] @ self.words.weight.mT


class Counted(TorchDispatchMode):
    """Counts calls, and the most bytes of tensors that live at one time."""

    def __init__(self):
        super().__init__()
        self.calls, self.most, self.held = 0, 0, {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        self.calls += 1
        for tensor in tree_leaves(found):
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                storage = tensor.untyped_storage()
                if storage._cdata not in self.held:
                    self.held[storage._cdata] = storage.nbytes()
                    weakref.finalize(storage, self.held.pop, storage._cdata, None)
        self.most = max(self.most, sum(self.held.values()))
        return found


def counted(call):
    with Counted() as found:
        call()
    return found


def cases(device, quick):
    """``(name, model, agents, data)``: a native network, the same as a module, a small transformer, ResNet-18, GPT-2."""
    scale, small = 8 if quick else 1, quick or device == "cpu"

    def module(make):
        return consensus.models.Torch(make, device=device)

    def mlp():
        return torch.nn.Sequential(torch.nn.Linear(784, 100), torch.nn.Tanh(), torch.nn.Linear(100, 10))

    def pixels(count):
        return lambda rng, rows: (rng.standard_normal((rows, count)).astype("float32"), rng.integers(0, 10, rows))

    def tokens(words):
        return lambda rng, rows: (rng.integers(0, words, (rows, 64)), rng.integers(0, words, rows))

    yield "MLP 784-100-10", consensus.MLP([784, 100, 10]), 64 // scale, pixels(784)
    yield "the same as a module", module(mlp), 64 // scale, pixels(784)
    yield "a block of attention", module(Attention), 16 // scale, pixels(784)
    if small:
        yield "ResNet-18, width 4", module(lambda: resnet(4)), 2, pixels(3072)
        yield "GPT-2, 1.1M", module(lambda: GPT2(128, 2, 5_000)), 2, tokens(5_000)
    else:
        yield "ResNet-18", module(resnet), 16, pixels(3072)
        yield "GPT-2, 124M", module(GPT2), 8, tokens(50_257)


def by_hand(problem, network, w, rounds, device, graph=False):
    """Gradient tracking as a user of PyTorch writes it for stacked agents: ``vmap`` of gradients, and a product with W.

    With ``graph`` a round is captured once, as a CUDA graph, and replayed.
    """
    model, agents = problem.model, problem.agents
    module = getattr(model, "_module", None)  # None of MLP
    names = [name for name, _ in module.named_parameters()] if module else []

    def loss(row, x, y, c):
        parts = {span.name: row[span.start : span.start + int(np.prod(span.shape))].view(span.shape) for span in model.layout}
        if names:
            outputs = torch.func.functional_call(module, {name: parts[name] for name in names}, (x,))
        else:
            outputs = torch.tanh(x @ parts["0.weight"] + parts["0.bias"]) @ parts["1.weight"] + parts["1.bias"]
        return (c * torch.nn.functional.cross_entropy(outputs, y[:, 0], reduction="none")).sum()

    gradients = torch.func.vmap(torch.func.grad(loss))
    arrays = problem.shards.features, problem.shards.targets.astype(np.int64), problem.weights, w, network.weights(0).toarray()
    x, y, weights, w, W = (torch.from_numpy(part).to(device) for part in arrays)
    W = W.to(w.dtype)
    batches, all_agents = consensus.Minibatches(BATCH), torch.arange(agents, device=device)[:, None]

    def drawn(round):
        batch = batches.at(problem, round)
        return [torch.from_numpy(part) for part in (batch.indices.astype(np.int64), batch.weights.astype(problem.dtype))]

    def gradient(w, places, counted):
        counted = weights[all_agents, places] * counted
        return agents * gradients(w, x[all_agents, places], y[all_agents, places], counted)

    batch = [part.to(device) for part in drawn(0)]
    g = gradient(w, *batch)
    tracker = g.clone()

    def advance():
        nonlocal w, tracker, g
        w = W @ (w - STEP * tracker)
        new = gradient(w, *batch)
        tracker, g = W @ (tracker + new - g), new

    if not graph:
        for round in range(rounds):
            batch = [part.to(device) for part in drawn(round + 1)]
            advance()
        return w.cpu().numpy()
    kept = w, tracker, g
    beside = torch.cuda.Stream()
    with torch.cuda.stream(beside):  # as PyTorch asks for: once before it is captured
        advance()
    torch.cuda.current_stream().wait_stream(beside)
    w, tracker, g = kept
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        advance()
        copied(kept, (w, tracker, g))
    for round in range(rounds):
        copied(batch, drawn(round + 1))
        captured.replay()
    return kept[0].cpu().numpy()


def copied(old, new):
    for to, of in zip(old, new, strict=True):
        to.copy_(of)


def compare(rows, name, model, agents, data, given):
    X, y = data(np.random.default_rng(0), agents * 100)
    problem = consensus.Problem(model, consensus.CrossEntropy(), consensus.partition(X, y, agents=agents))
    network, start = topologies.Static(topologies.ring(agents)), problem.model.init(np.random.default_rng(0))
    w = np.tile(start.astype("float32"), (agents, 1))
    solver, cuda, large = GradientTracking(STEP, batch=BATCH), given.device.startswith("cuda"), w.size > _LARGE

    def run(engine, count, every=None):
        options = {"record_every": every or count, "start": start, "rounds": count, "engine": engine}
        return consensus.solve(problem, network, solver, **options).w

    on_device, hand = partial(run, Device(given.device)), partial(by_hand, problem, network, w, device=given.device)
    ways = {"Device": on_device, "by hand": hand}
    if cuda:
        ways["graph by hand"] = partial(hand, graph=True)
    if not large:
        ways["one process"] = partial(run, "stacked")
    ends, most = {}, dict.fromkeys(ways, np.nan)
    for way, call in ways.items():
        torch.cuda.reset_peak_memory_stats() if cuda else None
        ends[way] = call(3)
        most[way] = torch.cuda.max_memory_allocated() if cuda else np.nan
    error = max(np.abs(end - ends["by hand"]).max() for end in ends.values())
    assert error < 1e-3 * np.abs(ends["by hand"]).max(), f"they differ by {error:.1e}"
    del ends
    if given.count:
        calls = partial(on_device, 8), partial(on_device, 16), partial(on_device, 16, 1), partial(hand, 8)
        short, long, recorded, theirs = map(counted, calls)
        a_round, row = (long.calls - short.calls) / 8, (recorded.calls - long.calls) / 15
        return rows.add(name, agents, a_round, row, row / a_round, short.most / theirs.most)
    rounds, repeats = (max(3, given.rounds // 20), 1) if large else (given.rounds, given.repeats)

    def seconds(call):  # what a run costs beside its rounds is left out
        return (timed(call, rounds)[0] - timed(call, 1)[0]) / (rounds - 1)

    times = np.median(in_turn([partial(seconds, call) for call in ways.values()], repeats), axis=0)
    took = dict(zip(ways, times, strict=True))
    best = min(seconds for way, seconds in took.items() if "hand" in way)
    shown = (1e3 * took[way] if way in took else None for way in WAYS)
    return rows.add(name, agents, *shown, took["Device"] / best, most["Device"] / most["by hand"])


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu", "where"
    numbers = {"rounds": (20, "of a run"), "repeats": (5, "turns")}
    flags = {"quick": (False, "few agents"), "count": (False, "calls and memory in place of time")}
    given = options(__doc__, device=device, **numbers, **flags)
    torch.set_num_threads(1)
    what = "calls of PyTorch, and memory" if given.count else f"milliseconds a round, medians of {given.repeats} turns"
    print(f"on {given.device}: {what}")
    columns = dict.fromkeys(WAYS, ".2f") | {"Device/best": ".2f"}
    if given.count:
        columns = {"a round": ".0f", "a row": ".0f", "row/round": ".2f"}
    rows = Rows("", 22, {"agents": ""} | columns | {"memory/hand": ".2f"})
    for case in cases(given.device, given.quick):
        compare(rows, *case, given)


if __name__ == "__main__":
    main()
