"""The script of docs/owners.md: as the page shows it, and run as hospitals run it, each in its own folder."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import consensus
from tests.helpers import owners
from tests.helpers.engine_harness import MPIEXEC, environment, free_port

DOCS = Path(__file__).parents[1] / "docs"
SCRIPT = DOCS / "owners" / "hospital.py"


def test_the_page_shows_the_script_as_it_is():
    shown = re.findall(
        r"\[`hospital.py`\]\(owners/hospital.py\):\n\n```py\n(.*?)```", (DOCS / "owners.md").read_text(), re.DOTALL
    )
    assert shown == [SCRIPT.read_text()]


def ended(jobs):
    said = [job.communicate(timeout=180) for job in jobs]
    assert [job.returncode for job in jobs] == [0] * len(jobs), said
    return said[0][0]


def started(command, folder, **more):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(list(map(str, command)), cwd=folder, env=environment(**more), **options)


@pytest.mark.slow
def test_hospitals_in_their_own_folders_get_the_bits_of_the_rehearsal(tmp_path):
    files = owners.write(tmp_path)
    folders = [file.parent for file in files]
    said = ended([started([sys.executable, SCRIPT, "rehearsal", *files], tmp_path)])
    assert "4 owners agree in this process: nothing leaves it" in said
    rehearsed = consensus.load(tmp_path / "result.npz")
    table = owners.hospitals()[2].drop(columns="outcome")
    predicted = consensus.load(tmp_path / "days.predictor").predict(table)
    assert np.sqrt(np.square(predicted - table.days).mean()) < 0.7, "the noise has a deviation of 0.5"
    assert (tmp_path / "convergence.png").stat().st_size > 5000
    assert rehearsed.best.value < 0.3 * rehearsed.history["test_error"][0]

    with free_port() as port:
        assert_owners_agree(tmp_path, folders, rehearsed, table, predicted, port)


def assert_owners_agree(tmp_path, folders, rehearsed, table, predicted, port):
    """On ranks, one for each owner in a folder of its own: results and predictions as in the rehearsal."""
    for kind in ("torch", "mpi"):
        if kind == "torch":
            pytest.importorskip("torch")
            begin = [sys.executable, "-m", "torch.distributed.run", "--nnodes", 4, "--nproc-per-node", 1]
            begin += ["--master-addr", "127.0.0.1", "--master-port", port, "--node-rank"]
            lines = [[*begin, rank, SCRIPT, "torch", "stays.csv"] for rank in range(4)]
            said = ended([started(line, folder, GLOO_SOCKET_IFNAME="lo") for line, folder in zip(lines, folders, strict=True)])
        else:
            parts = [["-n", 1, "--wdir", folder, sys.executable, SCRIPT, "mpi", "stays.csv"] for folder in folders]
            said = ended([started([MPIEXEC, *parts[0], *(word for part in parts[1:] for word in (":", *part))], tmp_path)])
        assert "consensus.data.own sends to all other owners" in said
        np.testing.assert_array_equal(consensus.load(folders[0] / "result.npz").w, rehearsed.w)
        assert not [folder for folder in folders[1:] if (folder / "result.npz").exists()]
        (folders[0] / "result.npz").unlink()
        for folder in folders:
            np.testing.assert_array_equal(consensus.load(folder / "days.predictor").predict(table), predicted)
            (folder / "days.predictor").unlink()
