"""Solvers that ask for curvature on a device: AdaptiveNEXT, which decides, and linear systems."""

import warnings
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus import L1, L2, Box, CrossEntropy, Huber, LogisticLoss, SquaredLoss
from consensus.communication import flatten
from consensus.compression import Runs
from consensus.errors import UnfinishedWarning
from consensus.local import Exact, exact, semismooth
from consensus.local.exact import low_rank
from consensus.losses import PoissonLoss
from consensus.regularizers import Regularizer
from consensus.solvers import DADMM, NEXT, SONATA, AdaptiveNEXT, NetworkGIANT, NewtonTracking
from consensus.surrogates import Blocks, PartialLinearization

torch = pytest.importorskip("torch")
from consensus.device import Device, linearization, newton  # noqa: E402
from consensus.device.graphs import mapped  # noqa: E402
from consensus.device.network import DeviceNetwork, on_device  # noqa: E402
from consensus.device.problem import DeviceProblem  # noqa: E402
from consensus.device.rounding import Rounded  # noqa: E402
from consensus.device.rows import DeviceRows  # noqa: E402
from tests.consensus.device.test_device import (  # noqa: E402
    AGENTS,
    CLASSES,
    NUMBERS,
    RING,
    RNG,
    Quartic,
    Torch,
    assert_same,
    both,
    moved,
    problem,
)
from tests.helpers.every_regularizer import ALL as REGULARIZERS  # noqa: E402
from tests.helpers.every_regularizer import P  # noqa: E402

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


PARTIAL = PartialLinearization(1.0)


@pytest.mark.parametrize(
    "solver",
    [
        NewtonTracking(),
        NetworkGIANT(0.3),
        DADMM(0.5),
        NEXT(PARTIAL, 0.2),
        NEXT(PARTIAL, 0.2, batch=4),
        SONATA(PartialLinearization(1.0, curvature="local"), 0.2),
    ],
    ids=["tracking", "GIANT", "DADMM", "NEXT", "batches", "SONATA"],
)
@pytest.mark.parametrize("name", [name for name in CURVED if name not in ("functions", "squares")] + ["linear"])
def test_newtons_method_has_the_steps_of_one_process(solver, name):
    """With as many iterations of every agent, which a column of the history counts."""
    p = CURVED.get(name) or problem(consensus.Linear(4, 3), regularizer=L2(0.01))
    assert_same(*both(p, solver, rounds=30, record_every=10), tolerance=1e-12)


def test_agents_stop_one_by_one_and_steps_are_searched():
    """From far off, where whole steps of Newton's method rise; what is left after too few is noted as in one process."""
    start = 30 * RNG.standard_normal((AGENTS, CURVED["logits"].parameters))
    for most in (100, 3):
        solver, here, there = NEXT(PartialLinearization(0.01), 0.2, local=Exact(iterations=most)), [], []
        for engine, found in (("stacked", here), (Device(), there)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found += [
                    consensus.solve(CURVED["logits"], RING, solver, rounds=12, record_every=1, start=start, engine=engine)
                ]
            found += [[str(warning.message) for warning in caught if warning.category is UnfinishedWarning]]
        assert_same(here[0], there[0], tolerance=1e-10)
        assert len(there[1]) == len(here[1]) == (most == 3)
        assert np.array_equal(there[0].history["unfinished"], here[0].history["unfinished"])


def test_matrices_that_are_too_large_take_conjugate_gradients(monkeypatch):
    monkeypatch.setattr(newton, "_LARGEST", 0)
    for p in (problem(), CURVED["classes"]):
        for solver in (NEXT(PARTIAL, 0.2, local=Exact("iterative")), NewtonTracking(0.1, 1.0)):
            here, there = both(p, solver)
            np.testing.assert_allclose(there.w, here.w, rtol=0, atol=1e-8 * abs(here.w).max())


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_single_precision_goes_on_in_double_where_that_is_not_enough(scale, monkeypatch):
    """Features of unlike sizes: some agents' systems are too ill-conditioned for seven digits."""
    again, own = [], exact.solved_again
    monkeypatch.setattr(exact, "solved_again", lambda *given: again.append(len(given[1])) or own(*given))
    X = RNG.standard_normal((60, 4)) * [1.0, scale, 1 / scale, 1.0]
    shards = consensus.partition(X.astype(np.float32), (X[:, :1] > 0).astype(np.float32), agents=AGENTS, seed=0)
    p = consensus.Problem(consensus.Linear(4), LogisticLoss(), shards, L2(1e-4))
    here, there = both(p, NEXT(PartialLinearization(1e-2), 0.05), rounds=6)
    assert bool(again) == (scale > 1)
    assert there.w.dtype == np.float32
    np.testing.assert_allclose(there.w, here.w, rtol=0, atol=1e-4 * abs(here.w).max())


@pytest.fixture
def reads(monkeypatch):
    """How many numbers the host reads of rows, an entry for each time."""
    found = []
    for name in ("__bool__", "__int__", "__float__", "host", "tolist"):
        own = getattr(DeviceRows, name)
        monkeypatch.setattr(DeviceRows, name, lambda rows, own=own: found.append(rows.size) or own(rows))
    return found


def test_newtons_method_reads_a_few_truths_an_iteration(reads):
    counts = []
    for rounds in (10, 20):
        reads.clear()
        found = consensus.solve(CURVED["logits"], RING, NEXT(PARTIAL, 0.2), rounds=rounds, record_every=1000, engine=Device())
        counts.append((reads.count(1), sum(reads) - reads.count(1), found.history["iterations"][-1] / AGENTS))
    (ones, others, iterations), (more, as_many, more_iterations) = counts
    assert as_many == others  # the rows of the history
    assert more - ones <= 4 * 10 + 4 * (more_iterations - iterations)


def test_curvature_that_is_constant_is_factored_once(monkeypatch):
    calls, factored = [], torch.linalg.cholesky_ex
    monkeypatch.setattr(torch.linalg, "cholesky_ex", lambda matrices: calls.append(1) or factored(matrices))
    for p, expected in ((problem(consensus.Linear(4, 3)), 2), (problem(), 9)):  # with the trial
        calls.clear()
        consensus.solve(p, RING, NewtonTracking(0.1), rounds=8, engine=Device())
        assert len(calls) == expected


@pytest.mark.parametrize("r", [L2(0.1), L1(0.1)], ids=str)
def test_local_problems_in_blocks_are_the_hosts(r):
    blocks = NEXT(Blocks(PARTIAL, 2), 0.2)
    with pytest.raises(TypeError, match=r"^NEXT does not run on a device \(local problems of partial linearization do not run"):
        consensus.solve(problem(regularizer=r), RING, blocks, rounds=1, engine=Device())


@pytest.mark.parametrize("r", [L2(0.1), L1(0.1)], ids=str)
def test_adaptive_steps_read_a_few_numbers_a_round(r, reads, monkeypatch):
    iterations, dual = [], exact.solve_proximal

    def counted(*given):
        found = dual(*given)
        iterations.append(found[1].tensor.max().item())
        return found

    monkeypatch.setattr(exact, "solve_proximal", counted)
    counts = []
    for rounds in (40, 80):
        for found in (reads, iterations):
            found.clear()
        consensus.solve(problem(regularizer=r), RING, AdaptiveNEXT(), rounds=rounds, record_every=1000, engine=Device())
        counts.append(np.array([len(reads), sum(reads), len(iterations), sum(iterations)]))
    calls, numbers, solves, inner = counts[1] - counts[0]
    looks = 2  # at whether the iterates are lost
    proximal = 2 * solves + 3 * inner  # who is left, and is running; of an iteration, its factors and its step, too
    others = 40 * (3 + (not r.quadratic))  # of single numbers; and two minima in eight rounds
    assert calls - looks <= others + 40 / 8 * 2 + proximal
    assert numbers - looks <= others + 40 / 8 * 2 * AGENTS + proximal + (AGENTS - 1) * solves
    assert (solves > 0) == (not r.quadratic)


class Scaled(Regularizer):
    """The sum of c |w| by its prox alone."""

    def value(self, w):
        return 0.1 * np.abs(w).sum(axis=-1)

    def prox(self, v, step):
        return v - np.clip(v, -0.1 * step, 0.1 * step)


PROXIMAL = {name: r for name, r in REGULARIZERS.items() if not r.quadratic and r.squares is None} | {"prox alone": Scaled()}
WITH_PROX = [pytest.param(name, marks=[] if name in ("L1", "GroupL1", "prox alone") else pytest.mark.slow) for name in PROXIMAL]


def with_prox(name, loss=None):
    rng = np.random.default_rng(0)
    shards = consensus.partition(rng.standard_normal((60, P - 1)), rng.standard_normal(60), agents=AGENTS, seed=0)
    return consensus.Problem(consensus.Linear(P - 1), loss or Huber(0.5), shards, PROXIMAL[name])


@pytest.mark.parametrize("loss", [SquaredLoss(), Huber(0.5)], ids=["squares", "huber"])
@pytest.mark.parametrize("name", WITH_PROX)
def test_adaptive_steps_with_a_prox_are_those_of_one_process(name, loss):
    """With the same exact zeros. Later rounds decide by numbers that one process, started one digit off, also has otherwise."""
    here, there = both(with_prox(name, loss), AdaptiveNEXT(), record_every=1)
    assert_same(here, there, tolerance=1e-11)
    assert np.array_equal(there.w == 0, here.w == 0)


@pytest.mark.parametrize("solver", [NEXT(PARTIAL, 0.4), DADMM(1.0)], ids=["NEXT", "DADMM"])
@pytest.mark.parametrize("name", WITH_PROX)
def test_local_problems_with_a_prox_are_those_of_one_process(name, solver):
    """With the same exact zeros, by as many iterations, or about as many where r is not convex."""
    here, there = both(with_prox(name), solver)
    np.testing.assert_allclose(there.w, here.w, rtol=0, atol=1e-12 * max(1e-2, abs(here.w).max()))
    assert np.array_equal(there.w == 0, here.w == 0)
    np.testing.assert_allclose(there.history["iterations"], here.history["iterations"], rtol=0.05)


SPARSE = {
    "network": problem(regularizer=L1(0.02)),
    "module": problem(Torch(torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).double()),
                      regularizer=L1(0.02)),
    "classes": problem(consensus.MLP([4, 5, 3]), CrossEntropy(), L1(0.01), CLASSES),
    "logits": problem(consensus.Linear(4, 3), LogisticLoss(), L1(0.01), (NUMBERS > 0).astype(float)),
    "single precision": problem(regularizer=L1(0.02), dtype=np.float32),
}  # fmt: skip


@pytest.mark.parametrize("formed", [True, False], ids=["formed", "products"])
@pytest.mark.parametrize("solver", [NEXT(PARTIAL, 0.4), SONATA(PARTIAL, 0.4), NEXT(PARTIAL, 0.4, batch=4)], ids=str)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name == "network" else pytest.mark.slow) for name in SPARSE])
def test_sparse_local_problems_are_those_of_one_process(name, solver, formed, monkeypatch):
    """Also by products with the Jacobian alone, which end at a residual, if all agents' would be too large."""
    if not formed:
        monkeypatch.setattr(linearization, "LARGEST", 10)
    here, there = both(SPARSE[name], solver)
    tolerance = 1e-12 if formed else 1e-7
    np.testing.assert_allclose(
        there.w, here.w, rtol=0, atol=max(tolerance, 30 * np.finfo(here.w.dtype).eps) * abs(here.w).max()
    )
    assert np.array_equal(there.w == 0, here.w == 0)
    assert np.array_equal(there.history["solves"], here.history["solves"])


def test_local_problems_that_are_hard_take_their_turn():
    """Ill-conditioned ones: one after the other, by the envelope."""
    x = RNG.standard_normal((30, 4)) * [1, 1e3, 1e-2, 1]
    shards = consensus.partition(x, x @ [1.0, 1e-3, 50.0, 0.0] + 0.1 * RNG.standard_normal(30), agents=AGENTS)
    p = consensus.Problem(consensus.Linear(4), SquaredLoss(), shards, L1(1e-3))
    solver = NEXT(PartialLinearization(1e-4), 0.4)
    here, there = both(p, solver)
    np.testing.assert_allclose(there.w, here.w, rtol=0, atol=1e-8 * abs(here.w).max())


@pytest.mark.parametrize("network", [LOSSY, DIRECTED], ids=["lossy", "directed"])
@pytest.mark.parametrize("r", [L1(0.02), Box(-0.5, 0.7), consensus.GroupL1.of_inputs(0.05, consensus.MLP([4, 5, 3]))], ids=str)
def test_adaptive_steps_with_a_prox_on_networks(r, network):
    assert_same(*both(problem(regularizer=r), AdaptiveNEXT(), network, record_every=1), tolerance=1e-11)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("count", [3, 20, 40])
@pytest.mark.parametrize("name", WITH_PROX)
def test_local_problems_of_low_rank_are_solved_together(name, count, dtype):
    """Each with a tau of its own; systems of the order of the columns, and of the parameters."""
    rng = np.random.default_rng(count)
    V, w, gradient = rng.standard_normal((AGENTS, P, count)), rng.standard_normal((AGENTS, P)), rng.standard_normal((AGENTS, P))
    given = [x.astype(dtype) for x in (V, 10.0 ** rng.uniform(0, 2, AGENTS), w, 3 * gradient)]
    here, there = low_rank(*given, PROXIMAL[name]), low_rank(*map(moved, given), PROXIMAL[name]).host()
    assert there.dtype == dtype
    # By their prox alone problems end at a residual of 1e-10; others, of Newton's method, at rounding.
    tolerance = 1e-8 if name == "prox alone" else 1e-12
    np.testing.assert_allclose(there, here, rtol=0, atol=max(tolerance, np.finfo(dtype).eps) * abs(here).max())


@pytest.mark.parametrize("name", ["L1", "Box", "GroupL1", "L2Ball"])
@pytest.mark.parametrize("count", [3, 40])
def test_local_problems_that_are_left_take_their_turn(name, count, monkeypatch):
    """By the envelope, if Newton's method on the dual leaves them."""
    turns, dual, own = [], exact.solve_proximal, exact.solve_by_envelope
    monkeypatch.setattr(exact, "solve_proximal", lambda *given: (*dual(*given)[:2], given[4] < 0))  # no agent's
    monkeypatch.setattr(exact, "solve_by_envelope", lambda *given: turns.append(type(given[2])) or own(*given))
    rng = np.random.default_rng(count)
    V = 10.0 ** rng.uniform(-1, 2, (AGENTS, P, 1)) * rng.standard_normal((AGENTS, P, count))
    given = V, 10.0 ** rng.uniform(0, 2, AGENTS), rng.standard_normal((AGENTS, P)), 100 * rng.standard_normal((AGENTS, P))
    here, there = low_rank(*given, REGULARIZERS[name]), low_rank(*map(moved, given), REGULARIZERS[name]).host()
    assert turns == [np.ndarray] * AGENTS + [DeviceRows] * AGENTS
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-11 * abs(here).max())


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
    here, there = Runs.nearest(rows, unit), Rounded.nearest(moved(rows).tensor, moved(unit).tensor)
    assert np.array_equal(there.unpack().host(), here.unpack(), equal_nan=True)
    assert there.bytes.tolist() == here.bytes.tolist()


def test_powers_of_two_are_exact():
    x, k = RNG.standard_normal(2000), RNG.integers(-1022, 1000, 2000)
    assert np.array_equal(np.ldexp(moved(x), k).host(), np.ldexp(x, k))


@pytest.mark.parametrize(
    ("name", "solver"),
    [(name, AdaptiveNEXT()) for name in CURVED if name not in ("functions", "module")]
    + [
        ("network", NewtonTracking(0.1, 1.0)),
        ("logits", NetworkGIANT(0.1)),
        ("network", NEXT(PARTIAL, 0.2)),
        ("logits", NEXT(PARTIAL, 0.2)),
    ],
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
    state = mapped(method.init(there, moved(np.ones((AGENTS, p.parameters)))), moved)
    for _ in range(9):
        state = method.step(there, mixing, state)
    assert {value.tensor.device.type for value in flatten(state).values() if isinstance(value, DeviceRows)} == {"meta"}
    assert mixing.exchanges >= 9


@pytest.mark.parametrize("name", WITH_PROX)
def test_local_problems_with_a_prox_stay_there(name, monkeypatch):
    for most in ("_ITERATIONS", "_FIRST_ORDER"):
        monkeypatch.setattr(exact, most, 2)  # as nothing is ever done
    monkeypatch.setattr(semismooth, "_HALVINGS", 2)
    for read, made_up in (("__bool__", True), ("__int__", 1), ("__float__", 1.0)):
        monkeypatch.setattr(DeviceRows, read, lambda rows, made_up=made_up: made_up)
    monkeypatch.setattr(DeviceRows, "host", lambda rows: np.ones(rows.shape, rows.dtype))
    given = (torch.ones(shape, device="meta") for shape in ((AGENTS, P, 5), (AGENTS,), (AGENTS, P), (AGENTS, P)))
    d = low_rank(*map(DeviceRows, given), PROXIMAL[name])
    assert (d.tensor.device.type, d.shape, d.dtype) == ("meta", (AGENTS, P), np.float32)
