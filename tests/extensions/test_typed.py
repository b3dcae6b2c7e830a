"""What the packages say of their types holds for a user, whose script in typed.py is checked strictly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import consensus
from tests.extensions import typed

mypy = pytest.importorskip("mypy")
ROOT, SCRIPT = Path(consensus.__file__).parents[1], Path(typed.__file__)


def checked(paths, folder):
    """mypy's report, with the packages found as installed ones are, by their marker py.typed."""
    command = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--disable-error-code=import-untyped"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([*command, *paths], cwd=folder, env=environment, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.filterwarnings("ignore:Diffusion's theory", "ignore:data far from standardised")
def test_a_typed_script_runs():
    result = typed.main()
    assert result.history["objective"][-1] < result.history["objective"][0]


@pytest.mark.slow
def test_a_typed_script_passes_and_a_wrong_one_does_not(tmp_path):
    text = SCRIPT.read_text()
    (tmp_path / "right.py").write_text(text)
    wrong = text.replace("rounds=20", 'rounds="20"').replace("def vjp(", "def rjp(").replace("def key(", "def no_key(")
    (tmp_path / "wrong.py").write_text(wrong)
    report = checked(["right.py", "wrong.py"], tmp_path)
    for said in ('Argument "rounds" to "solve"', '"Exponential"; expected "Model"', 'variable has type "ScheduleLike"'):
        assert said in report
    assert "Found 3 errors in 1 file (checked 2 source files)" in report
