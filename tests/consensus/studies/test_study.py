"""Studies: what they do, resume, tune and refuse."""

import contextlib
import functools
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

import consensus
import topologies
from consensus.engines import Processes
from consensus.solvers import DGD, EXTRA, NEXT, NIDS, ExactDiffusion, GradientTracking, Needs, PushPull, Solver
from consensus.studies import CaseError, Gaussian, Grid, NoisyMessages, Rounding, Study
from consensus.studies.measure import Measure, Outcome, Value
from consensus.studies.statistics import bound, cell, holm, paired, ratios
from consensus.surrogates import FullLinearization
from tests.helpers import tiny_study
from tests.helpers.refusals import refusals


def case(seed, graph="ring"):
    centres = np.random.default_rng(seed).standard_normal((6, 2))
    problem = consensus.Problem.from_functions(
        lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres), agents=6, parameters=2, lipschitz=2.0
    )
    return problem, getattr(topologies, graph)(6)


def chance():
    return int(np.random.default_rng().integers(2**40))


def study(folder, **changed):
    usual = {
        "seeds": 3,
        "tuning_seeds": 2,
        "rounds": 40,
        "measure": "exchanges to objective 1%",
        "solvers": {"EXTRA": EXTRA(), "DGD": Grid(DGD, step_size=[0.002, 0.004])},
    }
    return Study(changed.pop("case", case), folder=folder, **usual | changed)


def outcome(objective, exchanges=None, failed=False):
    history = consensus.History()
    for n, value in enumerate(objective):
        history.append({"round": n, "objective": value, "exchanges": n if exchanges is None else exchanges[n]})
    return Outcome(history, len(objective) - 1, "", failed, None)


@pytest.mark.slow
def test_it_tunes_on_other_seeds_until_the_best_is_inside_and_does_nothing_twice(tmp_path, monkeypatch):
    made = study(tmp_path).run(progress=False)
    table, grids, runs = made.table(), made.grids(), made.runs().reset_index()
    assert table.caption == "exchanges to objective 1%: median [quartiles] of 3 seeds"
    assert table.index.tolist() == ["EXTRA", "DGD"]
    values = made.values()
    assert values.index.tolist() == [(name, seed) for name in ("EXTRA", "DGD") for seed in range(3)]
    assert f"{values.loc['EXTRA', 'value'].median():.3g} [" in table.loc["EXTRA"].item()
    assert not values["missed"].any()
    assert grids["inside"].tolist() == ["yes"]
    assert float(grids["best"].iloc[0].split("= ")[1]) > 0.004  # it grew
    assert set(runs[runs["for"] == "tuning"]["seed"]) == {1000, 1001}
    assert set(runs[runs["for"] == "report"]["seed"]) == {0, 1, 2}
    files = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()}
    again = study(tmp_path)
    assert again.table().equals(table)  # from the files alone
    with monkeypatch.context() as patch:
        patch.setattr("consensus.studies.runs.do", lambda *given: pytest.fail("nothing is to be run"))
        again.run(progress=False)
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()} == files
    more = study(tmp_path, seeds=4).run(progress=False)
    assert len(list((tmp_path / "runs").iterdir())) == len(files) + 2
    assert "of 4 seeds" in more.table().to_latex()
    assert r"1\%" in more.table().to_latex()
    assert "of 4 seeds" in more.table().to_markdown()
    result = consensus.load(tmp_path / "runs" / runs["file"].iloc[-1])
    alone = consensus.solve(*case(2), DGD(float(grids["best"].iloc[0].split("= ")[1])), rounds=40, seed=2, record_every=1)
    assert np.array_equal(result.w, alone.w)


def test_a_level_is_reached_where_it_is_kept_and_a_missed_one_costs_the_budget():
    to = Measure.of("exchanges to objective 10%")
    runs = [outcome([10, 2, 0.5, 3, 0.9, 0.0]), outcome([10, 5, 4, 3, 3, 3])]
    level = to.level_of(runs, None)
    assert level == 1.0
    assert [to.value(run, level, 5) for run in runs] == [Value(4.0), Value(5.0, True)]
    assert to.value(outcome([10, 20, 1e99], failed=True), 1.0, 50) == Value(50.0, True)
    assert to.level_of(runs, -10.0) == -8.0
    assert Measure.of("bytes to disagreement 1e-3").level == 1e-3
    after = Measure.of("objective after 3 exchanges")
    assert after.value(runs[0], 0, 5) == Value(3.0)
    assert after.value(outcome([10, 20], failed=True), 0, 5).missed


def test_a_setting_that_gets_there_with_all_tuning_seeds_is_better_than_one_that_is_fast_with_most():
    measure, never, fast, slow = Measure.of("exchanges to objective 1"), outcome([9, 3]), outcome([9, 1]), outcome([9, 5, 5, 1])
    merits = [
        measure.merit(runs, [1.0] * 3, 3) for runs in ([slow] * 3, [fast, fast, never], [never] * 3, [outcome([9, 4])] * 3)
    ]
    assert merits == sorted(merits)
    assert [merit[:3] for merit in merits[:2]] == [(0, 3.0, 1.0), (1, 1.0, 1.0)]
    early, late = (measure.merit([outcome(values, failed=True)], [1.0], 3) for values in ([9, 0.5], [9, 0.5, 0.5]))
    assert early[:3] == late[:3] == (1, math.inf, math.inf)
    assert early > late  # which of two that diverge is nearer to those that do not


def test_missed_values_are_above_all_others_in_a_cell():
    values = [Value(1.0), Value(3.0), Value(2.0), Value(9.0, True), Value(9.0, True)]
    assert cell(values, "median [quartiles]") == "3 [2, >9] (3 of 5)"
    assert cell(values[:3], "median [range]") == "2 [1, 3]"


def test_differences_are_wilcoxons_and_holms():
    rng = np.random.default_rng(0)
    ours, theirs = np.exp(rng.standard_normal((2, 200)))
    found = paired("it", [Value(x) for x in ours], [Value(x) for x in theirs])
    assert found["p"] == stats.wilcoxon(np.log(theirs / ours)).pvalue
    assert math.isclose(found["ratio"], np.exp(np.median(np.log(theirs / ours))))
    interval = stats.bootstrap((np.log(theirs / ours),), np.median, method="percentile", random_state=1).confidence_interval
    assert np.allclose(np.log([found["low"], found["high"]]), interval, atol=0.03)
    # by hand: 0.01 * 3, 0.02 * 2, 0.03 -> at least 0.04
    assert np.allclose(holm([0.03, 0.01, 0.02]), [0.04, 0.03, 0.04])


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["ring", "star", "path"])
@pytest.mark.parametrize("solver", [NIDS(), ExactDiffusion()], ids=["NIDS", "ExactDiffusion"])
def test_runs_are_at_least_as_fast_as_the_bound_says(solver, graph):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((160, 3)) * [0.5, 1, 2], rng.standard_normal(160)
    shards = consensus.partition(X, y, agents=8, scheme="sorted", seed=0)
    problem = consensus.Problem(consensus.Linear(3, bias=False), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    network = topologies.Static(getattr(topologies, graph)(8))
    optimum = np.linalg.solve(X.T @ X / 160 + 0.1 * np.eye(3), X.T @ y / 160)
    ends = [consensus.solve(problem, network, solver, rounds=n, start=np.zeros(3)).w for n in (150, 250)]
    far = [np.linalg.norm(w - optimum) for w in ends]
    assert 1e-13 < far[1] < far[0] * bound(solver, problem, network) ** 100


def test_profiles_are_ratios_to_the_best_of_each_problem():
    found = ratios("it", {"a": [Value(1.0), Value(4.0)], "b": [Value(2.0), Value(2.0, True)]})
    assert found["a"].tolist() == [1.0, 1.0]
    assert found["b"].tolist() == [2.0, math.inf]


def test_a_run_that_diverges_is_a_row(tmp_path):
    made = study(tmp_path, solvers={"EXTRA": EXTRA(), "wild": DGD(50.0)}, rounds=200).run(progress=False)
    ended = made.runs().reset_index().set_index("solver")["ended"]
    assert ended["wild"].str.startswith("diverged in round").all()
    assert "(0 of 3)" in made.table().loc["wild"].iloc[0]


def test_grids_grow_in_the_axis_own_ratio_up_to_what_a_solver_takes():
    grid = Grid(DGD, step_size=[0.1, 0.3])
    assert grid.beside((0.1,), grid.points()) == [(pytest.approx(0.0333333),), (0.3,)]
    whole = Grid(lambda k: k, k=[1, 2])
    assert whole.beside((2,), [(1,), (2,)]) == [(1,), (4,)]
    assert whole.beside((1,), [(1,), (2,)]) == [(2,)]
    bounded = Grid(lambda step: NEXT(FullLinearization(1.0), step), step=[0.4, 0.8])  # at most one
    assert bounded.beside((0.8,), bounded.points()) == [(0.4,), (pytest.approx(0.951366),)]
    words = Grid(GradientTracking, step_size=[0.1], order=["atc", "cta"])
    assert words.beside((0.1, "atc"), words.points()) == [(0.05, "atc"), (0.2, "atc")]


@pytest.mark.parametrize(("call", "text"), [
    (lambda grid: grid.solver((0.1, 3)), "point must be a tuple of a value for each of step_size"),
    (lambda grid: grid.shown(0.1), "point must be a tuple of a value for each of step_size"),
    (lambda grid: grid.beside((0.2,), [(0.1,)]), r"tried must be a list of points with \(0.2,\) among them"),
    (lambda grid: grid.beside((0.1,), [(0.1,), ("a",)]), "tried must have positive numbers for step_size"),
    (lambda grid: grid.beside((0.1,), [(0.1,), 3]), "tried must be a tuple of a value for each of step_size"),
])  # fmt: skip
def test_points_that_are_none_are_named(call, text):
    with pytest.raises(ValueError, match=text):
        call(Grid(DGD, step_size=[0.1]))


@pytest.mark.parametrize(("changed", "error", "text"), [
    ({"seeds": [0, 1, 1]}, ValueError, r"seeds must differ.*\[1\]"),
    ({"seeds": [0, 1000]}, ValueError, r"tuning_seeds must be other ones.*\[1000\]"),
    ({"measure": "exchanges until 1%"}, ValueError, "measure must be"),
    ({"measure": "exchanges to objective 0%"}, ValueError, "between 0% and 100%"),
    ({"measure": "hours to objective 1%"}, ValueError, "needs the column 'hours', which runs of 'EXTRA'"),
    ({"solvers": {"x": 3}}, TypeError, r"solvers\['x'\] must be"),
    ({"solvers": {"x": Grid(DGD, step_size=[0.1], bach=[3, 4])}}, TypeError, r"solvers\['x'\] cannot be made of step_size"),
    ({"solvers": {"x": DGD(0.1, batch=3)}}, (TypeError, ValueError), "solver 'x' does not fit case"),
    ({"over": {"graph": "ring"}}, ValueError, r"over\['graph'\] must be a list"),
    ({"over": {"size": [3]}}, TypeError, "case must take a seed and size"),
    ({"over": {"graph": ["rong"]}}, CaseError, r"case\(seed=0, graph='rong'\) raised AttributeError"),
    ({"case": lambda seed: 3}, CaseError, r"<lambda>\(seed=0\) must return a problem, a network"),
    ({"case": functools.partial(case, graph="rong")}, CaseError, r"case\(seed=0\) raised AttributeError"),
    ({"case": lambda seed: (*case(seed), {"rounds": 3})}, CaseError, "option 'rounds', which is set by the study"),
    ({"case": lambda seed: case(chance())}, CaseError, "its data differ when it is called twice with seed=0: draw by"),
    ({"case": lambda seed: (case(seed)[0], topologies.RandomEdges(topologies.ring(6), 0.5, seed=chance()))},
     CaseError, "its mixing matrices differ"),
    ({"case": lambda seed: (*case(seed), {"start": np.full(2, chance())})}, CaseError, "its start differ"),
    ({"reference": lambda problem: 0.0, "measure": "objective after 3 rounds"}, ValueError, "reference is for"),
])  # fmt: skip
def test_bad_input_is_named_before_any_work(tmp_path, changed, error, text):
    with pytest.raises(error, match=text):
        study(tmp_path / "new", **changed).run(progress=False)
    assert not list((tmp_path / "new").glob("runs/*"))


@pytest.mark.slow
def test_a_case_that_cannot_be_sent_to_workers_is_named(tmp_path):
    lock = threading.Lock()

    def locked(seed):
        with lock:
            return case(seed)

    with pytest.raises(TypeError, match=r"case must be a function that can be sent to workers: .*lock"):
        study(tmp_path, case=locked).run(workers=2, progress=False)
    assert study(tmp_path, case=locked, seeds=1).run(workers=1, progress=False).table().shape == (2, 1)  # the remedy


@pytest.mark.slow
def test_a_case_that_workers_cannot_import_is_named(tmp_path, monkeypatch):
    nowhere = types.ModuleType("nowhere")
    exec("def made(case):\n    def one(seed):\n        return case(seed)\n    return one", nowhere.__dict__)
    nowhere.one = nowhere.made(case)
    nowhere.one.__qualname__ = "one"
    monkeypatch.setitem(sys.modules, "nowhere", nowhere)
    with pytest.raises(ImportError, match=r"the case cannot be loaded in a worker: ModuleNotFoundError: .*nowhere"):
        study(tmp_path, case=nowhere.one).run(workers=2, progress=False)


def test_seeds_may_be_an_array_and_a_measure_that_fails_names_the_run(tmp_path):
    made = study(tmp_path, seeds=np.arange(2), solvers={"EXTRA": EXTRA()}, measure=lambda result: result.rows)
    with pytest.raises(AttributeError, match="rows") as raised:
        made.run(progress=False).table()
    assert made.seeds == [0, 1]
    assert re.search(r"in the measure <lambda>, of the run in .*\.npz", raised.value.__notes__[0])


def test_a_folder_of_something_else_is_refused(tmp_path):
    study(tmp_path, seeds=1, solvers={"EXTRA": EXTRA()}).run(progress=False)
    with pytest.raises(ValueError, match="another study, over"):
        study(tmp_path, over={"graph": ["star"]}).run(progress=False)
    with pytest.raises(ValueError, match="other code"):
        study(tmp_path, case=lambda seed: case(seed)).run(progress=False)
    (kept,) = (tmp_path / "cases").iterdir()
    kept.write_text(json.dumps({"made": json.loads(kept.read_text())["made"] | {"data": "other"}}))
    with pytest.raises(ValueError, match=r"its data differ. If a file has changed, give another folder"):
        study(tmp_path, solvers={"EXTRA": EXTRA()}).run(progress=False)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    with pytest.raises(ValueError, match="has other files"):
        study(tmp_path / "notes").run(progress=False)
    with pytest.raises(RuntimeError, match=r"3 of the 3 runs .* are missing"):
        study(tmp_path / "none", solvers={"EXTRA": EXTRA()}).table()


@pytest.mark.slow
def test_figures_and_reference(tmp_path):
    made = study(
        tmp_path, over={"graph": ["ring", "star"]}, solvers={"EXTRA": EXTRA(), "DGD": DGD(0.02)}, reference=lambda problem: 0.0
    ).run(progress=False)
    with pytest.raises(TypeError, match="column must be the name of a column"):
        made.plot(0)
    with pytest.raises(ValueError, match=r"x must be a column of the histories, round, .*'hours'"):
        made.plot(x="hours")
    figure = made.plot("gap")
    assert [ax.get_title() for ax in figure.axes] == ["ring", "star"]
    assert len(figure.axes[0].collections) == 2  # bands
    assert "6 problems" in made.profile().get_ylabel()
    rates = made.rates()
    assert (rates["fits"] <= 3).all()
    found = made.differences("EXTRA")
    assert found.index.names == ["graph", "solver"]
    made.watch()
    assert (tmp_path / "live.png").stat().st_size > 1000


@pytest.mark.slow
def test_the_report_is_one_page_with_all_of_it(tmp_path):
    solvers = {"EXTRA": EXTRA(), "wild": DGD(50.0), "DGD": Grid(DGD, step_size=[0.01, 0.02])}
    text = study(tmp_path, solvers=solvers, rounds=200).run(progress=False).report().read_text()
    assert text.count("data:image/png;base64,") == 2
    for part in ("Runs that diverged", "Tuning", "def case(seed", "numpy", "exchanges to objective 1%", "To repeat it"):
        assert part in text


def test_x_is_logarithmic_where_it_spans_more_than_two_decades(tmp_path):
    made = study(tmp_path, seeds=1, solvers={"EXTRA": EXTRA()}, rounds=120).run(progress=False)
    scales = [made.plot("gap", **given).axes[0].get_xscale() for given in ({}, {"x": "bytes"}, {"log_x": False})]
    assert scales == ["log", "log", "linear"]
    for log_x, first in ((True, 1.0), (False, 0.0)):  # a band begins where its line is seen to begin
        (band,) = made.plot("gap", log_x=log_x).axes[0].collections
        assert band.get_paths()[0].get_extents().xmin == first
    few = study(tmp_path, seeds=1, solvers={"EXTRA": EXTRA()}, rounds=40).run(progress=False)
    assert [few.plot("gap", **given).axes[0].get_xscale() for given in ({}, {"log_x": True})] == ["linear", "log"]


# Noise on messages: what it changes, and what tracking conserves under it.

CENTRES = np.random.default_rng(0).standard_normal((6, 3))
PROBLEM = consensus.Problem.from_functions(
    lambda w, rows: ((w - CENTRES[rows]) ** 2).sum(axis=1), lambda w, rows: 2 * (w - CENTRES[rows]), agents=6, parameters=3
)
RING = topologies.ring(6)


def last(solver, rounds, **options):
    return consensus.solve(PROBLEM, RING, solver, rounds=rounds, start=np.ones(3), **options)


def test_without_noise_it_is_the_method():
    plain, quiet = last(GradientTracking(0.05), 30), last(NoisyMessages(GradientTracking(0.05), Gaussian(0.0)), 30)
    assert np.allclose(plain.w, quiet.w, rtol=0, atol=1e-13)


class State(NamedTuple):
    round: int
    w: np.ndarray


class Averaging(Solver):
    needs = Needs()

    def init(self, problem, w):
        return State(0, w)

    def step(self, problem, network, state):
        return State(state.round + 1, *network.mix(state.round, state.w))


@pytest.mark.filterwarnings("ignore:.* ended above its start")
def test_an_exchange_with_rounding_by_hand():
    W = topologies.metropolis(RING).toarray()
    w = np.random.default_rng(1).standard_normal((6, 3))
    found = consensus.solve(PROBLEM, RING, NoisyMessages(Averaging(), Rounding(0.5)), rounds=1, start=w).w
    own = np.diag(np.diag(W))
    assert np.allclose(found, own @ w + (W - own) @ (np.round(w / 0.5) * 0.5), rtol=0, atol=1e-14)


def test_the_sum_over_agents_walks_at_random_by_the_weights_of_others():
    """Each round adds sum_j (1 - W_jj) e_j: on a ring of six, with W_jj = 1 / 3, a variance of 6 (2 / 3)^2 s^2."""
    problem = consensus.Problem.from_functions(lambda w: 0 * w[:, 0], lambda w: 0 * w, agents=6, parameters=20_000)
    noisy, deviation = NoisyMessages(Averaging(), Gaussian(0.1), seed=7), 0.1
    for rounds in (1, 9):
        total = consensus.solve(problem, RING, noisy, rounds=rounds, start=np.zeros(20_000)).w.sum(axis=0)
        assert abs(total.var() / (rounds * 6 * (2 / 3) ** 2 * deviation**2) - 1) < 0.05


@pytest.mark.slow
def test_tracking_does_not_come_back_and_dgd_does():
    """The trackers' sum is off for good: the mean goes on drifting, while that of DGD stays near the optimum."""
    off = {}
    for name, solver in (("tracking", GradientTracking(0.05)), ("DGD", DGD(0.05))):
        result = last(NoisyMessages(solver, Gaussian(1e-2)), 1600, record_every=4)
        off[name] = result.history["stationarity"]
    assert np.median(off["tracking"][-50:]) > 1.7 * np.median(off["tracking"][5:20])
    assert np.median(off["DGD"][-50:]) < 1.3 * np.median(off["DGD"][5:20])


@pytest.mark.slow
def test_engines_and_seeds():
    noisy = NoisyMessages(GradientTracking(0.05), Gaussian(0.01), seed=4)
    one, other = last(noisy, 10), last(noisy, 10, engine=Processes(2))
    assert (one.w == other.w).all()
    assert (last(NoisyMessages(GradientTracking(0.05), Gaussian(0.01), seed=5), 10).w != one.w).any()


@pytest.mark.parametrize("noise", [Gaussian(0.1), Rounding(0.1)])
def test_what_is_sent_is_checked(noise):
    with pytest.raises(TypeError, match="rows must be an array of real numbers"):
        noise.received(None, np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"draws must have the shape of rows, \(2, 3\); got \(3,\)"):
        noise.received(np.ones((2, 3)), np.ones(3))


test_refusals = refusals(
    (lambda: NoisyMessages(PushPull(0.1), Gaussian(0.1)), TypeError, "doubly stochastic"),
    (lambda: NoisyMessages(DGD(0.1), 0.1), TypeError, "noise must be Gaussian"),
    (lambda: Gaussian(-1.0), ValueError, "deviation"),
    (lambda: Rounding(0.0), ValueError, "step"),
)


# A study that is killed and stopped, again and again, is the one that was never stopped.


def start(*arguments, errors=subprocess.PIPE):
    environment = {**os.environ, "PYTHONPATH": str(Path(consensus.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, tiny_study.__file__, *map(str, arguments)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


class Children:
    """Processes of studies, one after the other, forked by one that has imported the package: imports take most of a start."""

    def __init__(self):
        self.server = start("serve", errors=None)  # a pipe that nobody reads would stop it

    def close(self):
        self.server.stdin.close()
        assert self.server.wait(60) == 0
        self.server.stdout.close()

    def begin(self, folder, workers):
        return int(self.ask(f"{folder} {workers}"))

    def ask(self, line):
        self.server.stdin.write(f"{line}\n")
        self.server.stdin.flush()
        return self.server.stdout.readline()

    def end(self):
        return os.waitstatus_to_exitcode(int(self.ask("")))


def stop(children, folder, workers, sign, more):
    """Send a signal to a study, and on ctrl-C to its workers, once so many files more are there; return how it ended."""
    runs, draws = folder / "runs", random.Random(more)
    have = len(list(runs.glob("*.npz")))
    process = children.begin(folder, workers)
    until = time.monotonic() + 120
    while len(list(runs.glob("*.npz"))) < have + more:
        assert time.monotonic() < until
        time.sleep(0.005)
    time.sleep(0.02 * draws.random())  # anywhere in a run
    (os.killpg if sign == signal.SIGINT else os.kill)(process, sign)
    return children.end()


@pytest.mark.slow
def test_killed_and_stopped_it_equals_one_that_never_was(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    tiny_study.study(whole).run(progress=False)
    children = Children()
    stops = [signal.SIGKILL, signal.SIGINT] * 5
    ends = [stop(children, broken, 2 if k in (3, 6) else 1, sign, 10 + k) for k, sign in enumerate(stops)]
    assert ends[::2] == [-signal.SIGKILL] * 5
    assert 0 not in ends
    children.begin(broken, 1)
    assert children.end() == 0
    children.close()
    names = sorted(path.name for path in (whole / "runs").iterdir())
    assert len(names) >= 200
    assert sorted(path.name for path in (broken / "runs").iterdir()) == names  # and no parts of files
    for name in names:
        one, other = (consensus.load(folder / "runs" / name) for folder in (whole, broken))
        assert (one.w.tobytes(), one.reason, one.rounds) == (other.w.tobytes(), other.reason, other.rounds)
        for column in one.history:
            assert column == "seconds" or np.array_equal(one.history[column], other.history[column], equal_nan=True)
    first, second = tiny_study.study(whole), tiny_study.study(broken)
    assert first.table().equals(second.table())
    assert first.grids().equals(second.grids())
    assert first.runs().equals(second.runs())


def children_of(process):
    """Return the processes that this one has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1]) == process:
                found.append(int(folder.name))
    return found


def alive(process):
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(process) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_forked_process_has_workers_of_its_own_and_they_end_with_it(tmp_path):
    children = Children()
    done = int(children.ask(f"here {tmp_path / 'first'} 2"))  # workers of the process that forks the others
    assert done >= 200
    process = children.begin(tmp_path / "second", 2)
    until = time.monotonic() + 120
    while len(list((tmp_path / "second" / "runs").glob("*.npz"))) < 5:
        assert time.monotonic() < until
        time.sleep(0.01)
    workers = children_of(process)
    assert len(workers) >= 2
    os.kill(process, signal.SIGKILL)
    assert children.end() == -signal.SIGKILL
    while any(map(alive, workers)):
        assert time.monotonic() < until
        time.sleep(0.05)
    children.begin(tmp_path / "second", 2)
    assert children.end() == 0
    children.close()
    first, second = (tiny_study.study(tmp_path / name) for name in ("first", "second"))
    assert first.table().equals(second.table())


@pytest.mark.slow
def test_ctrl_c_says_that_nothing_is_lost_and_another_process_is_refused(tmp_path):
    process = start(tmp_path, 1)
    while not list(tmp_path.glob("runs/*.npz")):
        time.sleep(0.01)
    with pytest.raises(ValueError, match="in use by another process"):
        tiny_study.study(tmp_path).run(progress=False)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert "stopped by the user: what is done is kept" in said
    assert process.returncode != 0
