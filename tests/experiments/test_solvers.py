"""How the experiment of all solvers ranks them."""

import math
import warnings

import numpy as np

import consensus
import topologies
from consensus.history import History
from consensus.studies import Grid
from experiments import solvers
from experiments.shared.cases import case
from experiments.shared.methods import UNTUNED, methods, shown
from experiments.shared.studies import Outcome
from experiments.shared.tables import Spread


def outcome(objective):
    history = History()
    for row, value in enumerate(objective):
        history.append({"exchanges": 2 * row, "bytes": 3000 * row, "gradients": row, "seconds": row / 2, "objective": value})
    return Outcome(history, np.zeros((1, 2)))


def test_what_is_needed_is_counted_to_the_same_level():
    fast, slow = ([outcome(values)] for values in ([1.0, 0.0, 0.0, 0.0], [1.0, 0.9, 0.8, 0.5]))
    middles = {name: spread.middle for name, spread in solvers.spent(fast, [0.0], 1e-4).items()}
    assert middles == {"exchanges": 2, "kB": 3, "gradients": 1, "seconds": 0.5}
    assert solvers.spent(slow, [0.0], 1e-4)["kB"].middle == math.inf


def test_a_setting_is_shown_as_the_default_or_without_saying_that_it_is_none():
    texts = ("step = 0.3, default = True", "step = 0.3, default = False", "tau = 1, step = 0.3, decay = 0", "")
    found = [shown([outcome([1.0])._replace(setting=text)]) for text in texts]
    assert found == ["default", "step = 0.3", "tau = 1, step = 0.3, decay = 0", "–"]


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
    assert found["NIDS"].axes["default"] == [False, True]
    assert set(smooth) == set(methods(whole))
    assert {name for name, one in smooth.items() if not isinstance(one, Grid)} == set(UNTUNED)
