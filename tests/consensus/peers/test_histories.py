"""Random histories of peers that are killed, hang and come back, over gRPC: each epoch has the bits of one process."""

import threading
import time

import numpy as np
import pytest

pytest.importorskip("grpc")

import consensus
from consensus.observe.measure import agents_mean
from consensus.peers import Peers
from consensus.peers.agreement import RUNS
from consensus.peers.epochs import Epochs
from consensus.peers.link import Link, Refused
from tests.helpers.loopback import NAMES, RING, problem_of, stacked, written
from tests.helpers.peer_processes import SOLVER

GRACE, EVENTS = 0.5, 4
EDGES = (*RING, ("oslo", "vienna"))


class Killed(BaseException):
    """The end of a peer whose connections are gone before it can say anything."""


class World:
    """Four peers on threads, to whom things happen, and what each of them did in each epoch."""

    def __init__(self, folder, seed):
        self.path = written(folder, edges=EDGES, lost="leave", grace=GRACE)
        self.rng, self.lock = np.random.default_rng(seed), threading.Lock()
        self.late, self.enough = GRACE, False
        self.runs, self.threads, self.found = {}, {}, {}
        self.killed, self.dead, self.cut = set(), set(), set()
        self.awake = {name: threading.Event() for name in NAMES}
        self.epochs, self.starts, self.said = {}, {}, []
        for name in NAMES:
            self.start(name)

    def start(self, name):
        self.awake[name].set()
        self.threads[name] = threading.Thread(target=self.run, args=(name,), daemon=True)
        self.threads[name].start()

    def run(self, name):
        try:
            with Peers(self.path, me=name, patience=60.0) as peers:
                options = {"rounds": 100_000, "record_every": 1, "engine": peers, "callbacks": [self.seen]}
                self.found[name] = consensus.solve(problem_of(4), peers.network, SOLVER, **options)
        except BaseException as error:
            self.found[name] = error

    def seen(self, info):
        time.sleep(0.01)
        return "enough" if self.enough else None

    # What happens.

    def happens(self):
        name = NAMES[int(self.rng.integers(4))]
        edge = frozenset(EDGES[int(self.rng.integers(len(EDGES)))])
        what = str(self.rng.choice(["kill", "hang", "cut", "mend", "return"]))
        others = [one for one in self.present() if one != name]
        if what == "kill" and len(others) >= 2 and name in self.present():
            self.killed.add(name)
        elif what == "hang" and len(others) >= 2:
            self.awake[name].clear()
        elif what == "cut":
            self.cut.add(edge)
        elif what == "mend":
            self.cut.clear()
        elif what == "return":
            self.all_return()
        self.said.append((what, name, *sorted(edge)))

    def present(self):
        """Those who are awake, and have iterates for others to go on from."""
        runs = {name: self.runs.get(name) for name in NAMES if self.awake[name].is_set() and name not in self.killed}
        return [name for name, run in runs.items() if run is not None and run._points]

    def all_return(self):
        for name in NAMES:
            with self.lock:
                dead = name in self.dead
                self.killed.discard(name)
                self.dead.discard(name)
            self.awake[name].set()
            if dead:
                self.threads[name].join(60)
                self.start(name)

    def until(self, happened):
        end = time.monotonic() + 60
        while not happened():
            assert time.monotonic() < end, (
                self.said,
                {name: (run._entered, run.agreement.own) for name, run in self.runs.items()},
            )
            time.sleep(0.02)

    def together(self):
        """Whether all are in one epoch, over all edges, and have done rounds of it."""
        found = [(run.agreement.epoch, run.agreement.own.state, len(run._points) > 2) for run in list(self.runs.values())]
        epoch = found[0][0] if len(found) == 4 else None
        return epoch is not None and len(epoch.members) == 4 and not epoch.cut and found == [(epoch, RUNS, True)] * 4

    # What peers do.

    def listens(self, run):
        name = run.here.name
        self.runs[name] = run
        with self.lock:
            dies = name in self.killed
            self.dead.update([name] * dies)
        if dies:
            self.runs.pop(name)
            service, run.engine._service = run.engine._service, None
            service.stop()
            if service._server is not None:
                service._server.stop(0).wait(60)
            run.here.audit.close()
            raise Killed
        self.awake[name].wait(60)

    def begins(self, run, had, w):
        epoch, number = run.agreement.epoch, run.agreement.epoch.number
        with self.lock:
            assert self.epochs.setdefault(number, epoch) == epoch, "two epochs have one number"
            self.starts.setdefault(number, {})[run.here.me] = had, w

    def check(self):
        """Compare all epochs with runs of one process, from the iterates with which those who were there began."""
        for name in NAMES:
            self.threads[name].join(60)
            assert isinstance(self.found[name], consensus.Result), repr(self.found[name])
        first, now = self.found["oslo"], {}
        assert first.reason == "enough"
        epochs = sorted(self.epochs.items())
        ends = *(epoch.round for _, epoch in epochs[1:]), int(first.history["round"][-1])
        for (number, epoch), end in zip(epochs, ends, strict=True):
            assert 2 * len(epoch.members) > 4
            starts, rounds = self.starts[number], end - epoch.round
            had = [w for had, w in (starts[peer] for peer in sorted(starts)) if had]
            for peer, (own, w) in starts.items():
                if own:
                    assert np.array_equal(w, now.get(peer, w)), number
                elif starts.keys() == set(epoch.members):
                    assert np.array_equal(w, agents_mean(np.concatenate(had))[None]), number
            now = {peer: w for peer, (_, w) in starts.items()}
            rows = first.history["epoch"] == number
            if rounds:
                edges = [edge for edge in EDGES if tuple(sorted(map(NAMES.index, edge))) not in epoch.cut]
                begin = np.concatenate([now[peer] for peer in epoch.members])
                alone = stacked(SOLVER, list(epoch.members), begin, rounds, edges)
                assert np.array_equal(first.history["objective"][rows], alone.history["objective"][: rows.sum()]), number
                now = {peer: alone.w[[place]] for place, peer in enumerate(epoch.members)}
            assert rows.sum() == rounds + (number == max(self.epochs)), number
        for result in self.found.values():
            assert np.array_equal(result.w, np.concatenate([now[peer] for peer in range(4)]))
            for column in ("round", "epoch", "present", "objective"):
                assert np.array_equal(result.history[column], first.history[column])


@pytest.fixture
def world(tmp_path, monkeypatch, request):
    """Peers whose waits, ends and links the test has in its hands."""
    listen, begun, arrived = Epochs.listen, Epochs._begun, Link.arrived

    def listens(run):
        found.listens(run)
        listen(run)

    def begins(run, epoch, ranks):
        own = run._points.get(epoch.round)
        w = begun(run, epoch, ranks)
        found.begins(run, own is not None, w)
        return w

    def arrives(link, stream, data):
        if frozenset((link.owner.name, link.name)) in found.cut:
            raise Refused("the test cuts it")
        arrived(link, stream, data)

    found = World.__new__(World)
    monkeypatch.setattr(Epochs, "listen", listens)
    monkeypatch.setattr(Epochs, "_begun", begins)
    monkeypatch.setattr(Epochs, "_late", lambda run: found.late)
    monkeypatch.setattr(Link, "arrived", arrives)
    found.__init__(tmp_path, request.param)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("world", range(5), indirect=True)
def test_histories(world):
    world.until(world.together)
    world.killed.add(NAMES[int(world.rng.integers(4))])
    world.until(lambda: len(world.epochs) > 1)
    for _ in range(EVENTS):
        world.happens()
        time.sleep(world.rng.uniform(0, 3 * GRACE))  # whatever has happened meanwhile
    world.cut.clear()
    world.all_return()
    world.late = 60.0
    world.until(world.together)
    world.enough = True
    world.check()
