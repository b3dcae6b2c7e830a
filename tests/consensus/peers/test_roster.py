"""The file of a run, its certificates and keys: what is wrong is said, with who can mend it."""

import shutil
import socket

import pytest

pytest.importorskip("grpc")

import consensus
import topologies
from consensus.cli import main
from consensus.errors import WorkerError
from consensus.peers import Peers, check, keys
from consensus.peers.ranks import routes
from consensus.peers.roster import Roster
from tests.helpers.loopback import NAMES, RING, network_of, problem_of, written


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
