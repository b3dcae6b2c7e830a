"""Tasks of ``engine_ranks.py`` that count the bytes which ranks send."""

import numpy as np

from consensus.compression import Drawn, Factors, Halves, Quantized, Runs, Sparse, Whole
from consensus.engines.transport import COLLECTED
from consensus.solvers import DGD
from tests.helpers import engine_cases
from tests.helpers.engine_harness import engine_here, say


class Wire:
    """A transport that counts the bytes of messages from this rank to others, as they are exchanged in rounds."""

    def __init__(self, transport):
        self.transport, self.sent = transport, 0

    def __getattr__(self, name):
        return getattr(self.transport, name)

    def exchange(self, kind, receives, sends):
        self.sent += sum(rows.nbytes for _, rows in sends) if kind != COLLECTED else 0
        return self.transport.exchange(kind, receives, sends)


def sent(solver, rounds, network="static"):
    """The bytes that all ranks send in a run, and its last row of the history."""
    engine, case = engine_here(), engine_cases.grid()["DGD, static, equal"]
    wire = engine.ranks.transport = Wire(engine.ranks.transport)
    case = case._replace(solver=solver, network=engine_cases.TREES[network])
    history = case.run(engine=engine, rounds=rounds).history
    return sum(engine.ranks.allgather(wire.sent)), {name: int(history[name][-1]) for name in ("messages", "floats", "bytes")}


def packed(_):
    """How many bytes all ranks send, for each form of rows."""

    class Send(DGD):
        form = None

        def step(self, problem, network, state):
            (w,) = network.mix(state.round, self.form(state.w))
            return state._replace(round=state.round + 1, w=w)

    wire = {}
    for name, form in (
        ("arrays", lambda w: w),
        ("4 of 19", lambda w: Sparse.largest(w, 4)),
        ("4 bits", lambda w: Quantized.nearest(w, 4)),
        ("halves", Halves.nearest),
        ("4 drawn", lambda w: Drawn.some(w, 4, np.arange(len(w)), seed=0, number=1)),
        ("rank 1", lambda w: Factors.along(w, ((0, 4, 3),), [np.ones((len(w), 3, 1))])),
        ("runs", lambda w: Runs.nearest(w, np.full((len(w), 1), 0.125))),
        ("whole", Whole),
    ):
        solver = Send(0.1)
        object.__setattr__(solver, "form", form)
        wire[name], _ = sent(solver, rounds=5)
    say(wire)


def sent_each(_):
    """How many bytes all ranks send in a round in which neighbours send each other three numbers, and what is counted."""

    class SendsEach(DGD):
        def step(self, problem, network, state):
            edges = network.edges(state.round)
            network.send_each(state.round, edges, np.zeros((*edges.there.shape, 3)))
            return state._replace(round=state.round + 1)

    wire, counts = sent(SendsEach(0.1), rounds=1)
    say([wire, *counts.values()])


def summed(_):
    """How many bytes all ranks send in sums over a tree, and what is counted: three numbers, then runs of two solvers."""

    class Summed(DGD):
        def step(self, problem, network, state):
            rows = np.arange(3.0) + problem.rows[:, None]
            totals = network.tree.broadcast(network.tree.reduce(rows))
            assert (totals == np.arange(3.0) * network.agents + np.arange(network.agents).sum()).all()
            return state._replace(round=state.round + 1)

    wire, counts = sent(Summed(0.1), rounds=1)
    solvers = engine_cases.TREE_SOLVERS
    say([[wire, *counts.values()], [[sent(solver, 12, network)[0] for solver in solvers] for network in engine_cases.TREES]])
