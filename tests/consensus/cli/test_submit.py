"""Runs from files of settings as jobs: on this machine, and by stubs of SLURM's commands."""

import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import consensus
from consensus.checkpoints.checkpoint import read
from consensus.cli import ConfigError, main, run, submit
from tests.helpers.engine_harness import HERE, MARK, environment, living, own_job, wait_for
from tests.helpers.settings_files import TEXT, config

pytestmark = pytest.mark.xdist_group("clusters")  # one at a time: each has several ranks
LONG = TEXT.partition("[[solver]]\nlabel")[0].replace("rounds = 6", "rounds = 3_000\nevery = 100\nrecord_every = 50")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a user has the file; jobs see the packages, and the stubs."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    path = os.pathsep.join([str(HERE / "slurm"), str(Path(sys.executable).parent), os.environ["PATH"]])
    for name, value in environment(PATH=path, **{MARK: str(tmp_path)}).items():
        monkeypatch.setenv(name, value)
    with own_job() as job:
        monkeypatch.setenv("CONSENSUS_TEST_JOB", str(job))
        yield tmp_path
    for process in living(str(tmp_path)):  # none, if all is well
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def assert_bits_of_one_process(folder):
    found = consensus.load(folder / "out" / "dgd.npz").w
    np.testing.assert_array_equal(found, run(config(folder, LONG))["DGD"].w)


def saved(folder):
    path = folder / "out" / "checkpoints" / "dgd.ckpt"
    return path.exists() and read(path).round


@pytest.mark.slow
def test_a_job_on_this_machine_goes_on_where_its_time_was_over(folder):
    found = config(folder, LONG)
    job = submit(found, cluster="local", tasks_per_node=2)
    wait_for(lambda: saved(folder))
    for rank in {*living(str(folder), helpers=False)} - {int(job.job_id)}:
        os.kill(rank, signal.SIGUSR2)  # as submitit does
    wait_for(job.done, 180)
    stopped = int(re.search(r"told to end after round (\d+)", job.paths.stdout.read_text())[1])
    assert 100 <= stopped == saved(folder) < 3_000
    again = submit(found, cluster="local", tasks_per_node=2)
    wait_for(again.done, 180)
    assert " done\n" in again.paths.stdout.read_text()
    assert "(2), node=0(1), global_rank=1(2))" in Path(str(again.paths.stdout).replace("_0_log", "_1_log")).read_text()
    assert_bits_of_one_process(folder)
    with pytest.raises(ConfigError, match=r"dgd\.ckpt is a checkpoint of another run"):
        submit(config(folder, LONG.replace("0.1", "0.2")), cluster="local", tasks_per_node=2)


@pytest.mark.slow
def test_a_job_of_slurm_queues_itself_again_and_has_the_bits_of_one_process(folder, capfd):
    main(["submit", str(config(folder, LONG).path), "--nodes", "2", "--partition", "long", "--time", "240"])
    job = os.environ["CONSENSUS_TEST_JOB"]
    output = folder / "out" / "jobs" / f"{job}_0_log.out"
    assert capfd.readouterr().out == f"job {job}: its output goes to {output}\n"
    script = set((folder / "out" / "jobs" / f"{job}_submission.sh").read_text().splitlines())
    asked = {"nodes=2", "ntasks-per-node=1", "cpus-per-task=1", "time=240", "partition=long", "signal=USR1@120", "requeue"}
    assert {f"#SBATCH --{one}" for one in (*asked, "job-name=run", "open-mode=append")} <= script

    wait_for(lambda: saved(folder))
    os.kill(int((folder / f"job-{job}.pid").read_text()), signal.SIGUSR1)
    wait_for(lambda: "sbatch: exit code 0" in output.read_text(), 180)
    said = output.read_text()
    assert 100 <= int(re.search(r"told to end after round (\d+)", said)[1]) < 3_000
    ends = re.findall("sbatch: (start .*|exit code .*)", said)
    assert ends == [f"start 0 of job {job}", "exit code 75", f"start 1 of job {job}", "exit code 0"]
    assert_bits_of_one_process(folder)


def test_what_cannot_run_is_never_submitted(folder, monkeypatch):
    monkeypatch.setattr("submitit.AutoExecutor.submit", lambda *_: pytest.fail("it was submitted"))
    for text, words in (
        (LONG.replace("DGD", "GDG"), r"line \d+: 'GDG' is no kind for \[solver\]; did you mean DGD\?"),
        (LONG.replace("step_size = 0.1", "step_size = -1"), r"line \d+: .*step_size"),
        (LONG.replace("every = 100", "every = 0"), r"every must be a whole number"),
        ('engine = "prcesses"\n' + LONG, r"'prcesses' is no kind for \[engine\]; did you mean processes\?"),
        (LONG + '\n[engine]\nkind = "torch"\ntimeout = 0\n', r"line \d+: timeout must be"),
        (LONG + '\n[engine]\nkind = "torch"\nworkers = 2\n', r"line \d+: 'workers' is no setting of \[engine\]"),
    ):
        with pytest.raises(ConfigError, match=words):
            submit(config(folder, text))
    with pytest.raises(ConfigError, match=r"line \d+: 8 agents are too few for 10 ranks: submit at most 8"):
        submit(config(folder, LONG), nodes=2, tasks_per_node=5)


def test_what_is_missing_is_named(folder, monkeypatch, capsys):
    path = config(folder, LONG).path
    for arguments, words in (
        (["--nodes", "0"], "nodes must be a whole number >= 1; got 0"),
        (["--time", "4"], "time must be a whole number >= 5; got 4"),
        (["--nodes", "2", "--cluster", "local"], "nodes must be 1 with cluster='local'; got 2"),
    ):
        with pytest.raises(SystemExit, match=f"^error: {re.escape(words)}$"):
            main(["submit", str(path), *arguments])
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(SystemExit, match=r"^error: there are no sbatch and srun on this machine: .* \(--cluster local\)$"):
        main(["submit", str(path)])
    for name in ("sbatch", "srun"):
        (folder / name).write_text("#!/bin/sh\necho Invalid partition name specified >&2\nexit 1\n")
        (folder / name).chmod(0o755)
    with pytest.raises(SystemExit, match=r"^error: sbatch refuses the job: Invalid partition name specified$"):
        main(["submit", str(path), "--partition", "none"])
    monkeypatch.setattr(sys.modules[submit.__module__], "find_spec", lambda name: None)
    with pytest.raises(
        SystemExit, match=r"^error: submitting jobs needs submitit: pip install 'consensus-opt\[slurm,torch\]'$"
    ):
        main(["submit", str(path)])
