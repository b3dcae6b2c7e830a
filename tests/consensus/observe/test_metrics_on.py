"""Objectives and stationarity of a sample."""

import numpy as np
import pytest

import consensus
import topologies
from consensus.engines import Processes
from consensus.solvers import DGD
from tests.helpers.engine_harness import assert_same
from tests.helpers.problems import problem
from tests.helpers.refusals import refusals

P = problem("logistic", consensus.L2(0.1), consensus.MLP([4, 6, 1]), "sizes")
RING = topologies.ring(P.agents)


def run(problem=P, **options):
    return consensus.solve(problem, RING, DGD(0.3), rounds=6, record_every=2, **options)


def test_rows_are_those_of_one_batch():
    rule = consensus.Minibatches(3, seed=4)
    result, batch = run(metrics_on=rule, agent_objectives=True), rule.at(P, 0)
    point, r = result.mean, P.regularizer
    X, y = P.shards.features, P.shards.targets
    costs = np.zeros(P.agents)
    for agent, (places, weights) in enumerate(zip(batch.indices, batch.weights, strict=True)):
        for place, weight in zip(places, weights, strict=True):
            z = P.model.predict(point, X[agent, place][None])[0, 0]
            costs[agent] += weight * P.weights[agent, place] * (np.logaddexp(0, z) - y[agent, place, 0] * z)
    np.testing.assert_allclose(result.history["objective"][-1], costs.sum() + r.value(point), rtol=1e-12)
    everywhere = np.broadcast_to(point, (P.agents, len(point)))
    total = P.gradient(everywhere, batch).sum(axis=0) + 0.1 * point
    np.testing.assert_allclose(result.history["stationarity"][-1], np.linalg.norm(total) / 1.1, rtol=1e-12)
    assert_same(run(), run(metrics_on=None))
    np.testing.assert_array_equal(result.w, run().w)  # only what is seen of a run is another


def test_all_samples_are_all_samples():
    most = int(P.shards.sizes.max())
    assert_same(run(metrics_on=most), run())


@pytest.mark.slow
def test_engines_and_resumed_runs_measure_on_the_same_samples(tmp_path, forked):
    whole = run(metrics_on=2)
    assert_same(run(metrics_on=2, engine=Processes(2)), whole)
    path = tmp_path / "run.ckpt"
    consensus.solve(P, RING, DGD(0.3), rounds=2, record_every=2, metrics_on=2, checkpoint=path)
    assert_same(run(metrics_on=2, resume=path), whole)


def test_costs_that_are_functions_have_no_samples():
    functions = consensus.Problem.from_functions(lambda w: (w**2).sum(axis=1), lambda w: 2 * w, agents=P.agents, parameters=2)
    with pytest.raises(TypeError, match="minibatches need a problem with samples"):
        run(functions, metrics_on=2)


test_refusals = refusals(
    (lambda: run(metrics_on=0), ValueError, "metrics_on must be a whole number >= 1; got 0"),
    (lambda: run(metrics_on=1000), ValueError, "^metrics_on does not fit: size of Minibatches must be at most"),
    (lambda: run(metrics_on="some"), TypeError, "metrics_on must be a number of samples or a rule"),
)
