"""Tiny versions of all experiments, run once for the tests that look at what they write."""

import contextlib
import io
import multiprocessing
from pathlib import Path

import pytest

from experiments import __main__ as listing

ROOT = Path(__file__).parents[2]
SHARED = [module for module, _, shared in listing.found(ROOT / "experiments") if shared]


@pytest.fixture(scope="session")
def options():
    """What makes an experiment tiny."""
    return ["--quick", "--rounds", "3", "--seeds", "1", "--agents", "6"]


@pytest.fixture(scope="session")
def tiny(options, tmp_path_factory):
    """Their folder, and what they printed, by module."""
    folder, printed = tmp_path_factory.mktemp("tiny"), {}
    with pytest.MonkeyPatch.context() as patch:
        if "fork" in multiprocessing.get_all_start_methods():  # workers that start in milliseconds, as in the fixture forked
            fork = multiprocessing.get_context("fork")
            patch.setattr(multiprocessing, "get_context", lambda method=None: fork)
        for module in SHARED:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                listing.run_all([module], [*options, "--output", str(folder)])
            printed[module] = out.getvalue()
    return folder, printed
