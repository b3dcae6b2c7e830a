"""Ranks begin together, wait no longer than they should, and say who is late; what was recorded survives."""

import json
import os
import re
import signal
import subprocess
import time

import numpy as np
import pytest

import consensus
from tests.helpers import engine_cases
from tests.helpers.engine_harness import HERE, KIND, MPIEXEC, columns, command, ended, environment, on_ranks, started, wait_for

ROOT = HERE.parents[1]
SAME = "ValueError: all ranks must call consensus.solve with the same arguments; they differ in "


def warned(said):
    """The one warning among the lines, but for that of torchrun's store."""
    (line,) = [line for line in said.splitlines() if "UserWarning" in line and "store listens" not in line]
    return line


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mpi", "torch"])
def test_what_differs_between_ranks_is_named_on_all(kind, tmp_path):
    everyone = on_ranks(3, "differ", tmp_path, kind)
    assert [said for said in everyone if len(set(said)) > 1] == []
    said = [texts[0] for texts in everyone]
    odd = "on rank 1 of 3"
    assert said[0] == SAME + f"rounds: 6 on ranks 0, 2 of 3, 7 {odd}"
    assert said[1] == SAME + f"checkpoint: None on ranks 0, 2 of 3, {tmp_path / 'run.ckpt'} {odd}"
    assert said[2] == SAME + f"record_every: 2 on ranks 0, 2 of 3, 3 {odd}; every: 3 on ranks 0, 2 of 3, 4 {odd}"
    assert said[3] == SAME + f"gather: True on ranks 0, 2 of 3, False {odd}"
    assert re.fullmatch(SAME + r"start: \w+ on rank 0 of 3, \w+ on rank 1 of 3, \w+ on rank 2 of 3", said[4])
    assert re.fullmatch(
        SAME + r"solver: DGD\(.*0\.01.*\) \[\w+\] on ranks 0, 2 of 3, DGD\(.*0\.02.*\) \[\w+\] on rank 1 of 3", said[5]
    )
    assert "network: " in said[6]
    assert "mixing matrices: " in said[6]
    assert re.match(SAME + r"data: \w+ on rank 0 of 3, \w+ on rank 1 of 3", said[7])
    assert said[8].endswith(f"problem: of all agents on ranks 0, 2 of 3, of its own agents {odd}")
    assert said[9] == f"ValueError: rounds must be a whole number >= 0; got -1 {odd}"
    assert said[10] == "ValueError: rounds must be a whole number >= 0; got -1"
    assert said[11].count("rounds must be") == 3
    assert said[12].startswith("TypeError: network must be a schedule or a networkx graph")
    assert said[12].endswith(odd)
    assert said[13] == f"RuntimeError: KeyError: 'colour' {odd}"
    assert said[14] == SAME + f"test: None on ranks 0, 2 of 3, a test set {odd}"
    assert said[15] == f"ValueError: test features must have shape (4,) a sample, as in training; got (2,) {odd}"
    assert said[16] == "all 6 rounds done"
    assert said[17] == SAME + f"seed of the start: 0 on ranks 0, 2 of 3, 1 {odd}"  # though a linear model starts at zero
    assert said[18] == "all 6 rounds done"


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "what"), [(2, "absent"), (3, "elsewhere")])
def test_a_rank_that_never_comes_is_named(ranks, what):
    said = ended(ranks, what, ".")
    # On a busy machine rank 2, too, may come after more than a second.
    late = r"at the beginning of consensus\.solve: rank 1(, rank 2)? kept the others waiting for "
    assert re.search(f"WorkerError: {late}" + r"over 1\.5 s;.*another engine", said)
    assert said.count("gave up waiting; the job is aborted") == 1  # one says it for all
    assert "rank 0 gave up waiting" in said
    for line in said.splitlines():  # a rank that gets no time warns late or not at all: it gives up at once
        assert "UserWarning" not in line or "store listens" in line or re.search(late + r"1 s so far", line)


@pytest.mark.slow
def test_a_stopped_rank_is_named_and_ends_the_job(tmp_path):
    said = ended(3, "stopped", tmp_path)
    late = r"in round \d+: rank 2 \(agents 4 to 6\) kept the others waiting for "  # not those which wait themselves
    assert re.search(late + "[12] s so far", warned(said))
    assert re.search("WorkerError: " + late + "over 2 s", said)
    assert "resume=path" in said


@pytest.mark.slow
@pytest.mark.parametrize("slots", [[1, 1], [2, 2], [2, 1, 2]])
def test_the_environment_that_the_docs_name_uses_all_hosts(slots):
    (policy,) = re.findall(r"PRTE_MCA_rmaps_default_mapping_policy=([\w:]+)", (ROOT / "docs/engines.md").read_text())
    hosts = {"ras_simulator_num_nodes": ",".join("1" for _ in slots), "ras_simulator_slots": ",".join(map(str, slots))}
    variables = {f"PRTE_MCA_{key}": value for key, value in (hosts | {"rmaps_default_mapping_policy": policy}).items()}
    shown = [MPIEXEC, "--display", "map", "--do-not-launch", "-n", str(sum(slots)), "true"]
    done = subprocess.run(shown, capture_output=True, text=True, timeout=60, env=environment(**variables), check=False)
    assert [int(count) for count in re.findall(r"Num procs: (\d+)", done.stdout)] == slots


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mpi", "torch"])
def test_a_rank_that_comes_back_goes_on(kind):
    done = started(kind, 2, HERE / "engine_ranks.py", "back", ".")
    assert (done.returncode, json.loads(done.stdout)) == (0, [True, True])
    assert re.search(r"in round 8: rank 1 \(agents 3 to 6\) kept the others waiting for [12] s so far", warned(done.stderr))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mpi", "torch"])
def test_ranks_that_wait_for_each_other_say_so(kind, tmp_path):
    said = ended(2, "together", tmp_path, kind)
    assert "which wait for each other as if they exchanged in different rounds" in said


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "killed"), [("mpi", 0), ("mpi", None), ("torch", 2), ("torch", None)])  # None: ctrl-C of all
def test_the_history_of_a_killed_rank_is_written_by_the_others(kind, killed, tmp_path):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    job = subprocess.Popen(
        command(kind, 3, HERE / "engine_ranks.py", "slowly", tmp_path), env=environment(**{KIND: kind}), **pipes
    )
    pids = wait_for(lambda: len(found := sorted(tmp_path.glob("rank-*"))) == 3 and [int(file.read_text()) for file in found])
    wait_for((tmp_path / "run.ckpt").exists)
    time.sleep(0.5)  # some rounds
    os.kill(*((pids[killed], signal.SIGKILL) if killed is not None else (job.pid, signal.SIGINT)))
    said, _ = job.communicate(timeout=60)  # whether what ranks say at their end is passed on is left to what started them
    assert job.returncode != 0
    assert said == ""
    kept = columns(consensus.History.from_csv(tmp_path / "run.ckpt.history.csv"))
    reference = columns(engine_cases.slow(rounds=int(kept["round"][-1]), record_every=1).run().history)
    assert len(kept["round"]) > 3
    for name, column in reference.items():
        np.testing.assert_array_equal(kept[name], column)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "saved"), [("mpi", True), ("mpi", False), ("torch", True)])
def test_the_history_of_a_diverged_run_survives(kind, saved, tmp_path):
    if saved:
        (tmp_path / "save").touch()
    said = ended(2, "diverge", tmp_path, kind)
    path = tmp_path / ("run.ckpt.history.csv" if saved else "history-of-Lost-until-round-10.csv")
    assert "rank 1 (agents 3 to 6) failed in round 11; the job is aborted." in said
    assert "DivergenceError: " in said
    assert f"The history of its 6 recorded rounds is in {path}" in said
    reference = engine_cases.slow(rounds=40).run(record_every=2, rounds=10).history
    kept = columns(consensus.History.from_csv(path))
    for name, column in columns(reference).items():
        np.testing.assert_array_equal(kept[name], column)
    lock = ".run.ckpt.lock"  # free, but only the next run removes it
    parts = {entry.name for entry in tmp_path.glob("run.ckpt.*.?-of-2")}
    assert len(parts) == 2 * saved
    assert {entry.name for entry in tmp_path.iterdir()} <= {path.name, "save", "run.ckpt", lock, *parts}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "ranks", "where"),
    [("mpi", 2, "rank 1 (agents 3 to 6)"), ("torch", 3, "rank 2 (agents 4 to 6)")],
)
def test_an_exception_on_one_rank_ends_the_job(kind, ranks, where, mark, tmp_path):
    begin = time.monotonic()
    said = ended(ranks, "fail", tmp_path, kind)
    assert time.monotonic() - begin < 120
    assert f"{where} failed in round 4; the job is aborted." in said
    assert "resume=path" in said
    assert "raise Trouble(5, state.round)" in said
    assert "Trouble: agent 5 gives up after round 3" in said
    assert said.count("Traceback") == 1 or kind == "torch"  # where others say, perhaps, that this rank ended the job


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mpi", "torch"])
def test_arguments_refused_on_one_rank_are_refused_on_all(kind, mark, tmp_path):
    (tmp_path / "nonsense").write_text("nonsense")
    engine_cases.special()["tolerance"].run(rounds=2, checkpoint=tmp_path / "other")
    everyone = on_ranks(4, "refuse", tmp_path, kind)
    assert [said for said in everyone if len(set(said)) > 1] == []
    few, nobody, one, nonsense, absent, other, unknown, good = (texts[0] for texts in everyone)
    assert re.match("ValueError: 3 agents are too few for 4 ranks.*start at most 3 ranks", few)
    name = {"mpi": "MPI", "torch": "Torch"}[kind]
    for rank, held in enumerate(["0 to 0", "1 to 2", "3 to 4", "5 to 6"]):
        said = f"it holds the agents {held}, but its problem has [3, 4]: load those of {name}().rows(7) on rank {rank} of 4"
        assert (said in nobody) == (rank != 2)  # whose they are
        assert (said in one) == (rank == 1)
    assert "nonsense is no checkpoint of this package" in nonsense
    assert absent.startswith("FileNotFoundError")
    assert "other is a checkpoint of another run: solver: " in other
    assert "has no known Lipschitz constants of its gradients: give the solver a step_size=" in unknown
    assert good == "all 3 rounds done"
