"""Mailboxes are read once, after the gradient; what is sent may be a part of a state."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from consensus.asynchronous import ADPSGD, ASYSONATA, RASGP, OverlapSGP, Simulated
from consensus.asynchronous.base import AsynchronousSolver
from consensus.asynchronous.mailbox import Mailbox
from consensus.solvers.needs import Needs
from consensus.surrogates import PartialLinearization
from tests.helpers.problems import CIRCLE, problem
from tests.helpers.unlike_quadratics import STEPS, events


class Message(NamedTuple):
    w: np.ndarray


class State(NamedTuple):
    w: np.ndarray
    wakes: np.ndarray


@dataclass(frozen=True)
class SendsWhatItWas(AsynchronousSolver):
    """Counts its wakes, and sends the count before, which is its state itself."""

    needs = Needs(mixing="column stochastic", wakes=True)
    sends = "w"

    def init(self, problem, arcs, w):
        return State(0 * w, np.zeros(len(w), int)), Message(0 * w)

    def wake(self, problem, arcs, state, mailbox):
        return State(state.w + 1, state.wakes + 1), Message(state.w)


def test_a_message_may_be_a_part_of_the_state():
    running = events(SendsWhatItWas(), Simulated())
    for _ in range(3 * 8):
        running.advance(1)
    np.testing.assert_array_equal(running.state.w, 3.0)
    np.testing.assert_array_equal(running.mailbox.w[1, 0], 2.0)  # of agent 0, which was 2 when it woke for the third time


def test_it_is_read_once_when_the_first_field_is_asked_for():
    reads = []

    def read():
        reads.append(None)
        return Message(np.arange(3.0))

    mailbox = Mailbox(read)
    assert not reads
    np.testing.assert_array_equal(mailbox.w, [0, 1, 2])
    (w,) = mailbox
    assert w is mailbox[0] is mailbox.w
    assert len(mailbox) == 1
    assert mailbox._fields == ("w",)
    with pytest.raises(AttributeError, match="rho"):
        _ = mailbox.rho
    assert len(reads) == 1


@pytest.mark.parametrize(
    "solver",
    [STEPS, ASYSONATA(PartialLinearization(0.6), 0.2), RASGP(0.01), OverlapSGP(0.01), ADPSGD(0.01)],
    ids=["full", "partial", "RASGP", "OverlapSGP", "ADPSGD"],
)
def test_the_gradient_is_computed_before_messages_are_read(solver):
    running = events(solver, Simulated(), problem(), CIRCLE)
    (block,) = running.blocks.of([1])
    own, newest = (kind._make([value[1:2] for value in kind]) for kind in (running.state, running.mailbox))

    def read():
        assert block.problem.work.gradients == 1
        return newest

    before = block.problem.work.gradients
    late, _ = solver.wake(block.problem, block.arcs, own, Mailbox(read))
    assert block.problem.work.gradients == before + 1
    early, _ = solver.wake(block.problem, block.arcs, own, newest)
    np.testing.assert_array_equal(late.w, early.w)
