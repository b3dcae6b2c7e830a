"""Whether two commits give the same histories, to the bit: the demo, every quick experiment, every solver's doctest.

python -m tests.campaign.same BEFORE [AFTER]     names of commits; AFTER is HEAD by default
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "demo": ["-m", "experiments.demo", "--rounds", "50"],
    "quick experiments": ["-m", "experiments", "all", "--quick", "--output", "{output}"],
    "doctests of solvers": ["-m", "pytest", "-q", "-p", "no:cacheprovider", "consensus/solvers"],
}
# Python imports a module of this name at its start, in workers too: every run of that process leaves a line.
HOOK = """
import hashlib, json, os, sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder

def digest(array):
    return hashlib.sha256(repr((array.shape, array.dtype.str)).encode() + array.tobytes()).hexdigest()

def noted(solve):
    def recorded(*args, **options):
        try:
            result = solve(*args, **options)
        except Exception as error:
            if getattr(error, "history", None) is not None:
                note(error.history, None)
            raise
        note(result.history, result.w)
        return result
    return recorded

def note(history, w):
    line = {name: digest(history[name]) for name in history if name != "seconds"}
    if w is not None:
        line["final w"] = digest(w)
    with open(os.path.join(os.environ["RUNS"], f"{os.getpid()}.json"), "a") as file:
        file.write(json.dumps(line) + "\\n")

class Wrapped(Loader):
    def __init__(self, loader):
        self.loader = loader
    def create_module(self, spec):
        return self.loader.create_module(spec)
    def exec_module(self, module):
        self.loader.exec_module(module)
        module.solve = noted(module.solve)

class Finder(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "consensus.solve":
            return None
        spec = PathFinder.find_spec(name, path)
        spec.loader = Wrapped(spec.loader)
        return spec

sys.meta_path.insert(0, Finder())
"""


def runs(commit, folder):
    """What every run of ``commit`` recorded: for each command a list of {column: digest}."""
    tree, hooks = folder / "tree", folder / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "sitecustomize.py").write_text(HOOK)
    subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", tree, commit], check=True)
    found = {}
    try:
        for name, command in COMMANDS.items():
            lines = folder / name
            lines.mkdir()
            environment = os.environ | {"RUNS": str(lines), "PYTHONPATH": f"{hooks}{os.pathsep}{tree}"}
            command = [sys.executable, *(part.format(output=folder / "output") for part in command)]
            subprocess.run(command, cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL)
            found[name] = [json.loads(line) for file in lines.iterdir() for line in file.read_text().splitlines()]
    finally:
        subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)
    return found


def differences(before, after):
    """How many runs of ``before`` have no equal in ``after``, and the other way; columns that are new are left out."""
    names = {name for row in before for name in row}
    old, new = (Counter(json.dumps({k: v for k, v in row.items() if k in names}, sort_keys=True) for row in rows)
                for rows in (before, after))  # fmt: skip
    return (old - new).total(), (new - old).total()


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.same", description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after", nargs="?", default="HEAD")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        before, after = (
            runs(commit, Path(folder, side)) for side, commit in (("before", options.before), ("after", options.after))
        )
    bad = 0
    for name in COMMANDS:
        lost, new = differences(before[name], after[name])
        bad += lost + new
        print(f"{name:20} {len(before[name]):5} runs before {len(after[name]):5} after; without an equal: {lost} and {new}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
