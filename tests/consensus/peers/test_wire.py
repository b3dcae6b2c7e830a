"""The bytes between two peers, as a relay on their way sees them: no number of the run, and hardly more than are counted."""

import socket
import threading
from contextlib import suppress

import numpy as np
import pytest

import consensus
from consensus import compression, privacy, robust, solvers, surrogates
from consensus.peers import service
from consensus.peers.link import Link
from consensus.peers.roster import Roster
from tests.helpers.loopback import NAMES, RING, check_same, free_ports, network_of, problem_of, together, written

pytest.importorskip("grpc")
TWO, EDGE = ("oslo", "rome"), (("oslo", "rome"),)


class Relay:
    """What listens at the address of the first peer, and passes on all bytes, which it keeps."""

    def __init__(self, port, to):
        self.seen, self.to = [], to
        self.server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with suppress(OSError):
            while True:
                caller, _ = self.server.accept()
                try:
                    called = socket.create_connection(("127.0.0.1", self.to))
                except OSError:  # it does not listen yet
                    caller.close()
                    continue
                for one, other in ((caller, called), (called, caller)):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self.passes, args=(one, other), daemon=True).start()

    def passes(self, one, other):
        with suppress(OSError):
            while data := one.recv(1 << 20):
                self.seen.append(data)
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @property
    def bytes(self):
        return sum(map(len, list(self.seen)))


@pytest.fixture
def relay(tmp_path, monkeypatch):
    """A relay between two peers, and the file of their run."""
    path = written(tmp_path, TWO, EDGE)
    host, port = Roster.read(path, "oslo").peers[0].address.split(":")
    (behind,) = free_ports(1)
    monkeypatch.setattr(service, "listens", lambda peer: f"{host}:{behind}")
    found = Relay(int(port), behind)
    yield found, path
    found.server.close()


def quadratic(parameters, rng):
    centres = rng.standard_normal((2, parameters))
    cost, slope = lambda w: ((w - centres) ** 2).sum(axis=1), lambda w: 2 * (w - centres)
    return consensus.Problem.from_functions(cost, slope, agents=2, parameters=parameters, labels=TWO)


def test_no_number_of_a_message_is_on_the_wire(relay, monkeypatch):
    """What is sent is known here, number by number; of none of them are the eight bytes among those that passed."""
    found, path = relay
    sent, frames, send, yields = [], [], Link.send, Link.frames

    def noted(self, kind, round, rows, digests=None):
        sent.append(np.array(rows))
        send(self, kind, round, rows, digests)

    def framed(self, stream):
        for frame in yields(self, stream):
            frames.append(frame)
            yield frame

    monkeypatch.setattr(Link, "send", noted)
    monkeypatch.setattr(Link, "frames", framed)
    problem, solver = quadratic(50, np.random.default_rng(0)), solvers.GradientTracking(0.05)
    options = {"rounds": 10, "record_every": 5}
    results = together(path, lambda peers: consensus.solve(problem, peers.network, solver, engine=peers, **options), TWO)
    alone = consensus.solve(problem, network_of(TWO, EDGE), solver, **options)
    for result in results.values():
        check_same(result, alone)
    numbers = {number.tobytes() for rows in sent if rows.dtype == np.float64 for number in rows.ravel() if number}
    assert len(numbers) > 1000
    before, wire = b"".join(frames), b"".join(found.seen)
    assert all(number in before for number in numbers)  # before TLS they are
    assert not any(number in wire for number in numbers)
    assert not any(word in wire for word in (b"<f8", b"objective", b"GradientTracking"))
    assert found.bytes > sum(map(len, frames))


@pytest.mark.slow
def test_bytes_on_the_wire_are_those_that_are_counted(relay):
    """Of rounds of a million numbers, with TLS, HTTP/2, acknowledgements: at most 1.05 times; rows of the history are extra."""
    found, path = relay
    problem, passed, counted = quadratic(10**6, np.random.default_rng(0)), [], []
    for rounds in (2, 6):
        before = found.bytes

        def run(peers, rounds=rounds):
            options = {"rounds": rounds, "record_every": rounds, "engine": peers}
            return consensus.solve(problem, peers.network, solvers.DGD(0.05), **options)

        results = together(path, run, TWO)
        passed.append(found.bytes - before)
        counted.append(int(results["oslo"].history["bytes"][-1]))
        assert all((result.history["resent"] == 0).all() for result in results.values())
    assert counted == [2 * 2 * 8 * 10**6, 6 * 2 * 8 * 10**6]
    assert 1 < (passed[1] - passed[0]) / (counted[1] - counted[0]) < 1.05


# Peers have the bits of one process.

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
