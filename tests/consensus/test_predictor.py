"""Predictors: one file, read in a new process, that predicts as the model did where it was trained."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import consensus
import topologies
from consensus.checkpoints import storage
from consensus.data import Pipeline, own
from consensus.estimators import NetworkClassifier, NetworkRegressor
from consensus.solvers import TreeNewton
from tests.helpers import owners
from tests.helpers.engine_harness import environment

FAR = pd.DataFrame({"site": 1, "ward": ["C", "A"], "smokes": [0, 1], "pressure": [10_100.0, 10_150.0], "age": [33, 71]})


@pytest.fixture(scope="module")
def trained():
    """By run: what owners agreed on, and their result."""
    found = {}
    for run in owners.RUNS:
        tables = [table.drop(columns="days" if run == "classes" else "outcome") for table in owners.hospitals()]
        owned = own(tables, "outcome" if run == "classes" else "days", categories=["ward"])
        found[run] = owned, owners.solved(owned, run)
    return found


@pytest.mark.parametrize("run", owners.RUNS)
def test_a_file_predicts_as_the_model_did(run, trained, tmp_path):
    owned, result = trained[run]
    predictor = result.predictor(owned.pipeline)
    predictor.save(tmp_path / "days.predictor")
    again = consensus.load(tmp_path / "days.predictor")
    assert repr(again.model) == repr(result.model)
    assert (again.columns, again.classes, again.pipeline.target) == (
        predictor.columns,
        predictor.classes,
        owned.pipeline.target,
    )
    np.testing.assert_array_equal(again.w, result.mean)
    np.testing.assert_array_equal(again.predict(FAR), predictor.predict(FAR))
    outputs = result.model.predict(result.mean, owned.pipeline.transform(FAR))
    if run == "classes":
        np.testing.assert_array_equal(again.predict_proba(FAR)[:, 1], expit(outputs[:, 0]))
        np.testing.assert_allclose(again.predict_proba(FAR).sum(axis=1), 1, rtol=1e-15)
        assert again.predict(FAR).tolist() == [again.classes[int(logit > 0)] for logit in outputs[:, 0]]
    else:
        np.testing.assert_array_equal(again.predict(FAR), owned.pipeline.shift + owned.pipeline.spread * outputs[:, 0])
        with pytest.raises(TypeError, match="predict_proba needs classes; the target of this predictor is numbers"):
            again.predict_proba(FAR)
    with np.load(tmp_path / "days.predictor", allow_pickle=False) as file:
        assert not any(file[name].dtype.hasobject for name in file.files)


def test_ridge_predicts_as_scikit_learn_on_the_pooled_table(trained, tmp_path):
    """With the bias penalised in the units of the target, by a column of ones of a hand-made design."""
    owned, _ = trained["ridge"]
    result = owners.solved(owned, "ridge", tolerance=1e-14)
    frame = pd.concat(owners.hospitals())
    numbers = ["age", "pressure", "smokes", "site"]
    scaled = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough"), StandardScaler(with_std=True)
    )
    X, y = scaled.fit_transform(frame[["ward", *numbers]]), frame.days.to_numpy()
    units = StandardScaler().fit(y[:, None])
    there = Ridge(alpha=owners.RIDGE * len(X), solver="svd").fit(X, units.transform(y[:, None])[:, 0])
    new = units.inverse_transform(there.predict(scaled.transform(FAR[["ward", *numbers]]))[:, None])[:, 0]
    np.testing.assert_allclose(result.predictor(owned.pipeline).predict(FAR), new, rtol=1e-11)


NEW = """
import json, sys
import consensus
predictor = consensus.load(sys.argv[1])
print(json.dumps([predictor.predict(sys.argv[2]).tolist(), predictor.score(sys.argv[3]), "torch" in sys.modules]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("run", ["mlp", "classes"])
def test_a_new_process_reads_the_file_and_a_table(run, trained, tmp_path):
    owned, result = trained[run]
    predictor = result.predictor(owned.pipeline)
    predictor.save(tmp_path / "days.predictor")
    FAR.to_csv(tmp_path / "far.csv", index=False)
    table = owners.hospitals()[0].drop(columns="days" if run == "classes" else "outcome")
    table.to_csv(tmp_path / "known.csv", index=False)
    paths = [str(tmp_path / name) for name in ("days.predictor", "far.csv", "known.csv")]
    done = subprocess.run(
        [sys.executable, "-c", NEW, *paths], capture_output=True, text=True, check=True, env=environment(), cwd=tmp_path
    )
    predicted, score, torch = json.loads(done.stdout)
    assert predicted == predictor.predict(FAR).tolist()
    assert score == predictor.score(table)
    assert not torch
    if run == "classes":
        assert score == (predictor.predict(table) == table.outcome).mean()
    else:
        residual = table.days - predictor.predict(table)
        assert score == pytest.approx(1 - (residual**2).sum() / ((table.days - table.days.mean()) ** 2).sum(), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("frame", [True, False])
def test_estimators_predict_as_their_predictor(frame, tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((60, 3)), columns=["a", "b", "c"])
    if frame:
        X["ward"] = pd.Categorical(rng.choice(["A", "B", "C"], 60))
    y = np.sin(X.a) + X.b**2
    X = X if frame else X.to_numpy()
    settings = {"agents": 4, "network": "ring", "random_state": 0, "max_iter": 20, "tol": 1.0}
    kinds = np.where(y > 1, "high", np.where(y > 0, "middle", "low"))
    for estimator, targets in (
        (NetworkRegressor(**settings), y),
        (NetworkRegressor((), **settings), np.column_stack([y, -y])),
        (NetworkClassifier(**settings), kinds),
        (NetworkClassifier((), **settings), kinds == "high"),
    ):
        estimator.fit(X, targets)
        estimator.predictor().save(tmp_path / "estimator")
        again = consensus.load(tmp_path / "estimator")
        np.testing.assert_array_equal(again.predict(X), estimator.predict(X))
        if isinstance(estimator, NetworkClassifier):
            assert again.classes == tuple(estimator.classes_.tolist())
            np.testing.assert_allclose(again.predict_proba(X), estimator.predict_proba(X), rtol=1e-14)


def test_the_split_of_a_data_set_has_a_pipeline():
    data = consensus.datasets.load("iris")
    parts = consensus.datasets.split(*data, classification=True)
    shards = consensus.partition(parts.X, parts.y, agents=4)
    problem = consensus.Problem(consensus.Linear(4, 3), consensus.CrossEntropy(), shards, consensus.L2(1e-2))
    result = consensus.solve(problem, topologies.ring(4), TreeNewton(), rounds=20)
    predictor = result.predictor(parts.pipeline)
    assert predictor.classes == data.classes == ("setosa", "versicolor", "virginica")
    assert (predictor.predict(data.X) == np.array(data.classes)[data.y]).mean() > 0.93
    np.testing.assert_array_equal(predictor.predict_proba(data.X), softmax(predictor.outputs(data.X), axis=1))


def test_the_best_point_is_taken_if_one_was_kept(trained):
    owned, _ = trained["mlp"]
    result = owners.solved(owned, "mlp", keep="disagreement", record_every=1)
    assert result.best.round == 0
    np.testing.assert_array_equal(result.predictor(owned.pipeline).w, result.best.mean)


@pytest.mark.slow
def test_models_of_other_libraries_are_given_again(trained, tmp_path):
    torch = pytest.importorskip("torch")
    owned, _ = trained["mlp"]
    path = tmp_path / "torch.predictor"

    def model(width=4):
        torch.manual_seed(0)
        return consensus.models.Torch(
            torch.nn.Sequential(torch.nn.Linear(7, width), torch.nn.Tanh(), torch.nn.Linear(width, 1))
        )

    problem = consensus.Problem(model(), consensus.SquaredLoss(), owned.shards)
    predictor = consensus.solve(problem, topologies.ring(4), rounds=3).predictor(owned.pipeline)
    predictor.save(path)
    with pytest.raises(TypeError, match=r"a model of the class Torch, .*consensus.load\(path, model=model\), .* 37 parameters"):
        consensus.load(path)
    np.testing.assert_array_equal(consensus.load(path, model=model()).predict(FAR), predictor.predict(FAR))
    with pytest.raises(ValueError, match=r"model must be the one that .* was saved with, whose parameters is 37; got 46"):
        consensus.load(path, model=model(5))
    with pytest.raises(ValueError, match="whose class is 'Torch'; got 'MLP'"):
        consensus.load(path, model=consensus.MLP([7, 4, 1]))
    normal = consensus.models.Torch(torch.nn.Sequential(torch.nn.BatchNorm1d(7), torch.nn.Linear(7, 1)))
    with pytest.raises(TypeError, match=r"give model=problem.model.evaluated\(problem.buffers\(w\)\)"):
        consensus.Predictor(normal, np.zeros(normal.parameters), owned.pipeline)


def test_another_version_is_refused_by_name(trained, tmp_path):
    """Predictors, results and checkpoints, older and newer ones; shards are in test_folders.py."""
    owned, result = trained["ridge"]
    predictor, saved, checkpoint = (tmp_path / name for name in ("a.predictor", "a.npz", "a.ckpt"))
    result.predictor(owned.pipeline).save(predictor)
    result.save(saved)
    owners.solved(owned, "ridge", checkpoint=checkpoint)
    for path, what, ours, read in (
        (predictor, "predictor", "predictor 2", consensus.load),
        (saved, "result", "result 1", consensus.load),
        (checkpoint, "checkpoint", 7, lambda path: owners.solved(owned, "ridge", resume=path)),
    ):
        arrays, about = storage.read(path, what, ours)
        for other in (f"{what} 0", f"{what} 3") if isinstance(ours, str) else (6, 8):
            storage.write(path, arrays, about | {"format": other})
            with pytest.raises(ValueError, match=f"{path.name} has {what} format {other}; this version reads format {ours}"):
                read(path)
    folder = tmp_path / "shards"
    consensus.data.save_shards(owned.shards, folder)
    index = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps(index | {"format": 0}))
    with pytest.raises(ValueError, match="has shards of format 0; this version reads format 1 and 2"):
        consensus.data.load_shards(folder)


def test_other_files_are_refused(trained, tmp_path):
    owned, result = trained["ridge"]
    path = tmp_path / "a.predictor"
    result.predictor(owned.pipeline).save(path)
    arrays, about = storage.read(path, "predictor", "predictor 2")
    storage.write(path, arrays, {name: value for name, value in about.items() if name != "columns"})
    with pytest.raises(ValueError, match="is no predictor of this package: KeyError"):
        consensus.load(path)
    storage.write(path, arrays | {"w": arrays["w"][1:]}, about)
    with pytest.raises(
        ValueError, match=r"a\.predictor is no predictor of this package: ValueError: w must be 8 finite numbers"
    ):
        consensus.load(path)
    result.save(path)
    with pytest.raises(TypeError, match=r"model goes with a predictor; .* is a result: result.predictor\(pipeline, model\)"):
        consensus.load(path, model=result.model)
    with pytest.raises(TypeError, match="model must be given, because a result of costs by functions, or from a file,"):
        consensus.load(path).predictor(owned.pipeline)
    again = consensus.load(path).predictor(owned.pipeline, result.model)
    np.testing.assert_array_equal(again.predict(FAR), result.predictor(owned.pipeline).predict(FAR))


@pytest.mark.parametrize(("model", "pipeline", "error"), [
    (consensus.Linear(2), Pipeline(None, np.zeros(3), np.ones(3)), "model must take the 3 features of the pipeline"),
    (consensus.Linear(3, 2), Pipeline(None, np.zeros(3), np.ones(3), classes=("a", "b", "c")), "an output for each of 3"),
    (consensus.Linear(3), "days", "pipeline must be a Pipeline, such as that of"),
    (None, Pipeline(None, np.zeros(3), np.ones(3)), "model must be a model, such as"),
])  # fmt: skip
def test_parts_that_do_not_fit_are_refused(model, pipeline, error):
    with pytest.raises((ValueError, TypeError), match=error):
        consensus.Predictor(model, np.zeros(getattr(model, "parameters", 4)), pipeline)


def saved(model, path, **settings):
    pipeline = Pipeline(None, np.zeros(2), np.ones(2), **settings)
    consensus.Predictor(model, np.zeros(model.parameters), pipeline).save(path)
    return path


@pytest.mark.parametrize(("model", "other", "what"), [
    (consensus.MLP([2, 3, 1]), consensus.MLP([2, 3, 1], activation="relu"), "settings"),
    (consensus.Linear(2, bias=False), consensus.Linear(1), "settings|layout"),
])  # fmt: skip
def test_a_given_model_with_other_settings_is_refused(model, other, what, tmp_path):
    assert model.parameters == other.parameters
    path = saved(model, tmp_path / "a.predictor")
    with pytest.raises(ValueError, match=rf"model must be the one that .* was saved with, whose ({what}) is"):
        consensus.load(path, model=other)
    np.testing.assert_array_equal(consensus.load(path, model=model).predict(np.ones((3, 2))), np.zeros(3))


def test_a_layout_of_other_shapes_is_refused(tmp_path):
    class Turned(consensus.MLP):
        layout = consensus.MLP([2, 2, 1]).layout

    class Straight(consensus.MLP):
        layout = (consensus.MLP([2, 2, 1]).layout)[::-1]

    Straight.__name__ = "Turned"
    path = saved(Turned([2, 2, 1]), tmp_path / "a.predictor")
    with pytest.raises(ValueError, match="was saved with, whose layout is"):
        consensus.load(path, model=Straight([2, 2, 1]))


def test_a_class_of_ones_own_is_not_the_model_that_it_is_made_of(tmp_path):
    """Also if it has its name: its code is in no file."""

    class Linear(consensus.Linear):
        def predict(self, w, x):
            return super().predict(w, x) + 1.0

    path = saved(Linear(2), tmp_path / "a.predictor")
    with pytest.raises(TypeError, match=r"the parameters of a model of the class Linear, and no file has its code: give the"):
        consensus.load(path)
    assert (consensus.load(path, model=Linear(2)).predict(np.ones((3, 2))) > 0).all()


@pytest.mark.parametrize("odd", [np.int64(3), (1, 2), None, pd.Timestamp("2024-01-01")])
def test_classes_that_json_would_change_are_refused(odd, tmp_path):
    with pytest.raises(TypeError, match="classes must be text, numbers or booleans to be saved; got"):
        saved(consensus.Linear(2, 3), tmp_path / "a.predictor", classes=("a", "b", odd))
    assert not (tmp_path / "a.predictor").exists()


def test_several_targets_keep_their_names(tmp_path):
    settings = {"target": ("days", "cost"), "shift": np.zeros(2), "spread": np.ones(2)}
    path = saved(consensus.Linear(2, 2), tmp_path / "a.predictor", **settings)
    assert consensus.load(path).pipeline.target == ("days", "cost")
