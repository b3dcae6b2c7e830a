"""Runs that go on without those who are lost: each epoch has the bits of one process with those who are present."""

import logging
import signal
import time

import numpy as np
import pytest

import consensus
import topologies
from consensus import privacy, solvers
from consensus.errors import DivergenceError, WorkerError
from consensus.peers import engine
from consensus.peers.link import Refused
from tests.helpers.loopback import NAMES, RING, check_same, network_of, problem_of, stacked, together, written
from tests.helpers.peer_processes import SOLVER, Owners

pytest.importorskip("grpc")


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
        ({"seconds": 3.0}, "seconds must be left out"),
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


# Links that break, and peers that are killed, stopped or suspended: the bits stay, and the log says who is waited for.

TWO, EDGE = ("oslo", "rome"), (("oslo", "rome"),)


@pytest.fixture
def owners(tmp_path):
    found = []
    yield lambda rounds, pause: found.append(Owners(tmp_path, rounds, pause)) or found[-1]
    found[0].kill()


def test_links_cut_in_rounds(tmp_path):
    rng, all_peers = np.random.default_rng(0), []

    def cut(info):
        for peers in all_peers:
            for link in peers.here.links.values():
                if rng.random() < 0.5:
                    link.detach(link.stream, "the test cuts it")

    def run(peers):
        all_peers.append(peers)
        return consensus.solve(problem_of(2), peers.network, SOLVER, rounds=3, record_every=1, engine=peers, callbacks=[cut])

    alone = consensus.solve(
        problem_of(2), network_of(TWO, EDGE), SOLVER, rounds=3, record_every=1, callbacks=[lambda info: None]
    )
    for found in together(written(tmp_path, TWO, EDGE), run, TWO).values():
        check_same(found, alone)


@pytest.mark.slow
def test_killed_peers_come_back_from_their_checkpoints(owners):
    """The first peer, which decides for all, and another one after it; one of them before its first checkpoint."""
    run = owners(rounds=60, pause=0.02)
    for name in ("rome", "oslo"):
        run.until((run.folder / f"{name}.ckpt").exists)
        run.end(name, signal.SIGKILL)
        run.processes[name] = run.start(name)
        run.until(lambda name=name: "comes back" in run.said(name))
    run.check(rounds=60)
    assert "waits for" not in run.said("vienna") or "starts the same command again" in run.said("vienna")
    assert "rome was started again" in run.said("vienna")


@pytest.mark.slow
def test_a_peer_killed_before_its_first_checkpoint(owners):
    run = owners(rounds=6, pause=0.2)
    run.until(lambda: (run.folder / "bergen.audit.jsonl").exists() and "joined by position" in run.said("oslo"))
    run.end("bergen", signal.SIGKILL)
    run.processes["bergen"] = run.start("bergen")
    run.check(rounds=6)


@pytest.mark.slow
def test_ctrl_c_and_suspended(owners):
    run = owners(rounds=60, pause=0.02)
    run.until((run.folder / "vienna.ckpt").exists)
    run.processes["bergen"].send_signal(signal.SIGSTOP)
    time.sleep(6)
    run.processes["bergen"].send_signal(signal.SIGCONT)
    run.until(lambda: "bergen is there again" in run.said("oslo"))
    assert "computes, or is suspended" in run.said("oslo")
    run.end("vienna", signal.SIGINT)
    run.until(lambda: "vienna was stopped by its owner in round" in run.said("rome"))
    assert "Interrupted" in run.said("vienna")
    run.processes["vienna"] = run.start("vienna")
    run.check(rounds=60)


@pytest.mark.slow
def test_all_go_on_from_the_last_common_round(tmp_path):
    """Everybody was stopped; one has written a checkpoint that the others have not. Without resume= nothing is overwritten."""
    problem, path = problem_of(4), written(tmp_path)

    def run(peers, rounds, **options):
        place = tmp_path / f"{peers.here.name}.ckpt"
        options = dict.fromkeys(options, place)
        return consensus.solve(problem, peers.network, SOLVER, rounds=rounds, every=3, record_every=2, engine=peers, **options)

    together(path, lambda peers: run(peers, 6, checkpoint=True))
    (tmp_path / "rome.ckpt").replace(tmp_path / "rome.later")
    (tmp_path / "rome.ckpt.before").replace(tmp_path / "rome.ckpt")
    for found in together(path, lambda peers: run(peers, 10, checkpoint=True)).values():
        assert isinstance(found, ValueError)
        assert "is there already" in str(found)
    alone = consensus.solve(problem, network_of(NAMES, RING), SOLVER, rounds=10, record_every=2)
    for found in together(path, lambda peers: run(peers, 10, checkpoint=True, resume=True)).values():
        check_same(found, alone)
    (tmp_path / "rome.ckpt").unlink()
    (tmp_path / "rome.later").replace(tmp_path / "rome.ckpt")
    (tmp_path / "rome.ckpt.before").unlink()
    for found in together(path, lambda peers: run(peers, 10, resume=True)).values():
        assert isinstance(found, ValueError)
        assert "rome: [6]" in str(found)


@pytest.mark.slow
def test_what_ends_a_run_ends_it_everywhere(tmp_path):
    """A diverging iterate would diverge again: nobody waits for it. Other errors wait for their peer, as long as patience."""
    path = written(tmp_path, TWO, EDGE)

    def diverges(peers):
        return consensus.solve(problem_of(2), peers.network, solvers.DGD(1e60), rounds=50, record_every=1, engine=peers)

    found = together(path, diverges, TWO)
    assert all(isinstance(error, WorkerError | DivergenceError) for error in found.values())
    assert any(isinstance(error, DivergenceError) for error in found.values())

    def fails(info):
        raise KeyError("of a user")

    def waits(peers):
        return consensus.solve(problem_of(2), peers.network, SOLVER, rounds=5, engine=peers, callbacks=[fails])

    found = together(path, waits, TWO, patience=1.0)
    assert isinstance(found["oslo"], KeyError)
    assert isinstance(found["rome"], WorkerError)
    assert "rome has waited for oslo in round" in str(found["rome"])
    assert "patience=1" in str(found["rome"])


def test_what_a_log_says_of_a_wait(tmp_path, caplog):
    from consensus.peers import Peers
    from consensus.peers import ranks as ranks_of_peers

    path = written(tmp_path, TWO, EDGE)
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING, "consensus"):
        patch.setattr(ranks_of_peers, "SAYS", (0.0,))
        patch.setattr(ranks_of_peers, "_LOOKS", 0.05)
        with Peers(path, me="rome", patience=0.3) as peers, pytest.raises(WorkerError, match="rome has waited for oslo"):
            peers.allgather([1])
    (said, *_) = caplog.messages
    assert said.startswith("rome waits for oslo in consensus.solve since ")
    assert "there is no connection since" in said
    assert "the owner of oslo starts the same command again" in said


def test_what_is_sent_again_has_the_same_bytes(tmp_path):
    """A neighbour may have the first half of what this peer sent before it was killed: all must be the same, to the byte."""
    from consensus.checkpoints.checkpoint import read
    from consensus.engines.ranks import pack
    from consensus.peers.engine import _OWN, Rounds, _part

    names, sent = ("oslo",), []

    def run(peers):
        report = Rounds.report

        def kept(self, state, counts, seconds):
            answer = report(self, state, counts, seconds)
            sent.append(pack({name: count for name, count in self.counts.items() if name != "seconds"}))
            return answer

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Rounds, "report", kept)
            options = {"rounds": 2, "every": 2, "record_every": 1, "engine": peers, "checkpoint": tmp_path / "one.ckpt"}
            problem = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=1, parameters=1)
            return consensus.solve(problem, peers.network, solvers.DGD(0.1), **options)

    together(written(tmp_path, names, ()), run, names)
    own = _part(read(tmp_path / "one.ckpt").counts, _OWN)
    del own["seconds"]
    assert pack({name: count + own[name] * 0 for name, count in own.items()}) == sent[-1]
