"""Noise that others cannot compute: its law, its grid, where it is kept, and samples whose gradients are not finite."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

import consensus
import topologies
from consensus._arrays.digest import digest
from consensus.asynchronous import AsynchronousDGD, Simulated
from consensus.engines import Processes, Stacked
from consensus.privacy import Private, SecureSums, sampling
from consensus.privacy.gradients import Noise, PrivateProblem
from consensus.solvers import DGD, Compressed, Gossip, GradientTracking, SharedBody, TreeLBFGS
from consensus.variance_reduced.sample_gradients import sample_gradients
from tests.helpers.ranks_on_threads import together

AGENTS = 4
RING = topologies.Static(topologies.ring(AGENTS))
NONE = np.zeros(0, int)


def problem(X=None, y=None, kind=None, dtype=float):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3)) if X is None else X
    y = rng.standard_normal(20) if y is None else y
    parts = [(X[5 * k : 5 * k + 5].astype(dtype), y[5 * k : 5 * k + 5].astype(dtype)) for k in range(AGENTS)]
    shards = consensus.Shards.from_list(parts)
    return consensus.Problem(kind or consensus.Linear(3), consensus.SquaredLoss(), shards, consensus.L2(0.1))


def words(seed=0):
    rng = np.random.default_rng(seed)
    return lambda count: rng.integers(0, 2**64, count, dtype=np.uint64)


# Laws


def test_normal_numbers_of_words_are_those_of_the_inverse_distribution_function():
    drawn = sampling.normal(words()(200_000))
    assert kstest(drawn, norm.cdf).pvalue > 1e-3
    ends = sampling.normal(np.array([0, 1, 2**64 - 1, 2**64 - 2, 2**63], np.uint64))
    expected = norm.isf([2.0**-65, 2.0**-65, 0.5, 0.5, 0.25]) * [1, -1, 1, 1, 1]  # by a word's last bit
    assert np.allclose(ends, expected, rtol=1e-12, atol=1e-15)
    assert not np.array_equal(sampling.of_the_system(64), sampling.of_the_system(64))


@pytest.mark.parametrize("deviation", [1, 2, 7, 400])
def test_discrete_normal_numbers_have_their_probabilities(deviation):
    count = 100_000
    drawn = sampling.discrete_normal(words(deviation), count, deviation)
    places = np.arange(-12 * deviation, 12 * deviation + 1)
    exact = np.exp(-(places**2) / (2 * deviation**2))
    exact *= count / exact.sum()
    seen = np.bincount(drawn - places[0], minlength=len(places))
    often = exact > 10
    statistic = (np.square(seen - exact)[often] / exact[often]).sum()
    assert statistic < chi2.ppf(0.9999, often.sum())
    assert drawn.dtype == np.int64


def test_integers_below_a_bound_are_uniform_and_words_beyond_its_multiples_are_drawn_again():
    bounds = np.array([3, 2**63 + 1, 1, 2**32], np.uint64)
    given = iter([np.array([2**64 - 1, 2**64 - 1, 5, 2**64 - 1], np.uint64), np.array([8, 2**63], np.uint64)])
    # 2^64 - 1 is the one word beyond the multiples of 3; there is one multiple of 2^63 + 1.
    assert sampling._below(lambda count: next(given), bounds).tolist() == [2, 2**63, 0, 2**32 - 1]


# The grid


def test_on_a_grid_noisy_gradients_are_whole_multiples_and_no_longer_than_clip():
    grid, clip = 2.0**-10, 0.5
    noise = Noise(clip, 3.0, 0.0, 0, NONE, NONE, grid)
    p, w = problem(), np.random.default_rng(1).standard_normal((AGENTS, 4))
    found = PrivateProblem(p, noise, 1)._noisy(w, None) * AGENTS / grid
    assert np.array_equal(found, np.rint(found))
    rng = np.random.default_rng(2)
    means = rng.standard_normal((AGENTS, 50))
    means *= clip * (1 + 1e-7) / np.linalg.norm(means, axis=1, keepdims=True)  # longer than allowed, by rounding
    quiet = Noise(clip, grid, 0.0, 0, NONE, NONE, grid)
    codes = quiet.on_grid(means, np.arange(AGENTS), 0) / grid
    codes -= [sampling.discrete_normal(quiet._words(agent, (0,)), 50, 1) for agent in range(AGENTS)]
    for row, mean in zip(codes, means):
        assert sum(int(code) ** 2 for code in row) <= (clip / grid) ** 2  # in Python's integers
        assert (np.abs(row) <= np.abs(mean) / grid).all()  # rounded towards zero
        assert np.abs(row - mean / grid).max() < 1 + 1e-3


@pytest.mark.slow
def test_a_grid_does_not_change_where_a_run_goes():
    p = problem()
    ends = [
        consensus.solve(p, RING, Private(DGD(0.05), 1.0, 0.0625, grid=grid), rounds=200).history["objective"][-1]
        for grid in (None, 2.0**-12, 2.0**-8)
    ]
    assert np.allclose(ends, ends[0], rtol=0.02), ends


@pytest.mark.parametrize(("settings", "message"), [
    ({"grid": 0.0}, "grid must be"),
    ({"grid": 0.3}, r"noise must be a whole multiple of grid, .* got 1 and 0.3: give for example grid=0.3333333333333333"),
    ({"grid": 3.0}, r"got 1 and 3: give for example grid=1.0"),
    ({"grid": 1e-12}, r"from 1 to 16,777,216 times; got 1 and 1e-12: give for example grid=5.960464477539063e-08"),
    ({"grid": 0.5, "correlated": 2.0}, "grid is for independent noise, .* give correlated=0.0, or grid=None"),
])  # fmt: skip
def test_grids_without_a_theorem_are_refused(settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        Private(DGD(0.1), 1.0, 1.0, **settings)
    if "for example" in str(caught.value):  # the remedy
        Private(DGD(0.1), 1.0, 1.0, grid=float(str(caught.value).rsplit("=", 1)[1]))


# Gradients that are not finite


@pytest.mark.parametrize("kind", [None, consensus.MLP([3, 4, 1])])
@pytest.mark.parametrize("value", [1e20, -3e38])
def test_a_sample_whose_gradient_is_not_finite_counts_as_zero(kind, value):
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    noise = Noise(0.7, 1e-30, 0.0, 0, NONE, NONE)
    w = rng.standard_normal((AGENTS, (kind or consensus.Linear(3)).parameters)).astype(np.float32)
    p, spoiled = problem(X, y, kind, np.float32), problem(X, y, kind, np.float32)
    spoiled.shards.features[1, 2] = value  # which partition would not take
    with np.errstate(all="ignore"):
        found = PrivateProblem(spoiled, noise, 0)._noisy(w, None)
    assert np.isfinite(found).all()
    assert np.linalg.norm(AGENTS * found, axis=1).max() <= 0.7 * (1 + 1e-5)
    clean = PrivateProblem(p, noise, 0)._noisy(w, None)
    assert np.allclose(found[[0, 2, 3]], clean[[0, 2, 3]], rtol=0, atol=1e-7)
    gradients = sample_gradients(p, w, np.tile(np.arange(5), (AGENTS, 1)))[1].astype(float)
    clipped = gradients * np.minimum(1, 0.7 / np.linalg.norm(gradients, axis=1))[:, None]
    with_zero = np.delete(clipped, 2, axis=0).sum(axis=0) / 5 / AGENTS
    if kind is None:  # of saturated networks gradients may be finite
        assert np.allclose(found[1], with_zero, rtol=0, atol=1e-6)


def test_a_finite_gradient_whose_square_overflows_is_clipped():
    p = problem(np.zeros((20, 3)), np.zeros(20), dtype=np.float32)
    p.shards.features[1, 2] = [3e25, 0, 4e25]  # which partition would not take
    w = np.zeros((AGENTS, 4), np.float32)
    w[1] = [0, 0, 0, 1]
    found = PrivateProblem(p, Noise(1.0, 1e-30, 0.0, 0, NONE, NONE), 0)._noisy(w, None)
    # The other samples of the agent have the gradient (0, 0, 0, 1).
    assert np.allclose(AGENTS * found[1], [0.6 / 5, 0, 0.8 / 5, 4 / 5], rtol=1e-5, atol=1e-7)


# Where noise is kept


def among(solver, size=2, network=RING):
    """The solver as each of some owners has it."""
    ready = solver.prepared(problem(), network)
    few = AGENTS // size
    return together(
        size,
        lambda ranks: ready.among_owners(
            range(ranks.me * few, ranks.me * few + few), lambda rows: ranks.allgather_rows(rows, np.full(size, few))
        ),
    )


def noise_of(solver, round=1):
    while not isinstance(solver, Private):
        solver = solver.solver
    return solver._seen(problem(), round)._noise


@pytest.mark.parametrize("correlated", [0.0, 9.0])
def test_owners_know_the_noise_of_their_own_edges_alone(correlated):
    pytest.importorskip("cryptography")
    solver = Private(DGD(0.1), 1.0, 2.0, correlated)
    one, other = (noise_of(own) for own in among(solver))
    again = one.drawn(np.array([0, 1]), 1000, 1, 0)
    mine = one.drawn(np.array([0, 1]), 1000, 1, 0)
    theirs = other.drawn(np.array([2, 3]), 1000, 1, 0)
    assert abs(again - mine).std() > 1.0  # own noise is drawn anew, and kept nowhere
    whole = np.concatenate([mine, theirs])
    assert abs(whole.sum(axis=0)).max() < 6 * 2.0 * np.sqrt(AGENTS)  # correlated noise cancels
    if correlated:
        assert abs(whole).max() > 3 * 2.0 * 3
        pairs = set(one.keys.pairs)
        assert pairs == {(0, 1), (1, 2), (0, 3)}
        with pytest.raises(KeyError):
            one.keys.words((2, 3), 0, 1)  # an edge of others
        assert np.array_equal(one.keys.words((1, 2), 5, 8), other.keys.words((1, 2), 5, 8))
        assert not np.array_equal(one.keys.words((1, 2), 5, 8), one.keys.words((1, 2), 6, 8))
    else:
        assert one.keys is None
    simulated = Noise(1.0, 2.0, correlated, 0, one.first, one.second).drawn(np.arange(AGENTS), 1000, 1, 0)
    assert abs(np.corrcoef(simulated.ravel(), whole.ravel())[0, 1]) < 0.1  # the seed says nothing


@pytest.mark.parametrize("around", [lambda s: s, lambda s: Gossip(s, 2), lambda s: SharedBody(s, own=[3])])
def test_secrets_are_in_no_text_digest_or_setting(around):
    pytest.importorskip("cryptography")
    solver = around(Private(DGD(0.1), 1.0, 2.0, 9.0))
    ready = solver.prepared(problem(), RING)
    assert solver.secret
    own = among(solver)[0]
    assert repr(own) == repr(ready)
    assert digest(own) == digest(ready)
    assert own == ready
    assert noise_of(own).secret
    assert not noise_of(ready).secret
    assert not noise_of(replace(own if isinstance(own, Private) else own.solver).prepared(problem(), RING)).secret
    with pytest.raises(TypeError):
        pickle.dumps(own)  # keys do not leave the process


def test_in_one_process_a_seed_gives_the_noise(forked):
    solver = Private(DGD(0.1), 1.0, 2.0, 9.0, seed=5)
    one, other = (consensus.solve(problem(), RING, solver, rounds=3, engine=engine) for engine in (Stacked(), Processes(2)))
    assert np.array_equal(one.w, other.w)
    assert np.isfinite(one.history["objective"]).all()


class Foreign(Stacked):
    """An engine of several processes that says nothing of secrets."""

    size = 2


def test_engines_without_secrets_refuse_the_solver():
    with pytest.raises(
        TypeError, match=r"Gossip on 2 processes needs random numbers that each of them keeps to itself, and .*MPI\(\)"
    ):
        consensus.solve(problem(), RING, Gossip(Private(DGD(0.1), 1.0, 2.0), 2), rounds=1, engine=Foreign())
    with pytest.raises(TypeError, match="TreeLBFGS on 2 processes needs random numbers"):
        consensus.solve(problem(), RING, TreeLBFGS(secure=SecureSums()), rounds=1, engine=Foreign())
    assert consensus.solve(problem(), RING, DGD(0.1), rounds=1, engine=Foreign()).rounds == 1


def test_solvers_that_wake_are_refused():
    for outer in (lambda s: Private(s, 1.0, 1.0), lambda s: Gossip(s, 2)):
        with pytest.raises(TypeError, match="solver must be one with rounds; AsynchronousDGD wakes without them"):
            outer(AsynchronousDGD(0.1))
    assert consensus.solve(problem(), RING, AsynchronousDGD(0.1), rounds=2, engine=Simulated()).rounds == 2


def test_compressed_messages_are_of_noisy_gradients():
    """A wrapper around Private has its secrets; Private around a wrapper, too."""
    inner = Private(GradientTracking(0.1), 1.0, 2.0)
    with pytest.raises(TypeError, match="must be a method, not another wrapper"):
        Compressed(inner, consensus.compression.TopK(0.5))
    assert all(noise_of(own).secret for own in among(Private(Gossip(DGD(0.1), 2), 1.0, 2.0)))
