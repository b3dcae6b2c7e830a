"""Links that break, and peers that are killed, stopped or suspended: the bits stay, and the log says who is waited for."""

import logging
import signal
import time

import numpy as np
import pytest

pytest.importorskip("grpc")

import consensus
from consensus import solvers
from consensus.errors import DivergenceError, WorkerError
from tests.helpers.loopback import NAMES, RING, check_same, network_of, problem_of, together, written
from tests.helpers.peer_processes import SOLVER, Owners

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
