"""Nested states, made flat and put together again."""

from typing import NamedTuple

import numpy as np

from consensus.communication.states import flatten, rebuild
from tests.helpers.refusals import refusals


class Inner(NamedTuple):
    """A part with a state of its own."""

    a: object
    b: object


class Empty(NamedTuple):
    """A part that remembers nothing."""


class Outer(NamedTuple):
    """A state."""

    round: int
    w: np.ndarray
    first: object
    second: object


STATE = Outer(3, np.ones((2, 1)), Inner(Inner(1.0, np.arange(2)), Empty()), (4, 5))


def test_names_are_paths_and_values_are_not_copied():
    flat = flatten(STATE)
    assert list(flat) == ["round", "w", "first.a.a", "first.a.b", "second"]
    assert flat["w"] is STATE.w
    assert flat["first.a.b"] is STATE.first.a.b
    assert flat["second"] == (4, 5)  # a tuple without names is one value


def test_rebuilt_is_the_same():
    template = Outer(0, 0, Inner(Inner(0, 0), Empty()), 0)
    again = rebuild(template, dict(reversed(flatten(STATE).items())))
    assert again == STATE
    assert type(again.first.a) is Inner
    assert type(again.first.b) is Empty


test_refusals = refusals(
    (lambda: rebuild(STATE, {"first": 1, **{name: flatten(STATE)[name] for name in ("round", "w", "second")}}), ValueError,
     r"another version of the solver: Outer there lacks first\.a\.a, first\.a\.b and has also first$"),
    (lambda: rebuild(STATE, flatten(STATE) | {"V": 1}), ValueError, r"there has also V$"),
)  # fmt: skip
