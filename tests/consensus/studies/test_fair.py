"""What a study says of runs that miss, diverge, end early or fail, and of cases that are not what they were."""

import functools
import math
import os
import shutil
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from scipy import stats

import consensus
import topologies
from consensus.solvers import DGD, DLM, EXTRA, LED, NIDS, GradientTracking
from consensus.studies import CaseError, Grid, Study
from consensus.studies.measure import Measure, Outcome, Value
from consensus.studies.statistics import paired, rate, text

CURVATURES = np.linspace(1.0, 3.0, 6)[:, None]


def problem(seed, scale=1.0):
    centres = scale * np.random.default_rng(seed).standard_normal((6, 2))
    return consensus.Problem.from_functions(
        lambda w: (CURVATURES * (w - centres) ** 2).sum(axis=1),
        lambda w: 2 * CURVATURES * (w - centres),
        agents=6,
        parameters=2,
        lipschitz=6.0,
    )


def case(seed, **options):
    return problem(seed), topologies.ring(6), options


def study(folder, solvers, **changed):
    usual = {"case": case, "seeds": 3, "tuning_seeds": 2, "rounds": 60, "measure": "exchanges to objective 1%"} | changed
    return Study(usual.pop("case"), folder=folder, solvers=solvers, **usual)


def done(folder, solvers, **changed):
    return study(folder, solvers, **changed).run(progress=False)


def test_a_grid_that_diverges_grows_to_where_it_does_not(tmp_path):
    made = done(tmp_path, {"GT": Grid(GradientTracking, step_size=[2.0, 4.0, 8.0])}, rounds=300)
    best = float(made.grids()["best"].iloc[0].removeprefix("step_size = "))
    assert made.grids()["inside"].tolist() == ["yes"]
    assert best < 0.5
    assert not made.values()["missed"].any()


def test_a_grid_of_which_nothing_is_left_is_marked(tmp_path):
    made = done(tmp_path, {"GT": Grid(GradientTracking, step_size=[0.1, 0.2])}, measure=lambda result: math.nan, seeds=1)
    assert made.grids()["inside"].tolist() == ["NO: without a number"]
    assert made.table().iloc[0, 0].startswith("never")


# Cases that are not what they were


def from_files(seed, folder):
    return problem(seed, float(np.load(folder / "scale.npy"))), nx.read_edgelist(folder / "graph.txt", nodetype=int)


@pytest.mark.parametrize("what", ["data", "mixing matrices"])
def test_a_file_that_changes_is_noticed_whichever_seed_is_first(what, tmp_path):
    np.save(tmp_path / "scale.npy", 1.0)
    nx.write_edgelist(topologies.ring(6), tmp_path / "graph.txt")
    from_here = functools.partial(from_files, folder=tmp_path)
    done(tmp_path / "study", {"EXTRA": EXTRA()}, case=from_here)
    done(tmp_path / "study", {"EXTRA": EXTRA(), "NIDS": NIDS()}, case=from_here, seeds=[3, 1])
    if what == "data":
        np.save(tmp_path / "scale.npy", 2.0)
    else:
        nx.write_edgelist(topologies.complete(6), tmp_path / "graph.txt")
    for seeds in (4, [5, 2]):
        with pytest.raises(ValueError, match=rf"its {what} differ. If a file has changed, give another folder"):
            done(tmp_path / "study", {"EXTRA": EXTRA(), "DGD": DGD(0.01)}, case=from_here, seeds=seeds)


def unseeded_test(seed, recorded=False):
    drawn = np.random.default_rng().standard_normal((4, 3))
    shards = consensus.partition(np.arange(18.0).reshape(6, 3), np.arange(6.0), 6)
    made = consensus.Problem(consensus.Linear(3), consensus.SquaredLoss(), shards, consensus.L2(0.1))
    return (
        made,
        topologies.ring(6),
        {"record": consensus.Record(test=(drawn, np.zeros(4)))} if recorded else {"test": (drawn, np.zeros(4))},
    )


def unseeded_later(seed):
    return case(seed if seed == 0 else int(np.random.default_rng().integers(2**40)))


def test_what_is_drawn_without_the_seed_is_refused_in_options_and_with_later_seeds(tmp_path):
    for recorded in (False, True):
        with pytest.raises(CaseError, match="its options differ when it is called twice"):
            done(tmp_path / f"options {recorded}", {"EXTRA": EXTRA()}, case=functools.partial(unseeded_test, recorded=recorded))
    done(tmp_path / "later", {"EXTRA": EXTRA()}, case=unseeded_later)
    with pytest.raises(
        ValueError, match=r"the case \(seed=1\) does not return what it did .* numpy.random.default_rng\(seed\)"
    ):
        done(tmp_path / "later", {"EXTRA": EXTRA(), "NIDS": NIDS()}, case=unseeded_later, seeds=[1, 2])
    with pytest.raises(CaseError, match="returns a generator as seed, from which solvers would draw one after another"):
        done(tmp_path / "generator", {"EXTRA": EXTRA()}, case=drawing)


def test_what_a_folder_knows_of_its_runs_is_needed(tmp_path):
    solvers, capped = {"EXTRA": EXTRA()}, functools.partial(case, exchanges=np.int64(20))
    made = done(tmp_path, solvers, case=capped, seeds=1)
    (kept,) = (tmp_path / "cases").iterdir()
    kept.write_text("")
    for use in (made.table, made.run):
        with pytest.raises(ValueError, match=rf"{kept} cannot be read, which says what runs are on"):
            use()
    shutil.rmtree(tmp_path / "cases")
    with pytest.raises(ValueError, match=r"has runs, but nothing in cases/ that says what they are on: give another folder"):
        made.run(progress=False)


def test_a_folder_made_anew_has_todays_files(tmp_path):
    nx.write_edgelist(topologies.ring(6), tmp_path / "graph.txt")
    found = []
    for scale in (1.0, 2.0):
        np.save(tmp_path / "scale.npy", scale)
        shutil.rmtree(tmp_path / "study", ignore_errors=True)
        made = functools.partial(from_files, folder=tmp_path)
        found.append(done(tmp_path / "study", {"EXTRA": EXTRA()}, case=made, seeds=1, measure=_first).values()["value"].item())
    alone = [consensus.solve(problem(0, scale), topologies.ring(6), EXTRA(), rounds=0, seed=0) for scale in (1.0, 2.0)]
    assert found == list(map(_first, alone))


def _first(result):
    return result.history["objective"][0]


THREADS = """
import os, sys
import numpy as np
import consensus, topologies
from consensus.solvers import EXTRA
from consensus.studies import Study

def case(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((4000, 10))
    y = X @ rng.standard_normal(10)
    X = X / np.linalg.norm(X) * 60
    shards = consensus.partition(X, y, agents=4, seed=seed)
    return consensus.Problem(consensus.Linear(10), consensus.SquaredLoss(), shards, consensus.L2(0.01)), topologies.ring(4)

for workers in (1, 2):
    usual = {"measure": "exchanges to objective 1%", "rounds": 20, "folder": sys.argv[1]}
    Study(case, seeds=workers, solvers={"EXTRA": EXTRA()}, **usual).run(workers)
"""


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["2", None])
def test_a_case_is_the_same_on_any_number_of_threads(threads, tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment |= {} if threads is None else {"OMP_NUM_THREADS": threads}
    (tmp_path / "script.py").write_text(THREADS)
    command = [sys.executable, tmp_path / "script.py", tmp_path / "study"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


KEPT = {}


@functools.lru_cache
def centres(seed):
    return np.random.default_rng(seed).standard_normal((6, 2))


def keeping(seed):
    KEPT.setdefault(seed, centres(seed))
    return case(seed)


def caching(seed):
    assert centres(seed).shape == (6, 2)
    return case(seed)


def test_a_case_that_keeps_what_it_makes_is_told_how(tmp_path):
    done(tmp_path / "own", {"EXTRA": EXTRA()}, case=keeping)
    with pytest.raises(ValueError, match=r"let a case keep what it makes by functools\.lru_cache, which does not count"):
        done(tmp_path / "own", {"EXTRA": EXTRA()}, case=keeping, seeds=4)
    for seeds in (3, 4):
        done(tmp_path / "cached", {"EXTRA": EXTRA()}, case=caching, seeds=seeds)


def drawing(seed):
    return problem(seed), topologies.ring(6), {"seed": np.random.default_rng(seed)}


# Counts and budgets


def test_counts_do_not_depend_on_how_many_rounds_there_could_be(tmp_path):
    solvers = {"EXTRA": EXTRA(), "GT": Grid(GradientTracking, step_size=[0.02, 0.04])}
    usual = {"reference": least}
    short = done(tmp_path / "short", solvers, rounds=100, **usual)
    long = done(tmp_path / "long", solvers, rounds=4000, **usual)
    assert short.values().equals(long.values())
    assert not short.values()["missed"].any()
    assert short.grids()["best"].tolist() == long.grids()["best"].tolist()


def least(problem):
    result = consensus.solve(problem, topologies.complete(6), EXTRA(), rounds=500)
    return problem.objective(result.w.mean(axis=0))


def test_a_record_without_a_distance_has_as_many_rows(tmp_path):
    own = functools.partial(case, record=consensus.Record(agents=True))
    for name, made in (("own", own), ("plain", case), ("none", functools.partial(case, record_every=None))):
        rows = done(tmp_path / name, {"EXTRA": EXTRA()}, case=made, rounds=300, seeds=1, measure=_rows).values()["value"]
        assert rows.tolist() == [1 + 200 + 50]
    coarse = functools.partial(case, record=consensus.Record(every=100))
    assert done(tmp_path / "100", {"EXTRA": EXTRA()}, case=coarse, rounds=300, seeds=1, measure=_rows).values()[
        "value"
    ].tolist() == [4]


def _rows(result):
    return result.history.rows


def test_limits_of_a_case_act_in_every_round(tmp_path):
    made = done(tmp_path, {"EXTRA": EXTRA()}, case=functools.partial(case, exchanges=437), rounds=2000, seeds=1, measure=_last)
    assert made.runs()["rounds"].tolist() == [437]


def _last(result):
    return result.history["objective"][-1]


def test_who_does_not_get_below_the_start_gets_nowhere(tmp_path):
    made = done(tmp_path, {"EXTRA": EXTRA()}, case=functools.partial(case, tolerance=1e6))
    assert made.table().iloc[0, 0] == "never [never, never] (0 of 3)"


def test_latex_has_signs_that_every_font_shows(tmp_path):
    made = done(tmp_path, {"a<b": DGD(1e-9)}, measure="exchanges to objective 1e-9")
    text = made.table().to_latex()
    assert "$>$60 [$>$60, $>$60] (0 of 3)" in text
    assert "a$<$b" in text
    assert ">60" in made.table().to_latex(escape=False)
    made.table().to_latex(tmp_path / "table.tex", column_format=">{}ll")
    assert (tmp_path / "table.tex").read_text() == made.table().to_latex(column_format=">{}ll")
    assert r"\begin{tabular}{>{}ll}" in (tmp_path / "table.tex").read_text()


def test_who_ends_early_without_getting_there_is_not_ahead(tmp_path):
    stopped = functools.partial(case, stop="gradients >= 30")
    solvers = {"EXTRA": EXTRA(), "LED": LED(local_steps=5)}
    made = done(tmp_path, solvers, case=stopped, measure="exchanges to stationarity 1e-2", rounds=300)
    assert made.values().loc["LED"]["value"].tolist() == [300.0] * 3
    assert made.differences("EXTRA")["ratio"].item() > 10


def test_a_missed_level_costs_no_more_than_the_case_allows(tmp_path):
    made = done(
        tmp_path,
        {"diverges": GradientTracking(1e7), "slow": GradientTracking(1e-9)},
        case=functools.partial(case, exchanges=60),
        measure="exchanges to objective 1e-9",
    )
    assert made.values()["value"].tolist() == [60.0] * 6
    assert made.values()["missed"].all()


def test_a_run_that_diverges_before_its_second_row_has_the_budget_of_others(tmp_path):
    rare = functools.partial(case, record_every=50)
    made = done(tmp_path, {"diverges": GradientTracking(1e3), "EXTRA": EXTRA()}, case=rare, rounds=200)
    assert made.values().loc["diverges"]["value"].tolist() == [200.0] * 3
    runs = made.runs().loc["diverges"]
    assert (runs["rounds"] > 10).all()
    assert made.differences("EXTRA")["missed by the other"].item() == "3 of 3"


def test_a_budget_that_no_run_has_is_said(tmp_path):
    made = done(tmp_path, {"EXTRA": EXTRA(), "GT": GradientTracking(0.01)}, measure="stationarity after 100 exchanges")
    with pytest.warns(UserWarning, match=r"runs that spend less in all their rounds \(3 of EXTRA\): take more rounds"):
        made.table()
    with pytest.warns(UserWarning, match="spend less") as caught:
        made.report()
    assert [(one.filename, "take more rounds" in str(one.message)) for one in caught] == [(__file__, True)]
    capped = functools.partial(case, exchanges=20)
    with pytest.warns(UserWarning, match="let the case allow more exchanges"):
        done(tmp_path / "capped", {"EXTRA": EXTRA()}, case=capped, measure="stationarity after 100 exchanges").table()
    dear = _run({"effort": [10.0, 20.0], "objective": [5.0, 4.0]})
    assert Measure.of("objective after 0 effort").value(dear, 0, 1) == Value(5.0)


def _run(columns):
    history = consensus.History()
    for n, values in enumerate(zip(*columns.values(), strict=True)):
        history.append({"round": n} | dict(zip(columns, values, strict=True)))
    return Outcome(history, history.rows - 1, "", False, None)


# Tables and figures


@pytest.mark.parametrize("name", ["p", "best", "solver", "value", "rate"])
def test_names_of_columns_are_none_of_cases(name, tmp_path):
    with pytest.raises(ValueError, match=rf"over must not have the name '{name}', which is a column of the tables"):
        study(tmp_path, {"EXTRA": EXTRA()}, case=lambda seed, **values: case(seed), over={name: [1, 2]})


def test_differences_have_all_pairs_also_those_without_a_number():
    ours, never = [Value(1.0)] * 8, Value(math.inf, True)
    theirs = [Value(0.5), Value(0.6), *[never] * 6]
    found = paired("it", ours, theirs)
    logs = np.log([0.5, 0.6, *[1e9] * 6])
    assert found["ratio"] == found["high"] == math.inf
    assert found["p"] == stats.wilcoxon(logs).pvalue
    assert paired("it", theirs, ours)["ratio"] == 0
    nobody = paired("it", [never] * 8, [never] * 8)
    assert (nobody["ratio"], nobody["p"]) == (1.0, 1.0)


def test_who_never_gets_there_is_not_ahead_by_a_smaller_budget(tmp_path):
    solvers = {"tracking": GradientTracking(0.001), "DGD": DGD(1e-5)}
    made = done(tmp_path, solvers, rounds=40, seeds=6, reference=least, measure="exchanges to objective 30%")
    values = made.values()
    assert not values.loc["tracking"]["missed"].any()
    assert values.loc["DGD"]["missed"].all()
    assert values.loc["tracking"]["value"].min() > 40
    (row,) = made.differences("tracking").to_dict("records")
    assert (row["ratio"], row["p"], row["missed by the other"]) == (1.0, 1.0, "6 of 6")
    assert made.differences("DGD")["ratio"].item() == 1.0


def test_what_is_at_an_edge_is_said_with_the_table(tmp_path, monkeypatch):
    zero = Grid(lambda extra: DGD(0.001 + 0.001 * extra), extra=[0, 1, 2])
    made = done(tmp_path / "zero", {"DGD": zero}, measure="objective after 5 exchanges")
    assert made.grids()["inside"].tolist() == ["NO: at an edge"]
    assert made.table().caption.endswith("of 3 seeds; not inside its grid in every case: DGD")
    monkeypatch.setattr("consensus.studies.plan._MOST", 1)
    few = done(tmp_path / "few", {"DGD": Grid(DGD, step_size=[1e-6, 2e-6])}, measure="objective after 5 exchanges")
    assert few.grids()["inside"].tolist() == ["NO: at an edge"]
    choice = Grid(lambda falls, step: DGD(step), falls=[0.0, 0.5], step=[0.01, 0.02, 0.04])
    inside = done(tmp_path / "choice", {"DGD": choice}, measure="objective after 5 exchanges")
    assert inside.grids()["inside"].tolist() == ["yes"]


def test_tables_have_their_caption_wherever_they_are_shown(tmp_path):
    table = done(tmp_path, {"EXTRA": EXTRA()}).table()
    for shown in (repr(table), str(table), table._repr_html_(), table.to_markdown(), table.to_latex()):
        assert "median [quartiles] of 3 seeds" in shown


def test_runs_that_diverge_or_fail_are_said_once(tmp_path):
    with pytest.warns(UserWarning, match=r"3 of the runs of 'far' diverged in round \d+: runs\(\) has all reasons") as caught:
        done(tmp_path / "far", {"far": GradientTracking(1e7), "EXTRA": EXTRA()})
    assert len(caught) == 1
    with pytest.warns(UserWarning, match=r"1 of the runs of 'DLM' failed: .*: runs\(\) has all reasons"):
        done(tmp_path / "fails", {"EXTRA": EXTRA(), "DLM": DLM()}, case=turned)


def test_costs_that_fall_and_reports_without_runs_are_refused(tmp_path):
    for measure in ("stationarity to objective 1%", "objective to exchanges 3"):
        with pytest.raises(ValueError, match="measure must count what never falls, such as exchanges, bytes or seconds"):
            done(tmp_path / "falls", {"EXTRA": EXTRA()}, measure=measure)
    with pytest.raises(RuntimeError, match="3 of the 3 runs of the report are missing"):
        study(tmp_path / "none", {"EXTRA": EXTRA()}).report()


def test_a_column_for_each_agent_is_refused_before_work(tmp_path):
    own = functools.partial(case, agent_objectives=True)
    for measure in ("exchanges to agent_objective 1", "agent_objective after 3 exchanges"):
        with pytest.raises(ValueError, match="'agent_objective' has one for each agent: take a function of a result"):
            done(tmp_path / "refused", {"EXTRA": EXTRA()}, case=own, measure=measure)
    made = done(tmp_path / "own", {"EXTRA": EXTRA()}, case=own)
    for refused in (made.plot, made.rates):
        with pytest.raises(ValueError, match="'agent_objective' has one for each agent"):
            refused("agent_objective")
    with pytest.raises(ValueError, match=r"x must be a column that never falls, such as 'exchanges'; 'objective' falls"):
        made.plot("stationarity", x="objective")


def turned(seed):
    graph = nx.cycle_graph(6, nx.DiGraph)
    return problem(seed), topologies.Static(graph, weights=topologies.push) if seed == 1 else topologies.ring(6)


@pytest.mark.slow
def test_a_run_that_fails_without_a_row_is_in_the_report(tmp_path):
    made = done(tmp_path, {"EXTRA": EXTRA(), "DLM": DLM()}, case=turned)
    assert made.values()["missed"].tolist() == [False, True, False] * 2
    assert "failed" in made.report().read_text()
    lines = {line.get_label(): line for line in made.plot("gap").axes[0].get_lines()}
    assert np.nanmin(lines["EXTRA"].get_ydata()) < 1e-3


def test_gaps_of_a_study_that_is_underway_are_each_to_its_own_seeds_lowest(tmp_path):
    done(tmp_path, {"EXTRA": EXTRA()}, seeds=[0, 3])
    done(tmp_path, {"GT": GradientTracking(0.01)}, seeds=[0])
    partly = study(tmp_path, {"EXTRA": EXTRA(), "GT": GradientTracking(0.01)}, seeds=[3, 0])
    (line,) = (line for line in partly.plot("gap", log=False).axes[0].get_lines() if line.get_label() == "GT")
    runs = (consensus.solve(*case(0)[:2], solver, rounds=60) for solver in (GradientTracking(0.01), EXTRA()))
    own, best = (run.history["objective"] for run in runs)
    assert line.get_ydata()[-1] == pytest.approx((own[-1] - best.min()) / (own[0] - best.min()))


def test_choices_that_have_no_order_or_no_hash_are_refused_with_a_way():
    for values in ([[0.1], [0.2]], [{"a": 1}, {"a": 2}], [np.ones(2), np.zeros(2)]):
        with pytest.raises(TypeError, match="step must have values such as numbers, texts or tuples: name others by texts"):
            Grid(lambda step: DGD(0.1), step=values)
    steps = {"short": [0.1], "long": [0.2]}
    assert Grid(lambda step: DGD(steps[step][0]), step=list(steps)).points() == [("short",), ("long",)]


def test_an_error_beyond_a_grid_names_where_it_was():
    grid = Grid(lambda place: DGD([0.1, 0.2, 0.3][place]), place=[1, 2])
    with pytest.raises(IndexError) as raised:
        grid.beside((2,), grid.points())
    assert raised.value.__notes__ == ["This was in <lambda>, beyond the values of the grid: place = 4."]


def test_arrays_in_over_are_texts_in_tables(tmp_path):
    made = done(tmp_path, {"EXTRA": EXTRA()}, case=lambda seed, at: case(seed), over={"at": [np.zeros(2), np.ones(2)]}, seeds=1)
    for table in (made.table(), made.runs(), made.values(), made.rates()):
        assert "[1. 1.]" in table.to_markdown()


def test_a_reference_above_the_start_is_refused(tmp_path):
    made = done(tmp_path, {"EXTRA": EXTRA()}, reference=lambda problem: 1e6)
    with pytest.raises(ValueError, match=r"reference returns 1e\+06, above the objective at the start"):
        made.table()


def test_rates_leave_out_what_does_not_fall_and_long_numbers_are_short():
    falling = _run({"gap": list(0.5 ** np.arange(20.0))})
    flat = _run({"gap": [1.0, *[0.01] * 19]})
    assert rate([falling.history, flat.history], "gap")["straight"] == pytest.approx(1.0)
    assert rate([falling.history, flat.history], "gap")["fits"] == 1
    assert text(Value(1.5e24)) == "1.5e+24"
    assert text(Value(1234567.0)) == "1,234,567"
