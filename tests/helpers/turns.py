"""Pairs of cases, of which some run in every test run and all in ``make test-slow``."""

import pytest


def in_turn(first, second, every=2):
    """Each of ``first`` with each of ``second``; those out of ``every``'s turn are slow."""
    first, second = list(first), list(second)
    return [
        pytest.param(one, other, marks=[pytest.mark.slow] if (i + j) % every else [])
        for i, one in enumerate(first)
        for j, other in enumerate(second)
    ]


def with_slow(names, *slow):
    """``names``, of which some are slow."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in slow else []) for name in names]
