"""What is of the wrong kind is refused where it comes in, with the argument's name and what would do."""

import numpy as np
import pytest
import scipy.sparse as sp

import consensus
import topologies
from consensus.regularizers import SCAD, Box, ElasticNet, GroupL1, L2Ball, LogSum, NonNegative
from consensus.solvers import (
    ATG,
    DGD,
    DLM,
    LTADMM,
    NEXT,
    SONATA,
    AdaptiveNEXT,
    DiNNO,
    GradientTracking,
    NetworkGIANT,
    PushDIGing,
    PushPull,
)
from consensus.step_sizes import Constant, Diminishing, InverseSqrt
from consensus.surrogates import FullLinearization, PartialLinearization
from tests.helpers.problems import problem
from tests.helpers.refusals import refusals

RING = topologies.ring(6)
ODD = [None, 3, "x", [], {}, object(), np.eye(4), type, consensus.History]


@pytest.mark.parametrize("odd", [*ODD, sp.eye_array(6, format="csr")], ids=lambda odd: type(odd).__name__)
def test_what_is_no_network_is_refused(odd):
    with pytest.raises(TypeError, match=r"^network must be a schedule or a networkx graph"):
        consensus.solve(problem(), odd, rounds=1)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_what_is_no_problem_engine_or_solver_is_refused(odd):
    with pytest.raises(TypeError, match=r"^problem must be a problem, such as consensus\.Problem"):
        consensus.solve(odd, RING, rounds=1)
    if odd is not None:
        with pytest.raises(TypeError, match=r"^solver must be a Solver, such as"):
            consensus.solve(problem(), RING, odd, rounds=1)
    with pytest.raises((TypeError, ValueError), match=r"^engine must be "):
        consensus.solve(problem(), RING, rounds=1, engine=odd)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("name", ["model", "loss", "shards", "regularizer"])
def test_what_makes_no_problem_is_refused(name, odd):
    good = problem()
    parts = {"model": good.model, "loss": good.loss, "shards": good.shards, "regularizer": good.regularizer}
    if name == "regularizer" and odd is None:
        assert consensus.Problem(**parts | {name: odd}).regularizer == consensus.L2(0.0)
        return
    with pytest.raises(TypeError, match=rf"^{name} must be "):
        consensus.Problem(**parts | {name: odd})


class StepOnly:
    """An optimiser of another package, which no call makes a solver."""

    def step(self):
        return None


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize(
    "solver",
    [AdaptiveNEXT(), NEXT(FullLinearization(1.0), 0.1), SONATA(FullLinearization(1.0), 0.1), DGD(0.1), GradientTracking(0.1)],
    ids=lambda solver: type(solver).__name__,
)
def test_every_solvers_check_takes_problems_only(solver, odd):
    with pytest.raises(TypeError, match=r"^problem must be a problem"):
        solver.check(odd)


class NoVjp:
    parameters, outputs = 4, 1

    def init(self, rng):
        return np.zeros(4)

    def predict(self, w, x):
        return x @ w[:, :, None]

    jvp = None


@pytest.mark.parametrize("parameters", [0, -1, 2.5, None, "4"])
def test_a_models_sizes_are_whole_numbers(parameters):
    model = consensus.Linear(4)
    model.parameters = parameters
    with pytest.raises(ValueError, match=r"parameters of Linear must be a whole number >= 1"):
        consensus.Problem(model, consensus.SquaredLoss(), problem().shards)


@pytest.mark.parametrize("rows", [None, 3, 0.5, "x", {}, [0.5], np.eye(2), slice("a", "b"), type])
def test_rows_that_are_none_are_refused(rows):
    for whole in (problem(), problem().shards):
        with pytest.raises(TypeError, match=r"^rows must be a slice"):
            whole.restrict(rows)


@pytest.mark.parametrize("rows", [[6], [-1, 0], np.array([0, 10**6])])
def test_rows_of_nobody_are_refused(rows):
    for whole in (problem(), problem().shards):
        with pytest.raises(ValueError, match=r"^rows must be among 0 \.\. 5; got"):
            whole.restrict(rows)


@pytest.mark.parametrize("rule", [Constant(0.1), Diminishing(0.5, 0.1), InverseSqrt(0.5)], ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("round", [-1, 0.5, np.nan, np.inf, "1", None, 10**30])
def test_a_step_of_no_round_is_refused(rule, round):
    with pytest.raises(ValueError, match=r"^round must be a whole number >= 0"):
        rule(round)


@pytest.mark.parametrize("value", [10**400, 10**30, -(10**400)])
def test_numbers_beyond_all_arrays_are_refused(value):
    with pytest.raises(ValueError, match=r"^rounds must be a whole number >= 0"):
        consensus.solve(problem(), RING, rounds=value)
    if abs(value) > 10**300:
        with pytest.raises(ValueError, match=r"^tolerance must be a finite number"):
            consensus.solve(problem(), RING, rounds=1, tolerance=value)


@pytest.mark.parametrize("odd", [np.array(["stacked"]), np.eye(2), ["stacked"], {}], ids=repr)
def test_a_choice_is_not_compared_entry_by_entry(odd):
    with pytest.raises(ValueError, match=r"^order must be one of 'atc', 'cta'"):
        GradientTracking(0.1, order=odd)


@pytest.mark.parametrize("name", ["checkpoint", "resume"])
@pytest.mark.parametrize("odd", [3, True, [], np.eye(2)], ids=repr)
def test_what_is_no_path_is_refused(name, odd):
    with pytest.raises(TypeError, match=rf"^{name} must be a path"):
        consensus.solve(problem(), RING, rounds=1, **{name: odd})


@pytest.mark.parametrize("odd", [-1, "x", 0.5, {}, object()], ids=lambda odd: type(odd).__name__)
def test_what_is_no_seed_is_refused(odd):
    with pytest.raises(ValueError, match=r"^seed must be a whole number >= 0"):
        consensus.solve(problem(), RING, rounds=1, seed=odd)


ARRAYS = [None, 3, "x", {}, object(), np.array(["a"]), np.ones(2, complex), sp.eye_array(3), type]


@pytest.mark.parametrize("odd", ARRAYS, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("model", [consensus.Linear(3), consensus.MLP([3, 2, 1])], ids=repr)
def test_a_models_arrays_are_named(model, odd):
    w, x, u = np.ones((2, model.parameters)), np.ones((2, 5, 3)), np.ones((2, 5, 1))
    good = {"w": w, "x": x, "u": u, "v": w}
    for method, names in {
        "predict": "wx",
        "vjp": "wxu",
        "jvp": "wxv",
        "jacobian": "wx",
        "gram": "wx",
        "linearize": "wx",
    }.items():
        for name in names:
            if (method, name) == ("predict", "x") and isinstance(model, consensus.Linear) and sp.issparse(odd):
                continue
            arguments = {key: good[key] for key in names} | {name: odd}
            with pytest.raises((TypeError, ValueError), match=rf"^{name} must "):
                getattr(model, method)(**arguments)


def test_lists_do_for_arrays():
    model = consensus.Linear(2)
    expected = model.predict(np.array([1.0, 2.0, 0.5]), np.array([[1.0, 1.0], [0.0, 3.0]]))
    np.testing.assert_array_equal(model.predict([1.0, 2.0, 0.5], [[1, 1], [0, 3]]), expected)


@pytest.mark.parametrize("odd", [None, 3, "x", [], {}, object(), type], ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize(
    "loss",
    [consensus.SquaredLoss(), consensus.LogisticLoss(), consensus.Huber(), consensus.CrossEntropy()],
    ids=lambda loss: type(loss).__name__,
)
def test_a_losss_arrays_are_named(loss, odd):
    classes = isinstance(loss, consensus.CrossEntropy)
    targets = np.zeros((2, 5, 1)) if classes else np.zeros((2, 5, 3))
    methods = ["value", "error"] if not classes else ["value", "gradient", "curvature", "curvature_root", "error"]
    for method in methods:
        with pytest.raises((TypeError, ValueError), match=r"^outputs must "):
            getattr(loss, method)(odd, targets)
        if method[:4] != "curv":  # which may not depend on them
            with pytest.raises((TypeError, ValueError), match=r"^targets must "):
                getattr(loss, method)(np.ones((2, 5, 3)), odd)
    with pytest.raises((TypeError, ValueError), match=r"^targets must |needs a target for each|takes one integer class"):
        loss.check(odd, 3)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize(
    "solver", [AdaptiveNEXT(), NEXT(FullLinearization(1.0), 0.1), GradientTracking(0.1), PushPull(0.1)], ids=repr
)
def test_states_and_widths_are_those_of_problems(solver, odd):
    with pytest.raises(TypeError, match=r"^problem must be a problem"):
        solver.init(odd, np.zeros((6, 5)))
    with pytest.raises(TypeError, match=r"^problem must be a problem"):
        solver.width(odd)


# What the methods that take arrays make of arguments that are none, and what is refused where it is given.


V = np.random.default_rng(0).standard_normal((5, 4))
REGULARIZERS = [
    consensus.L1(0.1),
    consensus.L2(0.1),
    ElasticNet(0.1, 0.2),
    GroupL1(0.1, [[0, 1], [3]]),
    Box(-0.5, [0.5, 1.0, np.inf, 2.0]),
    NonNegative(),
    L2Ball(0.5),
    LogSum(0.1, 0.1),
    SCAD(0.1),
]
NO_ARRAYS = [None, "x", b"x", 2j, object(), {}, set(), np, int, len, iter([1.0]), sp.eye_array(4)]
NO_NUMBERS = [[1, [2]], ["a", "b"], [None, 1.0], np.array([1j, 2.0]), np.array(["2020-01-01"], "datetime64[D]")]
kind = lambda odd: type(odd).__name__  # noqa: E731


@pytest.mark.parametrize("r", REGULARIZERS, ids=kind)
def test_points_that_are_none_are_named(r):
    methods = [("w", r.value), ("v", lambda v: r.prox(v, 0.5)), *([("w", r.gradient)] if r.smooth else [])]
    for name, method in methods:
        for odd in NO_ARRAYS:
            with pytest.raises(TypeError, match=rf"^{name} must be "):
                method(odd)
        for odd in NO_NUMBERS:
            with pytest.raises(ValueError, match=rf"^{name} must "):
                method(odd)
        for odd in (0.5, np.array(0.5), np.ones((2, 5, 4))):
            with pytest.raises(ValueError, match=rf"^{name} must have shape \(P,\) or \(agents, P\); got \("):
                method(odd)


@pytest.mark.parametrize("r", REGULARIZERS, ids=kind)
def test_steps_that_are_none_are_named(r):
    for odd in (0, -1.0, np.nan, np.inf, None, 2j, object(), 10**400, np.float64(-1), np.float32(0)):
        with pytest.raises(ValueError, match=r"^step must be a finite number"):
            r.prox(V, odd)
    for odd in ("x", {}, sp.eye_array(4)):
        with pytest.raises(TypeError, match=r"^step must be "):
            r.prox(V, odd)
    for odd in ([1, [2]], ["a"], np.array([[1j]])):
        with pytest.raises(ValueError, match=r"^step must "):
            r.prox(V, odd)
    for odd in (np.ones(4), np.ones(5), np.ones((5, 4)), np.ones((1, 4)), np.ones((4, 1)), [], np.ones((1, 1, 1))):
        with pytest.raises(ValueError, match=r"^step must be a number or an array \(agents, 1\) = \(5, 1\); got shape"):
            r.prox(V, odd)
    with pytest.raises(ValueError, match=r"^step must be a number or an array \(1,\); got shape \(1, 1\)"):
        r.prox(V[0], np.ones((1, 1)))


@pytest.mark.parametrize("r", REGULARIZERS, ids=kind)
def test_lists_whole_numbers_and_all_steps_do(r):
    p, values = r.prox(V, 0.5), r.value(V)
    np.testing.assert_array_equal(r.prox(V.tolist(), 0.5), p)
    np.testing.assert_array_equal(r.value(V.tolist()), values)
    for step in (np.float64(0.5), np.array(0.5), [0.5], [[0.5]], np.full((5, 1), 0.5), [[0.5]] * 5):
        np.testing.assert_array_equal(r.prox(V, step), p)
    np.testing.assert_array_equal(r.prox(V[1], np.array([0.5])), p[1])
    whole = np.arange(-2, 2)
    np.testing.assert_array_equal(r.prox(whole, 1), r.prox(whole.astype(float), 1.0))
    assert r.value(whole) == r.value(whole.astype(float))


@pytest.mark.parametrize("loss", [consensus.SquaredLoss(), consensus.Huber(), consensus.LogisticLoss()], ids=kind)
def test_a_losss_lists_do_and_what_is_none_is_named(loss):
    outputs, targets = V[:, :2], (V[:, 2:] > 0).astype(float)
    for method in (loss.value, loss.gradient, loss.error):
        np.testing.assert_array_equal(method(outputs.tolist(), targets.tolist()), method(outputs, targets))
        for odd in (NO_ARRAYS, NO_NUMBERS):
            for value in odd:
                with pytest.raises((TypeError, ValueError), match=r"^outputs must "):
                    method(value, targets)
                with pytest.raises((TypeError, ValueError), match=r"^targets must "):
                    method(outputs, value)


def test_classes_are_numbers():
    loss, outputs = consensus.CrossEntropy(), V[:, :3]
    np.testing.assert_array_equal(loss.value(outputs.tolist(), [0, 1, 2, 0, 1]), loss.value(outputs, np.array([0, 1, 2, 0, 1])))
    for method in (loss.value, loss.gradient, loss.error):
        with pytest.raises(ValueError, match=r"^targets must hold real numbers; got dtype <U1"):
            method(outputs, np.array(list("abcab")))
        with pytest.raises(ValueError, match=r"^outputs must have shape"):
            method(np.ones((5, 0)), np.zeros(5))


@pytest.mark.parametrize("make", [
    *(ATG, DGD, DLM, DiNNO, GradientTracking, LTADMM, NetworkGIANT, PushDIGing, PushPull),
    lambda step: NEXT(FullLinearization(1.0), step),
    lambda step: SONATA(PartialLinearization(1.0), step),
])  # fmt: skip
def test_a_solvers_step_is_named(make):
    for odd in (0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"^step_size must be a finite number > 0; got"):
            make(odd)


@pytest.fixture
def linear():
    shards = consensus.partition(V, V[:, 0], agents=5)
    return consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards, consensus.L2(0.1))


def test_a_problems_points_are_named(linear):
    for odd in (None, "x", {}, [1, [2]], sp.eye_array(5)):
        for name, method in (("w", linear.value), ("w", linear.gradient), ("w", linear.average_gradient)):
            with pytest.raises((TypeError, ValueError), match=rf"^{name} must be "):
                method(odd)
        for method in (linear.objective, linear.stationarity):
            with pytest.raises((TypeError, ValueError), match=r"^point must be "):
                method(odd)
    assert linear.objective([0.5] * 5) == linear.objective(np.full(5, 0.5))
    assert linear.stationarity([0.5] * 5) == linear.stationarity(np.full(5, 0.5))
    with pytest.raises(ValueError, match=r"^rows must be an array"):
        linear.restrict([1, [2]])
    with pytest.raises(TypeError, match=r"^model must be a model"):
        consensus.models.linearize(linear, V, V)


@pytest.mark.parametrize("odd", [None, 1, "yes", np.arange(4), []], ids=kind)
def test_what_is_true_or_false_is_named(odd, linear):
    network = topologies.ring(5)
    history = consensus.History()
    history.append({"round": 0, "objective": 1.0})
    calls = {
        "progress": lambda: consensus.solve(linear, network, rounds=1, progress=odd),
        "gather": lambda: consensus.solve(linear, network, rounds=1, gather=odd),
        "agent_objectives": lambda: consensus.solve(linear, network, rounds=1, agent_objectives=odd),
        "bias": lambda: consensus.Linear(3, bias=odd),
        "log": lambda: consensus.plotting.convergence(history, log=odd),
        "log_x": lambda: consensus.plotting.spectrum(network, log_x=odd),
        "nonnegative": lambda: topologies.fastest(network, nonnegative=odd),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=rf"^{name} must be True or False, got "):
            call()


def test_records_and_settings_are_named():
    result = consensus.Result(V, consensus.History(), 3, "done")
    assert "resume='run.ckpt'" in str(consensus.Interrupted(result, "run.ckpt"))
    for odd in (None, 0, "x"):
        with pytest.raises(TypeError, match=r"^result must be a Result"):
            consensus.Interrupted(odd)
    with pytest.raises(TypeError, match=r"^checkpoint must be a path"):
        consensus.Interrupted(result, np.arange(4))
    for odd in (3, None, np.array(0.5)):
        with pytest.raises(TypeError, match=r"^groups of GroupL1 must be a sequence"):
            GroupL1(0.1, odd)
    for odd in ([1, [2]], 3, None, "x", [3]):
        with pytest.raises(ValueError, match=r"^widths must be "):
            consensus.MLP(odd)
    assert Box(-(10**30), 1).lower == -1e30
    history = consensus.History()
    history.append({"round": 0, "objective": 1.0})
    for odd in ({}, [], np.arange(3), None):
        assert odd not in history
        assert history.get(odd, 7) == 7
        with pytest.raises(KeyError, match="no column"):
            history[odd]


@pytest.mark.parametrize(("text", "words"), [
    ("", "no rows"),
    ("round,objective\n", "no rows"),
    ("round,objective\n0,1.0\n" + "9" * 400 + ",1.0\n", "line 3 has no number of 64 bits in column .round., but 9"),
])  # fmt: skip
def test_damaged_histories_are_refused(tmp_path, text, words):
    (tmp_path / "run.csv").write_text(text)
    with pytest.raises(ValueError, match=rf"run\.csv is no history as to_csv writes it: .*{words}"):
        consensus.History.from_csv(tmp_path / "run.csv")


@pytest.mark.parametrize("name", ["features", "targets"])
def test_shards_that_are_not_finite_are_refused(tmp_path, name):
    consensus.data.save_shards(consensus.partition(V, V[:, 0], agents=2), tmp_path)
    with np.load(tmp_path / "agent-1.npz") as file:
        arrays = dict(file)
    arrays[name][1] = np.nan
    np.savez(tmp_path / "agent-1.npz", **arrays)
    with pytest.raises(ValueError, match=rf"agent-1\.npz must hold finite {name}"):
        consensus.data.load_shards(tmp_path)


def test_a_communicator_and_agents_are_named():
    pytest.importorskip("mpi4py")
    for odd in (0, "x", object()):
        with pytest.raises(TypeError, match=r"^communicator must be a communicator"):
            consensus.engines.MPI(odd)
    for odd in ([], np.array([]), None, 0):
        with pytest.raises(ValueError, match=r"^agents must be a whole number >= 1"):
            consensus.engines.MPI().rows(odd)


def test_matrices_and_contacts_are_named():
    for odd in ([1, [2]], [["a", "b"], ["c", "d"]], [[1j, 0], [0, 1]], {}, sp.csr_array(np.eye(2) * 1j)):
        with pytest.raises(TypeError, match=r"^matrix must .*real numbers, got"):
            topologies.from_matrix(odd)
    with pytest.raises((TypeError, ValueError), match=r"^outages\[0\] "):
        topologies.AgentFailure(topologies.Static(topologies.ring(4)), [1, [2]])


test_refusals = refusals(
    (lambda: consensus.solve(problem(), np.eye(6), rounds=1), TypeError,
     r"topologies\.Static\(matrix\).*topologies\.schedule_from_matrix\(matrix\)"),
    (lambda: consensus.solve(problem(), RING, AdaptiveNEXT, rounds=1), TypeError,
     r"^solver must be .*; got the class AdaptiveNEXT itself: call it"),
    (lambda: consensus.solve(problem(), RING, StepOnly, rounds=1), TypeError,
     r"^solver must be .*; got the class StepOnly itself$"),
    (lambda: consensus.solve(problem(), [RING, RING], rounds=1), TypeError,
     r"^network must be .*; got a list of 2: topologies\.Periodic\(graphs\) takes"),
    (lambda: consensus.Problem(problem().model, np.square, problem().shards), TypeError,
     r"^loss must be a loss.* TorchLoss\(f\) for PyTorch's f; got"),
    (lambda: consensus.Problem(NoVjp(), consensus.SquaredLoss(), problem().shards), TypeError,
     r"^model must be a model, such as .*NoVjp, has no vjp"),
    *((lambda odd=odd: consensus.MLP([3, 2, 1]).init(odd), TypeError,
     r"^rng must be a NumPy generator") for odd in (None, 3, "x", type)),
    *((lambda odd=odd: consensus.datasets.split(V, V[:, 0], seed=odd), ValueError,
     r"^seed must be a whole number >= 0") for odd in (-1, 2**32, 0.5, 2j, "x")),
    *((lambda odd=odd: consensus.datasets.folds(V, V[:, 0], 2, seed=odd), ValueError,
     r"^seed must be a whole number >= 0") for odd in (-1, 2**32, 0.5, 2j, "x")),
    (lambda: topologies.Temporal([0], [(0, 1)], 1, labels=np.array(0.5)), TypeError, r"^labels must be a sequence"),
    (lambda: topologies.Temporal([0], [(0, 1)], 1, labels=[]), ValueError, r"but labels names the agents 0, \.\.\., -1"),
)  # fmt: skip
