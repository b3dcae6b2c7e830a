"""The script of docs/peers.md, run as hospitals run it: four processes, each in a folder with its own table and key."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("grpc")

import consensus
from consensus.peers.roster import Roster
from tests.helpers.loopback import NAMES, written
from tests.helpers.owners import hospitals

PAGE = (Path(__file__).parents[1] / "docs" / "peers.md").read_text()


def test_the_file_of_the_page(tmp_path):
    """It is one of a run: Bergen, whom nobody can reach, calls both its neighbours."""
    written(tmp_path)
    (path := tmp_path / "page.toml").write_text(re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1])
    oslo, bergen = (Roster.read(path, name) for name in ("oslo", "bergen"))
    assert oslo.digest == bergen.digest
    assert oslo.names == list(NAMES)
    assert [oslo.dials(other) for other in oslo.neighbours] == [False, False]
    assert [bergen.dials(other) for other in bergen.neighbours] == [True, True]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["command", "script"])
def test_four_hospitals(tmp_path, how):
    tables = re.search(r"\n( +\[data\]\n.*?)\n\n\*\*3", PAGE, re.DOTALL)[1]
    path, processes = written(tmp_path, more=textwrap.dedent(tables).replace("rounds = 300", "rounds = 20")), []
    script = re.search(r"```py\n(.*?)```", PAGE, re.DOTALL)[1].replace("rounds=300", "rounds=20")
    for name, table in zip(NAMES, hospitals(), strict=True):
        (folder := tmp_path / name).mkdir()
        for file in (path, tmp_path / f"{name}.key", *(tmp_path / f"{other}.pem" for other in NAMES)):
            shutil.copy(file, folder)
        table.drop(columns="outcome").to_csv(folder / "stays.csv", index=False)
        (folder / "hospital.py").write_text(script + "\nresult.save('result.npz')\n")
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        command = ["hospital.py", name] if how == "script" else ["-m", "consensus.cli", "peer", "run.toml", "--me", name]
        command = [sys.executable, *command]
        processes.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True))
    for process in processes:
        assert process.communicate(timeout=100)[0].splitlines()[-1].startswith("all 20 rounds done")
        assert process.returncode == 0
    files = {name: tmp_path / name / "stays.csv" for name in NAMES}
    owned = consensus.data.own(files, target="days", categories=["ward"])
    features = len(owned.pipeline.columns.features)
    problem = consensus.Problem(consensus.MLP([features, 8, 1]), consensus.SquaredLoss(), owned.shards, consensus.L2(1e-3))
    alone = consensus.solve(problem, Roster.read(path, "oslo").network(), rounds=20)
    for name in NAMES:
        place = tmp_path / name / "result.npz" if how == "script" else tmp_path / name / "results" / "run" / f"{name}.npz"
        found = consensus.load(place)
        assert np.array_equal(found.w, alone.w)
        assert np.array_equal(found.history["objective"], alone.history["objective"])
