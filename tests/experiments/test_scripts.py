"""Every experiment runs as its user runs it, and what it computes is right."""

import functools
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import optimize

import consensus
from consensus.history import History
from consensus.solvers import DGD, AdaptiveNEXT
from consensus.studies import Study
from experiments import __main__ as listing
from experiments import convergence, shards
from experiments.shared import centralised, curves, methods
from experiments.shared.cases import case
from experiments.shared.studies import Outcome, outcomes

ROOT = Path(__file__).parents[2]
SHARED = [module for module, _, shared in listing.found(ROOT / "experiments") if shared]


def outcome(objective, exchanges=None, diverged=False):
    history = History()
    for row, value in enumerate(objective):
        history.append({"exchanges": row if exchanges is None else exchanges[row], "objective": value})
    return Outcome(history, np.zeros((0 if diverged else 1, 2)))


def test_all_of_them_are_found():
    names = "blocks centralised convergence failures network robust scale shards solvers sparsity"
    names += " direct_feedback layer_parallel stragglers tangent tangent_propagation tensor_parallel"
    assert {f"experiments.{name}" for name in names.split()} <= set(SHARED)


@pytest.mark.slow
@pytest.mark.parametrize("module", SHARED)
def test_a_tiny_version_writes_figures_and_tables(module, tiny):
    folder, printed = tiny[0] / module.removeprefix("experiments."), tiny[1][module]
    pixels = np.asarray(Image.open(folder / "figure.png").convert("L"))
    assert min(pixels.shape) > 300
    assert pixels.std() > 10  # not an empty page
    assert (folder / "figure.pdf").read_bytes().startswith(b"%PDF")
    tables = {path.stem for path in folder.glob("*.csv")}
    assert tables
    for name in tables:
        assert len((folder / f"{name}.csv").read_text().splitlines()) > 1
        assert (folder / f"{name}.md").read_text() in printed
        assert r"\bottomrule" in (folder / f"{name}.tex").read_text()


@pytest.mark.slow
def test_the_same_command_gives_the_same_tables_and_histories(tiny, options, tmp_path):
    shards.main([*options, "--output", str(tmp_path)])
    ours, theirs = (folder / "shards" for folder in (tmp_path, tiny[0]))
    for name in ("table.csv", "table.tex", "figure.pdf"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes()
    runs = [path.relative_to(ours) for path in ours.glob("*/runs/*.npz")]
    assert len(runs) == 12
    for run in runs:
        first, second = (consensus.load(folder / run) for folder in (ours, theirs))
        np.testing.assert_array_equal(first.w, second.w)
        for column in set(first.history) - {"seconds"}:
            np.testing.assert_array_equal(first.history[column], second.history[column])


@pytest.mark.slow
def test_the_command_line(capsys):
    command = [sys.executable, "-m", "experiments"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True).stdout
    for module in SHARED:
        assert f"* {module}" in listed
    for name in ("experiments.demo", "experiments.benchmarks.core"):
        line = next(line for line in listed.splitlines() if name in line)
        assert len(line.split()) > 5  # its one line of description
    message = "^error: 'everything' is none of the commands: 'all', or nothing for a list of the experiments$"
    with pytest.raises(SystemExit, match=message):
        listing.main(["everything"])
    with pytest.raises(SystemExit, match=r"^2$"):
        listing.main(["all", "--agents", "none"])
    assert "argument --agents: must be a whole number >= 1; got 'none'" in capsys.readouterr().err


def test_curves_are_geometric_means_in_their_band_on_a_common_grid():
    curve = curves.common([outcome([8.0, 2.0]), outcome([2.0, 0.5])], "objective", "exchanges")
    np.testing.assert_allclose(curve["objective"], [4.0, 1.0])
    np.testing.assert_array_equal([curve["low"], curve["high"]], [[2.0, 0.5], [8.0, 2.0]])
    curve = curves.common([outcome([4.0, 2.0], [0, 2]), outcome([4.0, 2.0, 1.0], [0, 1, 3])], "objective", "exchanges")
    np.testing.assert_array_equal(curve["exchanges"], [0, 1, 2])  # where both were measured
    np.testing.assert_allclose(curve["objective"], [4.0, math.sqrt(3 * 2), math.sqrt(2 * 1.5)])
    repeats = [outcome([4.0, 2.0, 1.0]), outcome([4.0, 8.0], diverged=True)]
    np.testing.assert_allclose(curves.common(repeats, "objective", "exchanges")["objective"], [4.0, 4.0, np.inf])


@pytest.mark.parametrize(
    ("objective", "needed"),
    [([5, 3, 1, 1], 2.0), ([5, 1, 3, 1], 3.0), ([5, 1, 1, 3], math.inf), ([5, 1, math.nan, 1], 3.0), ([1, 1, 1, 1], 0.0)],
)
def test_a_level_counts_as_reached_once_it_is_kept(objective, needed):
    assert methods.needed(outcome(objective), 2.0, 0.0) == needed


def test_ratios_are_to_partial_linearization_with_the_network_s_curvature():
    never, measures = math.inf, convergence.LEVELS
    done = {solver: 3 * [[4.0, 4.0]] for solver in convergence.NAMES} | {"DGD": 3 * [[never, never]]}
    done |= {convergence.PARTIAL: 3 * [[2.0, 2.0]], convergence.LOCAL: 3 * [[2.0, 4.0]]}
    done[convergence.FULL] = [[2.0, 2.0], [never, never], [never, never]]
    needs = {
        ("boston", solver, name): counts for solver, own in done.items() for name, counts in zip(measures, own, strict=True)
    }
    lines = convergence.ratios(needs, ["boston"]).csv().splitlines()
    rows = {line.split('"')[1] if '"' in line else line.split(",")[1]: line.split(",")[-10:-1] for line in lines[1:]}
    assert convergence.PARTIAL not in rows
    assert [float(value) for value in rows[convergence.LOCAL]] == 3 * [1.5, 1.0, 2.0]
    assert [float(value) for value in rows["DGD"]] == 9 * [math.inf]
    assert [float(value) for value in rows[convergence.FULL]] == 3 * [1.0] + 6 * [math.inf]
    for name in list(measures)[1:]:  # a reference that does not get there itself is none
        needs["boston", convergence.PARTIAL, name] = [never, never]
    lines = convergence.ratios(needs, ["boston"]).csv().splitlines()
    assert all(line.endswith(",nan,nan,nan,nan,nan,nan,1") for line in lines[1:])


def test_the_agents_own_curvature_is_tuned_as_much_as_the_network_s():
    grids = [convergence.SOLVERS[1][name] for name in (convergence.LOCAL, convergence.PARTIAL)]
    assert len({len(grid.points()) for grid in grids}) == 1
    for grid, curvature in zip(grids, ("local", "network"), strict=True):
        assert {grid.solver(point).surrogate.curvature for point in grid.points()} == {curvature}


def test_what_is_needed_is_what_a_study_measures(tmp_path):
    made = functools.partial(convergence.case, agents=4, exchanges=40)
    solvers = {"DGD": DGD(0.1), "slow": DGD(0.001), "AdaptiveNEXT": AdaptiveNEXT()}
    usual = {"seeds": 2, "rounds": 40, "reference": centralised.reference, "folder": tmp_path}
    study = Study(made, over={"data": ["diabetes"]}, solvers=solvers, measure="exchanges to objective 10%", **usual).run()
    values = study.values()
    assert set(values["missed"]) == {True, False}
    for key, runs in outcomes(study).items():
        for seed, run in enumerate(runs):
            value, missed = values.loc[(*key, seed)]
            assert methods.needed(run, centralised.reference_of(run.made), 0.1) == (math.inf if missed else value)


def test_the_reference_is_the_least_objective_of_linear_models():
    problem = case("diabetes", 3, 0, hidden=0, regularizer=consensus.L1(1e-2)).problem

    def split(parts):
        """U and its gradient as functions of the positive and the negative parts of w."""
        w = parts[: problem.parameters] - parts[problem.parameters :]
        smooth, gradient = problem.objective(w) - 1e-2 * np.abs(w).sum(), problem.total_gradient(w)
        return smooth + 1e-2 * parts.sum(), np.concatenate([gradient, -gradient]) + 1e-2

    size = 2 * problem.parameters
    options = {"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-10}
    found = optimize.minimize(split, np.full(size, 0.1), jac=True, bounds=[(0, None)] * size, options=options)
    np.testing.assert_allclose(centralised.reference(problem), found.fun, rtol=1e-9)
    smooth = case("diabetes", 3, 0, hidden=0).problem
    elsewhere = centralised.lowest(smooth, np.ones(smooth.parameters), method="BFGS")
    np.testing.assert_allclose(centralised.reference(smooth), elsewhere, rtol=1e-9)


def test_the_references_descend_to_a_stationary_point():
    shared = case("diabetes", 3, 0, hidden=2)

    def made():
        return shared.problem, None, {"test": shared.test}

    steepest = centralised.gradient_descent(made, rounds=200, seed=0)
    newton = centralised.lbfgs(made, rounds=500, seed=0)
    assert (np.diff(steepest.history["objective"]) <= 1e-12).all()
    assert newton.history["stationarity"][-1] < 1e-7
    assert newton.history["objective"][0] == steepest.history["objective"][0]
    for done in (steepest, newton):
        np.testing.assert_allclose(done.history["objective"][-1], shared.problem.objective(done.w[0]), rtol=1e-12)
        outputs = shared.problem.model.predict(done.w, shared.test[0][None])[0, :, 0]
        np.testing.assert_allclose(done.history["test_error"][-1], np.mean((outputs - shared.test[1]) ** 2), rtol=1e-12)
