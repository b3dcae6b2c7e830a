"""Studies from files of settings: what they give, resume, and refuse."""

import json
import re
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import consensus
import topologies
from consensus.cli import Config, ConfigError, main, study
from consensus.cli.log import logged
from consensus.solvers import EXTRA, NEXT
from consensus.surrogates import PartialLinearization

TEXT = """\
[study]
seeds = 2
tuning_seeds = [7]
rounds = 12
measure = "exchanges to objective 10%"
[study.over]
network.graph = ["ring", {kind = "erdos_renyi", probability = 0.6}]
[data]
name = "mine.csv"
target = "y"
agents = 5
[model]
hidden = []
[run]
metrics_on = 3
[[solver]]
kind = "EXTRA"
[[solver]]
label = "tuned"
kind = "NEXT"
step_size = 0.5
surrogate = {kind = "PartialLinearization", tau = {grid = [0.1, 0.2]}}
"""


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).standard_normal((40, 3))
    np.savetxt("mine.csv", rows, delimiter=",", header="a,b,y", comments="")

    def written(text=TEXT, allow=()):
        Path("study.toml").write_text(text)
        return Config.read("study.toml", allow)

    return written


@pytest.mark.slow
def test_a_file_does_what_the_same_lines_of_python_do_and_nothing_twice(read, monkeypatch):
    found = study(read())
    assert found.table().columns.tolist() == ["ring", "erdos_renyi, probability = 0.6"]
    assert found.folder == Path("results/study")
    rows = found.runs().reset_index()
    assert set(rows[rows["for"] == "tuning"]["seed"]) == {7}
    assert {"tau" in text for text in found.grids()["tried"]} == {True}
    data = consensus.datasets.split(consensus.datasets.load("mine.csv", target="y"), seed=1)
    shards = consensus.partition(data.X, data.y, agents=5, seed=1)
    problem = consensus.Problem(consensus.Linear(2), consensus.SquaredLoss(), shards)
    for graph, network in (("ring", topologies.ring(5)), ("erdos", topologies.erdos_renyi(5, 0.6, seed=1))):
        here = rows[rows["network.graph"].str.startswith(graph) & (rows["seed"] == 1)].set_index("solver")
        tau = float(here.loc["tuned", "setting"].partition("surrogate.tau = ")[2])
        for label, solver in (("EXTRA", EXTRA()), ("tuned", NEXT(PartialLinearization(tau), 0.5))):
            wanted = consensus.solve(problem, network, solver, rounds=12, seed=1, metrics_on=3)
            kept = consensus.load(found.folder / "runs" / here.loc[label, "file"])
            np.testing.assert_array_equal(kept.w, wanted.w)
    with monkeypatch.context() as patch:
        patch.setattr("consensus.studies.runs.do", lambda *given: pytest.fail("nothing is to be run"))
        again = study(read("# the same\n\n" + TEXT))
    assert again.table().equals(found.table())
    with pytest.raises(ConfigError, match=r"^study.toml, line 1: folder results/study is that of another study"):
        study(read(TEXT.replace("agents = 5", "agents = 6")))


@pytest.mark.parametrize(("old", "new", "line", "words"), [
    ("seeds = 2", "seeds = [3, 3]", 2, "seeds must differ"),
    ("tuning_seeds = [7]", "tuning_seeds = [1]", 3, "tuning_seeds must be other ones"),
    ("rounds = 12", "rounds = 0", 4, "rounds must be"),
    ("rounds = 12", "", 1, "[study] needs rounds"),
    ('measure = "exchanges to', 'mesure = "exchanges to', 5, "did you mean measure?"),
    ("to objective", "to objektive", 5, "needs the column 'objektive'"),
    ('"ring"', '"rung"', 7, "did you mean ring?"),
    ('["ring", {kind = "erdos_renyi", probability = 0.6}]', '"ring"', 7, "network.graph must be a list of values"),
    ('"ring", {', '"ring", "ring", {', 6, "must have values that differ"),
    ("network.graph", "network.grap", 7, "did you mean graph?"),
    ("network.graph = [", "data.agents.x = [", 7, "data.agents is 5 and no table: vary it as a whole"),
    ("network.graph", "run.every", 7, "'run' is no setting of [study.over]; there are data, model, network"),
    ("[model]", '[network]\ngraph = "ring"\n[model]', 13, "network.graph is both here and in [study.over]"),
    ("metrics_on = 3", "seed = 3", 15, "seed is no setting of [run] in a study: give seeds in [study]"),
    ("metrics_on = 3", "metrics_on = 0", 15, "metrics_on must be"),
    ("grid = [0.1, 0.2]", "grid = [-0.1, 0.2]", 22, "tau must be"),
    ("grid = [0.1, 0.2]", "grid = 0.1", 22, "tau must be a list of the values to try"),
    ("grid = [0.1, 0.2]", "grid = [0.1], most = 3", 22, "'most' is no setting of [solver.surrogate.tau]"),
    ('"EXTRA"', '"DGD"\nbatch = 3', 16, "solver 'DGD' does not fit case 'ring'"),
    ('"EXTRA"', '"mine_of_studies:Mine"', 17, "would run code of mine_of_studies: if you trust it, give --allow"),
    ("[[solver]]", "[[solvers]]", 16, "'solvers' is no table; did you mean solver?"),
    ("target", "label_column", 10, "'label_column' is no setting of [data]"),
])  # fmt: skip
def test_errors_name_the_line_before_any_work(read, old, new, line, words):
    assert old in TEXT
    with pytest.raises(ConfigError) as caught:
        study(read(TEXT.replace(old, new, 1)))
    assert str(caught.value).startswith(f"study.toml, line {line}: ")
    assert words in str(caught.value)
    assert not list(Path().glob("results/study/runs/*"))


@pytest.mark.slow
def test_the_command_takes_classes_of_others_and_the_documented_file(read, tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    Path("mine_of_studies.py").write_text("from consensus.solvers import EXTRA\nclass Mine(EXTRA): pass\n")
    read(TEXT.replace('"EXTRA"', '"mine_of_studies:Mine"'))
    with pytest.raises(SystemExit, match="workers must be a whole number >= 1; got 0"):
        main(["study", "study.toml", "--allow", "mine_of_studies", "--workers", "0"])
    main(["study", "study.toml", "--allow", "mine_of_studies", "--workers", "2", "--live", "--folder", "mine"])
    said = capsys.readouterr().out
    assert re.search(r"^mine_of_studies:Mine .*\[", said, re.MULTILINE)
    assert "The report is mine/report.html" in said
    assert Path("mine/live.png").stat().st_size > 1000
    assert json.loads(Path("mine/study.json").read_text())["over"] == ["network.graph"]
    sys.modules.pop("mine_of_studies", None)
    page = (Path(__file__).parents[3] / "docs" / "command.md").read_text()
    text = next(text for text in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if text.startswith("[study]"))
    text = text.replace("seeds = 10", "seeds = 2").replace("tuning_seeds = 3", "tuning_seeds = 1")
    read(text.replace("rounds = 200", "rounds = 30"))
    main(["study", "study.toml"])
    assert "median [quartiles] of 2 seeds" in capsys.readouterr().out
    assert "erdos_renyi, probability = 0.4" in Path("results/unlike/report.html").read_text()


def test_a_grid_may_be_of_tables_and_of_lists(read):
    steps = 'step_size = {grid = [{kind = "Diminishing", initial = 0.5, decay = 0.01}, 0.3]}'
    found = study(read(TEXT.replace("step_size = 0.5", steps)))
    assert found.grids()["tried"].str.contains("step_size: Diminishing, initial = 0.5, decay = 0.01, 0.3; ").all()
    assert any("Diminishing" in best for best in found.runs()["setting"])


def test_tables_of_a_grid_may_differ_by_little(read):
    steps = 'step_size = {grid = [{kind = "Constant", value = 0.3}, {kind = "Constant", value = 0.30000001}]}'
    found = study(read(TEXT.replace("step_size = 0.5", steps)))
    assert found.grids()["tried"].str.contains("0.30000001").all()


FOREIGN = """
from dataclasses import dataclass
from consensus.solvers import EXTRA

@dataclass(frozen=True)
class Mine(EXTRA):
    pass
"""


@pytest.mark.slow
def test_the_command_finds_classes_in_its_folder(read):
    read(TEXT.replace('kind = "EXTRA"', 'kind = "own_package.own:Mine"'))
    Path("own_package").mkdir()
    Path("own_package/__init__.py").touch()
    Path("own_package/own.py").write_text(FOREIGN)
    command = ["consensus-opt", "study", "study.toml", "--allow", "own_package", "--workers", "2"]
    command[:1] = [sys.executable, "-c", "import sys; sys.path.remove(''); from consensus.cli import main; sys.exit(main())"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Mine" in done.stdout


def test_the_log_says_what_every_case_says_once(read, capsys):
    nx.write_edgelist(nx.relabel_nodes(topologies.ring(5), {0: 4, 4: 0}), "mine.edgelist")
    graph = '{kind = "read_graph", path = "mine.edgelist"}'
    with logged(once=True):
        study(read(TEXT.replace('["ring", {kind = "erdos_renyi", probability = 0.6}]', f"[{graph}]")))
    assert capsys.readouterr().err.count("the nodes of the graph are ordered as numbers") == 1
