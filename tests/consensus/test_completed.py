"""Objects of users whose classes have no base class of the package are completed once, and stay what they are."""

import cloudpickle
import numpy as np

import consensus
import topologies
from consensus._checks import completed
from consensus.engines import Processes
from consensus.losses.base import LossDefaults
from consensus.solvers import GradientTracking
from tests.helpers.problems import problem


class Counted:
    """The squared loss, which counts its gradients."""

    def __init__(self):
        self.calls = 0

    def __repr__(self):
        return "Counted()"

    def value(self, outputs, targets):
        return consensus.SquaredLoss().value(outputs, targets)

    def gradient(self, outputs, targets):
        self.calls += 1
        return consensus.SquaredLoss().gradient(outputs, targets)

    def check(self, targets, outputs):
        assert targets.shape[-1] == outputs


def test_a_loss_of_ones_own_counts_its_calls_and_gives_the_same_bits():
    known = problem("squared", model=consensus.MLP([4, 3, 1]))
    loss, ring, solver = Counted(), topologies.ring(known.agents), GradientTracking(0.01)
    own = consensus.Problem(known.model, loss, known.shards, known.regularizer)
    assert isinstance(own.loss, Counted)
    assert f"{own.loss!r} {type(own.loss).__name__}" == "Counted() Counted"
    expected, before = consensus.solve(known, ring, solver, rounds=4).w, loss.calls
    for engine in ("stacked", Processes(2)):
        np.testing.assert_array_equal(consensus.solve(own, ring, solver, rounds=4, engine=engine).w, expected)
    assert loss.calls - before >= 4


def test_what_is_missing_is_that_of_the_base():
    loss = Counted()
    found = completed(loss, LossDefaults)
    assert (found.over, found.convex, found.label_counts(np.zeros((3, 1))), found.curvature_bound) == (
        "samples",
        True,
        1.0,
        None,
    )
    assert not hasattr(found, "curvature")
    assert completed(found, LossDefaults) is found
    loss.convex, loss.label_counts = False, lambda targets: 2.0  # its own come first
    assert (found.convex, found.label_counts(None), cloudpickle.loads(cloudpickle.dumps(found)).label_counts(None)) == (
        False,
        2,
        2,
    )
    assert completed(consensus.SquaredLoss(), LossDefaults).__class__ is consensus.SquaredLoss
