"""Check of the laws of aggregation rules."""

from __future__ import annotations

import math
from dataclasses import replace

import networkx as nx
import numpy as np

import topologies
from consensus import _arguments, _checks
from consensus.engines import StackedNetwork
from consensus.robust import Robust
from consensus.testing.laws import Laws, Report, constant
from consensus.testing.threads import ThreadNetwork, on_threads
from topologies.schedules import ScheduleLike

_FARTHEST = 4.0  # times the honest rows' largest distance, within which the rules of the package stay


def check_robust(rule: Robust, network: ScheduleLike | nx.Graph | None = None, *, seed: int = 0) -> Report:
    """Check an aggregation rule on random rows: agreement, plain mixing with b = 0, and Byzantine rows of the tolerated weight.

    Agents that agree must stay where they are; with ``byzantine_weight=0`` the rule is W x; rows of Byzantine agents of weight
    at most ``byzantine_weight``, however large, infinite or NaN, must not take an honest agent farther than a few times the
    distance of the honest rows. Blocks of agents must come to the same bits. The rule is called with its ``before``; its solver
    is not: :func:`check_solver` checks the rule as a solver.

    Parameters
    ----------
    rule : Robust
        The rule to be checked, around any solver.
    network : schedule or networkx.Graph, optional
        A static network of at least two agents on which some agents' weight is tolerated; by default a complete graph.
    seed : int
        Seed of the rows.

    Returns
    -------
    Report
        The laws that hold, with the largest error of each.

    Raises
    ------
    AssertionError
        If a law does not hold: the message has the rule, the law and the numbers.
    ValueError
        If every agent of the network weighs more than ``byzantine_weight`` at some neighbour, so that nothing is tolerated.

    Examples
    --------
    >>> from consensus.robust import NNA
    >>> from consensus.solvers import DGD
    >>> from consensus.testing import check_robust
    >>> report = check_robust(NNA(DGD(0.1), byzantine_weight=0.2))
    >>> "Byzantine rows take no honest agent far" in report.errors
    True
    """
    if not isinstance(rule, Robust):
        raise TypeError(f"rule must be a consensus.robust.Robust; got {_checks.shown(rule)}")
    if network is None:
        agents = max(7, math.ceil(1 / rule.byzantine_weight - 1e-9)) if rule.byzantine_weight > 0.01 else 100
        network = topologies.Static(topologies.complete(agents))
    laws, rng, network = Laws(rule), _checks.seed(seed), _arguments.schedule(network)
    rule.check_network(network)
    A = network.agents
    rows = constant(rng.standard_normal((A, 3)))
    for dtype in (np.float64, np.float32):
        mixed = _mixed(laws, rule, network, constant(rows.astype(dtype)))
        laws.array("new rows have the shape and dtype of the rows", mixed, rows.shape, dtype)
    whole = _mixed(laws, rule, network, rows)
    law = "agents that agree stay where they are"
    laws.close(law, _mixed(laws, rule, network, constant(np.tile(rows[0], (A, 1)))), rows[0], 1e-14)
    if rule.before is None:
        plain = network.weights(network.key(0)) @ rows
        law = "with byzantine_weight=0 the rule is W x"
        laws.close(law, _mixed(laws, replace(rule, byzantine_weight=0.0), network, rows), plain, 1e-14)
    _byzantine(laws, rule, network, rows)

    def one(network: ThreadNetwork, own: slice) -> np.ndarray:
        with np.errstate(all="ignore"):
            return rule.around(network).mix(0, rows[own])[0]

    parts = on_threads(min(3, A), network, rows.dtype, one)
    laws.same("blocks of agents come to the same bits", np.concatenate(parts), whole)
    laws.copied(rule)
    return laws.report


def _mixed(laws: Laws, rule: Robust, network: ScheduleLike, rows: np.ndarray) -> np.ndarray:
    """Return the rule's new rows of all agents; the messages are read-only."""
    stacked = StackedNetwork(network, rows.dtype)
    with np.errstate(all="ignore"), laws.unwritten("the rule leaves its messages as they are"):
        (mixed,) = rule.around(stacked).mix(0, rows)
    return mixed


def _byzantine(laws: Laws, rule: Robust, network: ScheduleLike, rows: np.ndarray) -> None:
    """Let as many agents as are tolerated send rows far away, infinite or NaN."""
    matrix = network.weights(network.key(0)).toarray()
    np.fill_diagonal(matrix, 0)
    attackers: list[int] = []
    for agent in range(network.agents):
        if (matrix[:, [*attackers, agent]].sum(axis=1) <= rule.byzantine_weight * (1 + 1e-9)).all():
            attackers.append(agent)
    if rule.byzantine_weight and not attackers:
        raise ValueError(
            f"network must have an agent whose weight is at most byzantine_weight={rule.byzantine_weight:g} at all its "
            f"neighbours; the least such weight is {matrix.max(axis=0).min():.3g}"
        )
    honest = np.setdiff1d(np.arange(network.agents), attackers)
    apart = float(np.linalg.norm(rows[honest, None] - rows[honest], axis=2).max(initial=0))
    directions = np.array([[1.0, 1.0, 1.0], [-1.0, 2.0, 0.0], [0.0, 0.0, -1.0]])
    for size in (3.0, 1e2, 1e6, 1e12, np.inf, np.nan):
        for direction in directions if np.isfinite(size) else np.ones((1, 3)):
            sent = rows.copy()
            sent[attackers] = size * direction
            moved = np.linalg.norm(_mixed(laws, rule, network, constant(sent))[honest] - rows[honest], axis=1)
            name = f"Byzantine rows of {size:g}" if not np.isfinite(size) else "Byzantine rows"
            laws.at_most(f"{name} take no honest agent far", moved, _FARTHEST * apart, 1e-12)
