"""Solvers that ask for curvature on a device: AdaptiveNEXT, which decides, and linear systems."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus import L1, L2, CrossEntropy, Huber, LogisticLoss
from consensus.communication import flatten
from consensus.compression import Runs
from consensus.losses import PoissonLoss
from consensus.solvers import DADMM, NEXT, AdaptiveNEXT, NetworkGIANT, NewtonTracking
from consensus.surrogates import PartialLinearization

torch = pytest.importorskip("torch")
from consensus.device import Device  # noqa: E402
from consensus.device.engine import _mapped  # noqa: E402
from consensus.device.network import DeviceNetwork, on_device  # noqa: E402
from consensus.device.problem import DeviceProblem  # noqa: E402
from consensus.device.rounding import Rounded  # noqa: E402
from consensus.device.rows import DeviceRows  # noqa: E402
from consensus.models import Torch  # noqa: E402
from tests.consensus.device.test_device import (  # noqa: E402
    AGENTS,
    CLASSES,
    NUMBERS,
    RING,
    RNG,
    Quartic,
    assert_same,
    both,
    problem,
)

COLUMNS = RNG.standard_normal((AGENTS, 4))
BENT = consensus.Problem.from_functions(
    lambda w: np.log1p((w - COLUMNS) ** 2).sum(axis=1),
    lambda w: 2 * (w - COLUMNS) / (1 + (w - COLUMNS) ** 2),
    agents=AGENTS,
    parameters=4,
    regularizer=L2(0.1),
)
CURVED = {
    "network": problem(),
    "squares": problem(consensus.Linear(4, 3), regularizer=L2(np.r_[np.ones(12), np.zeros(3)])),
    "huber": problem(consensus.Linear(4, 3), Huber(0.5)),
    "logits": problem(consensus.Linear(4, 3), LogisticLoss(), targets=(NUMBERS > 0).astype(float)),
    "counts": problem(consensus.Linear(4, 3), PoissonLoss(), targets=np.rint(NUMBERS**2)),
    "classes": problem(consensus.MLP([4, 5, 3]), CrossEntropy(), targets=CLASSES),
    "weighted": problem(
        consensus.Linear(4, 6),
        CrossEntropy(weight=[1.0, 2.0, 3.0], label_smoothing=0.1, ignore_index=1),
        targets=np.column_stack([CLASSES, CLASSES[::-1]]),
    ),
    "module": problem(Torch(torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3)).double())),
    "functions": BENT,
    "quartic": problem(consensus.Linear(4, 3), Quartic()),
}
LOSSY = topologies.LinkFailure(RING, 0.3, seed=0)
DIRECTED = topologies.Static(nx.cycle_graph(AGENTS, create_using=nx.DiGraph), weights=topologies.push)


ROUNDS = {"huber": 8, "network": 12, "classes": 12, "module": 12}  # and 32


@pytest.mark.parametrize("network", [RING, LOSSY, DIRECTED], ids=["ring", "lossy", "directed"])
@pytest.mark.parametrize("name", CURVED)
def test_adaptive_steps_decide_there_as_in_one_process(name, network):
    """Fewer rounds where one process comes apart from itself, from starts that differ by rounding, in twice as many."""
    assert_same(*both(CURVED[name], AdaptiveNEXT(), network, rounds=ROUNDS.get(name, 32), record_every=1), tolerance=1e-10)


@pytest.mark.parametrize("solver", [NewtonTracking(), NetworkGIANT(0.3), DADMM(0.5)], ids=["tracking", "GIANT", "DADMM"])
@pytest.mark.parametrize("name", ["network", "huber", "logits", "weighted", "linear"])
def test_newtons_directions(solver, name):
    p = CURVED.get(name) or problem(consensus.Linear(4, 3), regularizer=L2(0.01))
    if isinstance(solver, DADMM) and not p.loss.quadratic:
        with pytest.raises(TypeError, match=r"^DADMM does not run on a device \(partial linearization runs"):
            consensus.solve(p, RING, solver, rounds=1, engine=Device())
    else:
        assert_same(*both(p, solver, rounds=30, record_every=10), tolerance=1e-10)


def test_curvature_that_is_constant_is_factored_once(monkeypatch):
    calls, factored = [], torch.linalg.cholesky_ex
    monkeypatch.setattr(torch.linalg, "cholesky_ex", lambda matrices: calls.append(1) or factored(matrices))
    for p, expected in ((problem(consensus.Linear(4, 3)), 2), (problem(), 9)):  # with the trial
        calls.clear()
        consensus.solve(p, RING, NewtonTracking(0.1), rounds=8, engine=Device())
        assert len(calls) == expected


@pytest.mark.parametrize("p", [problem(loss=Huber(0.5)), problem(regularizer=L1(0.1))], ids=["loss", "regularizer"])
def test_local_problems_that_are_no_systems_are_the_hosts(p):
    with pytest.raises(TypeError, match=r"^NEXT does not run on a device \(partial linearization runs"):
        consensus.solve(p, RING, NEXT(PartialLinearization(1.0), 0.2), rounds=1, engine=Device())


def test_adaptive_steps_read_a_few_numbers_a_round(monkeypatch):
    reads = []
    for name in ("__bool__", "__int__", "__float__", "host", "tolist"):
        own = getattr(DeviceRows, name)
        monkeypatch.setattr(DeviceRows, name, lambda rows, own=own: reads.append(rows.size) or own(rows))
    counts = []
    for rounds in (40, 80):
        reads.clear()
        consensus.solve(problem(), RING, AdaptiveNEXT(), rounds=rounds, record_every=1000, engine=Device())
        counts.append((len(reads), sum(reads)))
    (calls, numbers), (more_calls, more_numbers) = counts
    looks = 2  # at whether the iterates are lost
    assert more_calls - calls - looks <= 40 * 3 + 40 / 8 * 2  # of single numbers; and two minima in eight rounds
    assert more_numbers - numbers - looks <= 40 * 3 + 40 / 8 * 2 * AGENTS


def test_adaptive_runs_go_on_on_another_engine(tmp_path):
    p, options = CURVED["logits"], {"record_every": 4}
    whole = consensus.solve(p, RING, AdaptiveNEXT(), rounds=32, **options)
    for first, then in ((Device(), "stacked"), ("stacked", Device())):
        path = tmp_path / f"{type(then).__name__}.ckpt"
        consensus.solve(p, RING, AdaptiveNEXT(), rounds=12, engine=first, checkpoint=path, **options)
        again = consensus.solve(p, RING, AdaptiveNEXT(), rounds=32, engine=then, resume=path, **options)
        assert_same(whole, again, tolerance=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("columns", "parts"), [(1, 1), (31, 1), (64, 2), (66, 2), (200, 4)])
def test_rows_are_rounded_and_weighed_there_as_here(columns, parts, dtype):
    rng = np.random.default_rng(columns)
    rows = (rng.standard_normal((9, columns)) * 10.0 ** rng.integers(-12, 8, (9, columns))).astype(dtype)
    unit = np.exp2(rng.integers(-30, 5, (9, parts))).astype(dtype) * np.where(np.arange(9) < 4, 1, 1.7)[:, None].astype(dtype)
    rows[2], rows[3, 0], unit[4, 0], unit[5, 0] = 0, np.nan, np.nan, 1e-30
    here, there = Runs.nearest(rows, unit), Rounded.nearest(torch.from_numpy(rows), torch.from_numpy(unit))
    assert np.array_equal(there.unpack().host(), here.unpack(), equal_nan=True)
    assert there.bytes.tolist() == here.bytes.tolist()


def test_powers_of_two_are_exact():
    x, k = RNG.standard_normal(2000), RNG.integers(-1022, 1000, 2000)
    assert np.array_equal(np.ldexp(DeviceRows(torch.from_numpy(x)), k).host(), np.ldexp(x, k))


@pytest.mark.parametrize(
    ("name", "solver"),
    [(name, AdaptiveNEXT()) for name in CURVED if name not in ("functions", "module")]
    + [("network", NewtonTracking(0.1, 1.0)), ("logits", NetworkGIANT(0.1)), ("network", NEXT(PartialLinearization(1.0), 0.2))],
    ids=str,
)
@pytest.mark.parametrize("network", [RING, LOSSY], ids=["ring", "lossy"])
def test_arrays_of_the_host_and_of_the_device_never_meet(name, network, solver, monkeypatch):
    """On a device of PyTorch's that is not the host's and has no numbers: what is read from it is made up."""
    p = CURVED[name]
    for read, made_up in (("__bool__", False), ("__int__", 1), ("__float__", 1.0)):
        monkeypatch.setattr(DeviceRows, read, lambda rows, made_up=made_up: made_up)
    monkeypatch.setattr(DeviceRows, "host", lambda rows: np.ones(rows.shape, rows.dtype))
    there, mixing = DeviceProblem(p, "meta"), DeviceNetwork(network, p.dtype, "meta")

    def moved(value):
        return Device._there(SimpleNamespace(device="meta"), value)

    method = on_device(solver)
    state = _mapped(method.init(there, moved(np.ones((AGENTS, p.parameters)))), moved)
    for _ in range(9):
        state = method.step(there, mixing, state)
    assert {value.tensor.device.type for value in flatten(state).values() if isinstance(value, DeviceRows)} == {"meta"}
    assert mixing.exchanges >= 9


def test_how_a_surrogate_of_the_hosts_is_named():
    with pytest.raises(TypeError, match=r"^AdaptiveNEXT does not run on a device \(Newton's method .* with L1\(weight=0.1\)"):
        consensus.solve(problem(regularizer=L1(0.1)), RING, AdaptiveNEXT(), rounds=1, engine=Device())
