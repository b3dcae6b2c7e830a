"""The core: it knows no addition, runs without them, and stays small enough for one person to hold."""

import ast
import io
import json
import os
import runpy
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import consensus
from tests.helpers.modules import ADDITIONS, CORE, DOORS, MODULES, arrows, definitions, is_addition, is_package, parsed

LINES, FILES = 13_000, 180  # of the core at most, docstrings and comments not counted

RUNS = """
import hashlib, json, sys, warnings
import numpy as np, consensus, topologies
from consensus import solvers
from consensus.engines import Processes
from consensus.surrogates import FullLinearization, PartialLinearization
warnings.simplefilter("error")
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 4))
shards = consensus.partition(X, X @ [1.0, -2.0, 0.5, 3.0] + 0.1 * rng.standard_normal(60), agents=5, seed=0)
loss, ring = consensus.SquaredLoss(), topologies.ring(5)
line = consensus.Problem(consensus.Linear(4), loss, shards, consensus.L2(0.01))
net, sparse = (consensus.Problem(consensus.MLP([4, 3, 1]), loss, shards, r) for r in (consensus.L2(0.01), consensus.L1(0.01)))
found = {}
def run(problem, solver, **options):
    result = consensus.solve(problem, ring, solver, rounds=6, record_every=2, **options)
    columns = {name: result.history[name].tolist() for name in result.history if name != "seconds"}
    found[f"{len(found)} {solver}"] = hashlib.sha256(result.w.tobytes() + json.dumps(columns).encode()).hexdigest()
for name in ("EXTRA", "NIDS", "PGEXTRA", "ExactDiffusion", "ProxGT", "DADMM", "DLM", "ATG", "AutoGT", "DATOS", "KGT", "LED"):
    run(line, getattr(solvers, name)())
run(net, solvers.DGD(0.01, batch=3))
run(net, solvers.GradientTracking(0.01), test=(X[:9], X[:9, 0]), agent_objectives=True, keep="objective", stop="objective <= 0")
run(sparse, solvers.NEXT(PartialLinearization(tau=1.0), 0.1))
run(net, solvers.SONATA(FullLinearization(4.0), 0.1))
run(sparse, solvers.AdaptiveNEXT())
run(net, solvers.Gossip(solvers.GradientTracking(0.01), 2), engine=Processes(2))
consensus.solve(net, ring, solvers.GradientTracking(0.01), rounds=4, checkpoint=sys.argv[1])
run(net, solvers.GradientTracking(0.01), resume=sys.argv[1])
print(json.dumps([found, sorted(sys.modules)]))
"""


def test_it_imports_no_addition():
    graph = arrows()
    found = {(a, b) for a in CORE if a in graph and not is_package(a) for b in graph.successors(a) if is_addition(b)}
    assert found == DOORS


@pytest.fixture(scope="module")
def pruned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("core")
    source = Path(consensus.__file__).parents[1]
    for package in ("consensus", "topologies"):
        shutil.copytree(source / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for room in ADDITIONS:
        here = folder / "consensus" / room
        shutil.rmtree(here) if here.is_dir() else here.with_suffix(".py").unlink()
    return folder


@pytest.mark.slow
def test_it_runs_without_the_additions(pruned, tmp_path):
    """The same bits, and none of the additions is imported where they are."""
    found = []
    for place in (pruned, Path(consensus.__file__).parents[1]):
        command = [sys.executable, "-c", RUNS, str(tmp_path / place.name)]
        environment = {**os.environ, "PYTHONPATH": str(place)}
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        hashes, imported = json.loads(done.stdout)
        found.append(hashes)
        assert [name for name in imported if is_addition(name)] == []
        assert "pandas" not in imported
    assert found[0] == found[1]
    assert len(found[0]) > 15


def code_lines(path):
    """Lines of code, without docstrings and comments."""
    source = path.read_text()
    first = [node.body[0] for node in definitions(parsed(path)) if node.body]
    docs = {
        line
        for node in first
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    empty = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = (token for token in tokenize.generate_tokens(io.StringIO(source).readline) if token.type not in empty)
    return len({line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - docs)


def test_one_person_can_hold_it():
    lines = sum(code_lines(MODULES[module]) for module in CORE)
    assert 0.95 * LINES < lines <= LINES
    assert 0.95 * FILES < len(CORE) <= FILES


def test_the_map_shows_every_addition():
    shown = runpy.run_path(str(Path(__file__).parents[1] / "docs/figures/map.py"))
    plt.close(shown["figure"])
    names = {name for names, _ in shown["ADDITIONS"] for name in names.split()}
    assert names == {*ADDITIONS} - {"centralised"}  # an alias


def test_the_repository_holds_what_it_should_at_its_root():
    """And no files that somebody's trial left there."""
    root = Path(__file__).parents[1]
    if not (root / ".git").exists() or not shutil.which("git"):
        pytest.skip("this is no clone")
    tracked = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    folders = {line.partition("/")[0] for line in tracked if "/" in line}
    assert folders == {".ci", ".github", "consensus", "docs", "experiments", "paper", "tests", "topologies"}
    files = {Path(line).suffix for line in tracked if "/" not in line}
    assert files <= {"", ".cff", ".md", ".py", ".toml", ".txt", ".yaml"}
