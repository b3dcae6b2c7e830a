"""How a layer-parallel pass ends when a slab is killed, or ctrl-C comes, in the middle of it: processes started afresh."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import consensus
from consensus.centralized import LayerParallel
from consensus.models import ResNet
from tests.helpers.slabs import Given

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("pids")]  # starting processes takes seconds
GIVEN = Given.drawn(ResNet(5, 32, 256, 2), samples=100)


@pytest.fixture
def endless(pids):
    """A model whose workers have started, and whose next pass would take hours."""
    with LayerParallel(GIVEN.model, 4) as model:
        model.gradient(*GIVEN[1:])
        model.iterations = 100_000
        yield model


def later(action, *arguments):
    threading.Timer(0.3, action, arguments).start()


@pytest.mark.parametrize("victim", [0, 2, 3])
def test_a_slab_that_is_killed_in_a_pass_is_named_and_the_others_end(endless, pids, victim):
    later(os.kill, pids[0][victim], signal.SIGKILL)
    with pytest.raises(consensus.WorkerError, match=rf"slab {victim} \(process {pids[0][victim]}\) died \(exit code -9\)"):
        endless.gradient(*GIVEN[1:])
    for pid in pids[0]:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_ctrl_c_ends_the_slabs_and_the_next_pass_starts_new_ones(endless, pids):
    later(os.kill, os.getpid(), signal.SIGINT)
    since = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        endless.gradient(*GIVEN[1:])
    assert time.monotonic() - since < 60
    for pid in pids[0]:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    endless.iterations = 3
    wanted = GIVEN.model.vjp(*GIVEN[1:])
    assert np.linalg.norm(endless.gradient(*GIVEN[1:]) - wanted) < 1e-3 * np.linalg.norm(wanted)
