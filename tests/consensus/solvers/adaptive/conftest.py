"""Fixtures of the tests of AdaptiveNEXT."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True)
def one_thread():
    """Run BLAS on one thread, as engines do: in small systems more threads are slower."""
    with threadpool_limits(1):
        yield
