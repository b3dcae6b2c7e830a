"""Experiments with data of their own; what the tangent and the scale experiments compute."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import consensus
from experiments import __main__ as listing
from experiments import scale, tangent
from experiments.shared.cases import case


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
