"""How the experiment of all solvers ranks them."""

import math
import warnings

import numpy as np

import consensus
import topologies
from consensus.history import History
from experiments import solvers
from experiments.shared import tuning
from experiments.shared.cases import case
from experiments.shared.methods import UNTUNED, methods
from experiments.shared.results import Outcome
from experiments.shared.tables import Spread


def outcome(objective):
    history = History()
    for row, value in enumerate(objective):
        history.append({"exchanges": 2 * row, "bytes": 3000 * row, "gradients": row, "seconds": row / 2, "objective": value})
    return Outcome(history, np.zeros((1, 2)))


FAST, SLOW = (("d", "linear, L2", name, "") for name in ("fast", "slow"))
FOUND = {
    FAST: {(1.0,): [outcome([1.0, 0.5, 0.0, 0.0])], (2.0,): [outcome([1.0, 0.0, 0.0, 0.0])]},
    SLOW: {(1.0,): [outcome([1.0, 0.9, 0.8, 0.5])], (2.0,): [outcome([1.0, 0.9, 0.8, 0.7])]},
}


def test_settings_are_chosen_by_exchanges_and_where_none_is_enough_by_the_objective():
    assert tuning.chosen(FOUND, FAST[:3], solvers.FEWEST, solvers.MERITS) == (FAST, (2.0,))
    assert tuning.chosen(FOUND, SLOW[:3], solvers.FEWEST, solvers.MERITS) == (SLOW, (1.0,))


def test_what_is_needed_is_counted_to_the_same_level():
    every = {(FAST, (2.0,), 0): FOUND[FAST][2.0,][0], (SLOW, (1.0,), 0): FOUND[SLOW][1.0,][0]}
    needed = solvers.needed(every, {(*key[:3], solvers.FEWEST): [run] for (key, _, _), run in every.items()}, [0])
    middles = {name: spread.middle for name, spread in needed[FAST[:3]].items()}
    assert middles == {"exchanges": 2, "kB": 3, "gradients": 1, "seconds": 0.5}
    assert needed[SLOW[:3]]["kB"].middle == math.inf


def test_ranks_are_shares_of_those_that_do_better():
    def alike(value):
        return dict.fromkeys(solvers.MEASURES, Spread(value, value, value))

    needs = {("d", "p", name): alike(value) for name, value in {"a": 3.0, "b": 1.0, "c": math.inf}.items()}
    needs |= {("d", "q", name): alike(value) for name, value in {"a": 1.0, "b": 1.0}.items()}
    ranks = solvers.ranked(needs)
    assert [(name, means["in all"]) for name, means in ranks.items()] == [("b", 0.0), ("a", 0.25), ("c", 1.0)]


def test_methods_that_the_regularizer_refuses_are_left_out():
    whole = case("diabetes", 6, 0, hidden=0, regularizer=consensus.L1(1e-2)).problem
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = solvers.fitting(whole, topologies.ring(6))
    smooth = solvers.fitting(case("diabetes", 6, 0, hidden=0).problem, topologies.ring(6))
    assert {"PGEXTRA", "NIDS", "DATOS", "NEXT, partial"} <= set(found)
    assert not {"EXTRA", "DGD", "AutoGT"} & set(found)
    assert [family.label for family in found["NIDS"]] == ["default", ""]
    assert set(smooth) == set(methods(whole))
    for name, families in smooth.items():
        assert any(family.axes for family in families) or name in UNTUNED
