"""A short run, and a fixture that watches the processes of a test."""

import os
import signal
import uuid

import pytest

from tests.helpers import engine_cases
from tests.helpers.engine_harness import MARK, Traces, living, names_by_prefix, semaphores, wait_for


@pytest.fixture
def case():
    return engine_cases.special()["functions, DGD"]


@pytest.fixture
def mark(monkeypatch):
    """What marks the processes that this test starts; afterwards none of them lives, and no shared memory is left."""
    traces = Traces(name := uuid.uuid4().hex)
    monkeypatch.setenv(MARK, name)
    monkeypatch.setitem(*semaphores(name))
    monkeypatch.setattr(*names_by_prefix())
    yield name
    try:
        wait_for(lambda: not living(name, helpers=False))
        wait_for(lambda: not traces.left())
    finally:
        for process in living(name, helpers=False):
            os.kill(process, signal.SIGKILL)
