"""Problems: values and gradients against a plain loop, finite differences and a hand computation."""

import pickle

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import consensus
import topologies
from consensus import L1, L2, MLP, SCAD, CrossEntropy, ElasticNet, Huber, Linear, LogisticLoss, Problem, SquaredLoss
from consensus.engines import Processes
from consensus.models import linearize
from tests.helpers.refusals import refusals

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((23, 4)), RNG.standard_normal(23)
LABELS = RNG.integers(0, 3, 23)
SIZES = [2, 9, 5, 7]
BLOCKS = [slice(1, 3), slice(None), [0, 3], [2]]
CASES = {
    "linear squared": (Linear(4), SquaredLoss(), Y),
    "linear logistic": (Linear(4), LogisticLoss(), (Y > 0).astype(float)),
    "linear huber": (Linear(4), Huber(0.2), Y),
    "mlp cross-entropy": (MLP([4, 5, 3]), CrossEntropy(), LABELS),
    "mlp huber": (MLP([4, 3, 3, 1], activation="softplus"), Huber(0.7), Y),
}
every = pytest.mark.parametrize("case", CASES)


def shards(y=Y, dtype=np.float64):
    return consensus.partition(X.astype(dtype), y, agents=4, scheme="sizes", sizes=SIZES, seed=1)


def problem(case="linear squared", regularizer=None, reduction="mean", dtype=np.float64):
    model, loss, y = CASES[case]
    return Problem(model, loss, shards(y, dtype), regularizer, reduction)


def assert_blocks_equal(p, w, blocks=BLOCKS):
    """Every block of agents has the bits of the whole problem, and its own count of work."""
    values, gradients, averages = p.value(w), p.gradient(w), p.average_gradient(w)
    for rows in blocks:
        block = p.restrict(rows)
        assert block.network_size == p.agents
        np.testing.assert_array_equal(block.value(w[rows]), values[rows])
        np.testing.assert_array_equal(block.gradient(w[rows]), gradients[rows])
        np.testing.assert_array_equal(block.average_gradient(w[rows]), averages[rows])
        assert block.work.gradients == 2


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@every
def test_value_and_gradient_are_those_of_a_plain_loop(case, reduction):
    model, loss, y = CASES[case]
    p, scale = problem(case, reduction=reduction), 1 / 23 if reduction == "mean" else 1.0
    w = RNG.standard_normal((4, model.parameters))
    for agent, own in enumerate(p.shards.indices):
        own = own[: SIZES[agent]]

        def cost(point, own=own):
            return scale * loss.value(model.predict(point, X[own]), y[own][:, None]).sum()

        assert p.value(w)[agent] == pytest.approx(cost(w[agent]), rel=1e-13)
        np.testing.assert_allclose(p.gradient(w)[agent], approx_fprime(w[agent], cost, 1e-7), rtol=1e-5, atol=1e-6)


@every
def test_objective_and_total_gradient_are_those_of_the_pooled_loss(case):
    model, loss, y = CASES[case]
    p, point = problem(case, ElasticNet(0.2, 0.3)), RNG.standard_normal(model.parameters)

    def pooled(w):
        return loss.value(model.predict(w, X), y[:, None]).mean()

    assert p.objective(point) == pytest.approx(pooled(point) + 0.2 * np.abs(point).sum() + 0.15 * point @ point, rel=1e-13)
    np.testing.assert_allclose(p.total_gradient(point), approx_fprime(point, pooled, 1e-7), rtol=1e-5, atol=1e-6)
    parts = [p.restrict(rows).total_gradient(point) for rows in (slice(0, 1), slice(1, 4))]
    np.testing.assert_allclose(sum(parts), p.total_gradient(point), rtol=1e-13, atol=1e-15)


def test_stationarity_vanishes_exactly_at_the_optimum():
    # One parameter, by hand: U = mean((w - d)^2 / 2) + l1 |w|, whose minimiser is the soft-thresholded mean.
    data = consensus.partition(np.ones((3, 1)), [1.0, 2.0, 6.0], agents=3)
    p = Problem(Linear(1, bias=False), SquaredLoss(), data, L1(0.5))
    assert p.stationarity(np.array([2.5])) == pytest.approx(0, abs=1e-15)
    assert p.stationarity(np.array([3.5])) == pytest.approx(1.0)  # step to 3, threshold to 2.5


@every
def test_a_block_gives_the_same_bits(case):
    p = problem(case, L2(0.1))
    w = RNG.standard_normal((4, p.parameters))
    np.testing.assert_allclose(p.average_gradient(w), 4 * p.gradient(w) + 0.1 * w, rtol=1e-14, atol=1e-15)
    assert_blocks_equal(p, w)
    assert np.shares_memory(p.restrict(slice(1, 3)).shards.features, p.shards.features)


@pytest.mark.parametrize("regularizer", [SCAD(0.3), consensus.regularizers.LogSum(0.1, 0.5)])
def test_a_block_has_its_agents_share_of_a_nonconvex_regularizer(regularizer):
    p, w = problem(regularizer=regularizer), RNG.standard_normal((4, 5))
    for agent, slope in enumerate(p.gradient(w)):
        numeric = approx_fprime(w[agent], lambda point, agent=agent: p.value(np.tile(point, (4, 1)))[agent], 1e-7)
        np.testing.assert_allclose(slope, numeric, atol=1e-6)
    for rows in BLOCKS:
        np.testing.assert_allclose(p.restrict(rows).value(w[rows]), p.value(w)[rows], rtol=1e-12)
        np.testing.assert_allclose(p.restrict(rows).gradient(w[rows]), p.gradient(w)[rows], rtol=1e-12)


def test_a_block_of_a_problem_that_was_used_begins_afresh():
    p, rule = problem(), consensus.Minibatches(2)
    whole = rule.at(p, 0)
    p.gradient(np.zeros((4, 5)))
    block = p.restrict([1, 3])
    np.testing.assert_array_equal(rule.at(block, 0).indices, whole.indices[[1, 3]])
    block.value(np.zeros((2, 5))), block.gradient(np.zeros((2, 5))), block.gradient(np.zeros((2, 5)))
    assert (block.work.gradients, p.work.gradients) == (2, 1)


@every
def test_float32_stays_float32(case):
    single, double = (problem(case, ElasticNet(0.1, 0.1), dtype=dtype) for dtype in (np.float32, np.float64))
    w = RNG.standard_normal((4, single.parameters))
    outputs, _ = linearize(single.model, w.astype(np.float32), single.shards.features)
    assert outputs.dtype == single.loss.curvature(outputs, single.shards.targets).dtype == np.float32
    assert single.value(w).dtype == single.gradient(w).dtype == np.float32
    np.testing.assert_allclose(single.gradient(w), double.gradient(w), rtol=2e-4, atol=2e-5)


def test_a_used_problem_can_be_pickled():
    p, w = problem("linear logistic", L2(0.1)), RNG.standard_normal((4, 5))
    gradient = p.average_gradient(w)
    again = pickle.loads(pickle.dumps(p))
    assert again.work == p.work
    assert again.average_gradient(w).tobytes() == gradient.tobytes()


def test_rejected_arguments_are_not_counted_as_work():
    p = problem("linear logistic", L2(0.1))
    for gradient in (p.gradient, p.average_gradient):
        with pytest.raises(ValueError, match="shape"):
            gradient(np.zeros((3, 5)))
    assert not any(p.work.counts.values())


LARGE = np.random.default_rng(1).standard_normal((1240, 200))


@pytest.mark.parametrize("model", [Linear(200), MLP([200, 3, 1])], ids=["linear", "mlp"])
def test_padding_of_large_shards_is_not_read(model):
    """Sums over large shards are those of the agents' own problems, with the same bits in blocks and for a batch of all."""
    shards = consensus.partition(LARGE, LARGE[:, 0], 3, "sizes", sizes=[1000, 180, 60])
    p = Problem(model, SquaredLoss(), shards, reduction="sum")
    shards.features[shards.weights == 0] = np.nan
    w = 0.1 * RNG.standard_normal((3, model.parameters))
    values, gradients = p.value(w), p.gradient(w)
    for agent, own in enumerate(shards.weights > 0):
        part = consensus.Shards.from_list([(shards.features[agent, own], shards.targets[agent, own])])
        alone, at = Problem(model, SquaredLoss(), part, reduction="sum"), w[agent : agent + 1]
        np.testing.assert_allclose(values[agent], alone.value(at)[0], rtol=1e-12)
        np.testing.assert_allclose(gradients[agent], alone.gradient(at)[0], rtol=1e-12, atol=1e-12)
    assert_blocks_equal(p, w, [slice(1, 3), [2, 0], [1]])
    np.testing.assert_array_equal(p.gradient(w, consensus.Minibatches(1000).at(p, 3)), gradients)


CENTRES = RNG.standard_normal((6, 2))


def functions(value=lambda w: ((w - CENTRES) ** 2).sum(axis=1) / 2, gradient=lambda w: w - CENTRES):
    return Problem.from_functions(value, gradient, agents=6, parameters=2)


def test_costs_given_by_functions():
    p, w = functions(), RNG.standard_normal((6, 2))
    np.testing.assert_array_equal(p.gradient(w), w - CENTRES)
    assert p.stationarity(CENTRES.mean(axis=0)) == pytest.approx(0, abs=1e-14)
    assert_blocks_equal(p, w, [slice(2, 5)])
    np.testing.assert_array_equal(p.restrict(slice(2, 5)).restrict([1]).value(w[3:4]), p.value(w)[3:4])


def test_functions_with_rows_compute_only_the_rows_of_a_block(forked):
    computed = []

    def value(w, rows):
        computed.append(len(w))
        return ((w - CENTRES[rows]) ** 2).sum(axis=1) / 2

    def gradient(w, *, rows):
        computed.append(len(w))
        return w - CENTRES[rows]

    whole, by_rows, w = functions(), functions(value, gradient), RNG.standard_normal((6, 2))
    for rows in (slice(None), slice(2, 5), [4, 1]):
        block = by_rows.restrict(rows)
        np.testing.assert_array_equal(block.value(w[rows]), whole.value(w)[rows])
        np.testing.assert_array_equal(block.gradient(w[rows]), whole.gradient(w)[rows])
    assert computed == [6, 6, 3, 3, 2, 2]
    network, solver = topologies.ring(6), consensus.solvers.DGD(0.1)
    runs = [consensus.solve(p, network, solver, rounds=3, engine=e) for p, e in ((whole, "stacked"), (by_rows, Processes(2)))]
    np.testing.assert_array_equal(runs[1].w, runs[0].w)
    with pytest.raises(ValueError, match=r"^value must return shape \(2,\) for w of shape \(2, 2\); got \(2, 2\)"):
        functions(lambda w, rows: w).restrict([0, 3]).value(w[:2])


def test_arrays_that_functions_return_are_not_written_to():
    slopes = np.arange(8.0).reshape(4, 2)
    kept, w = slopes.copy(), np.ones((4, 2))
    p, scad = (Problem.from_functions(lambda w: slopes[:, 0], lambda w: slopes, 4, 2, r) for r in (L2(1.0), SCAD(0.3)))
    np.testing.assert_array_equal(p.average_gradient(w), 4 * kept + 1)
    np.testing.assert_array_equal(p.descended(w, 0.5, w), w - 0.5 * (4 * kept + 1))
    scad.value(w), scad.gradient(w)
    np.testing.assert_array_equal(slopes, kept)


test_refusals = refusals(
    (lambda: Problem(Linear(7), SquaredLoss(), shards()), ValueError, "4 features.*takes 7"),
    (lambda: Problem(Linear(4, 2), SquaredLoss(), shards()), ValueError, "2 outputs"),
    (lambda: Problem(Linear(4), LogisticLoss(), shards()), ValueError, r"\{0, 1\}"),
    (lambda: Problem(Linear(4, 2), CrossEntropy(), shards(LABELS)), ValueError, r"0 .. K - 1.*\[0. 1. 2.\] and 2 output"),
    (lambda: problem(reduction="average"), ValueError, "reduction must be one of 'mean', 'sum'; got 'average'"),
    (lambda: problem(regularizer=0.1), TypeError, "0.1"),
    (lambda: functions().value(np.zeros((5, 2))), ValueError, r"\(6, 2\); got \(5, 2\)"),
    (lambda: functions().objective(np.zeros(3)), ValueError, r"\(2,\); got \(3,\)"),
    (lambda: functions().total_gradient(np.zeros((6, 2))), ValueError, r"\(2,\); got \(6, 2\)"),
    (lambda: functions(np.sum, np.sum).gradient(np.zeros((6, 2))), ValueError, r"gradient must return shape \(6, 2\)"),
    (lambda: functions(1), TypeError, "value must be a function"),
)
