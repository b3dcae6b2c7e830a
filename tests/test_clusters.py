"""The scripts of docs/clusters: as its page shows them, and run as they stand, on stubs of SLURM's commands."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import consensus
import topologies
from consensus.checkpoints.checkpoint import read
from consensus.solvers import GradientTracking
from tests.helpers.engine_harness import HERE, environment, own_job, wait_for

DOCS = Path(__file__).parents[1] / "docs"
FILES = sorted((DOCS / "clusters").iterdir())
pytestmark = pytest.mark.xdist_group("clusters")  # one at a time: each has several ranks


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a user has the script, the shards and a batch script."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 10))
    consensus.data.save_shards(consensus.partition(X, np.sin(X.sum(1)), agents=12), tmp_path / "shards")
    for file in FILES:
        (tmp_path / file.name).write_text(file.read_text())
    monkeypatch.chdir(tmp_path)
    with own_job() as job:
        monkeypatch.setenv("CONSENSUS_TEST_JOB", str(job))
        yield tmp_path


def sbatch(*arguments):
    """The stub, which ``communicate``s all that the job prints; python, torchrun and mpiexec are those beside this Python."""
    path = os.pathsep.join([str(HERE / "slurm"), str(Path(sys.executable).parent), os.environ["PATH"]])
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([HERE / "slurm" / "sbatch", "--wait", *arguments], env=environment(PATH=path), **options)


def assert_bits_of_one_process(folder, seed=0):
    problem = consensus.Problem(
        consensus.MLP([10, 20, 1]), consensus.SquaredLoss(), consensus.data.load_shards(folder / "shards"), consensus.L2(1e-3)
    )
    alone = consensus.solve(problem, topologies.torus(3, 4), GradientTracking(0.02), rounds=6_000, seed=seed, record_every=100)
    np.testing.assert_array_equal(consensus.load(folder / f"result-{seed}.npz").w, alone.w)


def test_the_page_shows_every_file_as_it_is():
    page = (DOCS / "clusters.md").read_text()
    shown = dict(re.findall(r"\[`([\w.-]+)`\]\(clusters/\1\):\n\n```\w+\n(.*?)```", page, re.DOTALL))
    assert shown == {file.name: file.read_text() for file in FILES}


@pytest.mark.parametrize("name", [file.name for file in FILES if file.suffix == ".sh"])
def test_batch_scripts_are_bash(name):
    done = subprocess.run(["bash", "-n", DOCS / "clusters" / name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = (DOCS / "clusters" / name).read_text().splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith("#SBATCH"))
    assert all(line.startswith("#") for line in lines[:last]), "SLURM reads no options after the first command"


def test_the_kubernetes_job_is_indexed_with_a_headless_service():
    service, job = yaml.safe_load_all((DOCS / "clusters" / "job.yaml").read_text())
    assert (service["kind"], job["kind"]) == ("Service", "Job")
    name, spec = job["metadata"]["name"], job["spec"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": name}
    pod = spec["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert spec["completionMode"] == "Indexed"
    (container,) = pod["containers"]
    assert f"--nnodes={spec['completions']}" in container["command"]
    assert spec["parallelism"] == spec["completions"]
    assert f"--master-addr={name}-0.{pod['subdomain']}" in container["command"]
    assert [mount["name"] for mount in container["volumeMounts"]] == [volume["name"] for volume in pod["volumes"]]


@pytest.mark.slow
def test_ranks_that_srun_starts_have_the_bits_of_one_process(folder):
    pytest.importorskip("torch")
    job = sbatch("--nodes=1", "--ntasks-per-node=3", "sbatch-srun.sh")
    said, _ = job.communicate(timeout=120)
    assert job.returncode == 0, said
    assert_bits_of_one_process(folder)


@pytest.mark.slow
@pytest.mark.parametrize(("script", "nodes", "options"), [
    ("sbatch-srun.sh", 2, ["--ntasks-per-node=1"]),
    ("sbatch-torchrun.sh", 1, ["--cpus-per-task=2"]),
    ("sbatch-torchrun.sh", 2, ["--cpus-per-task=1"]),
    ("sbatch-mpi.sh", 1, ["--ntasks-per-node=2"]),
])  # fmt: skip
def test_a_job_whose_time_is_over_queues_itself_again_and_has_the_same_bits(script, nodes, options, folder):
    pytest.importorskip("mpi4py" if "mpi" in script else "torch")
    job = sbatch(f"--nodes={nodes}", *options, script)
    wait_for(lambda: (folder / "run-0.ckpt").exists() and read(folder / "run-0.ckpt").round >= 200)
    job.send_signal(signal.SIGUSR1)
    said, _ = job.communicate(timeout=180)
    assert job.returncode == 0, said
    number = int(os.environ["CONSENSUS_TEST_JOB"])
    stopped = int(re.search(r"told to end after round (\d+)", said)[1])
    assert 200 <= stopped < 6_000
    assert re.findall("sbatch: (start .*|exit code .*)", said) == [
        f"start 0 of job {number}",
        f"exit code {1 if 'torchrun' in script else 75}",
        f"start 1 of job {number}",
        "exit code 0",
    ]
    assert_bits_of_one_process(folder)


@pytest.mark.slow
def test_an_array_runs_every_seed_and_queues_one_element_again(folder):
    pytest.importorskip("torch")
    job = sbatch("--array=0-1", "--ntasks-per-node=2", "sbatch-seeds.sh")
    wait_for(lambda: (folder / "run-1.ckpt").exists() and read(folder / "run-1.ckpt").round >= 200)
    job.send_signal(signal.SIGUSR1)
    said, _ = job.communicate(timeout=180)
    assert job.returncode == 0, said
    number = int(os.environ["CONSENSUS_TEST_JOB"])
    assert re.findall("sbatch: start (.*)", said) == [f"0 of job {number}", f"0 of job {number + 1}", f"1 of job {number + 1}"]
    for seed in (0, 1):
        assert_bits_of_one_process(folder, seed)
