"""Progress shows as a bar in a terminal and in a notebook, and as lines of the log elsewhere."""

import logging
import sys
import types

import pytest

import consensus
import topologies
from consensus._arrays import progress as _progress
from tests.helpers.problems import problem


@pytest.fixture
def notebook(monkeypatch):
    """What a Jupyter kernel without widgets looks like from inside."""
    shell = types.SimpleNamespace(config={"IPKernelApp": {"connection_file": "kernel.json"}})
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    find = _progress.importlib.util.find_spec
    monkeypatch.setattr(_progress.importlib.util, "find_spec", lambda name: None if name == "ipywidgets" else find(name))


def run(**settings):
    return consensus.solve(problem(), topologies.ring(6), consensus.solvers.DGD(0.1), rounds=3, **settings)


def test_a_notebook_shows_the_bar_although_it_is_no_terminal(notebook, capsys):
    run(progress=True)
    shown = capsys.readouterr().err
    assert "DGD" in shown
    assert "3/3" in shown


def test_epochs_are_shown_of_runs_with_batches(notebook, capsys):
    run(progress=True)
    assert "epoch" not in capsys.readouterr().err
    consensus.solve(problem(), topologies.ring(6), consensus.solvers.DGD(0.1, batch=5), rounds=3, progress=True)
    assert "epoch 1.50, objective" in capsys.readouterr().err  # 15 of 10 samples


def test_nothing_is_shown_unasked_nor_in_a_file(notebook, capsys, monkeypatch):
    run()
    monkeypatch.delitem(sys.modules, "IPython")
    run(progress=True)
    assert capsys.readouterr().err == ""


def test_ipython_in_a_terminal_is_no_notebook(monkeypatch):
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(config={"TerminalIPythonApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert not _progress.in_notebook()
    ipython.get_ipython = lambda: None
    assert not _progress.in_notebook()


@pytest.fixture
def lines(monkeypatch, caplog):
    """Results and lines of the log of runs on a clock that goes on by four seconds after every row."""
    caplog.set_level(logging.INFO, logger="consensus")
    clock = types.SimpleNamespace(now=1000.0)
    monkeypatch.setattr(_progress, "monotonic", lambda: clock.now)

    def tick(info):
        clock.now += 4.0

    def made(rounds, **settings):
        caplog.clear()
        options = {"rounds": rounds, "record_every": 1, "progress": True, "callbacks": [tick]} | settings
        result = consensus.solve(problem(), topologies.ring(6), consensus.solvers.DGD(0.1), **options)
        assert {(record.name, record.levelname) for record in caplog.records} <= {("consensus", "INFO")}
        return result, caplog.messages

    return made


def expected(history, rounds_and_seconds):
    return [
        f"DGD: round {round} of 12, about {left} s left; at round {round - 1} objective {history['objective'][round - 1]:.4g}"
        for round, left in rounds_and_seconds
    ]


def test_without_a_terminal_a_line_is_logged_every_ten_seconds(lines, capsys):
    result, written = lines(12)
    assert written == expected(result.history, [(3, 36), (6, 24), (9, 12), (12, 0)])
    assert capsys.readouterr().err == ""


def test_the_time_left_of_a_resumed_run_is_by_its_own_rounds(lines, tmp_path):
    path = tmp_path / "run.ckpt"
    lines(6, checkpoint=path)
    result, written = lines(12, resume=path)
    assert written == expected(result.history, [(9, 12), (12, 0)])


def test_a_line_has_the_latest_row_and_its_round(lines):
    result, written = lines(12, record_every=5)  # by the clock five rounds in 4 seconds
    assert written == [f"DGD: round 11 of 12, about 1 s left; at round 10 objective {result.history['objective'][2]:.4g}"]


def test_a_bar_leaves_the_log_alone_and_nothing_is_logged_unasked(lines, notebook):
    assert lines(12)[1] == []
    assert lines(12, progress=False)[1] == []
