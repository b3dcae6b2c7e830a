"""Classes and files that a file of settings may name: of other packages, and outside of its folder, only if allowed."""

import re
import sys

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from consensus.cli import Config, ConfigError, main

PACKAGE = """
from dataclasses import dataclass
from os import system
from consensus.solvers import DGD
print("imported")
def function(): return DGD(0.1)
@dataclass(frozen=True, repr=False)
class Mine(DGD):
    pass
class Plain:
    def __init__(self, **settings): print("called")
from consensus.losses import SquaredLoss
class MyLoss(SquaredLoss):
    def __init__(self, **settings): print("called")
"""
SETTINGS = """
[data]
name = "owners.csv"
target = "y"
groups = "town"
[model]
hidden = []
[network]
{network}
[[solver]]
kind = "{kind}"
step_size = 0.01
[run]
rounds = 5
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_of_tests").mkdir()
    (tmp_path / "mine_of_tests" / "__init__.py").write_text(PACKAGE)
    nx.write_gml(nx.Graph([("Wien", "Oslo"), ("Oslo", "Rome")]), tmp_path / "towns.gml")
    frame = pd.DataFrame({"town": [*"ORW"] * 6, "x": range(18), "y": [2.0 * k for k in range(18)]})
    frame.replace({"town": {"O": "Oslo", "R": "Rome", "W": "Wien"}}).to_csv(tmp_path / "owners.csv", index=False)
    (tmp_path / "contacts.csv").write_text("time,i,j\n0,Oslo,Rome\n1,Rome,Wien\n2,Wien,Oslo\n")
    yield tmp_path
    sys.modules.pop("mine_of_tests", None)


def run(folder, kind="DGD", network='graph = {kind = "read_graph", path = "towns.gml"}', allow=()):
    (folder / "run.toml").write_text(SETTINGS.format(kind=kind, network=network))
    main(["run", "run.toml", *(part for name in allow for part in ("--allow", name))])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_allowed_class_runs(folder, capsys):
    run(folder, "mine_of_tests:Mine", allow=["mine_of_tests"])
    assert "Mine" in capsys.readouterr().out


@pytest.mark.parametrize(("kind", "allow", "words"), [
    ("mine_of_tests:Mine", [], "would run code of mine_of_tests: if you trust it, give --allow mine_of_tests"),
    ("mine_of_tests:Mine", ["mine"], "would run code of mine_of_tests"),
    ("mine_of_tests:function", ["mine_of_tests"], "must be a class that mine_of_tests defines"),
    ("mine_of_tests:system", ["mine_of_tests"], "must be a class that mine_of_tests defines"),
    ("mine_of_tests:DGD", ["mine_of_tests"], "must be a class that mine_of_tests defines"),
    ("mine_of_tests:Other", ["mine_of_tests"], "must be a class that mine_of_tests defines; got None"),
    ("mine_of_tests.sub:Mine", ["mine_of_tests"], "mine_of_tests.sub cannot be imported"),
    ("os:system", ["os"], "must be a class of a package of yours; os is none"),
    ("subprocess:Popen", ["subprocess"], "must be a class of a package of yours; subprocess is none"),
    ("consensus.engines:Torch", ["consensus"], "must be a class of a package of yours; consensus is none"),
    ("mine_of_tests:Plain", ["mine_of_tests"], "must be derived from a base class of this package"),
    ("mine_of_tests.__main__:Mine", ["mine_of_tests"], "is named as"),
    ("mine_of_tests:MyLoss", ["mine_of_tests"], "must be derived from a base class of this package"),
    ("..mine_of_tests:Mine", ["mine_of_tests"], 'is named as "mypackage.module:Class"'),
    ("mine_of_tests:Mine.__init__", ["mine_of_tests"], "is named as"),
    ("/tmp/x.py:Mine", [], "is named as"),
])  # fmt: skip
def test_what_is_not_allowed_runs_nothing(folder, kind, allow, words, capsys):
    with pytest.raises(SystemExit) as end:
        run(folder, kind, allow=allow)
    assert words in str(end.value)
    printed = capsys.readouterr().out
    assert "called" not in printed
    if not allow:
        assert "imported" not in printed
        assert "mine_of_tests" not in sys.modules


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_trace_is_a_network(folder, capsys):
    run(folder, network='schedule = {kind = "Temporal.from_csv", path = "contacts.csv", window = 1.0}')
    assert "done" in capsys.readouterr().out


@pytest.mark.parametrize("line", ['init_method = "tcp://127.0.0.1:9"', "rank = 1", "size = 2"])
def test_a_file_does_not_say_where_ranks_meet(folder, line):
    network = f'graph = {{kind = "read_graph", path = "towns.gml"}}\n[engine]\nkind = "torch"\n{line}'
    with pytest.raises(SystemExit, match=r"cannot be in a file, .*: start ranks by torchrun, srun or consensus-opt submit"):
        run(folder, network=network)


# A file of settings names no file outside of its folder and the working one, unless the command allows the folder.


X = np.random.default_rng(0).standard_normal((12, 3))
RUN = '[run]\nrounds = 2\n[network]\ngraph = "ring"\n'


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The working folder, that of the file, and one outside, which has a table."""
    for name in ("here", "files", "outside"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "outside"))
    np.savetxt(tmp_path / "outside" / "data.csv", X, delimiter=",", header="a,b,c", comments="")
    (tmp_path / "here" / "link.csv").symlink_to(tmp_path / "outside" / "data.csv")
    (tmp_path / "files" / "linked").symlink_to(tmp_path / "outside")
    return tmp_path


def settings(places, data="data.csv", folder="out"):
    path = places / "files" / "run.toml"
    path.write_text(f'{RUN}[data]\nname = "{data}"\ntarget = "c"\nagents = 3\n[output]\nfolder = "{folder}"\n')
    return path


@pytest.mark.parametrize("outside", [
    {"data": "{}/outside/data.csv"},
    {"data": "../outside/data.csv"},
    {"data": "~/data.csv"},
    {"data": "link.csv"},
    {"folder": "{}/outside/out"},
    {"folder": "../outside"},
    {"folder": "~"},
    {"folder": "../files/linked/out"},
])  # fmt: skip
def test_what_is_outside_is_refused_before_anything_is_read_or_written(places, outside):
    path = settings(places, **{name: text.format(places) for name, text in outside.items()})
    before = sorted(places.rglob("*"))
    with pytest.raises(SystemExit, match=r"error: run\.toml, line \d+: .* is outside of the working folder and of that of"):
        main(["run", str(path)])
    assert sorted(places.rglob("*")) == before
    with pytest.raises(ConfigError) as caught:
        Config.read(path)
    (allowed,) = re.findall("give --allow (.*)", str(caught.value))
    Config.read(path, [allowed])  # the remedy


def test_an_allowed_folder_is_read_and_written(places):
    path = settings(places, "~/data.csv", (places / "outside" / "out").as_posix())
    main(["run", str(path), "--allow", "~"])
    assert (places / "outside" / "out" / "auto.npz").exists()


def test_what_is_inside_is_no_concern(places):
    path = settings(places, "here.csv", (places / "files" / "out").as_posix())
    path.write_text(
        path.read_text() + '[model]\n[[solver]]\nkind = "DGD"\nlabel = "/a/b"\nodd = ["/", "n/a", "", "~nobody-here/x"]\n'
    )
    assert Config.read(path).at(("solver", 0, "label")) == "/a/b"
