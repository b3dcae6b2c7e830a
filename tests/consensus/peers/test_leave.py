"""Runs that go on without those who are lost: each epoch has the bits of one process with those who are present."""

import signal

import numpy as np
import pytest

pytest.importorskip("grpc")

import consensus
import topologies
from consensus import privacy, solvers
from consensus.errors import WorkerError
from consensus.peers import engine
from consensus.peers.link import Refused
from tests.helpers.loopback import NAMES, RING, network_of, problem_of, stacked, together, written
from tests.helpers.peer_processes import SOLVER, Owners


class Gone(Exception):
    pass


@pytest.mark.slow
def test_nobody_is_lost(tmp_path):
    names, edges = ("oslo", "rome"), (("oslo", "rome"),)
    problem = problem_of(2)
    alone = consensus.solve(problem, network_of(names, edges), SOLVER, rounds=4, record_every=2)
    path = written(tmp_path, names, edges, lost="leave")
    found = together(
        path, lambda peers: consensus.solve(problem, peers.network, SOLVER, rounds=4, record_every=2, engine=peers), names
    )
    for result in found.values():
        assert not isinstance(result, BaseException), repr(result)
        assert np.array_equal(result.w, alone.w)
        for column in set(alone.history) - {"seconds"}:
            assert np.array_equal(result.history[column], alone.history[column]), column
        assert result.history["epoch"].tolist() == [1, 1, 1]
        assert result.history["present"].tolist() == [2, 2, 2]


def test_one_leaves(tmp_path):
    problem = problem_of(4)
    path = written(tmp_path, lost="leave")

    def run(peers):
        def leaves(info):
            if peers.here.name == "oslo" and info.round == 3:
                raise Gone

        options = {"callbacks": [leaves], "rounds": 9, "record_every": 1}
        return consensus.solve(problem, peers.network, SOLVER, engine=peers, **options)

    found = together(path, run)
    assert isinstance(found["oslo"], Gone)
    for name in NAMES[1:]:
        result = found[name]
        assert not isinstance(result, BaseException), repr(result)
        check_epochs(result, [(1, NAMES), (2, NAMES[1:])])
        assert np.isnan(result.w[0]).all()
        assert np.array_equal(result.mean, consensus.observe.measure.agents_mean(result.w[1:]))


def check_epochs(result, epochs, edges=RING):
    """Compare a result, epoch by epoch, with runs of one process among those who are present."""
    rounds, numbers = result.history["round"], result.history["epoch"]
    assert rounds.tolist() == list(range(len(rounds)))
    w = np.zeros((4, result.w.shape[1]))
    w[:] = problem_of(4).model.init(np.random.default_rng(0))
    for place, (number, names) in enumerate(epochs):
        members, (own,) = [NAMES.index(name) for name in names], np.nonzero(numbers == number)
        if not own.size:  # the next epoch began before a round of this one was done
            w[np.setdiff1d(range(4), members)] = consensus.observe.measure.agents_mean(w[members])
            continue
        last = own[-1] if place + 1 == len(epochs) else own[-1] + 1  # the next epoch begins with this round
        alone = stacked(
            SOLVER,
            members,
            w[members],
            int(rounds[last] if last < len(rounds) else rounds[-1]) - int(rounds[own[0]]),
            edges=edges,
        )
        assert np.array_equal(result.history["objective"][own], alone.history["objective"][: len(own)]), number
        assert np.array_equal(result.history["disagreement"][own], alone.history["disagreement"][: len(own)])
        assert (result.history["present"][own] == len(members)).all()
        w[:] = alone.mean  # of whoever comes back
        w[members] = alone.w
    assert np.array_equal(result.w[members], w[members])


@pytest.mark.slow
def test_a_killed_peer_comes_back(tmp_path):
    """The first peer, which decides for all, is killed, and comes back with nothing but its file of what it agreed to."""
    run = Owners(tmp_path, rounds=10_000, pause=0.05, lost="leave", grace=4.0)

    def rounds(name):
        return run.said(name).count("\nround ")

    try:
        run.until(lambda: rounds("oslo") > 3)
        run.end("oslo", signal.SIGKILL)
        run.until(lambda: rounds("rome") > 3)  # which is the first one now
        before = rounds("oslo")
        run.processes["oslo"] = run.start("oslo")
        run.until(lambda: rounds("oslo") > before + 3)
        assert run.last() == NAMES
        run.enough()
        run.finish()
        results = [consensus.load(tmp_path / f"{name}.npz") for name in NAMES]
        for result in results:
            check_epochs(result, sorted(run.epochs().items()))
            assert not np.isnan(result.w).any()
            assert np.array_equal(result.w, results[0].w)
        assert np.isnan(results[0].history["waited"]).any()  # of rounds at which it was away
        assert "go on without it if they are more than half" in "".join(map(run.said, NAMES))
    finally:
        run.kill()


@pytest.mark.slow
def test_a_machine_that_sleeps_comes_back(tmp_path):
    """Its process stops and goes on, with all that it has in memory: the others have a new epoch, and then one with it."""
    run = Owners(tmp_path, rounds=10_000, pause=0.05, lost="leave", grace=4.0)

    def three_more():
        before = run.said("oslo").count("\nround ")
        run.until(lambda: run.said("oslo").count("\nround ") > before + 3)

    try:
        three_more()
        run.processes["vienna"].send_signal(signal.SIGSTOP)
        run.until(lambda: "vienna" not in run.last())
        three_more()
        run.processes["vienna"].send_signal(signal.SIGCONT)
        run.until(lambda: run.last() == NAMES)
        three_more()
        run.enough()
        run.finish()
        results = [consensus.load(tmp_path / f"{name}.npz") for name in NAMES]
        for result in results:
            check_epochs(result, sorted(run.epochs().items()))
            assert np.array_equal(result.w, results[0].w)
    finally:
        run.kill()


@pytest.mark.slow
def test_a_broken_link_is_left_out(tmp_path, monkeypatch):
    """All are present, and one edge does not work: the next epoch goes without it, and nobody waits for it again."""
    monkeypatch.setattr(engine, "_LINGER", 1.0)
    problem, path, all_peers = problem_of(4), written(tmp_path, lost="leave", grace=4.0), []

    def cut(info):
        if info.round == 3:
            for peers in all_peers:
                for link in peers.here.links.values():
                    if {peers.here.name, link.name} == {"rome", "vienna"}:
                        link.arrived = refuse

    def refuse(stream, data):
        raise Refused("the test cuts it")

    def run(peers):
        all_peers.append(peers)
        options = {"rounds": 9, "record_every": 1, "callbacks": [cut]}
        return consensus.solve(problem, peers.network, SOLVER, engine=peers, **options)

    for result in together(path, run).values():
        assert not isinstance(result, BaseException), repr(result)
        assert (result.history["present"] == 4).all()
        first = int(np.flatnonzero(result.history["epoch"] == 2)[0])
        before = stacked(SOLVER, [0, 1, 2, 3], problem.model.init(np.random.default_rng(0)), first)
        rest = tuple(edge for edge in RING if edge != ("rome", "vienna"))
        after = stacked(SOLVER, [0, 1, 2, 3], before.w, 9 - first, edges=rest)
        assert np.array_equal(result.w, after.w)
        assert result.history["epoch"][-1] == 2


@pytest.mark.slow
@pytest.mark.parametrize(("edges", "gone"), [(RING, ("oslo", "rome")), (RING[:3], ("rome",))])
def test_too_few_wait_and_say_so(tmp_path, edges, gone):
    """Two of four are no majority; nor is a part of a network that fell apart."""
    problem, path = problem_of(4), written(tmp_path, edges=edges, lost="leave")

    def run(peers):
        def step(problem, network, state):
            if peers.here.name in gone and state.round == 3:
                raise Gone
            return solvers.GradientTracking.step(solver, problem, network, state)

        solver = solvers.GradientTracking(0.05)
        object.__setattr__(solver, "step", step)
        return consensus.solve(problem, peers.network, solver, engine=peers, rounds=9, record_every=1)

    found = together(path, run, patience=4.0)
    for name in set(NAMES) - set(gone):
        said = str(found[name])
        assert isinstance(found[name], WorkerError), repr(found[name])
        assert f"{name} waits since" in said
        assert "2 of 4 peers are present and connected, and it takes more than half: " in said or "1 of 4 peers" in said
        assert all(one in said for one in gone)
        assert "when its owner starts the same command again" in said


def test_what_cannot_leave_is_refused(tmp_path):
    names, edges = ("oslo", "rome"), (("oslo", "rome"),)
    path, problem = written(tmp_path, names, edges, lost="leave"), problem_of(2)
    functions = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=2, parameters=1)
    lazy = topologies.Static(topologies.path(2), weights=topologies.lazy(topologies.metropolis))
    cases = [
        ({"checkpoint": tmp_path / "run.ckpt"}, "checkpoint must be left out with lost"),
        ({"problem": functions}, "problem must be a consensus.Problem of samples"),
        ({"network": lazy}, "network must be peers.network"),
        ({"solver": solvers.TreeLBFGS(secure=privacy.SecureSums())}, "TreeLBFGS keeps secrets"),
        ({"honest": [0]}, "honest must be left out"),
        ({"seconds": 3.0}, "seconds must be left away"),
    ]

    def run(peers):
        said = []
        for given, _ in cases:
            given = {"problem": problem, "network": peers.network, "solver": SOLVER, "rounds": 2} | given
            try:
                consensus.solve(**given, engine=peers)
            except (TypeError, ValueError) as error:
                said.append(str(error))
        consensus.solve(problem, peers.network, SOLVER, rounds=2, engine=peers)
        try:
            consensus.solve(problem, peers.network, SOLVER, rounds=2, engine=peers)
        except ValueError as error:
            said.append(str(error))
        return said

    for said in together(path, run, names).values():
        assert isinstance(said, list), repr(said)
        assert len(said) == len(cases) + 1
        for text, (_, why) in zip(said, cases, strict=False):
            assert why in text
        assert "make another one" in said[-1]
