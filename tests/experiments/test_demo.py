"""The demo as its user runs it, and the list of experiments."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import consensus
from experiments.demo import main

ROOT = Path(__file__).parents[2]


def run(module, *arguments):
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return run("experiments.demo", "--rounds", "60", "--agents", "7", "--seed", "2", "--output", str(folder)), folder


@pytest.mark.slow
def test_the_table_compares_four_solvers(demo):
    done, _ = demo
    assert done.returncode == 0, done.stderr
    assert "7 agents" in done.stdout
    lines = done.stdout.splitlines()
    rule = next(number for number, line in enumerate(lines) if line.startswith("----"))
    rows = lines[rule + 1 : rule + 5]
    names = ["NEXT, partial linearization", "NEXT, full linearization", "Gradient tracking", "DGD"]
    assert [row.split("  ")[0] for row in rows] == names
    assert {len(line) for line in lines[rule - 1 : rule + 5]} == {len(lines[rule])}  # aligned
    assert done.stderr == ""  # no progress bar without a terminal


@pytest.mark.slow
def test_the_figure_is_where_it_says_and_the_histories_start_together_and_fall(demo):
    done, folder = demo
    assert str(folder / "demo.png") in done.stdout
    pixels = np.asarray(Image.open(folder / "demo.png").convert("L"))
    assert min(pixels.shape) >= 400
    assert pixels.std() > 10  # not an empty page
    histories = [consensus.History.from_csv(path) for path in sorted(folder.glob("*.csv"))]
    assert len(histories) == 4
    assert len({history["objective"][0] for history in histories}) == 1
    for history in histories:
        assert history["round"][-1] == 60
        assert history["objective"][-1] < 0.5 * history["objective"][0]


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("CONSENSUS_DATA"), reason="CONSENSUS_DATA names no folder of data sets")
@pytest.mark.parametrize("dataset", ["boston", "kin8nm", "wine"])
def test_other_data_sets(dataset, tmp_path):
    done = run("experiments.demo", "--rounds", "3", "--dataset", dataset, "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"training samples of {dataset}" in done.stdout


def test_bad_options_say_what_is_allowed(capsys):
    for options, allowed in ((["--dataset", "no_such_set"], "diabetes"), (["--agents", "0"], "agents")):
        with pytest.raises(SystemExit) as stopped:
            main(options)
        assert stopped.value.code not in (0, None)
        assert allowed in f"{capsys.readouterr().err}{stopped.value}"
