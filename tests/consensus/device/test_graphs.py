"""Rounds that are repeated as they were captured: the bits of rounds whose calls are computed one by one."""

import signal
from typing import NamedTuple

import numpy as np
import pytest

import consensus
import topologies
from consensus import L1, CrossEntropy
from consensus.directions import AdamW, Clip, Muon
from consensus.solvers import DGD, KGT, NEXT, NIDS, AdaptiveNEXT, DiLoCo, GradientTracking, ProxSkip
from consensus.step_sizes import Diminishing
from consensus.surrogates import Blocks, FullLinearization
from tests.helpers.every_solver import OTHERWISE, SOLVERS

torch = pytest.importorskip("torch")
from consensus.device import Device, graphs  # noqa: E402
from tests.consensus.device.test_device import AGENTS, CLASSES, RING, THERE, WHOLE, Torch, moved, problem  # noqa: E402

RNG = np.random.default_rng(0)


@pytest.fixture
def rounds(monkeypatch):
    """What took the rounds of each run."""
    made, own = [], graphs.Rounds.__init__
    monkeypatch.setattr(graphs.Rounds, "__init__", lambda rounds, device: own(rounds, device) or made.append(rounds))
    return made


def one_by_one_and_repeated(p, solver, network=RING, **options):
    start = 0.3 * np.random.default_rng(1).standard_normal((p.agents, p.parameters))
    options = {"rounds": 12, "record_every": 5, "start": start} | options
    return [consensus.solve(p, network, solver, engine=Device(graphs=graphs), **options) for graphs in (False, True)]


def assert_equal(one, other):
    assert np.array_equal(one.w, other.w)
    for name in one.history:
        if name != "seconds":
            assert np.array_equal(one.history[name], other.history[name], equal_nan=True), name


FAST = ["tracking, atc", "DiLoCo", "subgradient", "SGP", "NEXT full", "NIDS", "adaptive", "GT-SARAH"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in SOLVERS | OTHERWISE]
)
def test_every_solver_has_the_bits_of_rounds_that_are_not_repeated(name):
    for p in (problem(), problem(consensus.Linear(4, 3), regularizer=L1(0.1))):
        try:
            found = one_by_one_and_repeated(p, (SOLVERS | OTHERWISE)[name])
        except (TypeError, ValueError):
            continue  # not a problem for it, or refused on a device
        assert_equal(*found)


MATCHED, LOSSY = topologies.Matchings(AGENTS), topologies.LinkFailure(RING, 0.3, seed=0)


@pytest.mark.parametrize(
    ("solver", "network", "captured"),
    [
        (GradientTracking(Diminishing(0.05, 2.0), batch=4), RING, 1),
        (GradientTracking(0.01, batch=4, direction=AdamW()), RING, 1),
        (GradientTracking(0.01, direction=Muon()), RING, 1),
        (DGD(0.02, direction=Clip(1.0)), LOSSY, 1),
        (KGT(0.02, 2, batch=3), MATCHED, 1),
        (SOLVERS["GT-SARAH"], RING, 2),
        (ProxSkip(0.05, probability=0.5), RING, 2),
        (DiLoCo(0.02, 3, batch=4), RING, 1),
        (NEXT(Blocks(FullLinearization(4.0), 3), 0.2, batch=3), RING, 1),
        (NEXT(FullLinearization(4.0), Diminishing(0.2, 0.5)), RING, 1),
        (AdaptiveNEXT(), RING, 0),
    ],
    ids=[
        "falling steps",
        "AdamW",
        "Muon",
        "matrices",
        "matchings",
        "two rounds",
        "coins",
        "local steps",
        "batches of surrogates",
        "surrogates",
        "decides",
    ],
)  # fmt: skip
def test_numbers_of_the_host_are_those_of_the_round(solver, network, captured, rounds):
    assert_equal(*one_by_one_and_repeated(problem(), solver, network, rounds=24))
    assert len(rounds) == 1
    assert len(rounds[0].captured) == captured
    assert (rounds[0].looks > 0) == (captured == 0)


def test_modules_and_functions_of_numpy(rounds):
    centres = RNG.standard_normal((AGENTS, 4))

    def gradient(w):
        moved = w - centres
        moved *= 2.0  # in place
        moved[:, 1:3] = moved[:, 1:3] / (1 + moved[:, 1:3] ** 2)
        return moved

    functions = consensus.Problem.from_functions(lambda w: ((w - centres) ** 2).sum(axis=1), gradient, AGENTS, 4)
    module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.LayerNorm(5), torch.nn.Linear(5, 3)).double()
    for p in (functions, problem(Torch(module), CrossEntropy(), targets=CLASSES)):
        assert_equal(*one_by_one_and_repeated(p, NIDS(0.05) if p is functions else GradientTracking(0.02, batch=5)))
    assert [len(found.captured) for found in rounds] == [1, 1]


class Twice(NamedTuple):
    round: int
    w: np.ndarray
    before: np.ndarray  # the rows of the round before: of one memory with w's
    counts: np.ndarray


class Two(NamedTuple):
    round: int
    w: np.ndarray
    inner: Twice


def taken(step, count=6):
    """Return the states of some rounds, computed one by one and repeated."""
    a, b = RNG.standard_normal((2, 3, 4))
    found = []
    for rounds in (None, graphs.Rounds(THERE)):
        state = Two(0, moved(a), Twice(0, moved(b), moved(b), moved(WHOLE[:, :3])))
        states = []
        for _ in range(count):
            state = step(state) if rounds is None else rounds.step(step, state)
            states.append([row.host() for row in (state.w, *state.inner[1:])])
        found.append(states)
    assert all(np.array_equal(x, y) for one, other in zip(*found, strict=True) for x, y in zip(one, other, strict=True))
    return rounds


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b, n: 2 * a - b / 3 + 0.1**n * a**2 @ b.T @ b,
        lambda a, b, n: np.sqrt(np.maximum(a, 0.1 * n)) + np.minimum(b, a) + abs(a) - np.abs(b),
        lambda a, b, n: np.where(a > b, a, -b) + np.clip(a, -0.5, 0.5) + np.clip(a, -abs(b), abs(b)),
        lambda a, b, n: np.concatenate([a, b], axis=1)[:, 2:6].reshape(-1, 3).swapaxes(0, 1),
        lambda a, b, n: a + np.stack([a, b]).sum(axis=(0, 2))[:, None] + np.linalg.norm(a, axis=1)[:, None],
        lambda a, b, n: a.mean(axis=1, keepdims=True) + np.sum(b, axis=0) + np.max(a, axis=1, keepdims=True) + np.frexp(a)[0],
        lambda a, b, n: np.zeros_like(a) + np.ones_like(b) + np.full_like(a, 3.0) * a.copy() - np.float64(n) * b,
        lambda a, b, n: a[np.roll(np.arange(3), n)] + b[[1, 0, 2]] + np.einsum("ij,ij->i", a, b)[:, None],
        lambda a, b, n: np.multiply(a, 0.5, out=a.copy()) + np.take_along_axis(b, np.full((3, 4), n % 4), axis=1),
        lambda a, b, n: a + np.arange(12.0).reshape(3, 4) * n + np.float32(0.1) * b,
        lambda a, b, n: a + 0.5 if n % 2 else b * 2,
        lambda a, b, n: a / 3 if float(abs(a).max()) > 0.5 else a * 3,
        lambda a, b, n: a + len(np.nonzero(a > b)[0]) * b + np.argwhere(a > 0).shape[0],
        lambda a, b, n: a * 0.9 + a[a > b].sum() - a[(a > 0).any(axis=1)].sum(),
        lambda a, b, n: a * 0.9 + len(np.repeat(a, (b > 0).sum(axis=1), axis=0)),
        lambda a, b, n: np.where(a > 0, -0.0 if n % 2 else 0.0, b) / np.shape(a)[0] ** np.ndim(b),
        lambda a, b, n: a + np.broadcast_to(b[:1], np.shape(a)).astype(np.result_type(a, b)) * np.size(a),
    ],
)  # fmt: skip
def test_whatever_a_round_asks_for(f):
    def step(state):
        inner = state.inner
        w = f(state.w, inner.w, state.round)
        return Two(state.round + 1, w, Twice(inner.round, state.w + 1 - 1, inner.w, inner.counts + 1))

    taken(step)


def test_rows_that_change_in_place_and_rows_of_one_memory():
    def step(state):
        w, inner = state.w.copy(), state.inner
        w += inner.w
        half = w[:, :2]
        half *= 0.5
        w[1] = inner.before[0]
        return Two(state.round + 1, inner.before, Twice(0, w, state.w[::1], inner.counts.copy()))

    assert len(taken(step).captured) == 1


def test_rounds_that_differ_every_time_are_computed_one_by_one(monkeypatch):
    monkeypatch.setattr(graphs, "_NOTES", 20)
    found = taken(lambda state: state._replace(round=state.round + 1, w=state.w * (state.round + 1)), count=30)
    assert found.notes == 20
    assert not found.captured


def test_what_is_captured_is_not_done(monkeypatch):
    """Where calls are noted as a graph they compute nothing: here they do, and it is taken back."""

    def noted(do, rounds):
        tensors = [*rounds.kept.values()]
        before = [tensor.clone() for tensor in tensors]
        do()
        for tensor, old in zip(tensors, before, strict=True):
            tensor.copy_(old)
        return do

    monkeypatch.setattr(graphs, "_graph", noted)
    for name in ("tracking, atc", "GT-VR", "ProxSkip", "DiLoCo"):
        assert_equal(*one_by_one_and_repeated(problem(), SOLVERS[name]))


def test_what_cannot_be_captured_is_computed(monkeypatch):
    def failing(*_):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(graphs._Captured, "__init__", failing)
    assert not taken(lambda state: state._replace(w=state.w * 0.5)).captured


class Keeps(DGD):
    """Keeps rows beside its state."""

    def step(self, problem, network, state):
        if hasattr(self, "last"):
            state = state._replace(w=state.w + self.last)
        object.__setattr__(self, "last", 0.1 * state.w)
        return super().step(problem, network, state)


def test_rows_beside_the_state_are_named():
    with pytest.raises(RuntimeError, match=r"the method keeps rows beside its state: give Device\(\.\.\., graphs=False\)"):
        consensus.solve(problem(), RING, Keeps(0.01), rounds=9, engine=Device(graphs=True))
    assert consensus.solve(problem(), RING, Keeps(0.01), rounds=9, engine=Device(graphs=False)).rounds == 9


def test_a_run_that_goes_on_has_the_bits_of_one(tmp_path):
    p, solver, options = problem(), GradientTracking(0.02, batch=4), {"record_every": 5, "engine": Device(graphs=True)}
    whole = consensus.solve(p, RING, solver, rounds=20, **options)
    consensus.solve(p, RING, solver, rounds=10, checkpoint=tmp_path / "run", **options)
    assert_equal(whole, consensus.solve(p, RING, solver, rounds=20, resume=tmp_path / "run", **options))


def test_ctrl_c_ends_a_round_as_a_whole(monkeypatch):
    own, rounds = graphs._Captured.repeat, []

    def repeat(captured, round):
        found = own(captured, round)
        rounds.append(1)
        if len(rounds) == 6:
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(graphs._Captured, "repeat", repeat)
    options = {"engine": Device(graphs=True), "record_every": 100}
    with pytest.raises(consensus.Interrupted) as raised:
        consensus.solve(problem(), RING, GradientTracking(0.02), rounds=50, **options)
    found = raised.value.result
    assert found.rounds == 7  # the first was not captured
    assert np.array_equal(found.w, consensus.solve(problem(), RING, GradientTracking(0.02), rounds=7, **options).w)


def test_refusals():
    with pytest.raises(ValueError, match=r"graphs must be one of True, False, None; got 1.5"):
        Device(graphs=1.5)
