"""AdaptiveNEXT warns of data far from standardised."""

import warnings

import pytest

import consensus
from consensus.solvers import AdaptiveNEXT
from tests.helpers.problems import AGENTS, GRAPH, data, problem

MLP = consensus.MLP([4, 3, 1])


def scaled(feature=1.0, target=1.0, shift=0.0, loss="squared"):
    X, y = data()
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    X[:, 2] = X[:, 2] * feature + shift
    losses = {"squared": (consensus.SquaredLoss(), y * target), "logistic": (consensus.LogisticLoss(), (y > 0).astype(float))}
    loss, targets = losses[loss]
    return consensus.Problem(MLP, loss, consensus.partition(X, targets, AGENTS), consensus.L2(0.01))


@pytest.mark.parametrize(("settings", "named"), [
    ({"feature": 1000.0}, r"feature 2 \(mean .*, standard deviation 1e\+03\)"),
    ({"shift": 300.0}, r"feature 2 \(mean 300, standard deviation 1\)"),
    ({"target": 1000.0}, r"target 0 \(mean .*, standard deviation 1e\+03\)"),
    ({"target": 0.001}, r"target 0 \(mean .*, standard deviation 0\.001\)"),
    ({"feature": 1000.0, "target": 1000.0}, r"feature 2 .*, target 0 "),
    ({"feature": 1000.0, "loss": "logistic"}, r"feature 2 "),
    ({"feature": 1e-5, "loss": "logistic"}, r"feature 2 \(mean .*, standard deviation 1e-05\);"),
])  # fmt: skip
def test_data_far_from_standardised_are_named(settings, named):
    with pytest.warns(UserWarning, match="data far from standardised: " + named) as caught:
        consensus.solve(scaled(**settings), GRAPH, AdaptiveNEXT(), rounds=0)
    (warning,) = caught
    assert "StandardScaler" in str(warning.message)
    assert warning.filename == __file__  # where solve was called


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"loss": "logistic"},
        {"feature": 0.0},
        {"feature": 0.0, "shift": 0.1},
        {"feature": 0.01},
        {"feature": 3.0, "shift": 2.0},
        "padding",
    ],
    ids=str,
)
def test_standardised_data_give_no_warning(settings):
    if settings == "padding":
        p = problem("squared", consensus.L2(0.01), MLP, scheme="sizes")
        p.shards.features[p.shards.weights == 0] = 1e9
    else:
        p = scaled(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AdaptiveNEXT().check(p)
