"""Settings of every solver: plain fields, as ``dataclasses.replace`` and ``repr`` have them."""

import inspect
from dataclasses import fields, replace

import numpy as np
import pytest

import consensus
from consensus import compression, solvers, step_sizes, surrogates
from consensus.step_sizes import Diminishing

REQUIRED = {
    "surrogate": surrogates.FullLinearization(1.0),
    "compressor": compression.Quantize(4),
    "solver": solvers.GradientTracking(0.1, order="cta"),
    "exchanges": 2,
    "step_size": 0.25,
}
#: Settings as users give them, and as they are kept.
GIVEN = {
    "step_size": [(1, 1.0), (np.float64(0.5), 0.5), (Diminishing(0.5, 0.01), Diminishing(0.5, 0.01))],
    "batch": [(64, consensus.Minibatches(64)), (consensus.Minibatches(8, seed=3),) * 2],
    **dict.fromkeys(("averaging", "beta", "convexity", "damping", "dual", "gamma", "gap"), ((np.float64(0.5), 0.5),)),
    **dict.fromkeys(("momentum", "penalty", "probability", "relaxation", "scale"), ((np.float32(0.5), 0.5),)),
    **dict.fromkeys(("columns", "exchanges", "local_steps", "memory", "period", "rank", "seed"), ((np.int64(3), 3),)),
}
SCOPE = {
    name: getattr(module, name) for module in (consensus, compression, solvers, step_sizes, surrogates) for name in dir(module)
}
KINDS = [getattr(solvers, row.name) for row in solvers.table().rows]


def settings(kind):
    return [field.name for field in fields(kind) if field.init]


def made(kind, **given):
    return kind(**{name: REQUIRED[name] for name in settings(kind) if name in REQUIRED} | given)


def same(one, other):
    return one == other and repr(one) == repr(other) and hash(one) == hash(other)


@pytest.mark.parametrize("kind", KINDS)
def test_fields_are_the_arguments_in_their_order(kind):
    assert settings(kind) == list(inspect.signature(kind).parameters)
    assert "__init__" in vars(kind)  # the dataclass's: an IDE shows the fields
    assert inspect.getsource(kind).count("def __init__") == 0


@pytest.mark.parametrize("kind", KINDS)
def test_its_text_gives_the_solver_back(kind):
    solver = made(kind)
    assert same(eval(repr(solver), SCOPE), solver)
    assert f"{kind.__name__}(" in repr(solver)


@pytest.mark.parametrize("kind", KINDS)
def test_one_setting_is_replaced_and_the_others_stay(kind):
    solver = made(kind, **{"batch": 8} if kind in (solvers.NEXT, solvers.SONATA) else {})  # whose averages are of batches
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
