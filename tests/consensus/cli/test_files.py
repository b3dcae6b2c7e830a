"""Runs of tables of one's own: every setting of ``datasets.load``, and owners by a column."""

import inspect

import numpy as np
import pandas
import pytest

import consensus
from consensus.cli import ConfigError, run
from consensus.cli.setting import LOAD, setting
from consensus.datasets import load, split
from tests.helpers.settings_files import config

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
