"""Step-size rules: their recursions, bounds that follow from them, and what is refused."""

import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

from consensus import step_sizes
from consensus.step_sizes import (
    Constant,
    CosineAnnealing,
    Diminishing,
    InverseSqrt,
    StepDecay,
    Warmup,
    checked,
    positive_at,
    value_at,
)
from tests.helpers.refusals import refusals

RULES = [(0.5, 0.01), (1.0, 0.99), (0.05, 19.0), (3.0, 0.1), (1e-3, 1e-3)]


@pytest.mark.parametrize("value", [1e-9, 0.25, 1, np.float32(0.5), np.int64(2)])
def test_constant_is_the_same_in_every_round(value):
    rule = Constant(value)
    assert [rule(n) for n in (0, 1, 10**9)] == [float(value)] * 3
    assert type(rule(0)) is float


@pytest.mark.parametrize(("initial", "decay"), RULES)
def test_diminishing_meets_its_recursion(initial, decay):
    rule = Diminishing(initial, decay)
    alpha = np.array([rule(n) for n in range(5000)])
    assert alpha[0] == initial
    np.testing.assert_allclose(alpha[1:], alpha[:-1] - decay * alpha[:-1] ** 2, rtol=1e-15)
    assert (alpha > 0).all()
    assert (np.diff(alpha) < 0).all()


@pytest.mark.parametrize(("initial", "decay"), [(0.5, 0.01), (1.0, 0.75)])
def test_diminishing_is_the_recursion_in_exact_arithmetic(initial, decay):
    rule, alpha = Diminishing(initial, decay), Fraction(initial)
    for n in range(12):
        assert rule(n) == pytest.approx(float(alpha), rel=1e-14)
        alpha *= 1 - Fraction(decay) * alpha


@pytest.mark.parametrize(("initial", "decay"), RULES)
def test_diminishing_falls_like_one_over_decay_times_n(initial, decay):
    # 1/alpha[n] = 1/alpha[n-1] + decay / (1 - decay alpha[n-1]), so 1/alpha grows by decay .. decay / (1 - decay initial):
    # the steps are not summable, their squares are.
    rule = Diminishing(initial, decay)
    n = np.array([1, 10, 1000, 100_000])
    inverse = np.array([1 / rule(int(m)) for m in n])
    assert (inverse >= (1 / initial + decay * n) * (1 - 1e-12)).all()
    assert (inverse <= (1 / initial + decay * n / (1 - decay * initial)) * (1 + 1e-12)).all()


@pytest.mark.parametrize("order", [[700, 0, 3, 699, 700], [0, 1, 2], [5, 4, 3, 2, 1, 0]])
def test_any_round_may_be_asked_for_first(order):
    sequence = [0.4]
    for _ in range(700):
        sequence.append(sequence[-1] * (1 - 0.07 * sequence[-1]))
    rule = pickle.loads(pickle.dumps(Diminishing(0.4, 0.07)))
    assert [rule(n) for n in order] == [sequence[n] for n in order]
    assert [Diminishing(0.4, 0.07)(np.int64(n)) for n in order] == [sequence[n] for n in order]


def test_rules_of_different_settings_do_not_mix():
    rules = [Diminishing(0.5, decay) for decay in np.linspace(0.01, 1, 100)]  # more than are remembered
    second = [rule(1) for rule in rules]
    assert second == [0.5 * (1 - rule.decay * 0.5) for rule in rules]
    assert [rule(1) for rule in reversed(rules)] == second[::-1]


def test_threads_that_share_a_rule_see_its_sequence():
    rule, sequence = Diminishing(0.9, 0.123), [0.9]
    for _ in range(3000):
        sequence.append(sequence[-1] * (1 - 0.123 * sequence[-1]))
    with ThreadPoolExecutor(4) as pool:
        for seen in pool.map(lambda _: [rule(n) for n in range(3001)], range(4)):
            assert seen == sequence


@pytest.mark.parametrize("initial", [0.3, 2])
def test_inverse_sqrt_halves_when_rounds_quadruple(initial):
    rule = InverseSqrt(initial)
    assert rule(0) == initial
    for n in (1, 7, 100, 10**6):
        assert rule(4 * n - 1) == pytest.approx(rule(n - 1) / 2, rel=1e-15)
        assert rule(n) ** 2 * (n + 1) == pytest.approx(initial**2, rel=1e-15)
    assert type(rule(3)) is float


def test_step_decay_falls_by_gamma_every_so_many_rounds():
    rule = StepDecay(0.8, every=4, gamma=0.25)
    assert [rule(n) for n in range(12)] == [0.8] * 4 + [0.2] * 4 + [0.05] * 4
    assert StepDecay(0.8, 1, gamma=1)(1000) == 0.8


@pytest.mark.parametrize("final", [0.0, 0.05, 0.4])
def test_cosine_annealing_meets_the_recursion_of_pytorch(final):
    """``eta[n+1] - min = (1 + cos(pi (n+1) / T)) / (1 + cos(pi n / T)) (eta[n] - min)``; then it stays."""
    rule, rounds = CosineAnnealing(0.4, 20, final), 20
    eta = 0.4
    for n in range(rounds):
        assert rule(n) == pytest.approx(eta, rel=1e-12)
        eta = final + (1 + np.cos(np.pi * (n + 1) / rounds)) / (1 + np.cos(np.pi * n / rounds)) * (eta - final)
    assert [rule(n) for n in (20, 21, 1000)] == [final] * 3
    assert type(rule(3)) is float


def test_a_warm_up_rises_along_a_line_to_the_rule_inside():
    inner = CosineAnnealing(0.4, 100, 0.1)
    rule = Warmup(inner, 5)
    assert [rule(n) / inner(n) for n in range(7)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 1, 1], rel=1e-14)
    assert Warmup(0.3, 1)(0) == Warmup(Constant(0.3), 1)(0) == 0.3
    assert checked(Warmup(2.0, 4), most=1)(0) == 0.5


@pytest.mark.parametrize("step", [0.1, 1, np.float32(0.5), np.float64(0.1), np.int64(1), Fraction(1, 4)])
def test_a_number_is_a_float_in_every_round(step):
    assert repr(checked(step)) == repr(float(step)) == repr(value_at(checked(step), 7))


@pytest.mark.parametrize("rule", [Constant(0.1), Diminishing(0.5, 0.1), InverseSqrt(0.2), lambda n: 1 / (n + 1)])
def test_a_rule_stays_itself(rule):
    assert checked(rule) is checked(rule, most=1) is rule
    assert value_at(rule, 7) == rule(7)


@pytest.mark.parametrize("step", [1.0, Constant(1.0), lambda n: 1.0 + n])
def test_only_the_first_step_is_held_to_its_bound_which_it_may_meet(step):
    assert value_at(checked(step, most=1), 0) == 1.0


@pytest.mark.parametrize(("make", "name"), [
    (Constant, r"value of Constant must be a finite number > 0"),
    (lambda bad: Diminishing(bad, 0.01), r"initial of Diminishing must be a finite number > 0"),
    (lambda bad: Diminishing(0.5, bad), r"decay of Diminishing must be a finite number > 0 and < 2\.0"),
    (InverseSqrt, r"initial of InverseSqrt must be a finite number > 0"),
    (lambda bad: StepDecay(bad, 3), r"initial of StepDecay must be a finite number > 0"),
    (lambda bad: StepDecay(1.0, 3, bad), r"gamma of StepDecay must be a finite number > 0 and <= 1"),
    (lambda bad: CosineAnnealing(bad, 3), r"initial of CosineAnnealing must be a finite number > 0"),
], ids=["Constant", "initial", "decay", "InverseSqrt", "StepDecay", "gamma", "CosineAnnealing"])  # fmt: skip
@pytest.mark.parametrize("bad", [0, 0.0, -0.1, np.nan, np.inf, "0.1", None, True], ids=repr)
def test_bad_settings_are_named(make, name, bad):
    with pytest.raises(ValueError, match=name + rf"; got {bad!r}$"):
        make(bad)


@pytest.mark.parametrize("decay", [2.0, 2.5])
def test_a_decay_that_would_reach_zero_is_refused(decay):
    with pytest.raises(ValueError, match=rf"decay of Diminishing must be .* < 2\.0; got {decay}"):
        Diminishing(0.5, decay)


@pytest.mark.parametrize(("step", "most", "words"), [
    (0, None, r"^step_size must be a finite number > 0; got 0"),
    (1.5, 1, r"^step_size must be a finite number > 0 and <= 1; got 1\.5"),
    (Diminishing(1.5, 0.1), 1, r"first value of step_size=Diminishing\(initial=1\.5, decay=0\.1\).*<= 1; got 1\.5"),
    (lambda n: -1.0, None, r"first value of step_size=.* must be a finite number > 0; got -1\.0"),
    (lambda n: np.nan, None, r"first value of step_size=.* must be a finite number > 0; got nan"),
])  # fmt: skip
def test_a_first_step_out_of_range_is_refused(step, most, words):
    with pytest.raises(ValueError, match=words):
        checked(step, most=most)


@pytest.mark.parametrize("step", ["0.1", None, True, [0.1], 1j], ids=repr)
def test_what_is_neither_number_nor_rule_is_refused(step):
    with pytest.raises(TypeError, match=r"step_size must be a number or a rule such as Diminishing\(.*\); got ") as caught:
        checked(step)
    assert f"got {step!r}" in str(caught.value)


def test_a_step_that_is_left_to_theory_has_no_value():
    assert checked(None, optional=True) is None


def test_values_are_floats_whatever_a_rule_returns():
    assert type(value_at(lambda n: np.float64(0.1), 0)) is float
    with pytest.raises(ValueError, match=r"^step_size=CosineAnnealing\(.*\) in round 9 must be a finite number > 0; got 0"):
        positive_at(CosineAnnealing(0.1, 9), 9)


def test_equal_settings_are_equal_rules():
    rules = [Constant(0.1), Constant(0.2), Diminishing(0.1, 0.2), InverseSqrt(0.1)]
    for one, other in itertools.product(rules, rules):
        assert (one == other) == (one is other)
    assert Diminishing(0.5, 0.1) == Diminishing(np.float64(0.5), 0.1)
    assert hash(Diminishing(0.5, 0.1)) == hash(Diminishing(0.5, 0.1))


def test_the_room_has_the_names_that_it_lists_alone():
    """A loop's variable among them was a kind of the command's files."""
    own = {name for name in dir(step_sizes) if isinstance(getattr(step_sizes, name), type)}
    assert own == set(step_sizes.__all__) - {"Rule", "checked", "positive_at", "value_at"}


test_refusals = refusals(
    (lambda: StepDecay(0.1, 0), ValueError, "every of StepDecay must be a whole number >= 1; got 0"),
    (lambda: StepDecay(0.1, 3, 1.5), ValueError, "gamma of StepDecay must be .* <= 1; got 1.5"),
    (lambda: CosineAnnealing(0.1, 2.5), ValueError, "rounds of CosineAnnealing must be a whole number >= 1; got 2.5"),
    (lambda: CosineAnnealing(0.1, 9, 0.2), ValueError, "final of CosineAnnealing must be .* <= 0.1; got 0.2"),
    (lambda: CosineAnnealing(0.1, 9, -0.1), ValueError, "final of CosineAnnealing must be .* >= 0 .*; got -0.1"),
    (lambda: Warmup(0.1, 0), ValueError, "rounds of Warmup must be a whole number >= 1; got 0"),
    (lambda: Warmup("0.1", 3), TypeError, "rule must be a number or a rule"),
    (lambda: Warmup(0.1, 3)(-1), ValueError, "round must be a whole number >= 0; got -1"),
    (lambda: value_at(None, 0), TypeError,
     r"no step size is found yet: give step_size=, or take solver\.prepared\(problem, network\)"),
    (lambda: value_at(lambda n: None, 3), ValueError, "in round 3 must be a finite number; got None"),
)  # fmt: skip
