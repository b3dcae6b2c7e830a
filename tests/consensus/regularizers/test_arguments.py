"""Arguments out of range: the message names the argument, its value and what is allowed."""

import numpy as np
import pytest

from consensus.regularizers import L1, L2, SCAD, Box, ElasticNet, GroupL1, L2Ball, LogSum, WeightedElasticNet
from tests.helpers.every_regularizer import GROUPS, P


def raises(match, error=ValueError):
    return pytest.raises(error, match=match)


NUMBERS = {
    "weight of L1 >= 0": L1,
    "weight of L2 >= 0": L2,
    "l1 of ElasticNet >= 0": lambda bad: ElasticNet(bad, 1.0),
    "l2 of ElasticNet >= 0": lambda bad: ElasticNet(1.0, bad),
    "weight of GroupL1 >= 0": lambda bad: GroupL1(bad, [[0]]),
    "weight of LogSum >= 0": lambda bad: LogSum(bad, 1.0),
    "epsilon of LogSum > 0": lambda bad: LogSum(1.0, bad),
    "weight of SCAD >= 0": SCAD,
    "a of SCAD > 2": lambda bad: SCAD(1.0, bad),
    "radius of L2Ball > 0": L2Ball,
}


@pytest.mark.parametrize("bad", [-1e-3, 0, 2, np.nan, np.inf, "1", None, True, 1j, np.ones(2)], ids=repr)
@pytest.mark.parametrize("argument", NUMBERS)
def test_bad_numbers(argument, bad):
    name, sign, bound = argument.rsplit(maxsplit=2)
    if argument == "weight of L2 >= 0" and isinstance(bad, np.ndarray):
        L2(bad)  # a weight for each parameter
        return
    if type(bad) is int and (bad > int(bound) or (sign == ">=" and bad == int(bound))):
        NUMBERS[argument](bad)
        return
    with raises(rf"^{name} must be a finite number {sign} {bound}; got ") as caught:
        NUMBERS[argument](bad)
    assert f"got {bad!r}" in str(caught.value)


@pytest.mark.parametrize("bad", [np.nan, "1", None, True, 1j, [], [[1.0]], [0.0, np.nan], [True], np.ones((2, 2))], ids=repr)
def test_bad_bounds(bad):
    for name, arguments in (("lower", (bad, 1.0)), ("upper", (0.0, bad))):
        with raises(rf"{name} of Box must be a number or an array \(P,\) of numbers") as caught:
            Box(*arguments)
        assert f"got {bad!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Box([0.0, 2.0], 1.5), r"lower of Box must be <= upper, .* got 2.0 and 1.5 at coordinate 1"),
        (lambda: Box(np.inf, np.inf), "got inf and inf at coordinate 0"),
        (lambda: Box(np.zeros(2), np.ones(3)), "lower and upper of Box must have the same length; got 2 and 3"),
        *((lambda bad=bad: L2(bad), "weight of L2 must be finite weights >= 0")
          for bad in ([-1.0, 0], [np.inf, 0], [[1.0]], [])),
        (lambda: L2([1.0, 2.0]).gradient(np.ones(3)), "w must have the 2 coordinates of L2"),
        (lambda: L2([1.0, 2.0]).prox(np.ones((4, 3)), 1.0), "v must have the 2 coordinates of L2"),
        (lambda: L2([1.0, 2.0]).split([slice(0, 3)]), "slices must cover the 2 coordinates of L2"),
        *((lambda bad=bad: WeightedElasticNet([1.0, 1.0], bad), "l2 of WeightedElasticNet must be finite weights >= 0")
          for bad in ([-1.0, 0], [np.inf, 0], [[1.0]], [])),
        (lambda: WeightedElasticNet(np.ones(4), [1.0, 2.0]), "must be of one length; got 4 and 2"),
        (lambda: GroupL1(1.0, [[0], [3, 5]], 5), r"groups\[1\] of GroupL1 must be .* >= 0 and <= 4; got \[3, 5\]"),
        (lambda: GroupL1(1.0, [], parameters=0), "parameters of GroupL1 must be a whole number >= 1; got 0"),
        (lambda: GroupL1(1.0, [[0], []]), r"groups\[1\] of GroupL1 must be a non-empty list of whole numbers >= 0; got \[\]"),
        (lambda: GroupL1(1.0, [[0, -1]]), r"groups\[0\] .* got \[0, -1\]"),
        (lambda: GroupL1(1.0, [[0.0, 1.0]]), r"groups\[0\] .* got \[0.0, 1.0\]"),
        (lambda: GroupL1(1.0, [[True, False]]), r"groups\[0\] .* got \[True, False\]"),
        (lambda: GroupL1(1.0, [0, 1]), r"groups\[0\] .* got 0"),
        (lambda: GroupL1(1.0, [[[0, 1]]]), r"groups\[0\] .* got \[\[0, 1\]\]"),
        (lambda: GroupL1(1.0, [[0, 2, 5], [1, 5]]), r"disjoint; coordinate 5 is in groups\[0\] and in groups\[1\]"),
        (lambda: GroupL1(1.0, [[3], [2, 2]]), r"disjoint; coordinate 2 is in groups\[1\] and in groups\[1\]"),
    ],
)  # fmt: skip
def test_bad_settings(make, match):
    with raises(match):
        make()


def test_groups_of_something_else():
    class Odd:
        widths, bias, parameters = (2, 1), True, 4

        def __repr__(self):
            return "Odd()"

    with raises(r"a model with widths and bias, as consensus\.MLP.* has; got 'mlp'", TypeError):
        GroupL1.of_units(1.0, "mlp")
    with raises(r"Odd\(\) must have the 3 parameters of its widths \(2, 1\); it has 4"):
        GroupL1.of_inputs(1.0, Odd())


@pytest.mark.parametrize(("r", "match"), [
    (GroupL1(1, [[0, 9]]), "points of .* must have at least 10 coordinates"),
    (GroupL1(1, [[0]], parameters=9), "points of .* must have 9 coordinates"),
    (Box(np.zeros(9), 1), "points of .* must have 9 coordinates"),
    (WeightedElasticNet(np.ones(9), np.ones(9)), "must have the 9 coordinates of WeightedElasticNet"),
], ids=repr)  # fmt: skip
def test_points_of_another_length(r, match):
    v, calls = np.ones((5, P)), [r.value, lambda v: r.prox(v, 1.0)]
    calls += [] if "the" in match else [lambda v: r.prox_jvp(v, 1.0, v), lambda v: r.active(v, 1.0)]
    for call in calls:
        with raises(rf"{match}.*; got shape \(5, 8\)"):
            call(v)


GAPS = [[(0, 4), (5, 8)], [(0, 4), (3, 8)], [(1, 8)], [(0, 8, 2)], [(0, None)], [(4, 8), (0, 4)]]
EMPTY = [[(0, 4), (4, 2)], [(0, 4), (4, 4), (4, 8)], []]


@pytest.mark.parametrize("slices", [[8], *([slice(*ends) for ends in part] for part in GAPS + EMPTY)], ids=str)
def test_slices_that_do_not_cover(slices):
    with raises(r"slices must cover 0\.\.P in order, none empty, as .* does; got \["):
        L1(1).split(slices)


WEIGHTED = WeightedElasticNet(np.ones(P), np.ones(P))


@pytest.mark.parametrize("r", [GroupL1(1, [[7]]), GroupL1(1, [[0]], parameters=P), Box(0, np.ones(P)), WEIGHTED], ids=repr)
def test_slices_of_another_length(r):
    with raises("slices must cover the 8 coordinates of "):
        r.split([slice(0, 4), slice(4, 7)])


def test_slices_over_which_r_does_not_separate():
    slices = [slice(0, 4), slice(4, 7), slice(7, 8)]
    for r, match in (
        (L2Ball(1.0), r"L2Ball\(radius=1.0\) does not separate over \[slice\(0, 4, None\), "),
        (GroupL1(1.0, GROUPS), r"GroupL1\(.*does not separate over .* coordinates 1 \.\. 6 .* slice\(4, 7, None\)"),
    ):
        with raises(match):
            r.split(slices)
