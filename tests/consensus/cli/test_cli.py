"""Runs from files of settings: what they give, and what they refuse."""

import inspect
import re
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas
import pytest

import consensus
import topologies
from consensus.cli import Config, ConfigError, info, main, run
from consensus.cli.build import GRAPHS, LOSSES, REGULARIZERS, SCHEDULES, SOLVERS, WEIGHTS
from consensus.cli.setting import LOAD, setting
from consensus.datasets import load, split
from consensus.directions import AdamW, Clip
from consensus.solvers import DGD, NEXT, Gossip, GradientTracking
from consensus.step_sizes import Diminishing, TorchSchedule
from consensus.surrogates import PartialLinearization
from tests.helpers.settings_files import TEXT, config
from tests.helpers.turns import with_slow


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    return run(config(folder, TEXT)), folder / "out"


@pytest.mark.slow
def test_a_file_says_what_the_same_lines_of_python_do(done):
    data = consensus.datasets.split(*consensus.datasets.load("diabetes"), seed=3)
    shards = consensus.partition(data.X, data.y, agents=8, scheme="sorted", seed=3)
    problem = consensus.Problem(consensus.MLP([10, 4, 1]), consensus.SquaredLoss(), shards, consensus.L2(1e-2))
    network = topologies.LinkFailure(topologies.Static(topologies.ring(8), weights=topologies.laplacian), 0.2, seed=3)
    solver = Gossip(NEXT(PartialLinearization(1.0), Diminishing(0.5, 0.01)), exchanges=2)
    wanted = consensus.solve(problem, network, solver, rounds=6, seed=3)
    results, _ = done
    assert list(results) == ["DGD", "two exchanges"]
    np.testing.assert_array_equal(results["two exchanges"].w, wanted.w)


@pytest.mark.slow
def test_solvers_take_directions_and_schedules_of_pytorch(tmp_path):
    pytest.importorskip("torch")
    head = TEXT.partition("[[solver]]")[0]
    text = f"""{head}
[[solver]]
kind = "GradientTracking"
step_size = {{kind = "TorchSchedule", scheduler = "ExponentialLR", initial = 0.01, gamma = 0.9}}
direction = {{kind = "Clip", norm = 1.0, direction = {{kind = "AdamW", betas = [0.8, 0.9]}}}}
"""
    found = config(tmp_path, text)
    solver = GradientTracking(TorchSchedule("ExponentialLR", 0.01, gamma=0.9), direction=Clip(1.0, AdamW((0.8, 0.9))))
    built = setting(found, 3)
    wanted = consensus.solve(built.problem, built.network, solver, rounds=6, seed=3)
    np.testing.assert_array_equal(run(found)["GradientTracking"].w, wanted.w)
    with pytest.raises(ConfigError, match="gama"):
        run(config(tmp_path, text.replace("gamma", "gama")))


@pytest.mark.slow
@pytest.mark.parametrize("seed", with_slow([None, 0, 5], None, 0))
def test_one_seed_is_that_of_the_split_the_shards_the_graphs_and_the_start(tmp_path, seed):
    text = TEXT.replace("seed = 3", "" if seed is None else f"seed = {seed}").replace('"sorted"', '"iid"')
    text = text.replace('graph = "ring"', 'graph = {kind = "erdos_renyi", probability = 0.4}')
    seed = seed or 0
    data = consensus.datasets.split(*consensus.datasets.load("diabetes"), seed=seed)
    shards = consensus.partition(data.X, data.y, agents=8, seed=seed)
    network = topologies.Static(topologies.erdos_renyi(8, 0.4, seed=seed), weights=topologies.laplacian)
    network = topologies.LinkFailure(network, 0.2, seed=seed)
    found = config(tmp_path, text)
    built = setting(found, seed)
    np.testing.assert_array_equal(built.test[0], data.X_test)
    np.testing.assert_array_equal(built.problem.shards.indices, shards.indices)
    assert built.network == network
    problem = consensus.Problem(consensus.MLP([10, 4, 1]), consensus.SquaredLoss(), shards, consensus.L2(1e-2))
    wanted = consensus.solve(problem, network, consensus.solvers.DGD(0.1), rounds=6, seed=seed)
    np.testing.assert_array_equal(run(found)["DGD"].w, wanted.w)


@pytest.mark.slow
def test_rows_are_spaced_as_without_a_file_unless_it_says_otherwise(tmp_path):
    rounds = 99
    text = TEXT.replace("rounds = 6", f"rounds = {rounds}")
    found = config(tmp_path, text[: text.index("[[solver]]\nlabel")])
    built, result = setting(found, 3), run(found)["DGD"]
    wanted = consensus.solve(built.problem, built.network, DGD(0.1), rounds=rounds, test=built.test).history["round"]
    assert result.history["round"].tolist() == wanted.tolist()
    assert 4 < len(wanted) < 15
    asked = text.replace("seed = 3", "record_every = 50")
    recorded = run(config(tmp_path, asked[: asked.index("[[solver]]\nlabel")]))["DGD"].history["round"]
    assert recorded.tolist() == sorted({*range(0, rounds, 50), rounds})


def test_histories_and_a_figure_are_written(done):
    results, folder = done
    assert {path.name for path in folder.iterdir()} == {
        *("dgd.csv", "dgd.npz", "two-exchanges.csv", "two-exchanges.npz"),
        "run.png",
    }
    kept = consensus.History.from_csv(folder / "dgd.csv")
    np.testing.assert_array_equal(kept["objective"], results["DGD"].history["objective"])
    np.testing.assert_array_equal(consensus.load(folder / "dgd.npz").w, results["DGD"].w)


@pytest.mark.parametrize(("old", "new", "line", "words"), [
    ("rounds = 6", "rounds = -1", 3, "rounds must be"),
    ("rounds = 6", "", 2, "needs rounds"),
    ('"diabetes"', '"diabets"', 7, "diabets"),
    ("agents = 8", "agents = 0", 8, "agents must be"),
    ('"sorted"', '"sort"', 9, "scheme must be"),
    ("hidden = [4]", "hidden = 4", 12, "list of widths"),
    ("hidden = [4]", "hiden = [4]", 12, "did you mean hidden?"),
    ("hidden = [4]", "hidden = [0]", 11, "must be a whole number >= 1"),
    ('"L2"', '"L3"', 13, "did you mean L2?"),
    ("weight = 1e-2", "weight = -1", 13, "weight"),
    ('"ring"', '"rung"', 16, "did you mean ring?"),
    ('"laplacian"', '"laplace"', 17, "did you mean laplacian?"),
    ("probability = 0.2", "probability = 2", 21, "probability must be"),
    ("probability = 0.2", "", 19, "LinkFailure needs probability"),
    ('kind = "DGD"', 'kind = "DGDD"', 24, "did you mean DGD?"),
    ("step_size = 0.1", "step_size = -0.1", 25, "must be"),
    ("step_size = 0.1", "step_siz = 0.1", 25, "did you mean step_size?"),
    ("exchanges = 2", "exchanges = 0", 30, "exchanges must be"),
    ("decay = 0.01", "decay = 5", 34, "decay"),
    ("tau = 1.0", "tau = -1", 35, "tau must be"),
    ("hidden = [4]", "hidden = [10000000000000]", 23, "parameters, 9.6e+05 GB for each agent"),
    ("[run]", "[runs]", 2, "did you mean run?"),
    ("[[solver]]", "[solver]", 27, "is no TOML"),
    ("rounds = 6", "rounds = 0", 3, "rounds must be a whole number >= 1; got 0"),
    ("rounds = 6", "rounds = [6]", 3, "rounds must be a whole number"),
    ('"two exchanges"', "{}", 28, "label must be a text of one line, such as 'NEXT, tau = 1'; got {}"),
    ('"two exchanges"', "12", 28, "label must be a text"),
    ('"two exchanges"', "1979-05-27", 28, "label must be a text"),
    ('"two exchanges"', '"two\\nlines"', 28, "label must be a text"),
    ('"two exchanges"', '" "', 28, "label must be a text"),
])  # fmt: skip
def test_errors_name_the_line(tmp_path, old, new, line, words):
    with pytest.raises(ConfigError) as caught:
        run(config(tmp_path, TEXT.replace(old, new, 1)))
    message = str(caught.value)
    assert message.startswith(f"run.toml, line {line}: ") or f"(at line {line}, " in message, message
    assert words in message


def test_what_is_no_file_or_no_toml_is_said_by_the_command(tmp_path):
    with pytest.raises(SystemExit, match=r"cannot read .*none.toml"):
        main(["run", str(tmp_path / "none.toml")])
    (tmp_path / "bad.toml").write_text("[run]\nrounds 6\n")
    with pytest.raises(SystemExit, match=r"bad.toml is no TOML: .*line 2"):
        main(["run", str(tmp_path / "bad.toml")])


DEEP = {"lists": "a = " + "[" * 3000 + "]" * 3000, "tables": "a" + ".a" * 3000 + " = 1", "few": "a = " + "[" * 60 + "]" * 60}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_settings_inside_settings_without_end_are_refused(tmp_path, text):
    (tmp_path / "deep.toml").write_text(text)
    with pytest.raises(SystemExit, match=r"^error: deep.toml has more than 50 tables or lists inside each other"):
        main(["run", str(tmp_path / "deep.toml")])


@pytest.mark.slow
def test_labels_that_nearly_agree_get_files_of_their_own(tmp_path):
    labels = ["DGD", "dgd", "dgd ", "d,gd", "DGD-2", "***", "...", "x" * 300, "x" * 299 + "y", "../up", "\N{SNOWMAN}" * 300]
    solvers = "".join(
        f'[[solver]]\nlabel = "{label}"\nkind = "DGD"\nstep_size = 0.{k + 11}\n' for k, label in enumerate(labels)
    )
    found = config(tmp_path, TEXT[: TEXT.index("[[solver]]")].replace("rounds = 6", "rounds = 1") + solvers)
    results = run(found)
    written = {tuple(consensus.load(path).w[0]) for path in (tmp_path / "out").glob("*.npz")}
    assert written == {tuple(result.w[0]) for result in results.values()}
    assert len(written) == len(list((tmp_path / "out").glob("*.csv"))) == len(labels) == len(results)
    assert set(tmp_path.iterdir()) == {tmp_path / "out", tmp_path / "run.toml"}


def test_lines_of_long_texts_and_quoted_keys_are_found(tmp_path):
    text = 'a = """\nb = 1\n"""\n"c d" = [\n  [1],\n]\nb = 2\n[[x.y]]\nz = 1\n[[x.y]]\nz.t = 2  # z = 3\n'
    path = tmp_path / "odd.toml"
    path.write_text(text)
    found = Config.read(path)
    where = {key: found.lines[key] for key in (("c d",), ("x", "y", 0, "z"), ("x", "y", 1, "z", "t"))}
    assert where == {("c d",): 4, ("x", "y", 0, "z"): 9, ("x", "y", 1, "z", "t"): 11}


def test_all_that_users_may_name_is_there():
    assert set(topologies.__all__) & set(GRAPHS) >= {"ring", "grid", "erdos_renyi"}
    assert {"Static", "RandomEdges", "Matchings"} <= set(SCHEDULES)
    assert {"metropolis", "push"} <= set(WEIGHTS)
    assert {"Huber"} <= set(LOSSES)
    assert {"L1", "SCAD"} <= set(REGULARIZERS)
    assert {"NEXT", "EXTRA", "Attack", "SignFlip", "Blocks", "Constant"} <= set(SOLVERS)


def test_the_command_is_installed_under_its_name():
    settings = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    module, _, function = settings["project"]["scripts"]["consensus-opt"].partition(":")
    assert getattr(__import__(module, fromlist=["main"]), function) is main


def test_info_names_what_is_installed(capsys):
    main(["info"])
    lines = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines() if not line.startswith("GPU"))
    assert lines["numpy"].strip() == np.__version__
    assert int(lines["cores"]) >= 1
    assert len({len(line) - len(line.split(None, 1)[1]) for line in info().splitlines() if not line.startswith("GPU")}) == 1


def test_what_reports_of_bugs_ask_for_is_what_the_command_prints(capsys):
    consensus.show_versions()
    assert capsys.readouterr().out == f"{info()}\n"


def test_extras_that_are_named_are_there(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    named = dict(re.findall(r"^([\w-]+) +not installed: pip install '(.*)'$", info(), flags=re.MULTILINE))
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert {"scipy", "mpi4py", "torch", "distributed"} <= named.keys()
    for name, what in named.items():
        extra = what.partition("[")[2].rstrip("]")
        asked = project["optional-dependencies"][extra] if extra else project["dependencies"]
        assert any(re.match(rf"{name}\b", line) for line in asked), (name, what)


def test_the_documented_file_runs(tmp_path):
    text = (Path(__file__).parents[3] / "docs" / "command.md").read_text()
    whole, around, *_ = re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
    for old, new in (
        ("rounds = 200", "rounds = 2"),
        ('"processes"', '"stacked"'),
        ("workers = 2\n", ""),
        ("results/mine", tmp_path.as_posix()),
    ):
        assert old in whole
        whole = whole.replace(old, new)
    whole = re.sub(r"\[network\]\n.*?\n\n", around + "\n", whole, flags=re.DOTALL)
    (tmp_path / "run.toml").write_text(whole)
    found = Config.read(tmp_path / "run.toml")
    assert list(run(found)) == ["NEXT", "GradientTracking"]
    assert "LinkFailure" in repr(setting(found, 0).network)


def test_tables_may_have_categories(tmp_path):
    rows = "".join(f"{k % 7},{'RO'[k % 2]},{k % 3 + 2 * (k % 2)}\n" for k in range(60))
    (tmp_path / "mine.csv").write_text("age,town,days\n" + rows)
    text = TEXT.replace('"diabetes"', f'"{(tmp_path / "mine.csv").as_posix()}"\ntarget = "days"\ncategories = ["town"]')
    assert setting(config(tmp_path, text), 0).problem.model.features == 3
    with pytest.raises(ConfigError, match=r"run.toml, line 9: categories must be a column of .*; got 'city'"):
        setting(config(tmp_path, text.replace('["town"]', '["city"]')), 0)


@pytest.mark.slow
def test_the_table_counts_what_compression_saves_in_megabytes(done, tmp_path, capsys):
    text = TEXT[: TEXT.index("weights =")] + "\n".join(
        f'[[solver]]\nlabel = "{label}"\nkind = "BEER"\nstep_size = 0.01\ngamma = 0.1\ncompressor = {{{compressor}}}\n'
        for label, compressor in (("whole", 'kind = "NoCompression"'), ("4 bits", 'kind = "Quantize", bits = 4'))
    )
    results = run(config(tmp_path, text))
    heads, *rows = [re.split(r" {2,}", line.strip()) for line in capsys.readouterr().out.splitlines() if "  " in line]
    sent = {row[0]: float(row[heads.index("megabytes sent")].replace(",", "")) for row in rows}
    for label, result in results.items():
        assert sent[label] == pytest.approx(result.history["bytes"][-1] / 1e6, abs=5e-4)
    assert sent["4 bits"] < 0.3 * sent["whole"]
    assert "floats" not in " ".join(heads)


TWO = "age,town,ill\n" + "".join(f"{k % 7},{k % 5},{'ny'[k % 7 > 3]}\n" for k in range(60))


def test_losses_of_classes_have_as_many_outputs_as_they_need(tmp_path):
    (tmp_path / "mine.csv").write_text(TWO)
    text = TEXT.replace('"diabetes"', f'"{(tmp_path / "mine.csv").as_posix()}"\ntarget = "ill"')
    for loss, outputs in (("CrossEntropy", 2), ("LogisticLoss", 1)):
        found = config(tmp_path, text.replace("hidden = [4]", f'hidden = [4]\nloss = "{loss}"'))
        assert setting(found, 0).problem.model.outputs == outputs
    numbers = text.replace('"ill"', '"town"\ndrop = ["ill"]').replace("hidden = [4]", 'hidden = [4]\nloss = "CrossEntropy"')
    with pytest.raises(
        ConfigError, match=r"line 15: CrossEntropy is a loss of classes, and .*mine.csv is numbers: classification"
    ):
        setting(config(tmp_path, numbers), 0)
    as_classes = numbers.replace('"town"', '"town"\nclassification = true')
    assert setting(config(tmp_path, as_classes), 0).problem.model.outputs == 5
    with pytest.raises(ConfigError, match="of diabetes is numbers: take a loss of numbers, such as SquaredLoss"):
        setting(config(tmp_path, TEXT.replace("hidden = [4]", 'loss = "LogisticLoss"')), 0)


@pytest.mark.parametrize(("table", "words"), [
    ("[[solver]]", r'line 23: \[\[solver\]\] needs a kind, such as kind = "NEXT"; without any \[\[solver\]\] Auto runs'),
    ('[[solver]]\nlabel = "mine"', r"line 23: \[\[solver\]\] needs a kind"),
    ('[[solver]]\nkind = "NEXT"\nstep_size = {}',
     r"line 25: \[solver.step_size\] must be a kind, or a table with one, .* got {}"),
    ('[[solver]]\nkind = "NEXT"\nsurrogate = {tau = 1}', r"line 25: \[solver.surrogate\] must be a kind"),
])  # fmt: skip
def test_a_table_without_a_kind_is_refused_by_its_name(tmp_path, table, words):
    with pytest.raises(ConfigError, match=words):
        run(config(tmp_path, TEXT[: TEXT.index("[[solver]]")] + table))


# Runs of tables of one's own: every setting of ``datasets.load``, and owners by a column.

RUN = '[run]\nrounds = 3\n[network]\ngraph = "complete"\n[model]\nhidden = []\n[[solver]]\nkind = "DGD"\nstep_size = 0.1\n'
rng = np.random.default_rng(3)
FRAME = pandas.DataFrame(
    {
        "rooms": rng.integers(1, 9, 90),
        "size": rng.normal(80, 20, 90).round(2),
        "kind": np.tile(["flat", "house", "hut"], 30),
        "note": "n",
        "town": np.repeat(["Rome", "Oslo", "Wien"], 30),
        "weight": np.tile([1.0, 2.5], 45),
        "year": np.tile(np.arange(2000, 2030), 3),
        "price": rng.normal(300, 50, 90).round(1),
        "tax": rng.normal(3, 1, 90).round(3),
    }
)
FRAME.loc[[4, 40], "size"] = None


def table(folder, frame=FRAME, name="mine.csv", **settings):
    frame.to_csv(folder / name, index=False, **settings)
    return (folder / name).as_posix()


def read(folder, data):
    return setting(config(folder, f"{RUN}[data]\n{data}"), 0)


def test_all_that_load_takes_is_a_setting():
    assert set(LOAD) == set(inspect.signature(load).parameters) - {"name"}
    assert {"sep", "decimal", "header", "index", "missing", "groups", "weights", "time", "features", "unknown"} <= set(LOAD)


def test_a_table_of_owners_is_read_as_pandas_reads_it(tmp_path):
    path = table(tmp_path, sep=";", decimal=",", encoding="latin-1")
    data = f'name = "{path}"\ntarget = "price"\ncategories = ["kind"]\ndrop = ["note", "tax", "year"]\ndecimal = ","\n'
    data += 'encoding = "latin-1"\nmissing = "mean"\ngroups = "town"\nweights = "weight"\n'
    built = read(tmp_path, data)
    shards = built.problem.shards
    assert built.problem.agents == built.network.agents == 3
    frame = FRAME.assign(**{f"kind={one}": FRAME.kind == one for one in ("flat", "house", "hut")})
    frame = frame[["rooms", "size", "kind=flat", "kind=house", "kind=hut"]].astype(float)
    rows = split(np.arange(90.0)[:, None], np.arange(90.0), seed=0)
    train = np.rint(rows.X_scaler.inverse_transform(rows.X))[:, 0].astype(int)
    filled = frame.fillna(frame.iloc[train].mean())
    wanted = ((filled - filled.iloc[train].mean()) / filled.iloc[train].std(ddof=0)).to_numpy()[train]
    for agent, town in enumerate(["Oslo", "Rome", "Wien"]):  # in sorted order
        own = FRAME.town.to_numpy()[train] == town
        here = shards.weights[agent] > 0
        np.testing.assert_allclose(shards.features[agent, here], wanted[own], rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(shards.weights[agent, here], FRAME.weight.to_numpy()[train][own])


@pytest.mark.parametrize(("data", "check"), [
    ('target = ["price", "tax"]\nfeatures = ["rooms"]\nagents = 4', lambda built: built.problem.model.outputs == 2),
    ('target = "tax"\nfeatures = [0]\ntime = "year"\nagents = 2', lambda built: len(built.test[0]) == 18),
    ('target = "tax"\nfeatures = [0]\ngroups = "town"\nagents = 2', lambda built: built.network.agents == 2),
    ('target = "kind"\nfeatures = ["rooms", "tax"]\nagents = 2', lambda built: built.problem.model.outputs == 3),
    ('target = "tax"\nfeatures = ["rooms", "size"]\nmissing = "drop"\nagents = 2', lambda built: len(built.test[0]) == 18),
    ('target = "tax"\nfeatures = ["size", "price"]\nmissing = "indicator"\nagents = 2\nunknown = "zeros"',
     lambda built: built.problem.model.features == 3),
    ('target = "tax"\nfeatures = ["rooms"]\nindex = "year"\nna_values = [-1]\ncomment = "#"\nagents = 2',
     lambda built: built.problem.model.features == 1),
])  # fmt: skip
def test_settings_reach_the_reader(tmp_path, data, check):
    assert check(read(tmp_path, f'name = "{table(tmp_path)}"\n{data}'))


def test_the_last_rows_in_time_are_the_test_part(tmp_path):
    built = read(tmp_path, f'name = "{table(tmp_path)}"\ntarget = "tax"\nfeatures = ["rooms"]\ntime = "year"\nagents = 2')
    late = FRAME.year.to_numpy() >= 2024
    y = FRAME.tax.to_numpy()
    wanted = (y[late] - y[~late].mean()) / y[~late].std()
    np.testing.assert_allclose(built.test[1], wanted, rtol=1e-12)


@pytest.mark.parametrize(("header", "names"), [("false", [0, 1, 2]), ('["a", "b", "c"]', ["a", "b", "c"])])
def test_a_file_without_a_header(tmp_path, header, names):
    rows = rng.normal(size=(20, 3)).round(3)
    np.savetxt(tmp_path / "plain.data", rows, "%.3f", "|")
    target = names[2] if isinstance(names[2], int) else f'"{names[2]}"'
    path = (tmp_path / "plain.data").as_posix()
    built = read(tmp_path, f'name = "{path}"\nheader = {header}\nsep = "|"\ntarget = {target}\nagents = 2')
    assert built.problem.shards.sizes.sum() + len(built.test[0]) == 20


@pytest.mark.parametrize(("data", "line", "words"), [
    ('target = "price"\nagents = 2\ndecimals = ","', 14, "did you mean decimal"),
    ('target = "price"\nagents = 2\ndecimal = 3', 14, "decimal must be one character"),
    ('target = "price"\nagents = 2\nmissing = "mode"', 14, "missing must be one of"),
    ('target = "price"\nagents = 2\ngroups = "city"', 14, "groups must be a column of"),
    ('target = "price"\nagents = 9\nfeatures = ["rooms"]\ngroups = "town"', 13, "at most the number of groups, 3"),
    ('target = "price"', 10, r"\[data\] needs agents, their number, or groups"),
    ('target = "price"\nfeatures = ["rooms"]\nagents = 2\nby = "time"', 15, "by='time' needs time="),
    ('target = "price"\nfeatures = ["size"]\nagents = 2', None, "missing"),
])  # fmt: skip
def test_errors_name_the_line_of_the_setting(tmp_path, data, line, words):
    path = table(tmp_path)
    with pytest.raises(ConfigError, match=words) as caught:
        read(tmp_path, f'name = "{path}"\n{data}')
    assert line is None or str(caught.value).startswith(f"run.toml, line {line}: ")


def test_a_table_of_owners_runs(tmp_path, capsys):
    data = f'[data]\nname = "{table(tmp_path)}"\ntarget = "price"\nfeatures = ["rooms"]\ngroups = "town"\n'
    result = run(config(tmp_path, RUN + data))["DGD"]
    assert result.w.shape == (3, 2)
    assert "3 agents, 72 training samples of " in capsys.readouterr().out
    assert consensus.load(tmp_path / "out" / "dgd.npz").rounds == 3
