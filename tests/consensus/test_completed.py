"""Objects of users whose classes have no base class of the package are completed once, and stay what they are."""

import cloudpickle
import numpy as np

import consensus
import topologies
from consensus._checks import completed
from consensus.engines import Processes
from consensus.losses.base import LossDefaults
from consensus.models import Linear, linearize
from consensus.models.linearization import LinearizationDefaults, ModelDefaults
from consensus.problems import BaseProblem
from consensus.solvers import AdaptiveNEXT, GradientTracking
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


class Bare:
    """The least that a model has, in place of a known one."""

    def __init__(self, model):
        self.model, self.parameters, self.outputs = model, model.parameters, model.outputs
        self.init, self.predict, self.vjp, self.jvp = model.init, model.predict, model.vjp, model.jvp

    def __repr__(self):
        return f"Bare({self.model})"


def test_a_bare_model_gives_the_same_bits_on_every_engine():
    known = problem("squared", model=consensus.MLP([4, 3, 1]))
    own = consensus.Problem(Bare(known.model), known.loss, known.shards, known.regularizer)
    assert isinstance(own.model, Bare)
    assert own.model.samples_at_once(np.float64) == 32 << 20 >> 4  # by its outputs alone
    for solver in (GradientTracking(0.01), GradientTracking(0.01, batch=2)):
        runs = [
            consensus.solve(p, topologies.ring(known.agents), solver, rounds=4, engine=engine).w
            for p, engine in ((known, "stacked"), (own, "stacked"), (own, Processes(2)))
        ]
        for run in runs[1:]:
            np.testing.assert_array_equal(run, runs[0])


class Mine(BaseProblem):
    """A problem of a user's that can be linearised, with a model and a loss of their own."""

    def __init__(self, shards, model, loss):
        super().__init__(shards.rows, shards.network_size, model.parameters, np.float64, consensus.L2(0.01))
        self.model, self.loss, self.shards, self.weights = model, loss, shards, shards.weights / shards.samples

    def _value(self, w):
        return (self.loss.value(self.model.predict(w, self.shards.features), self.shards.targets) * self.weights).sum(axis=1)

    def _gradient(self, w):
        slopes = self.loss.gradient(self.model.predict(w, self.shards.features), self.shards.targets)
        return self.model.vjp(w, self.shards.features, slopes * self.weights[:, :, None])

    def linearize(self, w, rows):
        return linearize(self.model, w[rows], self.shards.features[rows])

    def restrict(self, rows):
        block = super().restrict(rows)
        block.shards, block.weights = self.shards.restrict(rows), self.weights[rows]
        return block

    def digests(self):
        return []


class Whole(Bare, ModelDefaults):
    """The same, derived from what has the other members."""


def test_what_a_problem_of_ones_own_has_is_completed_before_a_run():
    shards, ring = problem("squared").shards, topologies.ring(problem("squared").agents)
    for loss, solver in ((Counted(), GradientTracking(0.05)), (consensus.SquaredLoss(), AdaptiveNEXT())):
        bare, whole = (consensus.solve(Mine(shards, kind(Linear(4)), loss), ring, solver, rounds=8).w for kind in (Bare, Whole))
        np.testing.assert_array_equal(bare, whole)


def test_a_linearization_that_lacks_methods_has_none_there():
    w, x, known = np.zeros((1, 5)), np.ones((1, 3, 4)), Linear(4)

    class OwnLinearization:
        vjp = staticmethod(lambda u, out=None: known.vjp(w, x, u))
        jvp = staticmethod(lambda v: known.jvp(w, x, v))

    model = Bare(known)
    model.linearize = lambda w, x: (known.predict(w, x), OwnLinearization())
    found = linearize(model, w, x)[1]
    names = "jacobian", "gram", "upper_gram", "diagonal"
    assert [getattr(found, name) for name in names] == [getattr(LinearizationDefaults, name) for name in names] == [None] * 4
    np.testing.assert_array_equal(found.jvp(np.ones((1, 2, 5))), np.full((1, 2, 3, 1), 5.0))
    del model.linearize
    assert linearize(model, w, x)[1].jacobian().shape == (1, 3, 5)
    assert ModelDefaults.linearize is None
