"""Scripts that are studies: what is wrong is said in one line, what was done is not done again, and each study has a page."""

import functools

import numpy as np
import pytest

from consensus.solvers import DGD, EXTRA
from consensus.studies import Study
from experiments import network
from experiments.shared.studies import Folder, finished, objective, options

CALLS = []


def square(number):
    CALLS.append(number)
    return np.full(2, float(number**2))


@pytest.mark.parametrize(("arguments", "line"), [
    (["--dataset", "tulips"], "argument --dataset: invalid choice: 'tulips'"),
    (["--agents", "0"], "argument --agents: must be a whole number >= 1; got '0'"),
    (["--seeds", "two"], "argument --seeds: must be a whole number >= 1; got 'two'"),
    (["--rounds", "1.5"], "argument --rounds: must be a whole number >= 1; got '1.5'"),
    (["--workers", "0"], "argument --workers: must be a whole number >= 1; got '0'"),
    (["--agents", "5000"], "error: agents must be at most the number of samples"),
])  # fmt: skip
def test_wrong_arguments_get_one_clear_line(arguments, line, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        network.main(["--quick", "--output", str(tmp_path), *arguments])
    assert line in f"{capsys.readouterr().err}{stopped.value}"
    assert stopped.value.code not in (0, None)


def test_an_output_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(SystemExit, match=r"error: --output: cannot write to .*taken"):
        network.main(["--quick", "--output", str(tmp_path / "taken")])


@pytest.mark.slow
def test_another_study_in_the_same_output_is_refused_in_one_line(tmp_path):
    network.main(["--quick", "--output", str(tmp_path)])
    before = (tmp_path / "network" / "about.json").read_text()
    with pytest.raises(SystemExit, match=r"error: folder .* is that of another study.*--output names another one"):
        network.main(["--quick", "--agents", "5", "--output", str(tmp_path)])
    assert (tmp_path / "network" / "about.json").read_text() == before


def test_missing_data_get_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setenv("CONSENSUS_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match=r"error: .*housing\.csv"):
        network.main(["--quick", "--dataset", "boston", "--output", str(tmp_path)])


def test_kept_values_are_not_made_again(tmp_path):
    for _ in range(2):
        folder = Folder(options("", ["--output", str(tmp_path)]), "trial")
        np.testing.assert_array_equal(folder.kept(square)(3), [9.0, 9.0])
    assert CALLS == [3]
    folder.kept(square)(4)
    assert CALLS == [3, 4]


def test_a_study_has_outcomes_and_a_page(tmp_path):
    given = options("", ["--output", str(tmp_path), "--workers", "1", "--rounds", "10"], {"rounds": 1}, rounds=5)
    made = functools.partial(network.case, agents=5, every=1)
    usual = {"seeds": 2, "measure": objective, "rounds": given.rounds, "folder": tmp_path / "study"}
    study = Study(made, over={"data": ["diabetes"]}, solvers={"EXTRA": EXTRA(), "DGD": DGD(1e40)}, **usual)
    found = finished(study, given)
    assert list(found) == [("diabetes", "EXTRA"), ("diabetes", "DGD")]
    assert [outcome.diverged for outcome in found["diabetes", "EXTRA"]] == [False, False]
    assert all("diverged in round" in outcome.reason for outcome in found["diabetes", "DGD"])
    for seed, outcome in enumerate(found["diabetes", "EXTRA"]):
        assert outcome.problem.digests() == made(seed, "diabetes")[0].digests()
        assert outcome.history["objective"][-1] == pytest.approx(outcome.problem.objective(outcome.w.mean(axis=0)))
    assert "EXTRA" in (tmp_path / "study" / "report.html").read_text()
