"""Problems: values and gradients against a plain loop, finite differences and a hand computation."""

import pickle

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import consensus
import topologies
from consensus.engines import Processes
from consensus.models import linearize

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((23, 4)), RNG.standard_normal(23)
LABELS = RNG.integers(0, 3, 23)
SIZES = [2, 9, 5, 7]


def shards(y=Y, dtype=np.float64):
    return consensus.partition(X.astype(dtype), y, agents=4, scheme="sizes", sizes=SIZES, seed=1)


CASES = {
    "linear squared": (consensus.Linear(4), consensus.SquaredLoss(), Y),
    "linear logistic": (consensus.Linear(4), consensus.LogisticLoss(), (Y > 0).astype(float)),
    "mlp cross-entropy": (consensus.MLP([4, 5, 3]), consensus.CrossEntropy(), LABELS),
    "mlp huber": (consensus.MLP([4, 3, 3, 1], activation="softplus"), consensus.Huber(0.7), Y),
}


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("case", CASES)
def test_value_and_gradient_are_those_of_a_plain_loop(case, reduction):
    model, loss, y = CASES[case]
    data = shards(y)
    problem = consensus.Problem(model, loss, data, reduction=reduction)
    w = RNG.standard_normal((4, model.parameters))
    scale = 1 / 23 if reduction == "mean" else 1.0
    for agent in range(4):
        own = data.indices[agent][: SIZES[agent]]

        def cost(point, own=own):
            outputs = model.predict(point, X[own])
            return scale * loss.value(outputs, np.asarray(y)[own][:, None]).sum()

        assert problem.value(w)[agent] == pytest.approx(cost(w[agent]), rel=1e-13)
        numeric = approx_fprime(w[agent], cost, 1e-7)
        np.testing.assert_allclose(problem.gradient(w)[agent], numeric, rtol=1e-5, atol=1e-6)


def test_objective_is_the_pooled_loss_plus_regularizer():
    model, loss, y = CASES["mlp cross-entropy"]
    problem = consensus.Problem(model, loss, shards(y), consensus.ElasticNet(0.2, 0.3))
    point = RNG.standard_normal(model.parameters)
    pooled = loss.value(model.predict(point, X), y[:, None]).mean()
    expected = pooled + 0.2 * np.abs(point).sum() + 0.15 * point @ point
    assert problem.objective(point) == pytest.approx(expected, rel=1e-13)


def test_stationarity_vanishes_exactly_at_the_optimum():
    # One parameter, by hand: U = mean((w - d)^2 / 2) + l1 |w|, whose minimiser is the soft-thresholded mean.
    d = np.array([1.0, 2.0, 6.0])
    data = consensus.partition(np.ones((3, 1)), d, agents=3)
    problem = consensus.Problem(consensus.Linear(1, bias=False), consensus.SquaredLoss(), data, consensus.L1(0.5))
    assert problem.stationarity(np.array([2.5])) == pytest.approx(0, abs=1e-15)
    assert problem.stationarity(np.array([3.5])) == pytest.approx(1.0)  # step to 3, threshold to 2.5


@pytest.mark.parametrize("case", CASES)
def test_the_total_gradient_is_that_of_the_pooled_loss(case):
    model, loss, y = CASES[case]
    problem = consensus.Problem(model, loss, shards(y))
    point = RNG.standard_normal(model.parameters)
    targets = np.asarray(y)[:, None]
    numeric = approx_fprime(point, lambda w: loss.value(model.predict(w, X), targets).mean(), 1e-7)
    np.testing.assert_allclose(problem.total_gradient(point), numeric, rtol=1e-5, atol=1e-6)
    parts = [problem.restrict(rows).total_gradient(point) for rows in (slice(0, 1), slice(1, 4))]
    np.testing.assert_allclose(sum(parts), problem.total_gradient(point), rtol=1e-13, atol=1e-15)


def test_average_form():
    problem = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards(), consensus.L2(0.3))
    w = RNG.standard_normal((4, 5))
    np.testing.assert_allclose(problem.average_gradient(w), 4 * problem.gradient(w) + 0.3 * w, rtol=1e-14)


@pytest.mark.parametrize("rows", [slice(1, 3), slice(None), np.array([0, 3])])
@pytest.mark.parametrize("case", CASES)
def test_a_block_gives_the_same_bits(case, rows):
    model, loss, y = CASES[case]
    problem = consensus.Problem(model, loss, shards(y), consensus.L2(0.1))
    block = problem.restrict(rows)
    w = RNG.standard_normal((4, model.parameters))
    assert block.network_size == 4
    np.testing.assert_array_equal(block.value(w[rows]), problem.value(w)[rows])
    np.testing.assert_array_equal(block.gradient(w[rows]), problem.gradient(w)[rows])
    np.testing.assert_array_equal(block.average_gradient(w[rows]), problem.average_gradient(w)[rows])


def test_restricting_to_a_slice_copies_no_data():
    problem = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards())
    assert np.shares_memory(problem.restrict(slice(1, 3)).shards.features, problem.shards.features)


def test_work_is_counted_for_a_block_of_its_own():
    problem = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards())
    block = problem.restrict(slice(None))
    block.gradient(np.zeros((4, 5)))
    block.value(np.zeros((4, 5)))
    assert (block.work.gradients, problem.work.gradients) == (1, 0)


@pytest.mark.parametrize("case", CASES)
def test_float32_stays_float32(case):
    model, loss, y = CASES[case]
    single = consensus.Problem(model, loss, shards(y, np.float32), consensus.ElasticNet(0.1, 0.1))
    double = consensus.Problem(model, loss, shards(y), consensus.ElasticNet(0.1, 0.1))
    w = RNG.standard_normal((4, model.parameters))
    outputs, _ = linearize(model, w.astype(np.float32), single.shards.features)
    assert outputs.dtype == loss.curvature(outputs, single.shards.targets).dtype == np.float32
    assert single.value(w).dtype == single.gradient(w).dtype == np.float32
    np.testing.assert_allclose(single.gradient(w), double.gradient(w), rtol=2e-4, atol=2e-5)


CENTRES = RNG.standard_normal((6, 2))


def functions():
    return consensus.Problem.from_functions(
        lambda w: ((w - CENTRES) ** 2).sum(axis=1) / 2, lambda w: w - CENTRES, agents=6, parameters=2
    )


def test_a_problem_at_work_can_be_pickled():
    problem = consensus.Problem(*CASES["linear logistic"][:2], shards(CASES["linear logistic"][2]), consensus.L2(0.1))
    w = RNG.standard_normal((4, 5))
    gradient = problem.average_gradient(w)
    again = pickle.loads(pickle.dumps(problem))
    assert again.work == problem.work
    assert again.average_gradient(w).tobytes() == gradient.tobytes()


def test_what_is_refused_is_not_counted():
    problem = consensus.Problem(*CASES["linear logistic"][:2], shards(CASES["linear logistic"][2]), consensus.L2(0.1))
    for gradient in (problem.gradient, problem.average_gradient):
        with pytest.raises(ValueError, match="shape"):
            gradient(np.zeros((3, 5)))
    assert not any(problem.work.counts.values())


def test_functions():
    problem = functions()
    w = RNG.standard_normal((6, 2))
    np.testing.assert_array_equal(problem.gradient(w), w - CENTRES)
    assert problem.stationarity(CENTRES.mean(axis=0)) == pytest.approx(0, abs=1e-14)
    block = problem.restrict(slice(2, 5))
    np.testing.assert_array_equal(block.gradient(w[2:5]), (w - CENTRES)[2:5])
    np.testing.assert_array_equal(block.restrict([1]).value(w[3:4]), problem.value(w)[3:4])


def test_functions_with_rows_compute_only_the_rows_of_a_block(forked):
    computed = []

    def value(w, rows):
        computed.append(len(w))
        return ((w - CENTRES[rows]) ** 2).sum(axis=1) / 2

    def gradient(w, *, rows):
        computed.append(len(w))
        return w - CENTRES[rows]

    whole, problem = functions(), consensus.Problem.from_functions(value, gradient, agents=6, parameters=2)
    w = RNG.standard_normal((6, 2))
    for rows in (slice(None), slice(2, 5), [4, 1]):
        block = problem.restrict(rows)
        np.testing.assert_array_equal(block.value(w[rows]), whole.value(w)[rows])
        np.testing.assert_array_equal(block.gradient(w[rows]), whole.gradient(w)[rows])
    assert computed == [6, 6, 3, 3, 2, 2]
    network, solver = topologies.ring(6), consensus.solvers.DGD(0.1)
    runs = [consensus.solve(p, network, solver, rounds=3, engine=e) for p, e in ((whole, "stacked"), (problem, Processes(2)))]
    np.testing.assert_array_equal(runs[1].w, runs[0].w)
    wrong = consensus.Problem.from_functions(lambda w, rows: w, gradient, agents=6, parameters=2).restrict([0, 3])
    with pytest.raises(ValueError, match=r"^value must return shape \(2,\) for w of shape \(2, 2\); got \(2, 2\)"):
        wrong.value(w[:2])


def test_gradients_are_free_to_be_overwritten():
    kept = np.ones((6, 2))
    problem = consensus.Problem.from_functions(lambda w: w[:, 0], lambda w: kept, agents=6, parameters=2)
    problem.average_gradient(np.zeros((6, 2)))
    np.testing.assert_array_equal(kept, 1)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (
            lambda: consensus.Problem(consensus.Linear(7), consensus.SquaredLoss(), shards()),
            ValueError,
            "4 features.*takes 7",
        ),
        (lambda: consensus.Problem(consensus.Linear(4, 2), consensus.SquaredLoss(), shards()), ValueError, "2 outputs"),
        (lambda: consensus.Problem(consensus.Linear(4), consensus.LogisticLoss(), shards()), ValueError, r"\{0, 1\}"),
        (
            lambda: consensus.Problem(consensus.Linear(4, 2), consensus.CrossEntropy(), shards(LABELS)),
            ValueError,
            r"classes 0 .. K - 1.*\[0. 1. 2.\] and 2 output",
        ),
        (
            lambda: consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards(), reduction="average"),
            ValueError,
            "reduction must be one of 'mean', 'sum'; got 'average'",
        ),
        (lambda: consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards(), 0.1), TypeError, "0.1"),
        (lambda: functions().value(np.zeros((5, 2))), ValueError, r"\(6, 2\); got \(5, 2\)"),
        (lambda: functions().objective(np.zeros(3)), ValueError, r"\(2,\); got \(3,\)"),
        (lambda: functions().total_gradient(np.zeros((6, 2))), ValueError, r"\(2,\); got \(6, 2\)"),
        (
            lambda: consensus.Problem.from_functions(np.sum, np.sum, agents=6, parameters=2).gradient(np.zeros((6, 2))),
            ValueError,
            r"gradient must return shape \(6, 2\)",
        ),
        (
            lambda: consensus.Problem.from_functions(1, np.sum, agents=6, parameters=2),
            TypeError,
            "value must be a function",
        ),
    ],
)
def test_bad_input(make, error, match):
    with pytest.raises(error, match=match):
        make()


LARGE = np.random.default_rng(1).standard_normal((1240, 200))


@pytest.mark.parametrize("model", [consensus.Linear(200), consensus.MLP([200, 3, 1])], ids=["linear", "mlp"])
def test_padding_of_large_shards_is_not_looked_at(model):
    """Sums over them are those of the agents' own problems, and have the same bits in every block and for a batch of all."""
    shards = consensus.partition(LARGE, LARGE[:, 0], 3, "sizes", sizes=[1000, 180, 60])
    p = consensus.Problem(model, consensus.SquaredLoss(), shards, reduction="sum")
    shards.features[shards.weights == 0] = np.nan
    w = 0.1 * RNG.standard_normal((3, model.parameters))
    values, gradients = p.value(w), p.gradient(w)
    for agent, own in enumerate(shards.weights > 0):
        part = consensus.Shards.from_list([(shards.features[agent, own], shards.targets[agent, own])])
        alone, at = consensus.Problem(model, consensus.SquaredLoss(), part, reduction="sum"), w[agent : agent + 1]
        np.testing.assert_allclose(values[agent], alone.value(at)[0], rtol=1e-12)
        np.testing.assert_allclose(gradients[agent], alone.gradient(at)[0], rtol=1e-12, atol=1e-12)
    for rows in (slice(1, 3), [2, 0], [1]):
        block = p.restrict(rows)
        np.testing.assert_array_equal(block.value(w[rows]), values[rows])
        np.testing.assert_array_equal(block.gradient(w[rows]), gradients[rows])
    batch = consensus.Minibatches(1000).at(p, 3)
    np.testing.assert_array_equal(p.gradient(w, batch), gradients)


@pytest.mark.parametrize("regularizer", [consensus.regularizers.SCAD(0.3), consensus.regularizers.LogSum(0.1, 0.5)])
def test_a_block_has_its_agents_share_of_what_is_not_convex(regularizer):
    p = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards(), regularizer)
    w = RNG.standard_normal((4, 5))
    slopes = [
        approx_fprime(own, lambda point, agent=agent: p.value(np.tile(point, (4, 1)))[agent], 1e-7)
        for agent, own in enumerate(w)
    ]
    np.testing.assert_allclose(p.gradient(w), slopes, atol=1e-6)
    for rows in (slice(1, 3), [0, 3], [2]):
        block = p.restrict(rows)
        np.testing.assert_allclose(block.value(w[rows]), p.value(w)[rows], rtol=1e-12)
        np.testing.assert_allclose(block.gradient(w[rows]), p.gradient(w)[rows], rtol=1e-12)


def test_a_block_of_a_problem_that_was_used_begins_afresh():
    p, rule = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards()), consensus.Minibatches(2)
    whole = rule.at(p, 0)
    p.gradient(np.zeros((4, 5)))
    block = p.restrict([1, 3])
    np.testing.assert_array_equal(rule.at(block, 0).indices, whole.indices[[1, 3]])
    assert block.work.gradients == 0


def test_what_a_users_function_returns_stays_the_users():
    slopes = np.arange(8.0).reshape(4, 2)
    kept = slopes.copy()
    p = consensus.Problem.from_functions(lambda w: slopes[:, 0], lambda w: slopes, 4, 2, consensus.L2(1.0))
    w = np.ones((4, 2))
    np.testing.assert_array_equal(p.average_gradient(w), 4 * kept + 1)
    np.testing.assert_array_equal(p.descended(w, 0.5, w), w - 0.5 * (4 * kept + 1))
    scad = consensus.Problem.from_functions(lambda w: slopes[:, 0], lambda w: slopes, 4, 2, consensus.regularizers.SCAD(0.3))
    scad.value(w), scad.gradient(w)
    np.testing.assert_array_equal(slopes, kept)
