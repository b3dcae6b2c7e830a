"""The bytes between two peers, as a relay on their way sees them: no number of the run, and hardly more than are counted."""

import socket
import threading
from contextlib import suppress

import numpy as np
import pytest

pytest.importorskip("grpc")

import consensus
from consensus import solvers
from consensus.peers import service
from consensus.peers.link import Link
from consensus.peers.roster import Roster
from tests.helpers.loopback import check_same, free_ports, network_of, together, written

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
