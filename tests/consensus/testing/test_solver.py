"""Every solver passes the contract."""

import pytest

from consensus import solvers
from consensus.engines import Processes
from consensus.testing import check_solver
from tests.helpers import pairs
from tests.helpers.every_solver import OTHERWISE, SOLVERS
from tests.helpers.golden import ALL, OTHER
from tests.helpers.pairs import LOSSES
from tests.helpers.turns import with_slow

# In double by design: what AdaptiveNEXT judges its steps and averages by, and all that is made of exact sums over a tree.
DOUBLE = {"local", "pace.apart", "sent", "total", "gradient", "direction", "pairs.steps", "pairs.changes", "grid"}
DOUBLE |= {"step.fall", "step.tau", "step.refused", "step.tries", "plan.steps", "plan.step_units", "plan.units"}
DOUBLE |= {f"known.{name}" for name in ("total", "scalars", "promised", "directions", "products", "noise")}
TURN = {"smooth": ["L2"], "prox": ["L1", "box", "groups", "SCAD"], "prox_jvp": ["L1", "ball", "logarithms"]}


def arguments(name):
    tree = SOLVERS[name].needs.tree
    return OTHER.get(name, (None, None)), {"double": DOUBLE if tree or name in ("adaptive", "auto") else ()}


def test_every_solver_is_tried():
    exported = {name for name in solvers.__all__ if isinstance(getattr(solvers, name), type)}
    wanted = {name for name in exported if issubclass(getattr(solvers, name), solvers.Solver)} - {
        "Solver",
        "AggregativeGT",
        "TrackingADMM",
    }  # which have problems of their own
    assert wanted == {type(solver).__name__ for solver in SOLVERS.values()} & wanted


@pytest.mark.parametrize("name", with_slow(SOLVERS, *OTHERWISE))
def test_it_keeps_the_contract(name):
    where, double = arguments(name)
    laws = check_solver(SOLVERS[name], *where, **double).errors
    assert {"blocks of agents on threads come to the same bits", "a resumed run is the run that never stopped"} <= {*laws}


@pytest.mark.slow
@pytest.mark.parametrize("name", SOLVERS)
def test_it_keeps_the_contract_on_other_problems_and_on_workers(name, forked):
    """Each with one loss and regularizer of all, and a model that is not linear."""
    place, needs = list(SOLVERS).index(name), SOLVERS[name].needs
    regularizer = TURN[needs.regularizer][place % len(TURN[needs.regularizer])]
    loss = "logistic" if name in OTHER else list(LOSSES)[place % len(LOSSES)]
    hidden = (6,) if name in OTHER else (3,) if place % 2 and "OPAPC" not in name and "AccGT" not in name else ()
    problem = pairs.problem(loss, regularizer, hidden, dtype=float)
    network = ALL if name == "attacked" else None
    check_solver(SOLVERS[name], problem, network, engines=[Processes(2)], **arguments(name)[1])
