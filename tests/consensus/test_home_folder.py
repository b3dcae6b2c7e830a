"""The home folder: ``~`` means it wherever a path is taken, for reading and for writing."""

import os
from pathlib import Path

import numpy as np
import pytest

import consensus
import topologies
from consensus.cli import Config, main, run
from consensus.data import load_shards, save_shards
from consensus.solvers import DGD
from tests.helpers.settings_files import TEXT


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a home folder, and leave the working directory empty."""
    (tmp_path / "home").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))  # on Windows
    monkeypatch.chdir(tmp_path / "here")
    yield tmp_path / "home"
    assert not list((tmp_path / "here").iterdir())


PROBLEM = consensus.Problem.from_functions(lambda w: (w**2).sum(1), lambda w: 2 * w, agents=3, parameters=2)


def test_runs_are_saved_and_resumed_there(home):
    network, start = topologies.complete(3), np.ones(2)
    whole = consensus.solve(PROBLEM, network, DGD(0.1), rounds=9, start=start)
    consensus.solve(PROBLEM, network, DGD(0.1), rounds=4, start=start, checkpoint="~/runs/a.ckpt")
    resumed = consensus.solve(PROBLEM, network, DGD(0.1), rounds=9, start=start, resume=Path("~/runs/a.ckpt"))
    np.testing.assert_array_equal(resumed.w, whole.w)
    whole.save("~/r.npz")
    whole.history.to_csv("~/h.csv")
    assert {path.name for path in home.iterdir()} == {"runs", "r.npz", "h.csv"}
    np.testing.assert_array_equal(consensus.load("~/r.npz").w, whole.w)
    assert consensus.History.from_csv("~/h.csv").rows == whole.history.rows


@pytest.mark.slow
def test_shards_predictors_figures_and_tables_are_there(home, monkeypatch):
    (home / "mine.csv").write_text("x,y\n" + "".join(f"{k},{2 * k}\n" for k in range(12)))
    data = consensus.datasets.load("~/mine.csv", target="y")
    parts = consensus.datasets.split(data, test_size=0.25)
    shards = consensus.partition(parts.X, parts.y, agents=3)
    save_shards(shards, "~/shards")
    assert load_shards(Path("~/shards")).sizes.tolist() == [3, 3, 3]
    problem = consensus.Problem(consensus.Linear(1), consensus.SquaredLoss(), shards)
    result = consensus.solve(problem, topologies.complete(3), DGD(0.1), rounds=3)
    predictor = result.predictor(parts.pipeline)
    predictor.save("~/p.predictor")
    np.testing.assert_array_equal(consensus.load("~/p.predictor").predict("~/mine.csv"), predictor.predict(home / "mine.csv"))
    network = topologies.Static(topologies.complete(3))
    assert consensus.plotting.animate(network, result.history, "~/run.gif") == "~/run.gif"
    assert {path.name for path in home.iterdir()} == {"mine.csv", "shards", "p.predictor", "run.gif"}
    np.savetxt(home / "housing.csv", np.arange(0.5, 6.0).reshape(3, 2), "%g", ",")
    monkeypatch.setenv("CONSENSUS_DATA", "~")
    np.testing.assert_array_equal(consensus.datasets.load("boston").y, [1.5, 3.5, 5.5])


@pytest.mark.slow
def test_the_command_reads_and_writes_there(home):
    text = TEXT[: TEXT.index("[[solver]]\nlabel")] + '[output]\nfolder = "~/out"\n'
    (home / "run.toml").write_text(text)
    main(["run", "~/run.toml", "--checkpoint=~/states"])
    assert {path.name for path in (home / "out").iterdir()} == {"dgd.csv", "dgd.npz", "run.png"}
    assert (home / "states" / "dgd.ckpt").is_file()
    results = run(Config.read("~/run.toml"), resume="~/states")
    np.testing.assert_array_equal(results["DGD"].w, consensus.load("~/out/dgd.npz").w)


def test_files_whose_names_begin_with_a_tilde_stay_where_they_are(home):
    name = "~nobody-has-this-name.npz"
    try:
        consensus.solve(PROBLEM, topologies.complete(3), DGD(0.1), rounds=1).save(name)
        assert consensus.load(name).rounds == 1
        assert Path(name).is_file()
    finally:
        os.unlink(name)
