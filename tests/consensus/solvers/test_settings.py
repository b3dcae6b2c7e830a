"""Settings of every solver: plain fields, as ``dataclasses.replace`` and ``repr`` have them."""

import inspect
from dataclasses import dataclass, field, fields, replace

import numpy as np
import pytest

import consensus
from consensus import compression, directions, solvers, step_sizes, surrogates
from consensus.solvers import DGD, NEXT, GradientTracking
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization, PartialLinearization

FULL = FullLinearization(1.0)
REQUIRED = {
    "surrogate": FULL, "compressor": compression.Quantize(4), "solver": GradientTracking(0.1, order="cta"), "exchanges": 2,
    "own": ("1",), "step_size": 0.25,
}  # fmt: skip
#: Settings as users give them, and as they are kept.
GIVEN = {
    "step_size": [(1, 1.0), (np.float64(0.5), 0.5), (Diminishing(0.5, 0.01), Diminishing(0.5, 0.01))],
    "batch": [(64, consensus.Minibatches(64)), (consensus.Minibatches(8, seed=3),) * 2],
    **dict.fromkeys(("averaging", "beta", "convexity", "damping", "dual", "gamma", "gap"), ((np.float64(0.5), 0.5),)),
    **dict.fromkeys(("momentum", "outer", "penalty", "probability", "relaxation", "scale"), ((np.float32(0.5), 0.5),)),
    **dict.fromkeys(("columns", "exchanges", "local_steps", "memory", "period", "rank", "seed"), ((np.int64(3), 3),)),
}
ROOMS = (consensus, compression, directions, solvers, step_sizes, surrogates)
SCOPE = {name: getattr(module, name) for module in ROOMS for name in dir(module)} | {"FULL": FULL}
KINDS = [getattr(solvers, row.name) for row in solvers.table().rows]


def settings(kind):
    return [field.name for field in fields(kind) if field.init]


def made(kind, **given):
    return kind(**{name: REQUIRED[name] for name in settings(kind) if name in REQUIRED} | given)


def same(one, other):
    return one == other and repr(one) == repr(other) and hash(one) == hash(other)


@pytest.mark.parametrize("kind", KINDS)
def test_fields_are_the_arguments_in_their_order_and_the_text_gives_the_solver_back(kind):
    assert settings(kind) == list(inspect.signature(kind).parameters)
    assert "__init__" in vars(kind)  # the dataclass's: an IDE shows the fields
    assert inspect.getsource(kind).count("def __init__") == 0
    solver = made(kind)
    assert same(eval(repr(solver), SCOPE), solver)
    assert f"{kind.__name__}(" in repr(solver)


@pytest.mark.parametrize("kind", KINDS)
def test_one_setting_is_replaced_and_the_others_stay(kind):
    solver = made(kind, **{"batch": 8} if kind in (NEXT, solvers.SONATA) else {})  # whose averages are of batches
    assert same(replace(solver), solver)
    for name in set(settings(kind)) & set(GIVEN):
        for given, kept in GIVEN[name]:
            other = replace(solver, **{name: given})
            assert {key: getattr(other, key) for key in settings(kind)} == (
                {key: getattr(solver, key) for key in settings(kind)} | {name: kept}
            )
            assert repr(getattr(other, name)) == repr(kept)
            assert same(eval(repr(other), SCOPE), other)
            assert same(replace(other, **{name: getattr(solver, name)}), solver)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "step_size" in settings(kind)])
def test_a_step_size_may_be_left_out_where_theory_has_one(kind):
    if kind.stable_step is not solvers.Solver.stable_step:
        assert made(kind, step_size=None).step_size is None
        assert inspect.signature(kind).parameters["step_size"].default is None
    else:
        with pytest.raises(TypeError, match=r"^step_size must be a number or a rule"):
            made(kind, step_size=None)
    for odd in (0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"^step_size must be a finite number > 0"):
            made(kind, step_size=odd)
    for odd in ("0.1", True, [0.1]):
        with pytest.raises(TypeError, match=r"^step_size must be a number or a rule"):
            made(kind, step_size=odd)


#: Calls that are refused, by how the message begins; a name alone by ``must be``.
REFUSED = {
    "DADMM(0)": "penalty",
    "DLM(penalty=-1)": "penalty",
    "DiNNO(penalty=0.0)": "penalty",
    "DiNNO(local_steps=0)": "local_steps",
    "LTADMM(local_steps=0)": "local_steps",
    "LTADMM(penalty=0.0)": "penalty",
    "ATG(gamma=1.5)": "gamma",
    "ATG(penalty=0)": "penalty",
    "ATG(relaxation=1)": "relaxation",
    "AccGT(convexity=0)": "convexity",
    "OPAPC(convexity=0)": "convexity",
    "OPAPC(dual=0)": "dual",
    "OPAPC(momentum=1.5)": r"momentum must be a finite number > 0 and <= 1; got 1\.5",
    "NetworkGIANT(0.1, damping=-0.1)": "damping",
    "NewtonTracking(damping=0)": "damping",
    "KGT(0.1, local_steps=0)": "local_steps",
    "KGT(0.1, scale=0.0)": "scale",
    "LED(0.1, local_steps=1.5)": "local_steps",
    "ProxSkip(0.1, probability=0.0)": "probability",
    "ProxSkip(0.1, seed=-1)": "seed",
    "Gossip(DGD(0.1), 0)": "exchanges must be a whole number >= 1; got 0",
    "Gossip(DGD(0.05), 10**30)": "exchanges must be a whole number >= 1 and <= 100000",
    "Gossip(DGD(0.1), 2, gap=1.5)": r"gap must be a finite number > 0 and < 1; got 1\.5",
    "NEXT(FULL, 1.5)": r"step_size must be .* <= 1; got 1\.5",
    "NEXT(1.0, 0.5)": "surrogate must be one",
    "NEXT(FULL, 0.5, local=3)": "local",
    "NEXT(FULL, 0.5, tolerance=1.0)": "tolerance",
    "NEXT(FULL, 0.5, batch=3, averaging=1.5)": "averaging",
    "NEXT(FULL, 0.5, averaging=0.5)": "averaging is of gradients from batches",
    "FullLinearization(-1.0)": r"tau must be a finite number > 0; got -1\.0",
    "PartialLinearization(-0.1)": r"tau must be a finite number >= 0; got -0\.1",
    "PartialLinearization(0.1, 'global')": ".*'local', 'network'; got 'global'",
    "GradientTracking(0.1, order='both')": ".*'atc', 'cta'; got 'both'",
}


@pytest.mark.parametrize("call", REFUSED)
def test_settings_out_of_range_are_named(call):
    match = REFUSED[call] if " " in REFUSED[call] or "*" in REFUSED[call] else f"{REFUSED[call]} must"
    with pytest.raises((ValueError, TypeError), match=f"^{match}"):
        eval(call, SCOPE)


@dataclass(frozen=True)
class Noted(DGD):
    """A user's method, whose fields have other metadata or are set later."""

    note: str = field(default="", metadata={"help": "any text"})
    later: int = field(init=False)


def test_fields_without_bounds_are_left_alone():
    assert Noted(0.1, note="mine").note == "mine"
    assert not hasattr(Noted(0.1), "later")


def test_a_surrogate_that_is_not_strongly_convex_is_refused():
    shards = consensus.partition(np.eye(4), np.ones(4), agents=2)
    problem = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards)
    with pytest.raises(ValueError, match="tau must be > 0 with L2"):
        NEXT(PartialLinearization(0.0), 0.1).check(problem)
