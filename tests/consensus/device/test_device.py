"""All agents on a device: the numbers of one process, from the same methods; what cannot go there is refused before any round.

The CPU is a device, too; ``--device=cuda`` takes another one.
"""

import functools
import re

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus import L1, L2, Box, CrossEntropy, Huber, LogisticLoss, SquaredLoss
from consensus.compression import Half, Quantize, RandomK, TopK
from consensus.directions import AdamW, Clip, Muon
from consensus.errors import DivergenceError, WorkerError
from consensus.losses import CoxLoss, GammaLoss, Loss, NegativeBinomialLoss, PoissonLoss, TorchLoss
from consensus.robust import ALIE, IPM, NNA, NNM, Attack, Bucketing, ClippedGossip, CSPlus, Dissensus
from consensus.solvers import (
    DATOS,
    DGD,
    EXTRA,
    GTSAGA,
    KGT,
    LTADMMVR,
    NEXT,
    NIDS,
    SGP,
    SONATA,
    AdaptiveNEXT,
    Compressed,
    DiLoCo,
    Gossip,
    GradientTracking,
    ProxGT,
)
from consensus.surrogates import Blocks, FullLinearization
from tests.helpers.every_regularizer import ALL as REGULARIZERS
from tests.helpers.every_regularizer import P
from tests.helpers.every_solver import OTHERWISE, SOLVERS

torch = pytest.importorskip("torch")
from consensus.device import Device  # noqa: E402
from consensus.device import problem as device_problem  # noqa: E402
from consensus.device.problem import DeviceProblem  # noqa: E402
from consensus.device.rows import DeviceRows  # noqa: E402
from consensus.models import Torch  # noqa: E402

THERE = Device().device
Torch = functools.partial(Torch, device=THERE)

AGENTS = 6
RNG = np.random.default_rng(0)
X, NUMBERS, CLASSES = RNG.standard_normal((61, 4)), RNG.standard_normal((61, 3)), RNG.integers(0, 3, 61)
RING = topologies.Static(topologies.ring(AGENTS), weights=topologies.lazy(topologies.metropolis))
# Surrogates in blocks, and sums over trees; other local problems take Newton's method, for smooth costs.
REFUSED = {
    "NEXT blocks",
    "TreeLBFGS", "TreeLBFGS, float64", "TreeLBFGS, masked", "TreeNewton", "TreeNewton, masked",
}  # fmt: skip


def problem(model=None, loss=None, regularizer=None, targets=NUMBERS, dtype=float):
    shards = consensus.partition(X.astype(dtype), targets, agents=AGENTS, seed=0)
    return consensus.Problem(model or consensus.MLP([4, 5, 3]), loss or SquaredLoss(), shards, regularizer or L2(0.1))


def moved(array):
    return DeviceRows(torch.from_numpy(array.copy()).to(THERE))


def both(p, solver, network=RING, there=None, **options):
    start = 0.3 * np.random.default_rng(1).standard_normal((p.agents, p.parameters)).astype(p.dtype)
    options = {"rounds": 8, "record_every": 4, "start": start} | options
    return [consensus.solve(p, network, solver, engine=engine, **options) for engine in ("stacked", there or Device())]


def assert_same(here, there, tolerance=1e-12):
    np.testing.assert_allclose(there.w, here.w, rtol=0, atol=tolerance * np.abs(here.w).max())
    for name in here.history:
        if name != "seconds":
            np.testing.assert_allclose(there.history[name], here.history[name], rtol=1e3 * tolerance, atol=tolerance)
    for name in ("round", "exchanges", "messages", "bytes", "gradients", "samples"):
        assert np.array_equal(there.history[name], here.history[name])


EVERY = {name: solver for name, solver in (SOLVERS | OTHERWISE).items() if name != "auto"}
FAST = ["tracking, atc", "DiLoCo", "subgradient", "SGP", "NEXT full", "gossip of tracking", "NIDS", "adaptive", "ChocoSGD"]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in EVERY])
def test_every_solver_has_the_numbers_of_one_process_or_is_refused_by_name(name):
    solver, ran = EVERY[name], 0
    for p in (problem(), problem(consensus.Linear(4, 3)), problem(consensus.Linear(4, 3), regularizer=L1(0.1))):
        try:
            here = consensus.solve(p, RING, solver, rounds=1)
        except (TypeError, ValueError):
            continue  # not a problem for it
        ran += 1
        if name in REFUSED:
            with pytest.raises(TypeError, match=f"^{type(solver).__name__} does not run on a device .*: take engine='stacked'"):
                consensus.solve(p, RING, solver, rounds=1, engine=Device())
        else:
            assert_same(*both(p, solver), tolerance=1e-11)
            del here
    assert ran or name in REFUSED


@pytest.mark.parametrize("activation", ["tanh", "relu", "sigmoid", "softplus", "quadratic"])
def test_native_networks(activation):
    assert_same(*both(problem(consensus.MLP([4, 5, 5, 3], activation)), DGD(0.01, batch=3)))


@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        (Huber(0.5), NUMBERS),
        (LogisticLoss(), (NUMBERS > 0).astype(float)),
        (PoissonLoss(), NUMBERS**2),
        (PoissonLoss(offset=True), np.abs(np.hstack([NUMBERS, NUMBERS]))),
        (GammaLoss(), NUMBERS**2),
        (NegativeBinomialLoss(0.5), np.rint(NUMBERS**2)),
        (CrossEntropy(), CLASSES),
        (CrossEntropy(weight=[1.0, 2.0, 3.0], label_smoothing=0.1, ignore_index=1), CLASSES),
    ],
    ids=str,
)
def test_losses(loss, targets):
    assert_same(*both(problem(consensus.Linear(4, 3), loss, targets=targets), GradientTracking(0.02, batch=4)))


class Quartic(Loss):
    def value(self, outputs, targets):
        return ((outputs - targets) ** 4).sum(axis=-1) / 4

    def gradient(self, outputs, targets):
        return (outputs - targets) ** 3

    def curvature(self, outputs, targets):
        return 3 * (outputs - targets) ** 2


def contrastive(f, d):
    return torch.nn.functional.cross_entropy(f @ f.T, torch.arange(len(f), device=f.device))


TIMES = np.column_stack([np.abs(NUMBERS[:, 0]), NUMBERS[:, 1] > 0])
WEIGHED = torch.nn.CrossEntropyLoss(reduction="sum", weight=torch.tensor([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("solver", [DGD(0.005), GradientTracking(0.002, batch=4)], ids=["DGD", "batches"])
@pytest.mark.parametrize(
    ("model", "loss", "targets"),
    [
        (consensus.MLP([4, 5, 3]), Quartic(), NUMBERS),
        (consensus.MLP([4, 5, 3]), TorchLoss(torch.nn.SmoothL1Loss(reduction="sum")), NUMBERS),
        (consensus.Linear(4, 3), TorchLoss(torch.nn.SmoothL1Loss(reduction="none")), NUMBERS),
        (Torch(torch.nn.Linear(4, 3)), TorchLoss(WEIGHED, labels=True), CLASSES),
        (Torch(torch.nn.Linear(4, 3)), TorchLoss(contrastive, over="batch", reduction="mean"), NUMBERS),
        (consensus.MLP([4, 5, 3]), TorchLoss(contrastive, over="batch", reduction="sum"), NUMBERS),
        (consensus.Linear(4), CoxLoss(), TIMES),
        (consensus.MLP([4, 3, 1]), CoxLoss("breslow"), TIMES),
    ],
    ids=["NumPy", "a sum", "each sample", "labels", "a mean over batches", "a sum over batches", "Efron", "Breslow"],
)
def test_losses_of_ones_own_of_pytorch_and_of_risk_sets(model, loss, targets, solver):
    assert_same(*both(problem(model, loss, targets=targets), solver))


class Sorted(Quartic):
    def gradient(self, outputs, targets):
        return np.sort(outputs - targets)


class Rough(Quartic):
    def value(self, outputs, targets):
        return np.rint(outputs - targets).sum(axis=-1)


class Constant(Quartic):
    def gradient(self, outputs, targets):
        return np.zeros(outputs.shape)


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (Sorted(), r"Sorted.gradient: numpy.sort has no form on a device"),
        (Rough(), r"Rough.value: rint has no form on a device"),
        (Constant(), r"Constant.gradient returned ndarray, no array that it computed from the outputs"),
    ],
    ids=["gradient", "value", "of the host"],
)
def test_losses_in_functions_that_a_device_lacks(loss, words):
    words += (
        r"; write the loss in functions of PyTorch, and give consensus.losses.TorchLoss\(function\)\): take engine='stacked'"
    )
    with pytest.raises(TypeError, match=words):
        consensus.solve(problem(loss=loss), RING, DGD(0.1), rounds=1, engine=Device())


@pytest.mark.parametrize("name", REGULARIZERS)
def test_regularizers(name):
    r, rng = REGULARIZERS[name], np.random.default_rng(0)
    rows, steps = 2 * rng.standard_normal((AGENTS, P)), rng.uniform(0.1, 0.9, (AGENTS, 1))
    forms = [lambda w: r.value(w), lambda w: r.prox(w, 0.5), lambda w: r.prox(w, steps)]
    forms += [lambda w: r.gradient(w)] if r.smooth else []
    forms += [lambda w: r.prox(w, moved(steps) if type(w) is DeviceRows else steps)]
    forms += [
        lambda w: r.active(w, 0.5),
        lambda w: r.prox_jvp(w, 0.5, w),
        lambda w: r.prox_jvp(w, 0.5, np.stack([w, w], axis=1)),
    ]
    forms += [lambda w: r.value(r.prox(w, 0.5))] + ([] if r.is_convex else [r.smooth_value, r.smooth_gradient])
    for form in forms:
        np.testing.assert_allclose(form(moved(rows)).host(), form(rows), rtol=1e-13, atol=1e-14)
    shards = consensus.partition(rng.standard_normal((60, P - 1)), rng.standard_normal(60), agents=AGENTS, seed=0)
    p = consensus.Problem(consensus.Linear(P - 1), SquaredLoss(), shards, r)
    solvers = [NIDS(0.02), ProxGT(0.02)] if r.is_convex else [NEXT(FullLinearization(4.0), 0.2)]
    for solver in solvers + ([DGD(0.02)] if r.smooth else []):
        assert_same(*both(p, solver, rounds=30, record_every=10))


def test_regularizers_of_the_agents_own():
    r = [L1(0.2), Box(-0.1, 0.2), None] * 2
    assert_same(*both(problem(consensus.Linear(4, 3), regularizer=r), NIDS(0.02), rounds=30))


@pytest.mark.parametrize("dtype", [float, np.float32])
def test_modules_share_one_call(dtype):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.LayerNorm(5), torch.nn.GELU(), torch.nn.Linear(5, 3))
    p = problem(Torch(module), CrossEntropy(), targets=CLASSES, dtype=dtype)
    here, there = both(p, DiLoCo(0.01, 4, batch=5))
    np.testing.assert_allclose(there.w, here.w, atol=1e-12 if dtype is float else 2e-5)


class Halved(torch.nn.Module):
    """Another function in training, of the parameters and the sample alone."""

    def forward(self, x):
        return x / 2 if self.training else x


@pytest.mark.parametrize("buffers", ["average", "keep"])
@pytest.mark.parametrize(
    "layers",
    [[torch.nn.Dropout(0.5)], [torch.nn.BatchNorm1d(5)], [torch.nn.BatchNorm1d(5), torch.nn.Dropout(0.3)], [Halved()]],
    ids=["dropout", "norm", "both", "mode"],
)
def test_modules_in_training_take_their_turn_with_the_draws_of_one_process(layers, buffers):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(4, 5), *layers, torch.nn.Tanh(), torch.nn.Linear(5, 3)).double()
    p = problem(Torch(module, seed=3, buffers=buffers))
    for solver in (GradientTracking(0.02, batch=4), DiLoCo(0.01, 3, batch=6), DGD(0.02)):
        assert_same(*both(p, solver, test=(X, NUMBERS)), tolerance=1e-11)


@pytest.mark.parametrize(
    ("network", "solver"),
    [
        (topologies.Matchings(AGENTS), KGT(0.02, 2, batch=3)),
        (topologies.Periodic([topologies.path(AGENTS), topologies.star(AGENTS)]), DGD(0.02)),
        (topologies.Static(nx.cycle_graph(AGENTS, create_using=nx.DiGraph), weights=topologies.push), SGP(0.02)),
        (topologies.LinkFailure(RING, 0.3, seed=0), DGD(0.02, direction=Clip(1.0))),
    ],
    ids=["matchings", "periodic", "directed", "lossy"],
)
def test_networks(network, solver):
    assert_same(*both(problem(), solver, network))


@pytest.mark.parametrize("compressor", [TopK(0.3), RandomK(0.3), Quantize(4), Half()], ids=str)
def test_messages_that_the_host_packs(compressor, tmp_path):
    """With the bytes of one process; settings are shown as they were given."""
    solver = Compressed(GradientTracking(0.01), compressor, gamma=0.3)
    assert_same(*both(problem(), solver), tolerance=1e-11)
    with pytest.raises(DivergenceError, match=re.escape(str(compressor))):
        consensus.solve(problem(), RING, Compressed(DGD(1e9), compressor, gamma=0.3), rounds=200, engine=Device())


ROBUST = {
    "NNA": NNA(GradientTracking(0.02), 0.2),
    "NNM": NNA(DGD(0.05), 0.2, before=NNM()),
    "Bucketing": NNA(DGD(0.05), 0.2, before=Bucketing(2)),
    "ClippedGossip": Attack(ClippedGossip(DGD(0.05), 0.2), [1], Dissensus()),
    "CSPlus": Attack(CSPlus(DGD(0.05), 0.2), [1], IPM()),
    "none": Attack(DGD(0.05), [1], ALIE()),
}


@pytest.mark.parametrize("name", ROBUST)
def test_rules_for_messages(name):
    """Distances of rows go to the host, which decides; rows do not."""
    network = topologies.Static(topologies.complete(AGENTS), weights=topologies.max_degree)
    assert_same(*both(problem(), ROBUST[name], network), tolerance=1e-11)


@pytest.mark.parametrize("dtype", [float, np.float32])
def test_steps_that_agents_search(dtype):
    """In float32 some differ, as costs are rounded otherwise: the runs come to the same point."""
    p, options = problem(consensus.Linear(4, 3), dtype=dtype), {"rounds": 60, "record_every": 20}
    here, there = both(p, DATOS(), **options)
    np.testing.assert_allclose(there.w, here.w, atol=1e-11 if dtype is float else 1e-4)
    assert there.w.dtype == dtype


@pytest.mark.parametrize("model", [consensus.Linear(4, 3), None, "module"], ids=["linear", "MLP", "module"])
@pytest.mark.parametrize("solver", [GTSAGA(0.02, 3), LTADMMVR(0.02, 2, batch=3)], ids=str)
def test_tables_of_samples(solver, model, tmp_path):
    """They are those of one process, so that a run goes on there."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).double()
    p = problem(Torch(module) if model == "module" else model)
    whole, there = both(p, solver)
    assert_same(whole, there, tolerance=1e-11)
    path, options = tmp_path / "run.ckpt", {"record_every": 4}
    consensus.solve(p, RING, solver, rounds=4, engine=Device(), checkpoint=path, **options)
    again = consensus.solve(p, RING, solver, rounds=8, resume=path, **options)
    assert_same(consensus.solve(p, RING, solver, rounds=8, **options), again, tolerance=1e-11)


@pytest.mark.parametrize("direction", [AdamW(), Muon(), Muon(nesterov=False, weight_decay=0.0, scale="none")], ids=str)
def test_directions(direction):
    assert_same(*both(problem(), GradientTracking(0.01, direction=direction)), tolerance=1e-11)


@pytest.mark.filterwarnings("error:Sparse")
def test_many_agents_mix_by_a_sparse_matrix():
    rng, agents = np.random.default_rng(0), 300
    shards = consensus.partition(rng.standard_normal((600, 2)), rng.standard_normal(600), agents=agents)
    p = consensus.Problem(consensus.Linear(2), SquaredLoss(), shards)
    assert_same(*both(p, GradientTracking(0.05), topologies.Static(topologies.ring(agents))))


@pytest.mark.parametrize(
    "loss", [CrossEntropy(weight=[1.0, 2.0, 3.0], label_smoothing=0.1), CrossEntropy(ignore_index=1)], ids=str
)
def test_sums_over_many_samples_go_through_in_parts(loss):
    shards = consensus.partition(X, CLASSES, agents=AGENTS, seed=0)
    p = consensus.Problem(consensus.Linear(4, 3), loss, shards, L2(0.1), micro_batch=1)
    assert_same(*both(p, GradientTracking(0.02)))


def test_rows_take_no_more_samples_at_once_than_batches_did(monkeypatch):
    monkeypatch.setattr(device_problem, "fitting", lambda *_: 1)  # but with batches
    sizes, of_some = [], DeviceProblem._pass
    monkeypatch.setattr(DeviceProblem, "_pass", lambda p, *given: sizes.append(given[3].shape[1]) or of_some(p, *given))
    assert_same(*both(problem(), GradientTracking(0.02, batch=5), there=Device(graphs=False)))
    assert max(sizes) == 5  # rows take the 11 samples of an agent in parts of 4, 4 and 3
    assert sizes.count(5) == 2 + 9  # the trial and the run
    sizes.clear()
    assert_same(*both(problem(), GradientTracking(0.02), there=Device(graphs=False)))
    assert set(sizes) == {1}


def test_test_sets_kept_points_and_stopping_rules_are_those_of_one_process():
    options = {"test": (X, NUMBERS), "keep": "test_error", "stop": ["objective <= 1.51"], "record_every": 1, "rounds": 40}
    here, there = both(problem(), GradientTracking(0.05), **options)
    assert (there.rounds, there.reason, there.best.round) == (here.rounds, here.reason, here.best.round)
    assert here.rounds < 40
    assert_same(here, there)


@pytest.mark.parametrize("solver", [GradientTracking(0.02, batch=3), DiLoCo(0.01, 3), EXTRA(0.05)], ids=str)
def test_a_run_goes_on_on_another_engine(solver, tmp_path):
    p, options = problem(), {"record_every": 2}
    whole = consensus.solve(p, RING, solver, rounds=8, **options)
    for first, then in ((Device(), "stacked"), ("stacked", Device())):
        path = tmp_path / f"{type(then).__name__}.ckpt"
        consensus.solve(p, RING, solver, rounds=4, engine=first, checkpoint=path, **options)
        again = consensus.solve(p, RING, solver, rounds=8, engine=then, resume=path, **options)
        assert_same(whole, again)


def test_callbacks_and_metrics_get_arrays_of_the_host():
    seen = []

    def watch(info):
        seen.append((type(info.w), info.w.shape, type(info.mean), np.array_equal(info.w.mean(axis=0), info.mean)))

    options = {"rounds": 6, "record_every": 3, "engine": Device(), "honest": [0, 1, 2, 3, 4, 5], "agent_objectives": True}
    found = consensus.solve(problem(), RING, DGD(0.05), callbacks=[watch], metrics={"norm": np.linalg.norm}, **options)
    here = consensus.solve(problem(), RING, DGD(0.05), metrics={"norm": np.linalg.norm}, **options | {"engine": "stacked"})
    assert {(kind, shape, of_mean) for kind, shape, of_mean, _ in seen} == {(np.ndarray, here.w.shape, np.ndarray)}
    assert type(found.w) is np.ndarray
    assert_same(here, found)
    some = [
        consensus.solve(problem(), RING, DGD(0.05), **options | {"honest": [1, 4], "engine": e}) for e in ("stacked", Device())
    ]
    assert_same(*some)


def test_a_run_that_is_lost_ends_with_its_history():
    with pytest.raises(DivergenceError) as raised:
        consensus.solve(problem(), RING, DGD(1e3), rounds=200, record_every=5, engine=Device())
    assert list(raised.value.history["round"][:2]) == [0, 5]


@pytest.mark.parametrize("call", [0, 5])
def test_a_device_without_memory_is_named_and_nothing_recorded_is_lost(call, monkeypatch):
    gradient, calls = DeviceProblem.gradient, []

    def failing(*given):
        calls.append(1)
        if len(calls) > call:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1 GiB")
        return gradient(*given)

    monkeypatch.setattr(DeviceProblem, "gradient", failing)
    when = "before the first round" if call == 0 else "in round 5"
    with pytest.raises(WorkerError, match=rf"'{THERE}' ran out of memory {when}: take .* \(CUDA out of memory\)") as raised:
        consensus.solve(problem(), RING, DGD(0.1), rounds=9, record_every=2, engine=Device())  # one call in the trial
    history = raised.value.history
    assert (history["round"].tolist() if len(history) else []) == ([] if call == 0 else [0, 2, 4])


def test_what_has_no_form_there_is_refused_before_any_round():
    functions, agents = consensus.Problem.from_functions, {"agents": AGENTS, "parameters": 1}
    nothing, sorts = (
        functions(lambda w: w[:, 0], lambda w: np.zeros((AGENTS, 1)), **agents),
        functions(np.sum, np.sort, **agents),
    )
    costs = functions(lambda w: np.median(w, axis=1), lambda w: w * 0, **agents)
    mixed = consensus.Problem.from_agents([consensus.Problem.from_functions(lambda w: w[:, 0], lambda w: w, 1, 1)] * AGENTS)
    rows = [
        (mixed, DGD(0.1), TypeError, r"takes problems of functions, or with a model and samples in arrays; got .* takes it"),
        (
            nothing,
            DGD(0.1),
            TypeError,
            r"gradient of Problem.from_functions returned ndarray, no array that it computed from w",
        ),
        (sorts, DGD(0.1), TypeError, r"gradient of Problem.from_functions: numpy.sort has no form on a device\): take engine="),
        (costs, DGD(0.1), TypeError, r"value of Problem.from_functions: numpy.median has no form on a device\): take engine="),
        (problem(consensus.models.ResNet(4, 3, 2, 3)), DGD(0.1), TypeError, r"takes Linear, MLP and models.Torch; got ResNet"),
    ]
    for p, solver, kind, words in rows:
        with pytest.raises(kind, match=words):
            consensus.solve(p, RING, solver, rounds=1, engine=Device())
    there = problem(Torch(torch.nn.Linear(4, 3)))
    there.model.device = "another"
    with pytest.raises(ValueError, match=f"the model must be on the device of the engine, '{THERE}'"):
        consensus.solve(there, RING, DGD(0.1), rounds=1, engine=Device())
    with pytest.raises(ValueError, match="device must be one that PyTorch has here"):
        Device("cuda:99")


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("solver", [GradientTracking(0.02), DATOS(), Compressed(DGD(0.05), TopK(0.5), gamma=0.3)], ids=str)
def test_functions_of_numpy(solver, by_rows):
    centres, sizes = RNG.standard_normal((AGENTS, 4)), np.arange(1.0, 5.0)

    def value(w, rows=slice(None)):
        return np.log1p(sizes * (w - centres[rows]) ** 2).sum(axis=1)

    def gradient(w, rows=slice(None)):
        moved = w - centres[rows]
        return 2 * sizes * moved / (1 + sizes * moved**2)

    functions = (value, gradient) if by_rows else (lambda w: value(w), lambda w: gradient(w))
    p = consensus.Problem.from_functions(*functions, agents=AGENTS, parameters=4, regularizer=L2(0.1))
    assert_same(*both(p, solver, agent_objectives=True), tolerance=1e-11)


def test_rows_are_arrays_to_numpy_and_never_copied_in_silence():
    a, b = RNG.standard_normal((2, 3, 4))
    one, other = map(moved, (a, b))
    for f in (
        lambda a, b: 2 * a - b / 3 + a**2 @ b.T @ b,
        lambda a, b: np.sqrt(np.maximum(a, 0.1)) + np.minimum(b, a) + abs(a) - np.abs(b),
        lambda a, b: np.where(a > b, a, -b) + np.clip(a, -0.5, 0.5) + np.clip(a, -abs(b), abs(b)),
        lambda a, b: np.concatenate([a, b], axis=1)[:, 2:6].reshape(-1, 2).swapaxes(0, 1),
        lambda a, b: np.stack([a, b]).sum(axis=(0, 2)) + np.linalg.norm(a, axis=1) + np.einsum("ij,ij->i", a, b),
        lambda a, b: a.mean(axis=1, keepdims=True) + np.sum(b, axis=1, keepdims=True) + np.max(a, axis=1, keepdims=True),
        lambda a, b: np.zeros_like(a) + np.ones_like(b) + np.full_like(a, 3.0) + a.copy(),
        lambda a, b: a[[2, 0]] + b[np.array([True, False, True])],
        lambda a, b: np.sign(a) * np.exp(b) + np.log1p(np.square(a)) + np.multiply(a, 2, out=a.copy()),
        lambda a, b: np.array([[1.0], [2.0], [3.0]]) * a + b * np.float64(2),
    ):
        np.testing.assert_allclose(f(one, other).host(), f(a, b), rtol=1e-13, atol=1e-14)
    with pytest.raises(TypeError, match="to the host, which is never done in silence"):
        np.asarray(one)
    with pytest.raises(TypeError, match=r"numpy\.sort has no form on a device"):
        np.sort(one)
    with pytest.raises(TypeError, match="rint has no form on a device"):
        np.rint(one)


WHOLE, TRUE = np.arange(-3, 5).reshape(2, 4), np.arange(8).reshape(2, 4) % 3 > 0


@pytest.mark.parametrize("x", [WHOLE, TRUE], ids=["whole", "truths"])
def test_whole_numbers_and_truths_become_what_numpy_makes_of_them(x):
    """PyTorch makes 0.5 of whole numbers zero, and a third of them has seven digits."""
    for f in (
        lambda x: 0.3 * x + x * 0.7 - x / 3,
        lambda x: np.where(x < 0.5, 0.1, x) + np.where(0.5 < x, 1, 0.1) + np.where(x > 0, 0.3, 0.1),  # noqa: SIM300
        lambda x: np.maximum(x, 0.5) + np.clip(x, -0.5, 0.7),
        lambda x: np.power(2.0, x) + np.sqrt(x * 1.0 + 3) + (x + 5) ** -1.0 + np.exp(x + 0),
        lambda x: x.mean(axis=1, keepdims=True) + np.mean(x, axis=1, keepdims=True) + 1.0 * x.sum(axis=1, keepdims=True),
        lambda x: np.ldexp(1.0, x + 0) + np.vecdot(x + 0, x / 7)[:, None] + np.mod(x + 0, 2.5),
    ):
        found, expected = f(moved(x)).host(), f(x)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_options_of_numpys_functions_are_followed_or_refused():
    a = RNG.standard_normal((3, 4)).astype(np.float32)
    one, mask = moved(a), np.array([True, False, True, False])
    for f in (
        lambda a: np.linalg.norm(a, 1, axis=1) + np.linalg.norm(a, np.inf, axis=1),
        lambda a: np.sum(a, axis=1, dtype=float) + a.sum(axis=1, dtype=float),
        lambda a: np.frexp(a)[0] + a[:, np.array([1, 0, 3, 2], np.uint8)],
    ):
        found, expected = f(one).host(), f(a)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    for f, words in (
        (lambda: np.sum(one, axis=1, where=mask), r"numpy\.sum with axis=, where="),
        (lambda: np.max(one, initial=5.0), r"numpy\.max with initial="),
        (lambda: np.add.reduce(one, where=mask), r"add\.reduce with where="),
        (lambda: np.vecdot(one, one, axis=0), r"vecdot with axis="),
        (lambda: np.ravel(one, order="F"), r"numpy\.ravel with order="),
        (lambda: np.clip(one, 0, 1, out=one), r"numpy\.clip with out="),
        (lambda: np.linalg.norm(one, 2), r"numpy\.linalg\.norm with ord=2, axis=None"),
    ):
        with pytest.raises(TypeError, match=f"^{words} has no form on a device$"):
            f()


class Margins(Loss):
    """Of classes 0 and 1, which are whole numbers."""

    def value(self, outputs, targets):
        return np.log1p(np.exp(-outputs * (2.0 * targets - 1))).sum(axis=-1) + np.where(targets < 0.5, 0.1, 0.3).sum(axis=-1)

    def gradient(self, outputs, targets):
        sign = 2 * (targets - 0.5)
        return -sign / (1 + np.exp(outputs * sign))

    def curvature(self, outputs, targets):
        return 1 / ((1 + np.exp(outputs)) * (1 + np.exp(-outputs)))


def test_whole_targets_in_a_loss_of_ones_own():
    targets = (CLASSES[:, None] > np.arange(3)).astype(int)
    assert_same(*both(problem(consensus.Linear(4, 3), Margins(), targets=targets), GradientTracking(0.02, batch=4)))


FULL = FullLinearization(4.0)


@pytest.mark.parametrize(
    "solver",
    [
        NEXT(FULL, 0.2),
        NEXT(Blocks(FULL, 3), 0.2, batch=3),
        SONATA(FULL, 0.2, batch=3, averaging=0.5),
        Gossip(NEXT(FULL, 0.2), 2),
        Compressed(SONATA(FULL, 0.1), TopK(0.3)),
    ],
    ids=["NEXT", "blocks of batches", "SONATA of batches", "gossip", "compressed"],
)
def test_surrogates_of_gradients_alone_run_there(solver):
    assert_same(*both(problem(regularizer=L1(0.1)), solver), tolerance=1e-11)


@pytest.mark.parametrize(
    ("p", "network", "rounds"),
    [
        (problem(), RING, 8),
        (problem(consensus.Linear(4, 3)), RING, 32),
        (problem(consensus.Linear(4, 3), regularizer=L1(0.1)), RING, 8),
        (problem(consensus.Linear(4, 3), regularizer=L1(0.1)), topologies.Matchings(AGENTS), 8),
        (problem(regularizer=L1(0.1)), RING, 8),
    ],
    ids=["not convex", "convex", "not smooth", "changing", "neither convex nor smooth"],
)
def test_without_a_solver_one_is_chosen_as_in_one_process(p, network, rounds):
    here, there = (
        consensus.solve(p, network, rounds=rounds, record_every=4, engine=engine) for engine in ("stacked", Device())
    )
    assert type(there.solver.solver) is type(here.solver.solver) is AdaptiveNEXT
    assert_same(here, there, tolerance=1e-11)
    assert there.history["objective"][-1] < there.history["objective"][0]
