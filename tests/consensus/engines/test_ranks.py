"""Ranks begin together, wait no longer than they should, and say who is late; what was recorded survives."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import engine_cases
import numpy as np
import pytest
from engine_harness import HERE, MPIEXEC, columns, environment, mpiexec, wait_for

import consensus

ROOT = HERE.parents[1]
SAME = "ValueError: all ranks must call consensus.solve with the same arguments; they differ in "


@pytest.mark.slow
def test_what_differs_between_ranks_is_named_on_all(tmp_path):
    done = mpiexec(3, HERE / "engine_ranks.py", "differ", tmp_path)
    assert done.returncode == 0, done.stderr
    everyone = json.loads(done.stdout)
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
    assert said[14] == "all 6 rounds done"  # what only that rank records may differ
    assert said[15] == f"ValueError: test features must have shape (4,) a sample, as in training; got (2,) {odd}"
    assert said[16] == "all 6 rounds done"
    assert said[17] == SAME + f"seed of the start: 0 on ranks 0, 2 of 3, 1 {odd}"  # though a linear model starts at zero
    assert said[18] == "all 6 rounds done"


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "what"), [(2, "absent"), (3, "elsewhere")])
def test_a_rank_that_never_comes_is_named(ranks, what):
    done = mpiexec(ranks, HERE / "engine_ranks.py", what, ".")
    assert done.returncode != 0
    match = (
        r"WorkerError: at the beginning of consensus\.solve: rank 1 kept the others waiting for over 1\.5 s;.*another engine"
    )
    assert re.search(match, done.stderr)
    assert "rank 0 gave up waiting; the job is aborted" in done.stderr
    warned = [line for line in done.stderr.splitlines() if "UserWarning" in line]
    assert len(warned) == 1
    assert "at the beginning of consensus.solve: rank 1 kept the others waiting for 1 s so far" in warned[0]
    assert "never printed" not in done.stdout


@pytest.mark.slow
def test_a_stopped_rank_is_named_and_ends_the_job(tmp_path):
    done = mpiexec(3, HERE / "engine_ranks.py", "stopped", tmp_path)
    assert done.returncode != 0
    warned = [line for line in done.stderr.splitlines() if "UserWarning" in line]
    assert len(warned) == 1  # by one rank, of the one that is late: not of those which wait themselves
    assert re.search(r"in round \d+: rank 2 \(agents 4 to 6\) kept the others waiting for [12] s so far", warned[0])
    assert re.search(r"WorkerError: in round \d+: rank 2 \(agents 4 to 6\) kept the others waiting for over 2 s", done.stderr)
    assert "resume=path" in done.stderr
    assert "never printed" not in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("slots", [[1, 1], [2, 2], [2, 1, 2]])
def test_the_environment_that_the_docs_name_uses_all_hosts(slots):
    (policy,) = re.findall(r"PRTE_MCA_rmaps_default_mapping_policy=([\w:]+)", (ROOT / "docs/engines.md").read_text())
    hosts = {"ras_simulator_num_nodes": ",".join("1" for _ in slots), "ras_simulator_slots": ",".join(map(str, slots))}
    variables = {f"PRTE_MCA_{key}": value for key, value in (hosts | {"rmaps_default_mapping_policy": policy}).items()}
    command = [MPIEXEC, "--display", "map", "--do-not-launch", "-n", str(sum(slots)), "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment(**variables), check=False)
    assert [int(count) for count in re.findall(r"Num procs: (\d+)", done.stdout)] == slots


@pytest.mark.slow
def test_a_rank_that_comes_back_goes_on():
    done = mpiexec(2, HERE / "engine_ranks.py", "back", ".")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True, True]
    warned = [line for line in done.stderr.splitlines() if "UserWarning" in line]
    assert len(warned) == 1
    assert re.search(r"in round 8: rank 1 \(agents 3 to 6\) kept the others waiting for [12] s so far", warned[0])


@pytest.mark.slow
def test_ranks_that_wait_for_each_other_say_so(tmp_path):
    done = mpiexec(2, HERE / "engine_ranks.py", "together", tmp_path)
    assert done.returncode != 0
    assert "which wait for each other as if they exchanged in different rounds" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 2, None], ids=["first", "last", "ctrl-C"])
def test_the_history_of_a_killed_rank_is_written_by_the_others(killed, tmp_path):
    command = [MPIEXEC, "-n", "3", sys.executable, HERE / "engine_ranks.py", "slowly", tmp_path]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    job = subprocess.Popen(command, env=environment(), start_new_session=True, **pipes)
    pids = wait_for(lambda: len(found := sorted(tmp_path.glob("rank-*"))) == 3 and [int(file.read_text()) for file in found])
    wait_for((tmp_path / "run.ckpt").exists)
    time.sleep(0.5)  # some rounds
    os.kill(*((pids[killed], signal.SIGKILL) if killed is not None else (job.pid, signal.SIGINT)))
    said, _ = job.communicate(timeout=60)  # whether mpiexec passes on what ranks say at their end is left to it
    assert job.returncode != 0
    assert said == ""
    kept = columns(consensus.History.from_csv(tmp_path / "run.ckpt.history.csv"))
    reference = columns(engine_cases.slow(rounds=int(kept["round"][-1]), record_every=1).run().history)
    assert len(kept["round"]) > 3
    for name, column in reference.items():
        np.testing.assert_array_equal(kept[name], column)


@pytest.mark.slow
@pytest.mark.parametrize("saved", [True, False])
def test_the_history_of_a_diverged_run_survives(saved, tmp_path):
    if saved:
        (tmp_path / "save").touch()
    done = mpiexec(2, HERE / "engine_ranks.py", "diverge", tmp_path)
    assert done.returncode != 0
    path = tmp_path / ("run.ckpt.history.csv" if saved else "history-of-Lost-until-round-10.csv")
    assert "rank 1 (agents 3 to 6) failed in round 11; the job is aborted." in done.stderr
    assert "DivergenceError: " in done.stderr
    assert f"The history of its 6 recorded rounds is in {path}" in done.stderr
    reference = engine_cases.slow(rounds=40).run(record_every=2, rounds=10).history
    kept = columns(consensus.History.from_csv(path))
    for name, column in columns(reference).items():
        np.testing.assert_array_equal(kept[name], column)
    lock = ".run.ckpt.lock"  # free, but only the next run removes it
    assert {entry.name for entry in tmp_path.iterdir()} <= {path.name, "save", "run.ckpt", lock}
