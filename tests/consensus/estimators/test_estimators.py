"""Estimators: scikit-learn's linear ones whatever the network, its manners, and weights of samples."""

import pickle
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context, datasets
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import topologies
from consensus.estimators import NetworkClassifier, NetworkPoissonRegressor, NetworkRegressor
from consensus.solvers import GradientTracking, ProxGT, WangElia
from tests.helpers.refusals import refusals
from tests.helpers.turns import in_turn

X, Y = datasets.load_diabetes(return_X_y=True)
N = len(X)
CANCER, MALIGN = datasets.load_breast_cancer(return_X_y=True)
IRIS, KINDS = datasets.load_iris(return_X_y=True)
LINEAR = {"hidden_layer_sizes": (), "agents": 4, "network": "ring", "random_state": 0}
REGRESSORS = {
    "Ridge": ({"alpha": 1e-3}, Ridge(alpha=1e-3 * N)),
    "Lasso": ({"alpha": 0.1, "l1_ratio": 1.0}, Lasso(alpha=0.1, tol=1e-14, max_iter=100_000)),
    "ElasticNet": ({"alpha": 0.01, "l1_ratio": 0.5}, ElasticNet(alpha=0.01, l1_ratio=0.5, tol=1e-14, max_iter=100_000)),
}
NETWORKS = {
    "erdos_renyi": ("erdos_renyi", "iid", 10),
    "star": ("star", "sorted", 4),
    "graph": (nx.path_graph(3), "dirichlet", 10),
    "schedule": (topologies.RandomEdges(topologies.complete(5), 0.5, seed=0), "iid", 10),
    "directed": (topologies.Static(nx.DiGraph([(0, 1), (1, 2), (2, 0)]), weights=topologies.push), "sorted", 10),
    "alone": ("complete", "iid", 1),
}


@pytest.mark.parametrize(
    ("name", "network"),
    in_turn(REGRESSORS, NETWORKS, every=4),
)
def test_a_linear_regressor_is_scikit_learns(name, network):
    settings, reference = REGRESSORS[name]
    network, scheme, agents = NETWORKS[network]
    settings = LINEAR | settings | {"network": network, "scheme": scheme, "agents": agents}
    here, there = NetworkRegressor(**settings).fit(X, Y), reference.fit(X, Y)
    np.testing.assert_allclose(here.coef_, there.coef_, rtol=0, atol=1e-6)  # of up to 500
    assert here.intercept_ == pytest.approx(there.intercept_, abs=1e-6)
    np.testing.assert_allclose(here.predict(X), there.predict(X), rtol=1e-8)
    assert here.n_iter_ < 100


@pytest.mark.parametrize(
    ("X", "y", "network"),
    [(CANCER, MALIGN, "star"), (CANCER, MALIGN, NETWORKS["directed"][0]), (IRIS, KINDS, NETWORKS["schedule"][0])],
    ids=["two classes", "directed", "three classes, changing"],
)
def test_a_linear_classifier_is_scikit_learns(X, y, network):
    here = NetworkClassifier(**LINEAR | {"alpha": 1e-2, "network": network}).fit(X, y)
    there = LogisticRegression(C=1 / (1e-2 * len(X)), solver="newton-cg", tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(here.coef_, there.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(here.intercept_, there.intercept_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(here.predict_proba(X), there.predict_proba(X), rtol=0, atol=1e-7)
    np.testing.assert_array_equal(here.predict(X), there.predict(X))


def test_several_targets_and_a_sparse_classifier():
    targets = np.column_stack([Y, 5 * X @ np.arange(10.0) + 3, X[:, 2] ** 2])
    here = NetworkRegressor(**LINEAR, alpha=1e-3).fit(X, targets)
    there = Ridge(alpha=1e-3 * N).fit(X, targets)
    np.testing.assert_allclose(here.coef_, there.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(here.intercept_, there.intercept_, rtol=0, atol=1e-6)
    assert here.predict(X).shape == (N, 3)
    z = StandardScaler().fit_transform(CANCER)
    model = NetworkClassifier(**LINEAR, alpha=0.02, l1_ratio=0.5).fit(z, MALIGN)
    # Where the derivative of the loss, and of the squares, is a subgradient of -0.01 |W|_1, the objective is least.
    coef = model.coef_[0]
    slope = z.T @ (model.predict_proba(z)[:, 1] - MALIGN) / len(z) + 0.01 * coef
    np.testing.assert_allclose(slope[coef != 0], -0.01 * np.sign(coef[coef != 0]), atol=1e-9)
    assert (np.abs(slope[coef == 0]) <= 0.01).all()
    assert 5 < np.count_nonzero(coef) < 25
    assert (model.predict_proba(z)[:, 1] - MALIGN).mean() == pytest.approx(0, abs=1e-9)  # the intercept is free


SMALL = {"hidden_layer_sizes": (), "agents": 2, "max_iter": 6, "tol": 1e-2, "random_state": 0}


@pytest.mark.slow
@parametrize_with_checks([NetworkPoissonRegressor(**SMALL)])
def test_scikit_learns_checks_of_counts(estimator, check):
    test_scikit_learns_checks(estimator, check)


def test_counts():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 2))
    y = rng.poisson(np.exp(X @ [0.5, -0.3]))
    model = NetworkPoissonRegressor(hidden_layer_sizes=(), agents=3, network="ring", max_iter=300, random_state=0).fit(X, y)
    wanted = PoissonRegressor(alpha=1e-3, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.predict(X), wanted.predict(X), rtol=1e-5)
    assert model.score(X, y) == pytest.approx(wanted.score(X, y), rel=1e-6)
    with pytest.raises(TypeError, match="predictors have no logarithmic link"):
        model.predictor()
    with pytest.raises(ValueError, match="numbers of at least 0"):
        model.fit(X, y - 1)
    with pytest.raises(ValueError, match="y must have a count above 0"):
        model.fit(X, 0 * y)


@parametrize_with_checks([NetworkRegressor(**SMALL), NetworkClassifier(**SMALL)])
def test_scikit_learns_checks(estimator, check):
    if "equivalence" in str(check):  # of weights and repeated samples, which agents get by other draws: at the optimum
        estimator = clone(estimator).set_params(alpha=0.1, max_iter=300, tol=1e-7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.slow
def test_a_network_in_pipelines_searches_and_copies():
    model = NetworkClassifier(
        hidden_layer_sizes=(4,), agents=3, network=nx.path_graph(3), max_iter=15, tol=1e-2, random_state=1
    )
    names = np.array(["setosa", "versicolor", "virginica"])[KINDS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        scores = cross_val_score(make_pipeline(StandardScaler(), model), IRIS, names, cv=3)
        search = GridSearchCV(model, {"alpha": [1e-3, 1.0]}, cv=2).fit(IRIS[::2], names[::2])
        fitted = clone(model).fit(IRIS, names)
    assert scores.min() > 0.85
    assert search.best_params_ == {"alpha": 1e-3}
    assert not hasattr(model, "parameters_")
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(IRIS), fitted.predict_proba(IRIS))
    np.testing.assert_allclose(fitted.predict_proba(IRIS).sum(axis=1), 1, rtol=1e-12)
    assert set(fitted.classes_) == set(names)
    assert (fitted.agents_, fitted.network_.agents, fitted.n_features_in_) == (3, 3, 4)
    assert not hasattr(fitted, "coef_")
    # In original units and in the agents' the network is one function.
    logits = fitted.model_.predict(fitted.parameters_, IRIS)
    np.testing.assert_allclose(logits, fitted.decision_function(IRIS), rtol=1e-12)


def test_a_network_learns_what_a_line_cannot():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (200, 1)) * 30 + 1000
    y = 1e4 * np.abs(X[:, 0] - 1000)
    options = {"agents": 3, "random_state": 0, "max_iter": 40, "tol": 1e-3}
    model = NetworkRegressor(hidden_layer_sizes=8, **options).fit(X, y)
    assert model.score(X, y) > 0.98 > 0.1 > NetworkRegressor(hidden_layer_sizes=(), **options).fit(X, y).score(X, y)


def test_frames_keep_their_names_and_groups_are_agents():
    frame, towns = pd.DataFrame(X, columns=[f"x{k}" for k in range(10)]), np.array(["Rome", "Oslo", "Bonn"])[np.arange(N) % 3]
    model = NetworkRegressor(**LINEAR | {"agents": 10}).fit(frame, pd.Series(Y), groups=pd.Series(towns))
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert (model.agents_, model.network_.agents) == (3, 3)
    np.testing.assert_allclose(model.coef_, NetworkRegressor(**LINEAR).fit(X, Y).coef_, rtol=0, atol=1e-6)
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(NetworkRegressor(**LINEAR).set_fit_request(groups=True), {"alpha": [0.1]}, cv=2)
        assert search.fit(frame, Y, groups=towns).best_estimator_.agents_ == 3
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"x0": "other"}))
    assert {"objective", "stationarity"} <= set(model.history_)


def test_the_solver_may_be_any():
    smooth = NetworkRegressor(**LINEAR | {"agents": 2, "solver": GradientTracking(), "max_iter": 250}).fit(X, Y)
    np.testing.assert_allclose(smooth.coef_, Ridge(alpha=1e-3 * N).fit(X, Y).coef_, rtol=0, atol=1e-6)
    plain = NetworkRegressor(**LINEAR | {"alpha": 0}).fit(IRIS[:, 1:], IRIS[:, 0])
    wanted = np.linalg.lstsq(np.column_stack([IRIS[:, 1:], np.ones(150)]), IRIS[:, 0])[0]
    np.testing.assert_allclose([*plain.coef_, plain.intercept_], wanted, rtol=0, atol=1e-6)
    with pytest.warns(ConvergenceWarning):  # it takes no regularizer, and gets none
        NetworkRegressor(**LINEAR | {"alpha": 0, "solver": WangElia(), "max_iter": 2}).fit(X, Y)
    sparse = NetworkRegressor(**LINEAR | {"solver": ProxGT(), "max_iter": 10, "alpha": 0.1, "l1_ratio": 0.5})
    with pytest.warns(ConvergenceWarning, match=r"did not get to tol=1e-06, but to \d\.\S+: raise max_iter, now 10"):
        sparse.fit(X, Y)


def test_the_same_random_state_gives_the_same_bits():
    one, other, third = (NetworkRegressor(**LINEAR | {"random_state": seed}).fit(X, Y) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert not np.array_equal(one.coef_, third.coef_)


@pytest.mark.parametrize(("settings", "error", "words"), [
    ({"agents": 0}, ValueError, "agents must be a whole number >= 1; got 0"),
    ({"agents": N + 1}, ValueError, f"at most the number of samples; got {N + 1} agents and n_samples = {N}"),
    ({"network": topologies.Static(topologies.ring(N + 1))}, ValueError, f"got {N + 1} agents and n_samples = {N}"),
    ({"alpha": -1}, ValueError, "alpha must be a finite number >= 0; got -1"),
    ({"l1_ratio": 2}, ValueError, "l1_ratio must be a finite number >= 0 and <= 1; got 2"),
    ({"network": "web"}, ValueError, "network must be one of 'erdos_renyi', 'ring', .*; got 'web'"),
    ({"network": np.eye(3)}, TypeError, "network must be a schedule or a networkx graph"),
    ({"scheme": "sizes"}, ValueError, "scheme must be one of 'iid', 'sorted', 'dirichlet'; got 'sizes'"),
    ({"max_iter": 0}, ValueError, "max_iter must be a whole number >= 1; got 0"),
    ({"tol": -1.0}, ValueError, "tol must be a finite number >= 0"),
    ({"hidden_layer_sizes": (3, 0)}, ValueError, r"hidden_layer_sizes\[1\] must be a whole number >= 1; got 0"),
    ({"solver": "sgd"}, TypeError, "solver must be a Solver"),
    ({"random_state": -1}, ValueError, r"random_state must be None, a whole number from 0 to 2\*\*32 - 1, .*; got -1"),
    ({"random_state": "dice"}, ValueError, "random_state must be None, .*; got 'dice'"),
], ids=str)  # fmt: skip
def test_bad_settings_are_refused_when_fitted(settings, error, words):
    with pytest.raises(error, match=words):
        NetworkRegressor(**LINEAR | settings).fit(X, Y)


@pytest.mark.parametrize("order", [["age", "town"], ["town", "age"]])
def test_categories_are_those_of_scikit_learns_encoder(order):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"age": rng.integers(20, 80, 60), "town": pd.Categorical(rng.choice(["Rome", "Oslo", "Bonn"], 60))})[
        order
    ]
    kind = np.where(frame.age + 20 * (frame.town == "Oslo") + 20 * rng.standard_normal(60) > 50, "ill", "well")
    encoded = pd.get_dummies(frame, columns=["town"], dtype=float)
    here = NetworkClassifier(**LINEAR | {"alpha": 1e-2}).fit(frame, kind)
    there = LogisticRegression(C=1 / (60 * 1e-2), tol=1e-12, max_iter=10_000).fit(encoded[list(here.columns_.features)], kind)
    np.testing.assert_allclose(here.coef_, there.coef_, atol=1e-6)
    np.testing.assert_array_equal(here.predict(frame), there.predict(encoded[list(here.columns_.features)]))
    assert here.feature_names_in_.tolist() == order
    assert here.n_features_in_ == 2
    assert set(here.columns_.features) == {"age", "town_Bonn", "town_Oslo", "town_Rome"}
    np.testing.assert_array_equal(here.predict(frame.astype({"town": object})[:9]), here.predict(frame)[:9])
    assert NetworkRegressor(**LINEAR).fit(frame, frame.age).score(frame, frame.age) > 0.99
    with pytest.raises(ValueError, match=r"column 'town' of X must be one of 'Bonn', 'Oslo', 'Rome'; in row 0 .* it is 'Kyiv'"):
        here.predict(frame.assign(town="Kyiv"))
    with pytest.raises(TypeError, match=r"X must be a data frame with the columns"):
        here.predict(encoded.to_numpy())
    with pytest.raises(ValueError, match=r"feature names"):
        here.predict(frame.rename(columns={"age": "years"}))
    assert NetworkRegressor(**LINEAR).fit(frame[["age"]], frame.age).columns_ is None


DAYS = np.array([["2020-01-01"], ["2020-01-05"], ["2020-01-02"]] * 10, "M8[D]")
RECORDS = np.array([(1.0, 2.0), (3.0, 4.0), (0.0, 1.0)] * 10, [("a", float), ("b", float)])


@pytest.mark.parametrize(("X", "message", "remedy"), [
    ([[2j], [1.0], [3.0]] * 10, "Complex data not supported: X must hold real numbers", np.real),
    (np.array([[2j], [1.0], [3.0]] * 10, object), "Complex data not supported", lambda X: np.real(X.astype(complex))),
    (DAYS, r"got dates: give times since one of them, such as \(X - start\)", lambda X: (X - X[0]) / np.timedelta64(1, "D")),
    (DAYS - DAYS[0], "got lengths of time: give their number", lambda X: X / np.timedelta64(1, "D")),
    (pd.DataFrame({"day": DAYS[:, 0]}), r"X\['day'\] must hold real numbers; got dates", lambda X: X.map(lambda d: d.day)),
    (pd.DataFrame({"a": [2j, 1, 3] * 10}), r"Complex data .*: X\['a'\] must hold real", lambda X: pd.DataFrame(np.imag(X))),
    (RECORDS, r"got records: give a data frame, such as pandas.DataFrame\(np.ravel\(X\)\)", pd.DataFrame),
])  # fmt: skip
@pytest.mark.parametrize(
    "kind",
    [NetworkPoissonRegressor, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (NetworkRegressor, NetworkClassifier))],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_numbers_of_other_kinds_are_refused_and_their_remedies_work(kind, X, message, remedy):
    estimator, y = kind(hidden_layer_sizes=(), max_iter=2), np.array([0, 1, 1] * 10)
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y)
    estimator.fit(remedy(X), y)
    with pytest.raises(ValueError, match=message):
        estimator.predict(X[:1])
    if kind is not NetworkClassifier:
        with pytest.raises(ValueError, match="y must hold real numbers"):
            estimator.fit(remedy(X), 1j * y)


# Estimators with weights of samples: scikit-learn's coefficients, and those of repeated samples.


def weights(samples):
    return np.random.default_rng(0).integers(0, 4, samples).astype(float)


@pytest.mark.parametrize(("l1_ratio", "alpha"), [(0.0, 1e-3), (1.0, 0.1)], ids=["Ridge", "Lasso"])
def test_a_weighted_regressor_is_scikit_learns(l1_ratio, alpha):
    c = weights(len(X))
    here = NetworkRegressor(**LINEAR, alpha=alpha, l1_ratio=l1_ratio).fit(X, Y, sample_weight=c)
    there = Lasso(alpha=alpha, tol=1e-14, max_iter=100_000) if l1_ratio else Ridge(alpha=alpha * c.sum())
    there.fit(X, Y, sample_weight=c)
    np.testing.assert_allclose(here.coef_, there.coef_, rtol=0, atol=1e-6)
    assert here.intercept_ == pytest.approx(there.intercept_, abs=1e-6)


@pytest.mark.parametrize("two", [True, False], ids=["two classes", "three"])
def test_a_weighted_classifier_is_scikit_learns(two):
    y, c = KINDS > 0 if two else KINDS, weights(len(IRIS))
    here = NetworkClassifier(**LINEAR, alpha=1e-2).fit(IRIS, y, sample_weight=c)
    there = LogisticRegression(C=1 / (1e-2 * c.sum()), solver="newton-cg", tol=1e-12, max_iter=10_000)
    there.fit(IRIS, y, sample_weight=c)
    np.testing.assert_allclose(here.coef_, there.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(here.predict_proba(IRIS), there.predict_proba(IRIS), rtol=0, atol=1e-7)


def test_owners_with_weights_are_agents_that_repeat_their_samples():
    c, groups = weights(len(IRIS)), np.arange(len(IRIS)) % 5
    times = np.repeat(np.arange(len(IRIS)), c.astype(int))
    settings = {"hidden_layer_sizes": (3,), "max_iter": 5, "tol": 0, "random_state": 0}
    weighted = NetworkClassifier(**settings).fit(IRIS, KINDS, groups=groups, sample_weight=c)
    repeated = NetworkClassifier(**settings).fit(IRIS[times], KINDS[times], groups=groups[times])
    np.testing.assert_allclose(weighted.predict_proba(IRIS), repeated.predict_proba(IRIS), atol=1e-8)


test_refusals = refusals(
    (lambda: NetworkRegressor(**LINEAR).fit(sp.csr_array(X), Y), TypeError, r"[Ss]parse"),
    (lambda: NetworkClassifier(**LINEAR).fit(object(), MALIGN), TypeError, "X must be an array; got <object"),
    (lambda: NetworkRegressor(**LINEAR).fit(pd.DataFrame({"age": [1, 2], "kind": ["x", "y"]}), [0, 1]), ValueError,
     r"X must hold real numbers; not so its columns 'kind' \('x'\)"),
    (lambda: NetworkRegressor(**LINEAR).fit(X, ["cat"] * N), ValueError, "y must hold real numbers"),
    (lambda: NetworkClassifier(**LINEAR).fit(X, ["cat"] * N), ValueError,
     "at least 2 classes in the data, but the data contains only one class: 'cat'"),
    (lambda: NetworkRegressor(**LINEAR).fit(np.where(X > 0.1, np.nan, X), Y), ValueError, "contains NaN"),
    (lambda: NetworkRegressor(**LINEAR | {"network": topologies.ring(5)}).fit(X, Y, groups=np.arange(N) % 2), ValueError,
     r"groups must be as many as the network has agents, 5; got 2"),
    (lambda: NetworkRegressor(**LINEAR).fit(X, Y, groups=[1, 2]), ValueError, r"groups must have shape \(442,\)"),
    (lambda: NetworkClassifier().fit(2j, np.zeros(3)), TypeError, "X must be an array; got 2j"),
    (lambda: NetworkRegressor().fit(X, Y, sample_weight=[1.0, 2.0]), ValueError, r"^sample_weight must have shape \(442,\)"),
    (lambda: NetworkClassifier().fit(IRIS, KINDS, sample_weight=(KINDS == 1).astype(float)), ValueError,
     "the data contains only one class"),
)  # fmt: skip
