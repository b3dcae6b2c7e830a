"""What is of the wrong kind is refused where it comes in, with the argument's name and what would do."""

import numpy as np
import pytest
import scipy.sparse as sp

import consensus
import topologies
from consensus.solvers import DGD, NEXT, SONATA, AdaptiveNEXT, GradientTracking, PushPull
from consensus.step_sizes import Constant, Diminishing, InverseSqrt
from consensus.surrogates import FullLinearization
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
)  # fmt: skip
