"""Ranks that do not wait for each other: where they end, who holds whom up, and how they fail."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import consensus
from consensus.engines import MPI
from tests.helpers.engine_harness import HERE, KIND, MPICH, MPIEXEC, command, environment, free_port, started, wait_for

SCRIPT = HERE / "async_ranks.py"
MPI_RANKS = pytest.param("mpi", marks=pytest.mark.skipif(not MPIEXEC.exists(), reason="needs mpiexec"))
BOTH, MPI_ALONE = (pytest.mark.parametrize("kind", kinds) for kinds in ([MPI_RANKS, "torch"], [MPI_RANKS]))
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
pytestmark = pytest.mark.slow


def said(ranks, task, folder, kind):
    done = started(kind, ranks, SCRIPT, task, folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ended(ranks, task, folder, kind):
    done = started(kind, ranks, SCRIPT, task, folder)
    assert done.returncode != 0
    assert "never printed" not in done.stdout
    return done.stderr


@BOTH
@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_end_at_the_optimum_and_count_what_they_do(ranks, kind, tmp_path):
    found = said(ranks, "optimum", tmp_path, kind)
    assert found["same"] == 1  # the result and its history, on all ranks
    assert found["error"] < 1e-9
    assert found["own"] < 1e-9
    assert found["reason"].startswith("stationarity and disagreement at most 1e-10")
    history = {name: np.array(column) for name, column in found["history"].items()}
    assert history["round"][0] == history["wakes"][0] == history["clock"][0] == history["lost"][0] == 0
    assert (np.diff(history["clock"]) > 0).all()
    assert (np.diff(history["lost"]) >= 0).all()
    assert (8 * history["round"] <= history["wakes"]).all()
    assert (history["staleness"][1:] > 0).all()
    assert (history["staleness"] <= history["clock"]).all()
    assert (history["wakes"] <= history["messages"]).all()  # two agents send two messages at a wake, the others one
    assert (history["messages"] <= 2 * history["wakes"]).all()
    assert (history["lost"] < history["messages"])[1:].all()
    np.testing.assert_array_equal(history["bytes"], 80 * history["messages"])
    np.testing.assert_allclose(history["gradients"], history["wakes"] / 8)


@MPI_ALONE
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_slow_rank_holds_nobody_up(ranks, kind, tmp_path):
    history = said(ranks, "slow", tmp_path, kind)
    assert history["wakes"][-1] >= 8 * 300
    assert history["clock"][-1] < 0.5 * 300 * 0.1
    assert history["staleness"][-1] > 0.02
    assert history["lost"][-1] > 100  # which it had no time to take


@MPI_ALONE
def test_what_it_cannot_do_is_refused_on_all_ranks(kind, tmp_path):
    everyone = said(3, "refused", tmp_path, kind)
    assert [texts for texts in everyone if len(set(texts)) > 1] == []
    rounds, pairs, adds, saved, own, differ, other, nothing, good = (texts[0] for texts in everyone)
    assert rounds == "TypeError: AsyncMPI runs solvers without rounds, and DGD has rounds: give engine='mpi'"
    assert pairs == "TypeError: ADPSGD needs two agents at once, and AsyncMPI has messages: use Simulated() or AsyncProcesses()"
    assert "alone; OverlapSGP needs more" in adds
    assert saved == "ValueError: AsyncMPI writes and resumes no checkpoints: Simulated() does"
    assert "AsyncMPI measures all agents on the first rank: give each rank the problem of all agents" in own
    assert "they differ in rounds" in differ
    assert "ASYSONATA wakes without rounds" in other
    assert "Simulated(), AsyncProcesses(), AsyncMPI() or AsyncTorch()" in other
    assert (nothing, good) == ("all 0 rounds done", "all 5 rounds done")
    with pytest.raises(ValueError, match=r"strict checks the exchanges of rounds: leave it out with asynchronous=True"):
        MPI(strict=True, asynchronous=True)


@BOTH
def test_an_error_on_one_rank_ends_all_and_names_it(kind, tmp_path):
    text = ended(3, "fails", tmp_path, kind)
    assert "RuntimeError: agent 7 gives up" in text
    assert "rank 2 (agents 5 to 7) failed; the job is aborted. The first rank writes the history" in text
    assert kind == "torch" or text.count("Traceback") == 1  # others see the broken connections, or are ended before
    histories = [*tmp_path.glob("history-of-ASYSONATA-until-round-*.csv")]
    assert len(histories) == 1 or MPICH  # which kills the first rank at once


@MPI_ALONE
def test_divergence_is_an_error(kind, tmp_path):
    assert "DivergenceError" in ended(2, "diverges", tmp_path, kind)


@MPI_ALONE
def test_a_rank_that_never_answers_is_named(kind, tmp_path):
    text = ended(2, "stops", tmp_path, kind)
    assert "WorkerError: rank 1 (agents 4 to 7) did not answer the first rank for over 1.5 s" in text
    assert "raise AsyncMPI(timeout=...)" in text
    assert "rank 0 (agents 0 to 3) failed; the job is aborted. The history of its" in text


@MPI_ALONE
def test_ctrl_c_leaves_the_history(kind, tmp_path):
    job = subprocess.Popen(command(kind, 2, SCRIPT, "endless", tmp_path), env=environment(), start_new_session=True, **PIPES)
    try:
        wait_for((tmp_path / "begun").exists)
    finally:
        os.kill(job.pid, signal.SIGINT)
        out, _ = job.communicate(timeout=60)
    assert job.returncode != 0
    assert "never printed" not in out
    (file,) = tmp_path.glob("history-of-ASYSONATA-until-round-*.csv")
    history = consensus.History.from_csv(file)
    assert history["round"][-1] >= 50
    assert history["wakes"][-1] >= 8 * 50


@pytest.mark.parametrize("killed", [0, 2])
def test_a_rank_that_dies_is_named_by_the_others_which_end(killed, tmp_path):
    """Without torchrun, which would end them."""
    pytest.importorskip("torch")
    with free_port() as port:
        shared = {KIND: "torch", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        run = [sys.executable, SCRIPT, "endless", tmp_path]
        ranks = [subprocess.Popen(run, env=environment(**shared, RANK=str(rank)), **PIPES) for rank in range(3)]
        try:
            wait_for((tmp_path / "begun").exists)
            ranks[killed].kill()
            said = [rank.communicate(timeout=60) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    assert [rank.returncode for rank in ranks] == [-signal.SIGKILL if rank == killed else 1 for rank in range(3)]
    assert "never printed" not in "".join(out for out, _ in said)
    who = "rank 0 (agents 0 to 1)" if killed == 0 else "rank 2 (agents 5 to 7)"
    errors = [text for rank, (_, text) in enumerate(said) if rank != killed]
    assert f"rounds: {who} has ended, or its connection broke" in "".join(errors)  # the other one may see the first of them end
    assert all("WorkerError: after " in text for text in errors)
    assert len([*tmp_path.glob("history-of-ASYSONATA-until-round-*.csv")]) == (killed != 0)  # the first rank writes it
