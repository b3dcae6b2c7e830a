"""Which tests share a worker where several run at once, and what tests of several packages use."""

import ast
import functools
import itertools
import multiprocessing
import os
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
# Tests of processes have timeouts, and look at what is left behind; those of experiments look at one run of them all.
TOGETHER = {HERE / "consensus" / "engines": "processes", HERE / "campaign": "processes", HERE / "experiments": "experiments"}

_parse, _turn = ast.parse, threading.Lock()


@functools.wraps(_parse)
def _parse_in_turn(*args, **options):
    """Threads that stand for ranks read NumPy's files at once; Python 3.11 counts the depth of one tree for all of them."""
    with _turn:
        return _parse(*args, **options)


ast.parse = _parse_in_turn


def pytest_addoption(parser):
    parser.addoption("--engine", choices=["processes", "mpi", "torch", "threads"], help="where runs happen that name no engine")
    parser.addoption("--device", default="cpu", help="where tests of the engine Device compute, such as cuda")


def pytest_configure(config):
    """``pytest tests/consensus/solvers --engine=processes``; ``mpiexec -n 2 pytest tests/consensus/solvers --engine=mpi``;
    ``pytest tests/consensus/device --device=cuda``."""
    os.fsync = lambda file: None  # thousands of small files, none of which has to outlive a power cut
    if config.getoption("--device") != "cpu":
        from consensus.device import Device

        Device.__init__.__defaults__ = (config.getoption("--device"), *Device.__init__.__defaults__[1:])
    if config.getoption("--engine"):
        from consensus import solve
        from consensus.engines import MPI, Processes, Torch
        from consensus.testing.threads import Threads

        engines = {"processes": lambda: Processes(2), "mpi": MPI, "torch": Torch, "threads": lambda: Threads(2)}
        solve.__kwdefaults__["engine"] = engines[config.getoption("--engine")]()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """No examples in the docstrings of tests: looking for them imports every helper and takes seconds."""
    return [found for found in (yield) if not found.__class__.__name__.startswith("Doctest")]


@pytest.fixture(autouse=True)
def other_engine(request):
    """With ``--engine``, workers begin in milliseconds; tests of what one process holds, marked ``stacked``, are skipped."""
    if request.config.getoption("--engine"):
        if request.node.get_closest_marker("stacked"):
            pytest.skip("looks into the process that runs")
        request.getfixturevalue("forked")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items):
    for path, those in itertools.groupby(items, key=lambda item: item.path):
        groups = [group for folder, group in TOGETHER.items() if folder in path.parents]
        for item, group in itertools.product(those, groups):
            item.add_marker(pytest.mark.xdist_group(group))


def _draw_anew(module, seed):
    """Set the random generators of a module of tests to a seed."""
    for value in vars(module).values():
        if isinstance(value, np.random.Generator):
            value.bit_generator.state = np.random.default_rng(seed).bit_generator.state


@pytest.fixture(autouse=True, scope="module")
def _same_draws_of_a_module(request):
    _draw_anew(request.module, 1)


@pytest.fixture(autouse=True)
def _same_draws(request):
    """What a test draws does not depend on which tests have run before it."""
    _draw_anew(request.module, 2)


@pytest.fixture
def forked(monkeypatch):
    """Worker processes begin as copies of this one, in milliseconds; what they do from then on is the same.

    For comparisons over many settings. Tests of starting, dying and ending use the engine as it is.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("needs fork")
    context = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda method=None: context)
    with warnings.catch_warnings():
        # JAX, if an earlier test has used it, warns of its threads, which copies do not have: none of them uses it.
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        yield
