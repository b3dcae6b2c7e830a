"""The command on ranks that torchrun starts."""

import subprocess
import sys

import numpy as np
import pytest

import consensus
from consensus.cli import run
from tests.helpers.engine_harness import columns, environment
from tests.helpers.settings_files import TEXT, config

pytest.importorskip("torch")


@pytest.mark.slow
def test_ranks_write_what_one_process_writes(tmp_path):
    alone = run(config(tmp_path, TEXT))
    for file in (tmp_path / "out").iterdir():
        file.unlink()
    text = (tmp_path / "run.toml").read_text() + '\n[engine]\nkind = "torch"\ntimeout = 60\n'
    (tmp_path / "run.toml").write_text(text)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*torchrun, "-m", "consensus.cli", "run", str(tmp_path / "run.toml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("The figure is in ") == 1
    for result, name in zip(alone.values(), ("dgd", "two-exchanges"), strict=True):
        np.testing.assert_array_equal(consensus.load(tmp_path / "out" / f"{name}.npz").w, result.w)
        there = columns(consensus.History.from_csv(tmp_path / "out" / f"{name}.csv"))
        for column, values in columns(result.history).items():
            np.testing.assert_array_equal(there[column], values)
