"""Peers have the bits of one process."""

import numpy as np
import pytest

pytest.importorskip("grpc")

import consensus
from consensus import compression, privacy, robust, solvers, surrogates
from tests.helpers.loopback import NAMES, RING, check_same, network_of, problem_of, together, written

PATH, COMPLETE = RING[:3], (*RING, ("oslo", "vienna"), ("rome", "bergen"))
NEAR = surrogates.PartialLinearization(tau=1.0)
CASES = {
    "DGD": (solvers.DGD(0.05, batch=5), RING),
    "GradientTracking": (solvers.GradientTracking(0.05), PATH),
    "EXTRA": (solvers.EXTRA(0.05), PATH),
    "NIDS": (solvers.NIDS(0.05), RING),
    "NEXT": (solvers.NEXT(NEAR, 0.2), RING),
    "SONATA": (solvers.SONATA(NEAR, 0.2), PATH),
    "AdaptiveNEXT": (solvers.AdaptiveNEXT(), RING),
    "KGT": (solvers.KGT(), RING),
    "ChocoSGD": (solvers.ChocoSGD(compression.TopK(0.3), 0.02, 0.2), RING),
    "LEAD": (solvers.LEAD(compression.Quantize(4)), RING),
    "TreeLBFGS": (solvers.TreeLBFGS(), PATH),
    "TreeNewton": (solvers.TreeNewton(), PATH),
    "NNA": (robust.NNA(solvers.DGD(0.05), 0.25), COMPLETE),
    "secure sums": (solvers.TreeLBFGS(secure=privacy.SecureSums()), RING),
    "DATOS": (solvers.DATOS(), PATH),
    "Auto": (solvers.Auto(), RING),
}


def test_two_peers(tmp_path):
    names, edges = ("oslo", "rome"), (("oslo", "rome"),)
    problem, solver = problem_of(2), solvers.GradientTracking(0.05)
    options = {"rounds": 4, "record_every": 2, "stop": "objective <= 0", "test": (np.ones((3, 4)), np.ones(3))}
    alone = consensus.solve(problem, network_of(names, edges), solver, **options)
    path = written(tmp_path, names, edges)
    found = together(path, lambda peers: consensus.solve(problem, peers.network, solver, engine=peers, **options), names)
    for name in names:
        check_same(found[name], alone)
        history = found[name].history
        assert np.all(history["waited"] >= 0)
        assert np.all(history["resent"] == 0)
        assert np.all(np.diff(history["bytes_on_wire"]) > 0)


@pytest.mark.slow
def test_solvers(tmp_path):
    problem = problem_of(4)
    for name, (solver, edges) in CASES.items():
        alone = consensus.solve(problem, network_of(NAMES, edges), solver, rounds=5, record_every=2)
        path = written(tmp_path, edges=edges)

        def run(peers, solver=solver):
            return consensus.solve(problem, peers.network, solver, rounds=5, record_every=2, engine=peers)

        for found in together(path, run).values():
            assert not isinstance(found, BaseException), f"{name}: {found!r}"
            check_same(found, alone)


def test_models_of_two_floats_and_what_callbacks_see(tmp_path):
    """A callback of the first peer asks for the rows of all, and ends the run of all; float32 travels as it is."""
    names, edges = ("oslo", "rome", "vienna"), (("rome", "oslo"), ("oslo", "vienna"))
    X = np.random.default_rng(1).standard_normal((30, 4)).astype(np.float32)
    shards = consensus.partition(X, X[:, 0], agents=3, seed=0)
    problem = consensus.Problem(consensus.Linear(4), consensus.SquaredLoss(), shards)
    assert problem.dtype == np.float32
    seen = []

    def look(info):
        if info.round:
            seen.append(info.w.copy())
        return "enough" if info.round == 2 else None

    options = {"rounds": 9, "callbacks": [look], "gather": False}
    alone = consensus.solve(problem, network_of(names, edges), solvers.DGD(0.05), **(options | {"gather": True}))
    wanted = seen.copy()
    seen.clear()
    path = written(tmp_path, names, edges)
    found = together(
        path, lambda peers: consensus.solve(problem, peers.network, solvers.DGD(0.05), engine=peers, **options), names
    )
    for agent, name in enumerate(names):
        assert np.array_equal(found[name].w, alone.w[agent : agent + 1])
        assert found[name].reason == alone.reason == "enough"
    assert len(seen) == len(wanted) == 2
    assert all(map(np.array_equal, seen, wanted))
