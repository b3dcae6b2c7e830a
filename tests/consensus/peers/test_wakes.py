"""Solvers without rounds between peers: newest messages, ends, restarts and broken links."""

import signal
import textwrap
import threading

import networkx as nx
import numpy as np
import pytest

pytest.importorskip("grpc")

import consensus
import topologies
from consensus.asynchronous import ADPSGD, ASYSONATA, RASGP, AsynchronousDGD, OverlapSGP
from consensus.checkpoints.checkpoint import read
from consensus.cli import Config, ConfigError, peer
from consensus.errors import WorkerError
from consensus.peers import Peers, wakes
from consensus.peers.newest import Newest, Packet
from consensus.step_sizes import Diminishing
from consensus.surrogates import FullLinearization
from tests.helpers.loopback import NAMES, together, written
from tests.helpers.peer_processes import Owners
from tests.helpers.peer_quadratics import OPTIMUM, SOLVER, optimum, quadratics

TWO, EDGE = ("oslo", "rome"), (("oslo", "rome"),)


COMMAND = """
[data]
name = "a.csv"
target = "y"
[model]
hidden = []
[run]
rounds = 50
every = 10
record_every = 50
[[solver]]
kind = "ASYSONATA"
step_size = 0.5
surrogate = {kind = "FullLinearization", tau = 2.0}
"""


def packets(number, parts=1):
    return [Packet(b"%d.%d" % (number, part), number, number, part, 4, b"") for part in range(parts)]


def test_what_is_overtaken_never_leaves():
    newest = Newest()
    assert not newest.waits
    assert newest.put(packets(1))
    assert not newest.put(packets(2, parts=2))  # the first one had not left
    assert newest.next() == (packets(2, 2)[0], True)
    assert newest.put(packets(3))  # begins when all of the one before has left
    assert [newest.next()[0].frame for _ in range(2)] == [b"2.1", b"3.0"]
    assert not newest.waits
    newest.again()
    assert newest.next() == (packets(3)[0], False)


def test_what_arrives_late_or_in_part_is_dropped():
    newest = Newest()
    assert newest.arrived(1, 0, 4, b"abcd") is None
    assert newest.take() is None  # nothing is expected yet
    newest.reset(4, 7)
    assert newest.arrived(7, 0, 4, b"abcd") is None  # of the run before
    assert newest.take() is None
    assert newest.arrived(8, 0, 5, b"abcde") == "a newest message of 5 bytes where 4 are due"
    assert newest.arrived(9, 1, 4, b"cd") is None  # whose beginning was lost
    assert newest.arrived(10, 0, 4, b"ab") is None
    assert newest.take() is None
    assert newest.arrived(10, 1, 4, b"cd") is None
    assert newest.arrived(9, 0, 4, b"late") is None
    assert (newest.number, newest.take(), newest.take()) == (10, b"abcd", None)
    newest.begin()  # a process that was started again counts anew
    assert newest.arrived(1, 0, 4, b"anew") is None
    assert newest.take() == b"anew"


def check_ends(found, rounds, atol=1e-6):
    for result in found.values():
        assert not isinstance(result, BaseException), repr(result)
        np.testing.assert_allclose(result.w, np.tile(OPTIMUM, (4, 1)), atol=atol)
        assert result.reason == f"all {rounds} rounds done"
        assert np.array_equal(result.w, found["oslo"].w)
        for column in set(result.history) - {"waited", "resent", "bytes_on_wire"}:
            assert np.array_equal(result.history[column], found["oslo"].history[column]), column


def masses(states):
    """The sum of trackers and of what is on its way, less that of gradients."""
    c, kept = topologies.push(nx.cycle_graph(4)).toarray(), np.zeros(2)
    for me, state in states.items():
        kept += state.z[0] - state.gradient[0]
        for place, source in enumerate(sorted(((me - 1) % 4, (me + 1) % 4))):
            kept += c[me, source] * (states[source].rho[0] - state.seen[0, place])
    return kept


@pytest.mark.parametrize(
    ("rounds", "breaks"),
    [(20, 0.0), pytest.param(800, 0.0, marks=pytest.mark.slow), pytest.param(1200, 0.003, marks=pytest.mark.slow)],
)
def test_all_come_to_the_optimum_and_masses_are_kept(tmp_path, monkeypatch, rounds, breaks):
    """Also where links break at random, again and again."""
    rng, all_peers, states = np.random.default_rng(0), [], {}
    ended = wakes.Wakes._measured

    def cut(rows):
        if len(rows) == 1 and rng.random() < breaks:
            for peers in all_peers:
                for link in peers.here.links.values():
                    if rng.random() < 0.2:
                        link.detach(link.stream, "the test cuts it")

    def measured(self):
        states[self.here.me] = self.agents.state
        return ended(self)

    def run(peers):
        all_peers.append(peers)
        problem = quadratics(wakes=cut)
        return consensus.solve(problem, peers.network, SOLVER, rounds=rounds, record_every=rounds // 4, engine=peers)

    monkeypatch.setattr(wakes.Wakes, "_measured", measured)
    found = together(written(tmp_path), run)
    check_ends(found, rounds=rounds, atol=1e-6 if rounds > 20 else 100.0)
    history = found["oslo"].history
    assert history["round"].tolist() == [0, rounds // 4, rounds // 2, 3 * rounds // 4, rounds]
    assert (history["wakes"] >= 4 * history["round"]).all()
    assert history["bytes"][-1] == 32 * history["messages"][-1]  # two vectors of two numbers
    np.testing.assert_allclose(masses(states), 0, atol=1e-12)


def test_two_runs_in_a_row_and_one_that_goes_on(tmp_path):
    """Messages of the first run do not enter the second one; a checkpoint of each peer is gone on from."""

    def run(peers):
        problem, path = quadratics(2), tmp_path / f"{peers.here.name}.ckpt"
        solver, options = ASYSONATA(FullLinearization(tau=8.0), 0.8), {"engine": peers, "start": np.full(2, 5.0)}
        first = consensus.solve(problem, peers.network, solver, rounds=20, checkpoint=path, **options)
        second = consensus.solve(problem, peers.network, AsynchronousDGD(0.05), rounds=10, **options)
        third = consensus.solve(problem, peers.network, solver, rounds=400, resume=path, record_every=30, **options)
        return first, second, third

    found = together(written(tmp_path, TWO, EDGE), run, TWO)
    for three in found.values():
        assert not isinstance(three, BaseException), repr(three)
        first, _, third = three
        assert first.history["round"].tolist() == list(range(21))
        assert set(range(20)) <= set(third.history["round"].tolist())
        assert np.array_equal(first.history["objective"][:20], third.history["objective"][:20])
        np.testing.assert_allclose(third.w, np.tile(optimum(2), (2, 1)), atol=1e-4)


def test_what_peers_cannot_do_is_refused_by_name(tmp_path):
    one = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=1, parameters=1)
    path = written(tmp_path, ("oslo",), ())
    with Peers(path, me="oslo") as peers:
        network, options = peers.network, {"rounds": 5, "engine": peers}
        with pytest.raises(TypeError, match="ADPSGD needs two agents at once, and Peers have messages: take ASYSONATA"):
            wakes.check(ADPSGD(0.1), peers.roster)  # which has no network of one agent
        with pytest.raises(TypeError, match=r"OverlapSGP needs all messages.*take RASGP"):
            consensus.solve(one, network, OverlapSGP(0.1), **options)
        with pytest.raises(ValueError, match=r"stop, tolerance, exchanges and seconds must be left out.*ASYSONATA"):
            consensus.solve(one, network, SOLVER, tolerance=1e-3, **options)
        for solver in (SOLVER, RASGP(Diminishing(0.01, 5.0)), AsynchronousDGD(0.1)):
            assert consensus.solve(one, network, solver, start=np.ones(1), **options).w[0, 0] < 1
        assert consensus.solve(one, network, SOLVER, rounds=0, engine=peers, start=np.ones(1)).w == 1
    with (
        Peers(written(tmp_path, ("oslo",), (), lost="leave"), me="oslo") as peers,
        pytest.raises(ValueError, match=r'lost must be "wait" in run.toml for ASYSONATA'),
    ):
        consensus.solve(one, peers.network, SOLVER, rounds=5, engine=peers)


def test_masses_are_saved_before_they_leave(tmp_path, monkeypatch):
    """Else a peer that was killed would take back what others have divided by."""
    tell, told = wakes.Wakes._tell, []

    def compared(self):
        if self.agents.report["wakes"][0]:
            told.append(np.array_equal(read(tmp_path / "run").fields["sum_y"], self.agents.state.sum_y))
        tell(self)

    monkeypatch.setattr(wakes.Wakes, "_tell", compared)
    one = consensus.Problem.from_functions(lambda w: w[:, 0] ** 2, lambda w: 2 * w, agents=1, parameters=1)
    with Peers(written(tmp_path, ("oslo",), ()), me="oslo") as peers:
        options = {"rounds": 4, "engine": peers, "checkpoint": tmp_path / "run", "every": 3}
        consensus.solve(one, peers.network, RASGP(Diminishing(0.01, 5.0)), **options)
    assert told == [True] * 4


@pytest.mark.slow
def test_the_command_has_solvers_without_rounds(tmp_path, monkeypatch):
    """Two owners have the same table: they come to its least squares, also when they go on from their checkpoints."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    y = X @ [1.0, -2.0] + 3 + 0.1 * rng.standard_normal(30)
    np.savetxt("a.csv", np.c_[X, y], delimiter=",", header="a,b,y", comments="")
    path = written(tmp_path, TWO, EDGE, more=COMMAND)

    def both(resume):
        found = {}
        threads = [threading.Thread(target=lambda me=me: found.update({me: peer(Config.read(path), me, resume)})) for me in TWO]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert set(found) == set(TWO), "one of them failed"
        return found

    first = both(resume=False)
    assert np.array_equal(first["oslo"].history["round"], [0, 50])
    assert read("results/run/rome.ckpt").round == 50
    path.write_text(path.read_text().replace("rounds = 50", "rounds = 500"))
    both(resume=True)
    assert {50, 500} <= set(consensus.load("results/run/rome.npz").history["round"])
    design = np.c_[X, np.ones(30)]
    expected = design @ np.linalg.lstsq(design, y)[0]
    for me in TWO:
        found = consensus.load(f"results/run/{me}.predictor").predict("a.csv")
        np.testing.assert_allclose(np.ravel(found), expected, atol=1e-5)


def test_the_command_says_which_solvers_peers_cannot_have(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("a,y\n1,2\n2,4.5\n3,6\n")
    solver = '[[solver]]\nkind = "OverlapSGP"\nstep_size = 0.1\n'
    more = '[run]\nrounds = 3\n[data]\nname = "a.csv"\ntarget = "y"\n[model]\nhidden = []\n'
    path = written(tmp_path, ("oslo",), (), more + solver)
    with pytest.raises(ConfigError, match=r"OverlapSGP needs all messages.*take RASGP"):
        peer(Config.read(path), "oslo")


@pytest.mark.slow
def test_masses_do_not_all_leave_for_who_is_away(tmp_path, monkeypatch):
    """Rome does not wake before oslo has stopped to: two rounds for each peer ahead, with its share of the mass left."""
    stalls, count, tell, seen, begun = threading.Event(), wakes.Wakes._count, wakes.Wakes._tell, [], set()

    def told(self):
        begun.add(self.here.name)
        tell(self)

    def counted(self, woke):
        if not woke and not stalls.is_set():
            state = self.agents.state
            seen.extend([self.here.name, self.done, int(state.wakes[0]), float(state.y[0, 0])])
            stalls.set()
        count(self, woke)

    def run(peers):
        def waits(rows):
            if peers.here.name == "rome" and "rome" in begun:
                assert stalls.wait(60)

        problem, solver = quadratics(2, waits), RASGP(Diminishing(0.02, 10.0))
        return consensus.solve(problem, peers.network, solver, rounds=30, record_every=30, engine=peers, start=np.zeros(2))

    monkeypatch.setattr(wakes.Wakes, "_count", counted)
    monkeypatch.setattr(wakes.Wakes, "_tell", told)
    found = together(written(tmp_path, TWO, EDGE), run, TWO)
    for result in found.values():
        assert not isinstance(result, BaseException), repr(result)
        assert np.array_equal(result.w, found["oslo"].w)
        assert np.isfinite(result.w).all()
    assert seen == ["oslo", 4, 4, 1 / 2**4]


def test_rows_that_are_a_part_of_the_rounds_apart_are_refused(tmp_path):
    def run(peers):
        return consensus.solve(quadratics(2), peers.network, SOLVER, rounds=30, record_every=0.1, engine=peers)

    for refused in together(written(tmp_path, TWO, EDGE), run, TWO).values():
        assert "record_every must be a whole number of rounds with" in str(refused)


@pytest.mark.slow
def test_who_has_done_waits_for_who_has_not_and_names_it(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(wakes, "SAYS", (0.2,))

    def run(peers):
        if peers.here.name == "oslo":
            return consensus.solve(quadratics(2), peers.network, SOLVER, rounds=30, engine=peers)
        left = [20]

        def fails(rows):
            left[0] -= len(rows) == 1
            if not left[0]:
                raise KeyError("of a user")

        return consensus.solve(quadratics(2, fails), peers.network, SOLVER, rounds=30, engine=peers)

    with caplog.at_level("WARNING", "consensus"):
        found = together(written(tmp_path, TWO, EDGE), run, TWO, patience=1.0)
    assert isinstance(found["rome"], KeyError)
    assert isinstance(found["oslo"], WorkerError)
    for said in (str(found["oslo"]), caplog.text):
        assert "oslo waits for rome since" in said
        assert "of 30 rounds: rome stopped after" in said
        assert "The owner of rome starts the same command again" in said


OWNER = textwrap.dedent("""
    import logging, sys, time
    import numpy as np, consensus
    from consensus.peers import Peers
    from tests.helpers.peer_quadratics import SOLVER, quadratics

    logging.basicConfig(level=logging.INFO)
    path, me, rounds, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    slow = 10 if me == "bergen" else 1
    problem = quadratics(wakes=lambda rows: time.sleep(pause * slow * (len(rows) == 1)))
    with Peers(path, me=me, patience=60.0) as peers:
        options = {"checkpoint": f"{me}.ckpt", "every": 7, "record_every": 50}
        result = consensus.solve(problem, peers.network, SOLVER, rounds=rounds, engine=peers, **options)
    result.save(f"{me}.npz")
""")


@pytest.mark.slow
def test_a_killed_peer_comes_back_to_its_own_checkpoint(tmp_path):
    """One is ten times slower; another is killed, twice, while the others go on, and both come to the optimum."""
    run = Owners(tmp_path, rounds=300, pause=0.002, script=OWNER)
    try:
        for _ in range(2):
            run.until((tmp_path / "rome.ckpt").exists)
            run.end("rome", signal.SIGKILL)
            run.processes["rome"] = run.start("rome")
            run.until(lambda: "comes back to its round" in run.said("rome"))
        run.finish()
        check_ends({name: consensus.load(tmp_path / f"{name}.npz") for name in NAMES}, rounds=300)
        assert "rome was started again" in run.said("vienna")
    finally:
        run.kill()
