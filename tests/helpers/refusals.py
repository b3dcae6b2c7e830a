"""Refusals as a table: ``test_refusals = refusals((call, error, message), ...)``, a test of a row each."""

import inspect

import pytest


def refusals(*rows):
    """Each call raises the error, with a message that matches; parameters of a call without a default are fixtures."""

    @pytest.mark.parametrize(("call", "error", "message"), rows)
    def test(call, error, message, request):
        parameters = inspect.signature(call).parameters.values()
        fixtures = [request.getfixturevalue(each.name) for each in parameters if each.default is each.empty]
        with pytest.raises(error, match=message):
            call(*fixtures)

    return test
