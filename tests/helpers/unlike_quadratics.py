"""Agents with unlike quadratics on a directed ring with two chords, and asynchronous methods in plain NumPy."""

import networkx as nx
import numpy as np

import consensus
import topologies
from consensus.asynchronous import ASYSONATA, Simulated
from consensus.asynchronous.events import Events
from consensus.asynchronous.timetable import Timetable
from consensus.surrogates import FullLinearization

AGENTS, UNKNOWNS, L = 8, 5, 4.0
GRAPH = nx.DiGraph([(i, (i + 1) % AGENTS) for i in range(AGENTS)] + [(0, 4), (2, 6)])
R, C = np.zeros((AGENTS, AGENTS)), np.zeros((AGENTS, AGENTS))
for j, i in [*GRAPH.edges, *((k, k) for k in range(AGENTS))]:
    R[i, j], C[i, j] = 1 / (1 + GRAPH.in_degree(i)), 1 / (1 + GRAPH.out_degree(j))


def quadratics(seed=0):
    """H (agents, unknowns, unknowns) with eigenvalues 1 to 4, b (agents, unknowns), the problem and its optimum."""
    rng = np.random.default_rng(seed)
    bases = [np.linalg.qr(rng.standard_normal((UNKNOWNS, UNKNOWNS)))[0] for _ in range(AGENTS)]
    H = np.array([q @ np.diag(np.linspace(1, L, UNKNOWNS)) @ q.T for q in bases])
    b = rng.standard_normal((AGENTS, UNKNOWNS))

    def value(w, rows):
        return 0.5 * np.einsum("ap,apq,aq->a", w, H[rows], w) - (b[rows] * w).sum(axis=1)

    def gradient(w, rows):
        return np.einsum("apq,aq->ap", H[rows], w) - b[rows]

    problem = consensus.Problem.from_functions(value, gradient, agents=AGENTS, parameters=UNKNOWNS)
    return H, b, problem, np.linalg.solve(H.sum(axis=0), b.sum(axis=0))


H, B, QUADRATICS, OPTIMUM = quadratics()
STEPS = ASYSONATA(FullLinearization(tau=AGENTS * L), 0.4)
LATE = Simulated(delay=(0.0, 10.0), loss=0.3)


def events(solver, simulated, whole=QUADRATICS, graph=GRAPH, start=None):
    """The loop over events, to be gone through one by one."""
    schedule = topologies.Static(graph, weights=topologies.push)
    w = np.ones((whole.agents, whole.parameters), whole.dtype) if start is None else start
    return Events(whole, schedule, solver, Timetable.of(simulated, schedule), w)


def asy_sonata_in_turn(H, b, start, step, rounds):
    """ASY-SONATA without delay or loss, agents in turn: iterates (rounds + 1, agents, unknowns)."""
    x = np.tile(start, (AGENTS, 1))
    v = x.copy()
    z, rho, gradient = np.zeros((3, AGENTS, UNKNOWNS))
    seen = np.zeros((AGENTS, AGENTS, UNKNOWNS))
    every = [x.copy()]
    for _ in range(rounds):
        for i in range(AGENTS):
            new = H[i] @ x[i] - b[i]
            h = z[i] + new - gradient[i]
            for j in GRAPH.predecessors(i):
                h = h + C[i, j] * (rho[j] - seen[i, j])
                seen[i, j] = rho[j]
            gradient[i], rho[i], z[i] = new, rho[i] + h, C[i, i] * h
            v[i] = x[i] - step * z[i]
            x[i] = sum(R[i, j] * v[j] for j in range(AGENTS))
        every.append(x.copy())
    return np.array(every)
