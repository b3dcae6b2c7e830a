"""The harness: only what is missing runs, and the same command gives the same bytes."""

import json

import numpy as np
import pytest

import topologies
from consensus.history import History
from consensus.solvers import DGD, NEXT
from consensus.surrogates import PartialLinearization
from experiments.shared import results
from experiments.shared.cases import case
from experiments.shared.harness import Experiment
from experiments.shared.results import Outcome, Run, training

DIVERGING = DGD(1e3)


def experiment(folder, *arguments, name="trial"):
    return Experiment(name, "A trial.", ["--output", str(folder), *arguments], datasets=["diabetes"], agents=5, rounds=4)


def begun(folder, *arguments):
    """An experiment up to its first case."""
    trial = experiment(folder, *arguments)
    return trial.case(trial.datasets[0], trial.agents, 0)


def runs(calls, settings=range(5), fails=None, **config):
    """Runs that only say that they were called; number ``fails`` breaks off."""

    def make(number):
        def work(engine):
            if number == fails:
                raise RuntimeError("the machine stopped")
            calls.append(number)
            history = History()
            history.append({"round": 0, "objective": number / 3, "seconds": 0.5})
            return Outcome(history, np.full((1, 2), float(number)))

        return Run({"number": number}, config, work)

    return {number: make(number) for number in settings}


def files(folder, name):
    return {path.parent.name: path.read_bytes() for path in (folder / "runs").glob(f"*/{name}")}


def trained(folder, *arguments):
    """The histories of two real runs, one of which diverges."""
    trial = experiment(folder, "--repeats", "1", *arguments)
    shared, graph = case("diabetes", trial.agents, 0, hidden=4), topologies.ring(trial.agents)
    solvers = {"NEXT": NEXT(PartialLinearization(0.3), 0.3), "diverging": DIVERGING}
    done = trial.repeat(
        lambda name, seed: training({"solver": name}, shared, graph, solvers[name], rounds=60, seed=seed), solvers
    )
    return done, files(trial.folder, "history.csv")


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path):
    calls = []
    with pytest.raises(RuntimeError, match="machine"):
        experiment(tmp_path).run(runs(calls, fails=2))
    assert calls == [0, 1]
    trial = experiment(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (trial.folder / "runs").rglob("*")}
    assert len(files(trial.folder, "config.json")) == 2
    outcomes = trial.run(runs(calls))
    assert calls == [0, 1, 2, 3, 4]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert [outcomes[number].w[0, 0] for number in outcomes] == [0, 1, 2, 3, 4]
    assert outcomes[4].history["objective"][0] == 4 / 3
    assert outcomes[4].history["seconds"][0] == 0.5
    experiment(tmp_path).run(runs(calls))
    assert len(calls) == 5


def test_ctrl_c_says_how_to_go_on(tmp_path):
    def stop(engine):
        raise KeyboardInterrupt

    with pytest.raises(SystemExit, match="the same command goes on"):
        experiment(tmp_path).run({0: Run({}, {}, stop)})
    assert list((tmp_path / "trial" / "runs").iterdir()) == []


def test_a_changed_setting_runs_anew_and_only_it(tmp_path):
    calls = []
    experiment(tmp_path).run(runs(calls, [0, 1], step=0.1))
    experiment(tmp_path).run(runs(calls, [0, 1, 2], step=0.1))
    assert calls == [0, 1, 2]
    experiment(tmp_path).run(runs(calls, [0, 1], step=0.2))
    assert calls == [0, 1, 2, 0, 1]
    experiment(tmp_path).run(runs(calls, [0, 1, 2], step=0.1))
    assert len(calls) == 5  # the others are still there


def test_any_part_of_a_training_run_changes_its_folder():
    def folder(*, agents=5, seed=0, solver=DIVERGING, rounds=10, hidden=4, scheme="iid", graph=None):
        shared = case("diabetes", agents, seed, hidden=hidden, scheme=scheme)
        return training({}, shared, graph or topologies.ring(agents), solver, rounds=rounds, seed=seed).folder

    changes = [{}, {"agents": 6}, {"seed": 1}, {"solver": DGD(0.1)}, {"rounds": 11}, {"hidden": 5}, {"scheme": "sorted"}]
    changes.append({"graph": topologies.star(5)})
    folders = [folder(**change) for change in changes]
    assert len(set(folders)) == len(changes)
    assert folders == [folder(**change) for change in changes]


def test_halves_do_not_count(tmp_path):
    calls = []
    trial = experiment(tmp_path)
    run = runs(calls, [7])[7]
    part = trial.folder / "runs" / f".{run.folder}.part"  # what a run killed while it was written leaves
    part.mkdir()
    (part / "config.json").write_text(json.dumps(run.identity))
    (trial.folder / "runs" / run.folder).mkdir()  # emptied by hand
    trial.run({7: run})
    assert calls == [7]
    assert not part.exists()
    assert results.complete(trial.folder / "runs", run)


@pytest.mark.slow
def test_the_same_command_gives_the_same_bytes_on_every_engine(tmp_path):
    done, first = trained(tmp_path / "a")
    _, again = trained(tmp_path / "b")
    _, workers = trained(tmp_path / "c", "--engine", "processes", "--workers", "2")
    assert len(first) == 2
    assert first == again == workers
    assert b"seconds" not in b"".join(first.values())
    assert "seconds" in done["NEXT"][0].history
    assert done["diverging"][0].diverged
    assert "round" in done["diverging"][0].reason
    environment = json.loads(next(iter(files(tmp_path / "c" / "trial", "environment.json").values())))
    assert "workers=2" in environment["engine"]


def test_a_run_s_folder_says_everything(tmp_path):
    done, _ = trained(tmp_path)
    folder = next((tmp_path / "trial" / "runs").glob("next-*"))
    names = {"config.json", "environment.json", "history.csv", "iterates.npz", "outcome.json", "timing.csv"}
    assert {path.name for path in folder.iterdir()} == names
    config = json.loads((folder / "config.json").read_text())
    assert config["settings"] == {"solver": "NEXT"}
    assert config["rounds"] == 60
    assert "PartialLinearization(tau=0.3" in config["solver"]
    assert "widths=" in config["model"] or "MLP" in config["model"]
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["numpy"] == np.__version__
    assert environment["cores"] >= 1
    with np.load(folder / "iterates.npz") as arrays:
        np.testing.assert_array_equal(arrays["w"], done["NEXT"][0].w)
        assert arrays["w"].shape[0] == 5


def test_more_repeats_keep_those_there_are(tmp_path):
    calls = []
    for repeats in ("2", "3"):
        trial = experiment(tmp_path, "--repeats", repeats, "--seed", "4")
        trial.repeat(lambda name, seed: runs(calls, [seed])[seed], ["x"])
    assert calls == [4, 5, 6]


def test_nothing_moves_without_a_terminal(tmp_path, capsys):
    experiment(tmp_path).run(runs([]))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("arguments", "line"), [
    (["--dataset", "tulips"], "error: name must be one of 'diabetes'"),
    (["--agents", "0"], "argument --agents: must be a whole number >= 1; got '0'"),
    (["--repeats", "two"], "argument --repeats/--seeds: must be a whole number >= 1; got 'two'"),
    (["--seed", "-1"], "argument --seed: "),
    (["--rounds", "1.5"], "argument --rounds: must be a whole number >= 1; got '1.5'"),
    (["--engine", "cloud"], "invalid choice: 'cloud'"),
    (["--workers", "2"], "argument --workers: goes with --engine processes, not with stacked"),
    (["--agents", "5000"], "error: agents must be at most the number of samples"),
])  # fmt: skip
def test_wrong_arguments_get_one_clear_line(arguments, line, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        begun(tmp_path, *arguments)
    shown = f"{capsys.readouterr().err}{stopped.value}"
    assert line in shown
    assert stopped.value.code not in (0, None)


def test_an_output_that_is_a_file_is_refused(tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    with pytest.raises(SystemExit):
        begun(tmp_path / "taken")
    assert "argument --output: cannot write to" in capsys.readouterr().err


def test_missing_data_get_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSENSUS_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match=r"error: .*housing\.csv"):
        begun(tmp_path, "--dataset", "boston")
