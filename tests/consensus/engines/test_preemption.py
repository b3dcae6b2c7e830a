"""Ranks that are told to end write a checkpoint first, and end with an exit code of their own."""

import os
import signal
import subprocess

import pytest

import consensus
from consensus.checkpoints.checkpoint import read as read_checkpoint
from tests.helpers import engine_cases
from tests.helpers.engine_harness import HERE, KIND, assert_same, command, environment, read, wait_for

SCRIPT = HERE / "engine_ranks.py"


def start(kind, folder):
    """A run of 300 rounds on two ranks, and their process ids when it is on its way."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    job = subprocess.Popen(command(kind, 2, SCRIPT, "preempted", folder), env=environment(**{KIND: kind}), **options)
    pids = wait_for(lambda: len(found := sorted(folder.glob("rank-*"))) == 2 and [int(file.read_text()) for file in found])
    wait_for(lambda: (folder / "run.ckpt").exists() and read_checkpoint(folder / "run.ckpt").round)  # 30 at first
    return job, pids


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "rank", "told"), [("mpi", 1, "SIGUSR1"), ("torch", 0, "SIGTERM")])
def test_one_rank_that_is_told_to_end_saves_and_ends_all(kind, rank, told, tmp_path):
    job, pids = start(kind, tmp_path)
    os.kill(pids[rank], getattr(signal, told))
    _, said = job.communicate(timeout=60)
    assert job.returncode == (75 if kind == "mpi" else 1)  # torchrun has one code for all failures, and prints ranks' own
    if kind == "torch":
        assert "exitcode  : 75" in said  # the last one may be on its way out when torchrun ends it
    saved = read_checkpoint(tmp_path / "run.ckpt")
    assert f"told to end after round {saved.round}; go on with solve(..., resume='{tmp_path}/run.ckpt')" in said
    assert 30 < saved.round < 300
    assert saved.round % 20 == 0 or saved.round % 30 == 0
    assert (tmp_path / "run.ckpt.history.csv").exists() == (told == "SIGTERM")  # at once, as there may be no more time

    (tmp_path / "again").touch()
    done = subprocess.run(
        command(kind, 2, SCRIPT, "preempted", tmp_path), env=environment(**{KIND: kind}), timeout=120, check=False
    )
    assert done.returncode == 0
    assert_same(read(tmp_path / "result.npz"), engine_cases.slow(record_every=20, rounds=300).run())


@pytest.mark.slow
def test_torchrun_passes_on_that_the_job_ends(tmp_path):
    job, _ = start("torch", tmp_path)
    before = read_checkpoint(tmp_path / "run.ckpt").round
    job.terminate()
    _, said = job.communicate(timeout=60)
    assert f"told to end after round {read_checkpoint(tmp_path / 'run.ckpt').round}" in said
    assert read_checkpoint(tmp_path / "run.ckpt").round > before
    kept = consensus.History.from_csv(tmp_path / "run.ckpt.history.csv")
    assert kept["round"][-1] >= 20


def test_the_exit_code_is_that_of_temporary_failures(tmp_path):
    error = consensus.Preempted(7, tmp_path / "run.ckpt")
    assert error.code == getattr(os, "EX_TEMPFAIL", 75)
    assert str(error) == f"told to end after round 7; go on with solve(..., resume={str(tmp_path / 'run.ckpt')!r})"
