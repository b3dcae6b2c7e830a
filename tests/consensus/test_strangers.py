"""Files and names from strangers run nothing, neither in a browser nor in a spreadsheet, and bombs take no memory."""

import copy
import io
import json
import pickle
import zipfile
from xml.etree import ElementTree

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import consensus
import topologies
from consensus import History, plotting
from consensus.checkpoints import checkpoint, storage
from consensus.solvers import DGD
from tests.helpers.broken_files import Evil

matplotlib.use("Agg")
FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1"]
NAMES = ["<script>alert(1)</script>", r"$\frac{1}$", r"\input{/etc/passwd}", "$", "../x", "a & b", *FORMULAS]
PROBLEM = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=3, parameters=1)


def run(**options):
    return consensus.solve(PROBLEM, topologies.ring(3), DGD(0.1), rounds=2, **options)


@pytest.mark.parametrize("name", FORMULAS)
def test_no_column_begins_as_a_formula(name, tmp_path):
    said = "names of columns must not begin with .*, at which spreadsheets begin a formula"
    with pytest.raises(ValueError, match=said):
        run(metrics={name: lambda mean: 1.0})
    with pytest.raises(ValueError, match=said):
        History().append({name: 1.0})
    run().save(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as file:
        arrays = {key: file[key] for key in file if key not in ("about", "checksum")}
        about = json.loads(file["about"].tobytes())
    rows = len(arrays["history.round"])
    storage.write(tmp_path / "forged.npz", arrays | {f"history.{name}": np.arange(float(rows))}, about)
    with pytest.raises(ValueError, match=said):
        consensus.load(tmp_path / "forged.npz")


def test_names_of_agents_are_in_no_cell_by_themselves(tmp_path):
    shards = consensus.Shards.from_list({name: ([[1.0]], [1.0]) for name in FORMULAS})
    problem = consensus.Problem(consensus.Linear(1), consensus.SquaredLoss(), shards)
    history = consensus.solve(problem, topologies.ring(6), DGD(0.1), rounds=1, agent_objectives=True).history
    history.to_csv(tmp_path / "run.csv")
    header = [name for name in history.to_frame() if "cmd" in name or "SUM" in name]
    assert len(header) == 2
    assert all(name.startswith("agent_objective_") for name in header)


@pytest.mark.slow
def test_names_in_figures_are_text():
    history, ring = run().history, topologies.ring(3)
    figures = [
        lambda: plotting.convergence(dict.fromkeys(NAMES, history)),
        lambda: plotting.degrees(dict.fromkeys(NAMES, ring)),
        lambda: plotting.spectrum(dict.fromkeys(NAMES, topologies.Static(ring))),
        *(lambda name=name: plotting.topology(ring, values=[0.0, 1.0, 2.0], label=name) for name in NAMES),
    ]
    for make in figures:
        file = io.StringIO()
        with plt.rc_context({"svg.fonttype": "none"}):  # text as text, which a browser reads
            make().figure.savefig(file, format="svg")
        plt.close("all")
        tags = {one.tag.rpartition("}")[2] for one in ElementTree.fromstring(file.getvalue()).iter()}
        assert "script" not in tags
        assert "a" not in tags


def test_mathematics_in_names_stays(tmp_path):
    ax = plotting.convergence({r"$\tau = 1$": run().history, "5 $": run().history, r"$\frac{1}$": run().history})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [r"$\tau = 1$", r"5 \$", r"\$\frac{1}\$"]


READERS = {
    "result": consensus.load,
    "table": lambda path: consensus.datasets.load(path, target="y"),
    "shards": lambda path: consensus.data.load_shards(path.parent),
    "resume": lambda path: run(resume=path),
}


def stranger(folder, write):
    """A folder of shards whose file of an agent, here read as every kind of file, a stranger wrote."""
    consensus.data.save_shards(consensus.partition(np.eye(4), np.arange(4.0), agents=2), folder)
    write(folder / "agent-0.npz")
    return folder / "agent-0.npz"


@pytest.mark.parametrize("reader", READERS)
def test_a_pickle_in_a_file_is_not_read(reader, tmp_path):
    evil = np.array([Evil(tmp_path / "ran")], dtype=object)
    names = ("features", "targets", "indices", "y", "about", "checksum")
    for write in (
        lambda path: np.savez(path, **dict.fromkeys(names, evil)),
        lambda path: path.write_bytes(pickle.dumps(Evil(tmp_path / "ran"))),
    ):
        path = stranger(tmp_path / reader, write)
        with pytest.raises(ValueError):  # noqa: PT011  # each in its words
            READERS[reader](path)
        assert not (tmp_path / "ran").exists()
        path.unlink()


def bomb(path):
    """An npz file of a few hundred bytes whose arrays are of terabytes by their headers."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("features", "targets", "indices", "X", "y", "about", "checksum"):
            archive.writestr(f"{name}.npy", header.getvalue() + bytes(1000))


@pytest.mark.parametrize("reader", READERS)
def test_a_bomb_is_refused_before_it_takes_memory(reader, tmp_path):
    path = stranger(tmp_path / reader, lambda path: bomb(path))
    with pytest.raises(ValueError):  # noqa: PT011
        READERS[reader](path)


# Files with a right checksum that another program wrote: they are refused by name, in little time and memory.

X = np.random.default_rng(0).standard_normal((8, 2))
ARRAYS = [np.zeros(0), np.zeros(()), np.full(7, np.nan), np.array(["x"]), np.zeros((2, 3, 4)), np.zeros(1, [("a", float)])]
VALUES = [None, 3, -1, 10**30, "x", [], [1], {}, {"x": 1}, [[1, [2]]], True, 1.5]


def saved(kind, path):
    """Write a file of a kind, and return the function that reads it."""
    if kind == "predictor":
        frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "b": pd.Categorical(list("xyxy")), "out": [1.0, 2, 1, 3]})
        owned = consensus.data.own(frame, "out")
        model = consensus.MLP([3, 2, 1])
        consensus.Predictor(model, model.init(np.random.default_rng(0)), owned.pipeline).save(path)
        return consensus.load
    problem = consensus.Problem(consensus.Linear(2), consensus.SquaredLoss(), consensus.partition(X, X[:, 0], 3))
    options = {"checkpoint": path} if kind == "checkpoint" else {}
    result = consensus.solve(problem, topologies.ring(3), consensus.solvers.GradientTracking(0.01), rounds=2, **options)
    if kind == "checkpoint":
        return checkpoint.read
    result.save(path)
    return consensus.load


def places(value, at=()):
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*at, key))


def forgeries(arrays, about):
    """Arrays and descriptions that differ in one place."""
    for name in arrays:
        yield {other: value for other, value in arrays.items() if other != name}, about
        for value in ARRAYS:
            yield arrays | {name: value}, about
    for at in places(about):
        for value in () if at == ("format",) else ("left out", *VALUES):
            changed = copy.deepcopy(about)
            inner = changed
            for key in at[:-1]:
                inner = inner[key]
            if value == "left out":
                del inner[at[-1]]
            else:
                inner[at[-1]] = value
            yield arrays, changed


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["predictor", "result", "checkpoint"])
def test_a_forged_file_is_read_or_refused_by_its_name(kind, tmp_path):
    path = tmp_path / "forged"
    read = saved(kind, path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name not in ("about", "checksum")}
        about = json.loads(file["about"].tobytes())
    for given in forgeries(arrays, about):
        storage.write(path, *given)
        try:
            read(path)
        except ValueError as error:
            assert "forged is no" in str(error)  # noqa: PT017  # others are read
        except TypeError as error:
            assert "forged has the parameters of a model" in str(error)  # noqa: PT017
    storage.write(path, arrays, about)
    read(path)


RESNET = {"features": 1, "width": 1, "layers": 10**9, "outputs": 1, "step": 1.0, "activation": "tanh"}
SIZES = {
    "layers": {"class": "ResNet", "settings": RESNET},
    "widths": {"class": "MLP", "settings": {"widths": [1, 10**9, 1], "activation": "tanh"}},
    "deep": {"class": "MLP", "settings": {"widths": [1] * 1000, "activation": "tanh"}},
}


@pytest.mark.parametrize("name", SIZES)
def test_a_small_file_makes_no_large_model(name, tmp_path):
    path = tmp_path / "forged"
    saved("predictor", path)
    arrays, about = storage.read(path, "predictor", "predictor 2")
    storage.write(path, arrays, about | {"model": about["model"] | SIZES[name]})
    with pytest.raises(ValueError, match=r"forged is no predictor of this package: .*must fit to 11 parameters"):
        consensus.load(path)
