"""Data of one's own and cross-validation in the experiments; what the tangent and the scale experiments compute."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import consensus
from experiments import __main__ as listing
from experiments import scale, tangent
from experiments.shared.cases import case
from experiments.shared.harness import Experiment


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X @ [1.0, 2.0, -1.0] + 0.1 * rng.standard_normal(60)
    lines = ["length,width,yield,depth", *(f"{a},{b},{t},{c}" for (a, b, c), t in zip(X, y, strict=True))]
    (tmp_path / "field.csv").write_text("\n".join(lines))
    np.savez(tmp_path / "arrays.npz", X=X, y=y)
    iris = load_iris()
    lines = [",".join(map(str, (*row, kind))) for row, kind in zip(iris.data, iris.target, strict=True)]
    (tmp_path / "flowers.csv").write_text("\n".join(["a,b,c,d,kind", *lines]))
    return tmp_path, X, y


def experiment(folder, *arguments):
    return Experiment("trial", "A trial.", ["--output", str(folder / "out"), *arguments], datasets=["diabetes"], agents=5)


def test_a_table_of_one_s_own(tables):
    folder, X, y = tables
    trial = experiment(folder, "--dataset", str(folder / "field.csv"), "diabetes", "--target", "yield")
    assert trial.datasets == ["field", "diabetes"]
    made, test = trial.case("field", 5, 0)
    expected = consensus.datasets.split(X, y, seed=0)
    real = made.shards.weights > 0
    features = made.shards.features[real]
    np.testing.assert_allclose(features[np.lexsort(features.T)], expected.X[np.lexsort(expected.X.T)], rtol=1e-12)
    np.testing.assert_allclose(test[1], expected.y_test, rtol=1e-12)
    assert isinstance(made.loss, consensus.SquaredLoss)
    assert len(trial.case("diabetes", 5, 0).test[0]) == 89


def test_arrays_need_no_target_and_classes_may_be_numbers(tables):
    folder, _, _ = tables
    assert experiment(folder, "--dataset", str(folder / "arrays.npz")).case("arrays", 5, 0).problem.model.features == 3
    trial = experiment(folder, "--dataset", str(folder / "flowers.csv"), "--target", "-1", "--classes")
    made = trial.case("flowers", 5, 0).problem
    assert isinstance(made.loss, consensus.CrossEntropy)
    assert made.model.outputs == 3


def test_folds_are_scikit_learn_s_and_every_row_is_tested_once(tables):
    folder, X, y = tables
    trial = experiment(folder, "--dataset", str(folder / "arrays.npz"), "--folds", "4", "--seed", "3")
    assert trial.seeds == [3, 4, 5, 6]
    cuts = KFold(4, shuffle=True, random_state=3).split(X)
    for seed, (train, test) in zip(trial.seeds, cuts, strict=True):
        found = trial.case("arrays", 5, seed).test
        np.testing.assert_allclose(found[0], (X[test] - X[train].mean(axis=0)) / X[train].std(axis=0), rtol=1e-9)
        np.testing.assert_allclose(found[1], (y[test] - y[train].mean()) / y[train].std(), rtol=1e-9)


@pytest.mark.parametrize(("arguments", "line"), [
    (["--target", "yield"], "arguments --target and --classes: go with a file as --dataset"),
    (["--classes"], "arguments --target and --classes: go with a file as --dataset"),
    (["--dataset", "{}/field.csv"], "argument --target: the files' column to predict is needed"),
    (["--dataset", "{}/field.csv", "--target", "height"], "height"),
    (["--dataset", "{}/nothing.csv", "--target", "0"], "nothing.csv"),
    (["--dataset", "tulips"], "name must be one of 'diabetes'"),
    (["--folds", "3", "--repeats", "3"], "argument --folds: is the number of repeats, too; leave --repeats away"),
    (["--folds", "1"], "argument --folds: must be a whole number >= 2; got '1'"),
    (["--dataset", "{}/field.csv", "{}/out/../sub/field.csv", "--target", "0"], "two files are called field"),
])  # fmt: skip
def test_wrong_tables_get_one_clear_line(arguments, line, tables, capsys):
    folder, _, _ = tables
    (folder / "sub").mkdir()
    (folder / "out").mkdir()
    (folder / "sub" / "field.csv").write_text((folder / "field.csv").read_text())
    with pytest.raises(SystemExit) as stopped:
        experiment(folder, *(part.format(folder) for part in arguments))
    shown = f"{capsys.readouterr().err}{stopped.value}"
    assert line in shown
    assert "Traceback" not in shown


def test_an_experiment_with_data_of_its_own_has_no_data_options(tmp_path, capsys):
    with pytest.raises(SystemExit):
        scale.main(["--dataset", "diabetes", "--output", str(tmp_path)])
    assert "unrecognized arguments: --dataset diabetes" in capsys.readouterr().err
    listing.run_all(["experiments.scale"], ["--dataset", "diabetes", "--output", str(tmp_path)])
    assert capsys.readouterr().out == "[1/1] experiments.scale, left out: it makes its own data\n"


@pytest.mark.parametrize("width", [3, 12])
def test_the_tangent_model_is_the_network_s_expansion(width):
    network = case("diabetes", 4, 0, hidden=width, activation="quadratic", regularizer=consensus.L2(0.0))
    once = tangent.tangent(network, seed=0)
    model, start = network.problem.model, network.problem.model.init(np.random.default_rng(0))
    zero = np.zeros(model.parameters)
    assert once.problem.objective(zero) == pytest.approx(network.problem.objective(start), rel=1e-12)
    step = 1e-5 * np.random.default_rng(1).standard_normal(model.parameters)
    inside, outside = once.test
    np.testing.assert_allclose(
        inside @ step - outside[:, 0], model.predict(start + step, network.test[0])[:, 0] - network.test[1], atol=1e-6
    )
    np.testing.assert_allclose(once.problem.total_gradient(zero), network.problem.total_gradient(start), atol=1e-12)


def test_the_bound_is_scikit_learn_s_and_wide_tangents_reach_it():
    network = case("diabetes", 4, 0, hidden=12, activation="quadratic", regularizer=consensus.L2(0.0))
    real = network.problem.shards.weights > 0
    X, y = network.problem.shards.features[real], network.problem.shards.targets[real][:, 0]
    fitted = make_pipeline(PolynomialFeatures(2), LinearRegression()).fit(X, y)
    least = np.mean((fitted.predict(X) - y) ** 2) / 2
    assert tangent.optimum(network.problem) == pytest.approx(least, rel=1e-9)
    once = tangent.tangent(network, seed=0).problem.shards
    real = once.weights > 0
    assert tangent.misfit(once.features[real], once.targets[real]) == pytest.approx(least, rel=1e-6)
    narrow = tangent.tangent(case("diabetes", 4, 0, hidden=2, activation="quadratic"), seed=0).problem.shards
    real = narrow.weights > 0
    assert tangent.misfit(narrow.features[real], narrow.targets[real]) > 1.5 * least


def test_friedman_s_problem_gives_every_agent_its_samples():
    problem, _, options = scale.case(1, agents=30, every=1, exchanges=9)
    np.testing.assert_array_equal(problem.shards.sizes, scale.SAMPLES)
    assert options["test"][0].shape == (scale.TESTS, 10)
