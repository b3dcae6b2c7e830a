"""Whether two commits give the same histories and iterates, to the bit: the demo and every quick experiment.

python -m tests.campaign.same BEFORE [AFTER]     names of commits; AFTER is HEAD by default
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from consensus import History

ROOT = Path(__file__).parents[2]
COMMANDS = {"demo": ["experiments.demo", "--rounds", "50"], "quick experiments": ["experiments", "all", "--quick"]}


def runs(commit, folder):
    """What every run of ``commit`` left: for each command a list of {column or array: bytes}."""
    tree, found = folder / "tree", {}
    subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", tree, commit], check=True)
    try:
        for name, command in COMMANDS.items():
            output = folder / name
            subprocess.run(
                [sys.executable, "-m", *command, "--output", output], cwd=tree, check=True, stdout=subprocess.DEVNULL
            )
            found[name] = [*map(_columns, output.rglob("history.csv") if name != "demo" else output.glob("*.csv"))]
    finally:
        subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)
    return found


def _columns(path):
    history, arrays = History.from_csv(path), path.with_name("iterates.npz")
    found = {name: history[name].tobytes() for name in history if name != "seconds"}
    return found | ({"final w": np.load(arrays)["w"].tobytes()} if arrays.exists() else {})


def differences(before, after):
    """How many runs of ``before`` have no equal in ``after``, and the other way; columns that are new do not count."""
    names = sorted({name for row in before for name in row})
    old, new = (Counter(tuple(row.get(name) for name in names) for row in rows) for rows in (before, after))
    return (old - new).total(), (new - old).total()


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.same", description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after", nargs="?", default="HEAD")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        before, after = (runs(commit, Path(folder, name)) for name, commit in vars(options).items())
    bad = 0
    for name in COMMANDS:
        lost, new = differences(before[name], after[name])
        bad += lost + new
        print(f"{name:20} {len(before[name]):5} runs before {len(after[name]):5} after; without an equal: {lost} and {new}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
