"""How commands end: exit codes, and what is written before."""

import itertools
import logging
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import consensus
from consensus._arrays import progress as _progress
from consensus.cli import Config, ConfigError, main, run
from consensus.solvers import Gossip
from tests.helpers.settings_files import TEXT, config

DIVERGES = TEXT.replace("step_size = 0.1", "step_size = 1e200")


@pytest.mark.parametrize("folder", ["[]", "1979-05-27", '"taken/x"'])
def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "run.toml").write_text(f"{TEXT}\n[output]\nfolder = {folder}\n")
    monkeypatch.setattr(consensus, "solve", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(ConfigError, match=r"run.toml, line 38: folder must be a"):
        run(Config.read(tmp_path / "run.toml"))
    with pytest.raises(ConfigError, match=r"run.toml: checkpoint must be a folder that can be written, not taken/x: "):
        run(config(tmp_path, TEXT), checkpoint="taken/x")
    with pytest.raises(ConfigError, match=r"none has no checkpoint of DGD, two exchanges: it would be .*dgd\.ckpt"):
        run(config(tmp_path, TEXT), resume=tmp_path / "none")


def test_every_solver_is_checked_before_the_first_runs(tmp_path, monkeypatch):
    solve, rounds = consensus.solve, []
    monkeypatch.setattr(
        consensus, "solve", lambda *args, **options: (rounds.append(options["rounds"]), solve(*args, **options))[1]
    )
    text = TEXT.replace(
        "[[solver]]\nlabel", '[[solver]]\nkind = "AccGT"\nstep_size = 0.1\n\n[[solver]]\nlabel'
    )  # of costs that need not be convex
    with pytest.raises(ConfigError, match=r"run.toml, line 27: .* give the solver a convexity="):
        run(config(tmp_path, text))
    assert rounds == [0, 0]
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.slow
def test_a_stop_rule_and_the_best_point_are_settings_of_a_run(tmp_path):
    text = TEXT.replace("seed = 3", 'seed = 3\nstop = "objective < 0.46"\nkeep = "test_error"')
    results = run(config(tmp_path, text))
    assert [result.reason.split(":")[0] for result in results.values()] == ["objective < 0.46", "objective < 0.46"]
    saved = consensus.load(tmp_path / "out" / "dgd.npz")
    assert saved.best.value == results["DGD"].best.value == results["DGD"].history["test_error"].min()
    for wrong, words in (
        ("objective = 3", "a number, as 'test_error <= 0.08'"),
        ("loss < 3", "column of the history.* got 'loss'"),
    ):
        with pytest.raises(ConfigError, match=rf"run.toml, line \d+: stop must .*{words}"):
            run(config(tmp_path, text.replace("objective < 0.46", wrong)))


@pytest.mark.slow
def test_a_run_that_diverges_has_an_exit_code_and_a_row(tmp_path, capsys):
    found = config(tmp_path, DIVERGES)
    with pytest.raises(SystemExit) as caught:
        main(["run", str(found.path)])
    assert caught.value.code == 3
    out, err = capsys.readouterr()
    ends = dict(re.findall(r"^(DGD|two exchanges) .* (\w+)$", out, flags=re.MULTILINE))
    assert ends == {"DGD": "diverged", "two exchanges": "done"}
    assert re.search(r"^DGD: DGD\(.*\) diverged in round 1: ", err, flags=re.MULTILINE)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "dgd.csv",
        "two-exchanges.csv",
        "two-exchanges.npz",
        "run.png",
    }
    (tmp_path / "alone").mkdir()
    alone = config(tmp_path / "alone", DIVERGES[: DIVERGES.index("[[solver]]\nlabel")])
    with pytest.raises(SystemExit) as caught:  # all that is known is its start, where nothing is positive but U
        main(["run", str(alone.path)])
    assert caught.value.code == 3
    assert consensus.History.from_csv(tmp_path / "alone" / "out" / "dgd.csv").rows == 1
    main(["run", str(config(tmp_path, TEXT).path)])  # all is well: it ends without a code


def test_what_was_computed_before_an_error_is_written(tmp_path, monkeypatch):
    solve = consensus.solve

    def fails_late(problem, network, solver, **options):
        if isinstance(solver, Gossip) and options["rounds"]:
            assert (tmp_path / "out" / "dgd.npz").is_file()  # as soon as the first is done
            options |= {"record_every": 1, "callbacks": [lambda seen: [][seen.round] if seen.round == 4 else None]}
        return solve(problem, network, solver, **options)

    monkeypatch.setattr(consensus, "solve", fails_late)
    with pytest.raises(IndexError):
        run(config(tmp_path, TEXT))
    assert consensus.History.from_csv(tmp_path / "out" / "two-exchanges.csv")["round"].tolist() == [0, 1, 2, 3, 4]
    assert consensus.load(tmp_path / "out" / "dgd.npz").rounds == 6


def test_ctrl_c_before_the_first_row_leaves_nothing(tmp_path, monkeypatch, capsys):
    solve = consensus.solve

    def early(*arguments, **options):
        if options["rounds"]:
            monkeypatch.setattr(consensus.History, "append", ctrl_c)
        return solve(*arguments, **options)

    def ctrl_c(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(consensus, "solve", early)
    with pytest.raises(SystemExit) as caught:
        main(["run", str(config(tmp_path, TEXT).path), "--checkpoint", str(tmp_path / "states")])
    assert caught.value.code == 130
    assert capsys.readouterr().err.splitlines()[-1] == "stopped by the user"  # there is nothing to resume from
    assert not [*(tmp_path / "out").iterdir(), *(tmp_path / "states").iterdir()]


@pytest.mark.slow
def test_ctrl_c_ends_with_130_and_the_run_goes_on_from_its_checkpoints(tmp_path):
    whole = run(config(tmp_path, TEXT))
    text = TEXT.replace("rounds = 6", "rounds = 1_000_000_000\nevery = 1\nrecord_every = 100")
    path, states = config(tmp_path, text).path, tmp_path / "states"
    command = [sys.executable, "-m", "consensus.cli", "run", str(path), "--checkpoint", str(states)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for _ in range(600):
            if (states / "dgd.ckpt").is_file() or process.poll() is not None:
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()  # where the signal is ignored, as under nohup, it would run for ever
    assert process.returncode == 130, err
    assert f"stopped by the user: go on with --resume {states}" in err
    ends = dict(re.findall(r"^(DGD|two exchanges) .* (interrupted|not run)$", out, flags=re.MULTILINE))
    assert ends == {"DGD": "interrupted", "two exchanges": "not run"}
    assert {file.name for file in states.iterdir()} == {"dgd.ckpt"}

    done = consensus.load(tmp_path / "out" / "dgd.npz").rounds
    again = config(tmp_path, text.replace("1_000_000_000", str(done + 5)))
    resumed = run(again, checkpoint=states, resume=states)  # the second solver begins
    np.testing.assert_array_equal(resumed["DGD"].w, run(again)["DGD"].w)
    assert [result.rounds for result in resumed.values()] == [done + 5] * 2
    assert {file.name for file in states.iterdir()} == {"dgd.ckpt", "two-exchanges.ckpt"}
    other = config(tmp_path, text.replace("1_000_000_000", str(done + 5)).replace("exchanges = 2", "exchanges = 3"))
    with pytest.raises(ConfigError, match=r"run.toml, line 32: .*two-exchanges.ckpt is a checkpoint of another run: solver"):
        run(other, resume=states)
    run(again, checkpoint=tmp_path / "out")  # beside the results, which have other names
    assert [result.reason for result in run(again, resume=tmp_path / "out").values()] == [f"all {done + 5} rounds done"] * 2
    assert list(whole) == list(resumed)


def test_without_a_terminal_the_log_is_on_standard_error(tmp_path, capsys, monkeypatch):
    clock = itertools.count(step=20.0)
    monkeypatch.setattr(_progress, "monotonic", lambda: next(clock))
    logger = logging.getLogger("consensus")
    before = logger.level, [*logger.handlers]
    main(["run", str(config(tmp_path, TEXT).path)])
    shown = capsys.readouterr().err.splitlines()
    line = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ (DGD|Gossip): round \d of 6, about \d+ s left; at round \d objective 0\.\d+"
    assert {re.fullmatch(line, one).group(1) for one in shown} == {"DGD", "Gossip"}
    assert (logger.level, logger.handlers) == before
