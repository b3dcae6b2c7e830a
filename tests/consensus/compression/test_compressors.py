"""Compressors: what they do beside the contract, which tests/consensus/testing runs for each."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import consensus
import topologies
from consensus.compression import Half, LowRank, NoCompression, Quantize, Quantized, RandomK, TopK
from consensus.solvers import BEER, ChocoSGD
from tests.helpers.problems import problem

P, DRAWS = 12, 200
AGENTS = np.arange(DRAWS)
MATRIX, INNER = ((0, 4, 3),), ((2, 3, 3),)
EXACT = [TopK(1), TopK(3), TopK(0.5), TopK(1.0), Quantize(2, "nearest"), Quantize(3, "nearest"), Half(), NoCompression()]
DRAWN = [RandomK(1), RandomK(0.3), Quantize(2), Quantize(4), Quantize(8), LowRank(1, MATRIX), LowRank(1, INNER)]
NUMBERS = st.one_of(st.just(0.0), st.floats(1e-9, 1e9), st.floats(-1e9, -1e-9))
ROW = arrays(float, P, elements=NUMBERS)


@pytest.mark.parametrize("compressor", EXACT + DRAWN, ids=repr)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(row=ROW)
def test_what_is_lost_on_average_is_at_most_what_omega_says(compressor, row):
    """The mean over draws, up to five standard errors: DRAWS agents have the same row, and draw by themselves."""
    packed = compressor.pack(np.tile(row, (DRAWS, 1)), AGENTS, 5)
    lost = np.square(packed.unpack() - row).sum(axis=1)
    assert lost.mean() <= (1 - compressor.omega(P)) * (row @ row) + 5 * lost.std() / np.sqrt(DRAWS) + 1e-12 * (row @ row)
    assert (np.ptp(lost) == 0) or compressor in DRAWN


def test_the_constants_cannot_be_better():
    """Equal entries are the worst for k of them; for the nearest code, all but the largest just below half a step."""
    for compressor, row in ((TopK(3), np.ones(P)), (Quantize(3, "nearest"), np.array([6.0, *[1.0 - 1e-9] * (P - 1)]))):
        lost = np.square(compressor.pack(row[None], np.arange(1), 0).unpack()[0] - row).sum()
        assert lost == pytest.approx((1 - compressor.omega(P)) * (row @ row), rel=1e-6)


@pytest.mark.parametrize(("compressor", "size"), [
    (TopK(3), 3 * 8 + 2),
    (TopK(0.1), 8 + 1),
    (RandomK(3), 3 * 8 + 4),
    (Quantize(3), 5 + 8),
    (Half(), 2 * P + 2),
    (LowRank(1, MATRIX), 8 * (4 + 3)),
    (LowRank(1, INNER), 8 * (3 + 3 + 3)),
    (NoCompression(), 8 * P),
], ids=repr)  # fmt: skip
def test_bytes_by_hand(compressor, size):
    packed = compressor.pack(np.random.default_rng(0).standard_normal((2, P)), np.arange(2), 0)
    assert packed.bytes.tolist() == [size] * 2
    assert sum(array.nbytes for array in packed.arrays) == 2 * size


def test_low_rank_finds_the_layers_of_the_model():
    mlp = problem("squared", consensus.L2(0.1), consensus.MLP([4, 9, 7, 1]))
    found = LowRank(2).prepared(mlp)
    assert found.matrices == ((0, 4, 9), (45, 9, 7))  # the last layer, 7 x 1, is as short as its factors
    assert found.omega(mlp.parameters) == 2 / 7
    assert LowRank(2, found.matrices).prepared(mlp) == found
    functions = consensus.Problem.from_functions(np.sum, np.array, agents=6, parameters=12)
    for missing in (LowRank(1).check, LowRank(1).prepared):
        with pytest.raises(TypeError, match=r"LowRank needs to know where the parameters are matrices, .*give matrices=\(\("):
            missing(functions)
    LowRank(1, MATRIX).check(functions)


@pytest.mark.parametrize(("make", "error", "match"), [
    (lambda: TopK(0), ValueError, r"k of TopK must be a number of entries, .*float in \(0, 1\]; got 0"),
    (lambda: TopK(1.5), ValueError, "k of TopK must be .*; got 1.5"),
    (lambda: TopK(True), ValueError, "k of TopK must be .*; got True"),
    (lambda: RandomK(float("nan")), ValueError, "k of RandomK must be .*; got nan"),
    (lambda: RandomK(-3), ValueError, "k of RandomK must be .*; got -3"),
    (lambda: RandomK(0.1, seed=-1), ValueError, "seed of RandomK must be a whole number >= 0; got -1"),
    (lambda: Quantize(0), ValueError, "bits of Quantize must be a whole number >= 2; got 0"),
    (lambda: Quantize(17), ValueError, "bits of Quantize must be .*<= 16; got 17"),
    (lambda: Quantize(4, "up"), ValueError, "rounding must be one of 'random', 'nearest'; got 'up'"),
    (lambda: LowRank(0), ValueError, "rank of LowRank must be a whole number >= 1; got 0"),
    (lambda: LowRank(1, ((0, 4, 3), (5, 2, 2))), ValueError, "matrices of LowRank must be in ascending order and not over"),
    (lambda: LowRank(1, 3), ValueError, r"matrices of LowRank must be a tuple of \(start, m, n\)"),
    (lambda: LowRank(1).omega(12), TypeError, "LowRank knows no matrices yet"),
    (lambda: TopK(3).pack(np.ones(4), np.arange(1), 0), ValueError, r"rows must have shape \(agents, P\); got \(4,\)"),
    (lambda: BEER(0.1), TypeError, r"compressor must be one, such as TopK\(0\.1\)"),
    (lambda: ChocoSGD(TopK(2), gamma=1.5), ValueError, "gamma must be .*; got 1.5"),
    (lambda: run(TopK(6)), ValueError, "k of TopK must be at most the number of parameters, 5; got 6"),
    (lambda: run(RandomK(9)), ValueError, "k of RandomK must be at most the number of parameters, 5; got 9"),
    (lambda: run(LowRank(1)), ValueError, r"rank of LowRank must make a matrix shorter, .* one of 4 x 1; got 1"),
    (lambda: run(LowRank(1, ((0, 3, 3),))), ValueError, r"matrices must be within the 5 parameters; got \(0, 3, 3\)"),
])  # fmt: skip
def test_bad_settings_are_named(make, error, match):
    with pytest.raises(error, match=match):
        make()
    assert problem_of_five.work.gradients == 0


problem_of_five = problem("squared", consensus.L2(0.1))


def run(compressor):
    consensus.solve(problem_of_five, topologies.ring(6), BEER(compressor, 0.1, 0.1), rounds=1)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64])
def test_numbers_of_few_bits_are_whole_numbers_like_others(kind):
    rows = np.random.default_rng(0).standard_normal((3, 300))
    for make, value in (
        (Quantize, 7),
        (lambda k: LowRank(k, ((0, 15, 20),)), 3),
        (lambda k: Quantize(4, seed=k), 100),
        (lambda k: RandomK(0.5, seed=k), 100),
    ):
        packed = [make(number).pack(rows, np.arange(3), 5) for number in (value, kind(value))]
        np.testing.assert_array_equal(packed[1].unpack(), packed[0].unpack())
        assert make(kind(value)) == make(value)
        assert repr(make(kind(value))) == repr(make(value))
    few = Quantized.nearest(rows, bits=kind(3))
    np.testing.assert_array_equal(few.unpack(), Quantized.nearest(rows, bits=3).unpack())
    np.testing.assert_array_equal(Quantized(few.codes, few.scale, 300, kind(3)).unpack(), few.unpack())
