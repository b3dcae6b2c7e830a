"""Grids grow until the best setting lies inside, and say where it does not."""

import numpy as np
import pytest

import topologies
from consensus.solvers import GradientTracking
from experiments.shared import tuning
from experiments.shared.cases import case
from experiments.shared.results import training
from experiments.shared.tuning import Axis, Family

COLUMNS = ("solver",)


def searched(best, start, other=None, most=np.inf, **options):
    """What is tried, of outcomes that are points, the nearer to ``best`` the better, by a second measure to ``other``."""
    tried = []

    def run(points):
        tried.extend(points)
        return {at: at[1] for at in points}

    def merits(found, key, outcome):
        wanted = {"first": best, "second": other or best}
        return {name: float(np.sum(np.log(np.divide(outcome, values)) ** 2)) for name, values in wanted.items()}

    families = {("a",): Family(None, tuple(Axis(f"axis {n}", values, most=most) for n, values in enumerate(start)))}
    found = tuning.tuned(run, families, merits, **options)
    assert len(tried) == len(set(tried)) == len(found["a",])
    return found, families, merits


@pytest.mark.parametrize("start", [[(1.0, 2.0)], [(64.0,)], [(1.0, 1000.0)]])
def test_a_grid_grows_to_both_sides_until_the_best_is_inside(start):
    found, families, merits = searched((8.0,), start)
    points = sorted(point[0] for point in found["a",])
    (best,) = tuning.best(found, ("a",), merits)["first"]
    assert points[0] < best < points[-1]
    assert abs(np.log2(best / 8)) <= 0.5
    assert [row[-1] for row in tuning.grids(found, families, merits, COLUMNS).rows] == ["yes", "yes"]


def test_of_two_settings_and_two_measures_each_best_has_all_its_neighbours():
    found, families, merits = searched((8.0, 0.5), [(1.0,), (1.0,)], other=(1.0, 4.0))
    assert tuning.best(found, ("a",), merits) == {"first": (8.0, 0.5), "second": (1.0, 4.0)}
    for point in ((8.0, 0.5), (1.0, 4.0)):
        assert all(near in found["a",] for near in families["a",].beside(point))
    assert tuning.chosen(found, (), "second", merits) == (("a",), (1.0, 4.0))


def test_the_end_of_what_a_solver_takes_is_no_edge():
    found, families, merits = searched((8.0,), [(0.25,)], most=1.0)
    assert sorted(found["a",]) == [(0.125,), (0.25,), (0.5,), (1.0,)]
    assert tuning.grids(found, families, merits, COLUMNS).rows[0][2:] == ("axis 0 1", "axis 0 0.125 0.25 0.5 1", "yes")


@pytest.mark.slow
def test_a_best_at_the_edge_is_reported(monkeypatch, capsys):
    """Of tracking on small data the quicker step is the larger, and the grid may grow but twice."""
    monkeypatch.setattr(tuning, "MOST", 2)
    small = case("diabetes", 4, 0, hidden=0)

    def run(points):
        runs = {at: training({}, small, topologies.ring(4), GradientTracking(*at[1]), rounds=30, seed=0) for at in points}
        return {at: one.work("stacked") for at, one in runs.items()}

    def merits(found, key, outcome):
        return {"objective": np.inf if outcome.diverged else outcome.history["objective"][-1]}

    families = {("tracking",): Family(GradientTracking, (Axis("step", (0.001, 0.002)),))}
    found = tuning.tuned(run, families, merits)
    (row,) = tuning.grids(found, families, merits, COLUMNS).rows
    assert row == ("tracking", "objective", "step 0.004", "step 0.001 0.002 0.004", "no")
    assert capsys.readouterr().err == "warning: 1 of 1 best settings lie at the edge of their grid\n"
    monkeypatch.setattr(tuning, "MOST", 40)
    found = tuning.tuned(run, families, merits)
    assert tuning.grids(found, families, merits, COLUMNS).rows[0][-1] == "yes"
    assert not capsys.readouterr().err
