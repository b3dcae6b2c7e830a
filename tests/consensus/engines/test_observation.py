"""Callbacks, metrics and the time budget: every engine measures the same, shows callbacks the same and stops alike."""

import multiprocessing

import numpy as np
import pytest

from consensus.engines import Processes, Stacked
from tests.helpers import engine_cases
from tests.helpers.engine_harness import assert_same, ended, on_ranks, read
from tests.helpers.turns import with_slow

ENGINES = {"stacked": Stacked(), "processes": Processes(3)}
CASES = engine_cases.watched()


@pytest.fixture(scope="module")
def references():
    """Of every case: the whole run, what a callback saw of it, and the run that it stopped at round 6."""
    found = {}
    for name, case in CASES.items():
        watching = engine_cases.Watching()
        found[name] = case.run(callbacks=[watching]), watching.seen, case.run(callbacks=[engine_cases.Watching(6)])
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_callback_sees_what_is_recorded(name, references):
    result, seen, stopped = references[name]
    assert [round for round, *_ in seen] == result.history["round"].tolist() == [0, 3, 6, 9, 12, 13]
    for number, (_, w, mean, row, rows) in enumerate(seen):
        assert rows == number + 1
        assert row == {column: result.history[column][number].tolist() for column in result.history if column != "seconds"}
        rounding = 4 * np.finfo(result.w.dtype).eps * np.abs(w).max()
        np.testing.assert_allclose(mean, np.mean(w, axis=0), rtol=0, atol=rounding)
        assert row["norm"] == pytest.approx(np.linalg.norm(mean), rel=1e-6)
        assert row["first"] == mean[0]
    assert seen[-1][1] == result.w.tolist()
    assert list(result.history)[-2:] == ["norm", "first"]
    assert (stopped.reason, stopped.rounds) == ("enough seen at round 6", 6)
    assert_same(stopped, CASES[name].run(rounds=6, callbacks=[engine_cases.Watching(6)]))


@pytest.mark.parametrize("name", CASES)
def test_neither_callbacks_nor_metrics_change_the_run(name, references):
    result = CASES[name].run(metrics=None)
    np.testing.assert_array_equal(result.w, references[name][0].w)
    for column in set(result.history) - {"seconds"}:
        np.testing.assert_array_equal(result.history[column], references[name][0].history[column])


@pytest.mark.parametrize("name", with_slow(CASES, "float32, adaptive"))
def test_worker_processes_show_and_do_the_same(name, references, forked, tmp_path):
    result, seen, stopped = references[name]
    watching = engine_cases.Watching()
    assert_same(CASES[name].run(engine=Processes(3), callbacks=[watching]), result)
    assert watching.seen == seen
    options = {"engine": Processes(2), "checkpoint": tmp_path / "run.ckpt"}
    assert_same(CASES[name].run(callbacks=[engine_cases.Watching(6)], **options), stopped)
    assert_same(CASES[name].run(resume=tmp_path / "run.ckpt", callbacks=[engine_cases.Watching()]), result)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "ranks"), [("mpi", 1), ("mpi", 3), ("torch", 2)])
def test_ranks_do_the_same_and_the_first_alone_calls(kind, ranks, references, tmp_path):
    report = on_ranks(ranks, "callbacks", tmp_path, kind)
    assert (report["differ"], report["elsewhere"]) == ([], 0)
    for number, name in enumerate(CASES):
        result, seen, stopped = references[name]
        assert report["seen"][name] == [list(each) for each in seen[:3]]
        assert_same(read(tmp_path / f"{number} stopped.npz"), stopped)
        assert_same(read(tmp_path / f"{number} resumed.npz"), result)
    reason, rounds, seconds = report["timed"][0]
    assert report["timed"] == ranks * [[reason, rounds, seconds]]
    assert reason == f"time budget of 0.3 s used up at round {rounds}"
    assert seconds[-2] < 0.3 <= seconds[-1]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_the_time_budget_ends_at_the_first_recorded_round_past_it(engine, forked, tmp_path):
    case, options = engine_cases.slow(0.02, record_every=3), {"engine": ENGINES[engine], "checkpoint": tmp_path / "run.ckpt"}
    first = case.run(seconds=0.2, **options)
    assert first.reason == f"time budget of 0.2 s used up at round {first.rounds}"
    assert first.rounds % 3 == 0
    assert first.history["seconds"][-2] < 0.2 <= first.history["seconds"][-1]
    again = case.run(seconds=0.2, resume=tmp_path / "run.ckpt", **options)
    assert (again.rounds, again.reason) == (first.rounds, first.reason)
    longer = case.run(seconds=0.4, resume=tmp_path / "run.ckpt", **options)
    used = longer.history["seconds"]
    np.testing.assert_array_equal(used[: first.history.rows], first.history["seconds"])
    assert used[-2] < 0.4 <= used[-1]  # those of the first run count
    assert (np.diff(used) > 3 * 0.02).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("where", ["callbacks", "metrics"])
def test_an_exception_of_the_users_ends_the_run_and_keeps_the_history(engine, where, references, forked):
    def fails(given):
        if where == "metrics" or given.round == 9:
            raise engine_cases.Trouble(0, 9)

    case = CASES["functions, tracking"]
    given = {"callbacks": [engine_cases.Watching(), fails]} if where == "callbacks" else {"metrics": {"broken": fails}}
    with pytest.raises(engine_cases.Trouble) as caught:
        case.run(engine=ENGINES[engine], **given)
    name, round = ("callbacks[1], fails", 9) if where == "callbacks" else ("metrics['broken']", 0)
    assert caught.value.__notes__ == [f"in {name}, at round {round}"]
    reference = references["functions, tracking"][0].history
    rows = 4 if where == "callbacks" else 0
    assert caught.value.history["round"].tolist() == [0, 3, 6, 9] if rows else caught.value.history.rows == 0
    for column in set(caught.value.history) - {"seconds"}:
        np.testing.assert_array_equal(caught.value.history[column], reference[column][:rows])
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_an_exception_on_the_first_rank_ends_the_job(tmp_path):
    said = ended(3, "callback_fails", tmp_path)
    assert said.count("Traceback") == 1
    assert "Trouble: agent 0 gives up after round 9\nin callbacks[0], fails, at round 9" in said
    assert "The history of its 4 recorded rounds is in " in said


def test_ctrl_c_in_a_callback_gives_the_result_so_far(forked):
    def interrupts(seen):
        if seen.round == 6:
            raise KeyboardInterrupt

    for engine in ENGINES.values():
        with pytest.raises(KeyboardInterrupt, match="after round 6;") as caught:
            CASES["functions, tracking"].run(engine=engine, callbacks=[interrupts])
        assert caught.value.result.history["round"].tolist() == [0, 3, 6]
    assert multiprocessing.active_children() == []
