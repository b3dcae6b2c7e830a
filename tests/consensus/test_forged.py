"""Files with a right checksum that another program wrote: they are refused by name, in little time and memory."""

import copy
import json

import numpy as np
import pandas as pd
import pytest

import consensus
import topologies
from consensus.checkpoints import checkpoint, storage

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
