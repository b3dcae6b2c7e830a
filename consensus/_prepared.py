"""A solver that is given what it was left to choose by itself."""

from typing import Any

import numpy as np

from consensus.engines import Engine
from consensus.problems import BaseProblem
from consensus.solvers import Solver
from topologies.schedules import ScheduleLike


def prepared(solver: Solver, problem: BaseProblem, network: ScheduleLike, where: Engine) -> Solver:
    """``solver.prepared`` of the whole network, the same in all processes, though each may hold a few agents alone."""
    if not hasattr(solver, "prepared"):  # one that is not derived from Solver need not have it
        return solver
    whole: Any = problem if problem.agents == problem.network_size else _OfNetwork(problem, where)
    with where.together() as settings:
        solver = solver.prepared(whole, network)
        settings["solver"] = solver
    return solver


class _OfNetwork:
    """A problem of some of the agents, which knows the constants of all: every process asks for them at the same time."""

    def __init__(self, problem: BaseProblem, where: Engine) -> None:
        self._problem, self._where = problem, where

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)

    def lipschitz(self, w: np.ndarray | None = None) -> np.ndarray:
        return self._collected(lambda: self._problem.lipschitz(w))

    def strong_convexity(self) -> np.ndarray:
        return self._collected(self._problem.strong_convexity)

    def _collected(self, constants):
        with self._where.together():  # an error on one rank is one on all
            own = constants()
        return np.array(self._where.collect_list(own))
