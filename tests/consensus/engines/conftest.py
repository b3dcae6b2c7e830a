"""Workers that start at once."""

import pytest


@pytest.fixture
def forked(monkeypatch):
    """Worker processes begin as copies of this one, in milliseconds; what they do from then on is the same.

    For comparisons over many settings. Tests of starting, dying and ending use the engine as it is.
    """
    import multiprocessing

    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("needs fork")
    context = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda method=None: context)
