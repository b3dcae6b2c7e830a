"""What logs say of waits, with a clock and a network of the test: all wait for one who is away, and name nobody else."""

import threading
from contextlib import suppress

import pytest

pytest.importorskip("grpc")

from consensus.engines.transport import MIXED
from consensus.peers import ranks
from consensus.peers.audit import Audit
from consensus.peers.link import Part
from consensus.peers.messages_pb2 import Note
from consensus.peers.ranks import Here, PeerRanks
from consensus.peers.roster import Roster
from tests.helpers.loopback import NAMES, written

WAITS = {"rome": "oslo", "oslo": "bergen", "bergen": "vienna"}  # vienna is away


class Stop(Exception):
    pass


class Clock:
    """The module ``time`` of waits: the test moves it."""

    now = 0.0

    def monotonic(self):
        return self.now

    time = monotonic

    def localtime(self, moment):
        return moment

    def strftime(self, form, *moment):
        return "12:00:00"


class Peer:
    """A peer that waits for a neighbour on a thread of its own, which runs while it has its turn, and at no other time."""

    def __init__(self, path, name):
        self.name, roster = name, Roster.read(path, name)
        self.here = Here(roster, Audit(path.with_name(f"{name}.audit")))
        self.links = {link.name: link for link in self.here.links.values()}
        self.here.changed.wait = self.wait
        self.ranks = PeerRanks(self.here, roster, 1000.0)
        self.ranks.enter(lambda: "in round 3", [])
        self.arrived, self.stops, self.waiting = [], False, True
        self.turn, self.ready = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        self.turn.acquire()
        try:
            with suppress(Stop):
                self.ranks._awaited(self.links[WAITS[self.name]])
        finally:
            self.waiting = False
            self.ready.release()

    def wait(self, seconds):
        self.ready.release()
        self.turn.acquire()
        if self.stops:
            raise Stop
        for name, frame in self.arrived:
            self.links[name].arrived(0, frame)
        self.arrived.clear()

    def goes(self):
        if self.waiting:
            self.turn.release()
            self.ready.acquire()


class World:
    def __init__(self, path, monkeypatch):
        self.clock = Clock()
        monkeypatch.setattr(ranks, "time", self.clock)
        self.peers = {name: Peer(path, name) for name in WAITS}
        for peer in self.peers.values():
            for link in peer.links.values():
                link.greeted = link.name in WAITS

    def until(self, seconds):
        """Let all have a turn each half second; what they send arrives at the next one."""
        while self.clock.now < seconds:
            for peer in self.peers.values():
                peer.goes()
            for name, peer in self.peers.items():
                for link in peer.links.values():
                    while link._control:
                        self.peers[link.name].arrived.append((name, link._control.popleft()))
            self.clock.now += 0.5

    def stop(self):
        for peer in self.peers.values():
            peer.stops = True
            peer.goes()


@pytest.fixture
def world(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO", "consensus")
    found = World(written(tmp_path), monkeypatch)
    yield found
    found.stop()


def test_the_one_who_is_away_is_named_by_all(world, caplog):
    """Rome waits for oslo, which waits for bergen, which waits for vienna: their lines are due at one moment."""
    world.until(5.0)
    assert not caplog.messages
    world.until(5.5)
    said = {text.split()[0]: text for text in caplog.messages}
    assert said.keys() == WAITS.keys()
    assert said["bergen"].startswith("bergen waits for vienna in round 3 since 12:00:00 (5 s): there is no connection")
    for name in ("oslo", "rome"):
        assert said[name].startswith(f"{name} waits for {WAITS[name]} in round 3 since 12:00:00 (5 s): ")
        assert "bergen itself waits for vienna in round 3 since 12:00:00" in said[name]


def test_who_goes_on_says_so(world, caplog):
    world.until(5.5)
    bergen, oslo, rome = (world.peers[name] for name in ("bergen", "oslo", "rome"))
    assert (oslo.links["bergen"].state, rome.links["oslo"].state) == (Note.WAITS, Note.WAITS)
    bergen.links["vienna"].inbox.messages.append(Part(1, MIXED, 3, 0, "<f8", 0, b""))
    world.until(6.0)
    assert not bergen.waiting
    assert "bergen: vienna is there again after 6 s" in caplog.messages
    world.until(7.0)
    assert oslo.links["bergen"].state == Note.GOES_ON
    assert "oslo itself waits for bergen in round 3" in rome.links["oslo"].said
    world.stop()
    assert not any(f"{name} is there again" in text for text in caplog.messages for name in ("oslo", "bergen"))


def test_what_comes_back_goes_no_further(tmp_path, monkeypatch):
    """Three who wait for each other, which no run does, tell each other so once, and not for ever."""
    monkeypatch.setattr("tests.consensus.peers.test_waits.WAITS", {"oslo": "rome", "rome": "vienna", "vienna": "oslo"})
    edges = (("oslo", "rome"), ("rome", "vienna"), ("vienna", "oslo"))
    world = World(written(tmp_path, NAMES[:3], edges), monkeypatch)
    world.until(4.5)
    assert not any(peer.arrived for peer in world.peers.values())
    for peer in world.peers.values():
        assert peer.links[WAITS[peer.name]].said.startswith(f"{peer.name} itself waits for {WAITS[peer.name]}")
    world.stop()
