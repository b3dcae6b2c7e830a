"""The file of a run, its certificates and keys: what is wrong is said, with who can mend it."""

import shutil
import socket
import threading
from contextlib import suppress

import pytest

import consensus
import topologies
from consensus.cli import main
from consensus.engines.transport import MIXED
from consensus.errors import WorkerError
from consensus.peers import Peers, check, keys, ranks
from consensus.peers.audit import Audit
from consensus.peers.link import Part
from consensus.peers.messages_pb2 import Note
from consensus.peers.ranks import Here, PeerRanks, routes
from consensus.peers.roster import Roster
from tests.helpers.loopback import NAMES, RING, network_of, problem_of, written

pytest.importorskip("grpc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("peers")
    written(found)
    keys("mallory", found)
    return found


@pytest.mark.parametrize(("old", "new", "why"), [
    ('lost = "wait"', 'lost = "stay"', 'lost in run.toml must be "wait" or "leave"'),
    ('lost = "wait"', 'lost = "leave"\ngrace = 0', "grace in run.toml must be .*; got 0"),
    ('lost = "wait"', 'lost = "wait"\ngrace = 5', 'grace in run.toml goes with lost = "leave"'),
    ("[peers]", "[others]", r"must have the tables \[peers\] and \[network\]"),
    ("oslo.pem", "nobody.pem", "its owner makes it by consensus-opt keys oslo"),
    ("oslo.pem", "mallory.pem", "is that of mallory; ask oslo for its own"),
    ("oslo.pem", "oslo.key", "is no certificate in PEM"),
    ("oslo = {", "os_lo = {", "must be a name of at most 63 letters"),
    ("oslo = {", "oslo = {agents = 2, ", "agents of oslo in run.toml must be 1"),
    ("oslo = {", "oslo = {adress = 2, ", "no 'adress'"),
    ("127.0.0.1:", "127.0.0.1;", 'must be "host:port"'),
    ('["oslo", "rome"]', '["oslo", "paris"]', "'paris' is none of the peers"),
    ('["oslo", "rome"]', '["oslo", "oslo"]', "an edge to itself"),
    ('["oslo", "rome"], ["rome", "vienna"]', '["vienna", "bergen"]', "falls into oslo, vienna, bergen; rome: add an edge"),
])  # fmt: skip
def test_files_refused(folder, old, new, why):
    text = (folder / "run.toml").read_text()
    assert old in text
    (other := folder / "other").mkdir(exist_ok=True)
    for file in folder.glob("*.*"):
        shutil.copy(file, other)
    (other / "run.toml").write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=why):
        Roster.read(other / "run.toml", "oslo")
    assert [finding.right for finding in check(other / "run.toml", "oslo")] == [False]


def test_keys_refused(folder, tmp_path):
    with pytest.raises(FileExistsError, match="move it away"):
        keys("oslo", folder)
    assert (folder / "oslo.key").stat().st_mode & 0o777 == 0o600
    path = written(tmp_path)
    with pytest.raises(ValueError, match=r"me must be one of the peers in run.toml, oslo, rome, vienna, bergen; got 'paris'"):
        Peers(path, me="paris")
    (tmp_path / "oslo.key").chmod(0o644)
    with pytest.raises(ValueError, match="chmod 600"):
        Peers(path, me="oslo")
    (tmp_path / "rome.key").write_bytes((tmp_path / "oslo.key").read_bytes())
    with pytest.raises(ValueError, match="is not that of the certificate of rome"):
        Peers(path, me="rome")
    (tmp_path / "bergen.key").unlink()
    with pytest.raises(ValueError, match="cannot read the key of bergen"):
        Peers(path, me="bergen")


def test_who_has_no_address_calls(folder):
    text = (folder / "run.toml").read_text()
    lines = text.split("\n")
    lines = ['oslo = {certificate = "oslo.pem"}' if line.startswith("oslo") else line for line in lines]
    (path := folder / "behind.toml").write_text("\n".join(lines))
    oslo, rome = Roster.read(path, "oslo"), Roster.read(path, "rome")
    assert oslo.digest == rome.digest != Roster.read(folder / "run.toml", "oslo").digest
    assert all(map(oslo.dials, oslo.neighbours))
    assert not rome.dials(0)
    assert list(oslo.network().labels) == list(NAMES)
    path.write_text("\n".join(lines).replace("bergen = {address", 'bergen = {certificate = "bergen.pem"} #'))
    with pytest.raises(ValueError, match=r"bergen and oslo in behind.toml have no address"):
        Roster.read(path, "rome")


def test_rows_of_all_travel_along_a_tree():
    """Whatever a peer sends, its neighbour expects, in this order; all come to have the rows of all."""
    import networkx as nx

    for tree in (nx.path_graph(5), nx.star_graph(4), nx.balanced_tree(2, 2)):
        ways, has = [routes(me, tree) for me in tree], [{me} for me in tree]
        for step in range(nx.diameter(tree)):
            before = [set(rows) for rows in has]
            for me in tree:
                for other in tree.neighbors(me):
                    sent = [owner for to, owner in ways[me][step][1] if to == other]
                    assert sent == [owner for source, owner in ways[other][step][0] if source == me]
                    assert set(sent) <= before[me]
                    has[other] |= set(sent)
        assert all(rows == set(tree) for rows in has)


def test_what_a_run_refuses(tmp_path):
    path = written(tmp_path, ("oslo",), ())
    with Peers(path, me="oslo") as peers:
        problem = problem_of(2)
        with pytest.raises(ValueError, match=r"one agent for each of the 1 peers in run.toml; got 2"):
            consensus.solve(problem, topologies.path(2), consensus.solvers.DGD(0.1), rounds=1, engine=peers)
        single = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=1, parameters=1)
        with pytest.raises(ValueError, match="seconds must be left out with Peers"):
            consensus.solve(single, peers.network, consensus.solvers.DGD(0.1), rounds=1, engine=peers, seconds=1.0)
    with pytest.raises(ValueError, match="is closed: make another one"):
        consensus.solve(single, network_of(("oslo",), ()), consensus.solvers.DGD(0.1), rounds=1, engine=peers)


def test_edges_that_the_file_lacks(tmp_path):
    with Peers(written(tmp_path), me="oslo") as peers, pytest.raises(ValueError, match=r"has one between .* and .*: add it"):
        peers._check_edges(topologies.Static(topologies.complete(4)))


def test_a_port_that_is_taken(tmp_path):
    path = written(tmp_path, ("oslo", "rome"), (("oslo", "rome"),))
    address = Roster.read(path, "oslo").peers[0].address.split(":")
    with (
        socket.create_server((address[0], int(address[1]))),
        pytest.raises(WorkerError, match=r"oslo cannot listen at 127.0.0.1"),
    ):
        Peers(path, me="oslo")


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["keys", "paris"])
    assert "paris.pem goes to the other peers" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"error: .*paris.key is there already"):
        main(["keys", "paris"])
    path = written(tmp_path, more="[run]\nrounds = 3\n[data]\nname = 'a.csv'\ntarget = 'y'\n")
    text = path.read_text()
    for old, new, why in (
        ("rounds", "seconds", "'seconds' is no setting of"),
        ("target", "targets", "did you mean target"),
        ("name = 'a.csv'", "", "needs name, this peer's file"),
        ("[run]", "[[solver]]\nkind = 'DGD'\n[[solver]]\nkind = 'EXTRA'\n[run]", "one"),
        ('lost = "wait"', 'lost = "never"', 'must be "wait" or "leave"'),
    ):
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(SystemExit, match=why):
            main(["peer", "run.toml", "--me", "oslo"])
    assert RING


# What logs say of waits, with a clock and a network of the test: all wait for one who is away, and name nobody else.

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
    monkeypatch.setattr("tests.consensus.peers.test_roster.WAITS", {"oslo": "rome", "rome": "vienna", "vienna": "oslo"})
    edges = (("oslo", "rome"), ("rome", "vienna"), ("vienna", "oslo"))
    world = World(written(tmp_path, NAMES[:3], edges), monkeypatch)
    world.until(4.5)
    assert not any(peer.arrived for peer in world.peers.values())
    for peer in world.peers.values():
        assert peer.links[WAITS[peer.name]].said.startswith(f"{peer.name} itself waits for {WAITS[peer.name]}")
    world.stop()
