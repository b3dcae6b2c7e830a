"""Random histories of peers that are killed, suspended, cut off and come back: nobody is in two minds, and all end together.

The peers are those of the engine but for their rounds and their network: time is a count, and what one says arrives late.
"""

import networkx as nx
import numpy as np
import pytest

from consensus.peers.agreement import RUNS, STOPPED, Agreement

LATE, SETTLE = 12, 8  # in ticks


class Peer:
    """A process of a peer, with rounds that need the neighbours' rounds before; ``disk`` outlives it."""

    def __init__(self, graph, me, disk, world):
        self.me, self.graph, self.disk, self.world = me, graph, disk, world
        self.agreement = Agreement(graph, me, SETTLE, self.keep, disk.get(me))
        self.heard = dict.fromkeys(graph[me], (0, 0))  # the epoch and the rounds done of each neighbour
        self.times = dict.fromkeys(graph[me], world.now)
        self.number, self.done, self.points, self.since = 0, 0, {}, world.now
        self.suspended = False
        if self.agreement.own.state == RUNS:
            self.enter()

    def keep(self, word):
        self.disk[self.me] = word

    def enter(self):
        epoch = self.agreement.epoch
        if epoch.round in self.points:  # who was killed meanwhile has none
            self.world.starts.setdefault(epoch.number, set()).add(self.points[epoch.round])
        self.number, self.done, self.since = epoch.number, epoch.round, self.world.now
        self.points = {self.done: (self.number, self.done)}
        self.world.enters(epoch)

    def act(self):
        if self.suspended:
            return
        now, agreement = self.world.now, self.agreement
        if self.number == agreement.epoch.number and agreement.own.state == RUNS:
            latest = max(word.epoch.number for word in agreement.words.values())
            if now - self.since > LATE or agreement.stops or latest > self.number:
                agreement.stop(self.points, now)
            else:
                self.rounds()
        if agreement.own.state == STOPPED:
            agreement.look(now, [near for near in self.heard if now - self.times[near] > 3])
            if agreement.epoch.number > self.number:
                if agreement.own.state == RUNS:
                    self.enter()
                else:
                    self.points = {}

    def rounds(self):
        epoch = self.agreement.epoch
        near = [near for near in self.graph[self.me] if near in epoch.members]
        near = [one for one in near if (min(self.me, one), max(self.me, one)) not in epoch.cut]
        if all(self.heard[one] >= (self.number, self.done) for one in near):
            self.done, self.since = self.done + 1, self.world.now
            self.points[self.done] = self.number, self.done
            self.points.pop(self.done - len(self.graph) - 1, None)
            self.world.advances(self)


class World:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        size = int(self.rng.integers(3, 8))
        tree = nx.random_labeled_tree(size, seed=seed)
        more = self.rng.integers(size, size=(size, 2)).tolist()
        self.graph = nx.Graph([*tree.edges, *((a, b) for a, b in more if a != b)])
        self.graph.add_nodes_from(range(size))
        self.now, self.disk, self.under_way, self.cut = 0, {}, [], set()
        self.epochs, self.starts, self.begun, self.after = {}, {}, {}, {}
        self.peers = [Peer(self.graph, me, self.disk, self) for me in range(size)]

    def enters(self, epoch):
        assert self.epochs.setdefault(epoch.number, epoch) == epoch, "two epochs have one number"
        assert 2 * len(epoch.members) > len(self.graph)
        assert nx.is_connected(nx.restricted_view(self.graph, [], epoch.cut).subgraph(epoch.members))

    def advances(self, peer):
        """Whoever still works for an earlier epoch comes no further than its neighbours' last rounds allow."""
        self.begun.setdefault(peer.number, self.now)
        if max(self.begun) > peer.number:
            count = self.after[peer.number, peer.me] = self.after.get((peer.number, peer.me), 0) + 1
            assert count <= len(self.graph), "two epochs advance in parallel"

    def connected(self, a, b):
        return self.peers[a] is not None and self.peers[b] is not None and frozenset((a, b)) not in self.cut

    def tick(self):
        self.now += 1
        for a, b in [*self.graph.edges, *((b, a) for a, b in self.graph.edges)]:
            if self.connected(a, b) and not self.peers[a].suspended and self.rng.random() < 0.7:
                peer = self.peers[a]
                said = list(peer.agreement.words.values()), (peer.number, peer.done)
                self.under_way.append((self.now + int(self.rng.integers(0, 3)), (a, peer), (b, self.peers[b]), *said))
        arrived = [message for message in self.under_way if message[0] <= self.now]
        self.under_way = [message for message in self.under_way if message[0] > self.now]
        for _, (a, sender), (b, receiver), words, done in arrived:
            if self.connected(a, b) and self.peers[a] is sender and self.peers[b] is receiver:
                receiver.agreement.hear(words)
                receiver.heard[a] = max(receiver.heard[a], done)
                receiver.times[a] = self.now
        for me in self.rng.permutation(len(self.peers)).tolist():
            if self.peers[me] is not None:
                self.peers[me].act()

    def happens(self):
        """Let something happen to somebody."""
        me = int(self.rng.integers(len(self.peers)))
        what, peer = self.rng.choice(["kill", "suspend", "cut", "mend", "mend", "return", "return"]), self.peers[me]
        alive = [one for one in self.peers if one is not None and one.points]
        if what == "kill" and peer is not None and len([one for one in alive if one is not peer]) * 2 > len(self.peers):
            self.peers[me] = None
        elif what == "suspend" and peer is not None:
            peer.suspended = True
        elif what == "return":
            self.back(me)
        elif what == "cut":
            self.cut.add(frozenset(list(self.graph.edges)[int(self.rng.integers(self.graph.number_of_edges()))]))
        elif what == "mend" and self.cut:
            self.cut.discard(sorted(self.cut, key=sorted)[0])

    def back(self, me):
        if self.peers[me] is None:
            self.peers[me] = Peer(self.graph, me, self.disk, self)
        self.peers[me].suspended = False


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 50))])
def test_histories(seed):
    world = World(seed)
    for _ in range(30):
        world.happens()
        for _ in range(int(world.rng.integers(1, 25))):
            world.tick()
    world.cut.clear()
    for me in range(len(world.peers)):
        world.back(me)
    for _ in range(40 * len(world.peers)):
        world.tick()
    last = {peer.agreement.epoch for peer in world.peers}
    assert len(last) == 1
    assert last.pop().members == tuple(range(len(world.peers)))
    assert all(peer.agreement.own.state == RUNS for peer in world.peers)
    assert all(len(points) == 1 for points in world.starts.values()), "an epoch began from iterates of different rounds"
    before = [peer.done for peer in world.peers]
    for _ in range(40):
        world.tick()
    assert all(peer.done > done for peer, done in zip(world.peers, before, strict=True))
