"""Newton's directions of the agents' local costs."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from consensus._parallel import for_chunks
from consensus.local.costs import estimates, forms_jacobian
from consensus.local.subproblem_block import SubproblemBlock
from consensus.local.systems import SYSTEMS, Primal, System
from consensus.problems import BaseProblem, Linearizable, has_model
from consensus.surrogates.partial import LinearizedModel

_TOLERANCE, _MOST = 1e-10, 1000  # relative, and iterations of conjugate gradients where the systems are large


class _Kept(NamedTuple):
    """A system that all rounds have, for the agents ``rows``, and its ``at_once``."""

    rows: slice
    system: System
    at_once: Callable[[np.ndarray], np.ndarray] | None


def newton_directions(problem: BaseProblem, w: np.ndarray, right: np.ndarray, damping: float) -> np.ndarray:
    """Return ``(B_i + damping I)^-1 right_i`` for every agent, with B_i the Gauss-Newton matrix at w_i of ``f_i = A g_i + r``.

    B_i is the Hessian where the model is linear: otherwise the curvature of the model itself is left out of it. r must be
    quadratic, and ``damping`` > 0 unless r is strongly convex. A row is NaN where its matrix is no longer finite.
    """
    if not has_model(problem):
        raise TypeError(f"Newton's directions need the curvature of a model and a loss; got {problem}")
    key = newton_directions, damping
    systems = problem.cache.get(key, _Systems)
    inverses, kept = systems.inverses, systems.kept
    directions = np.empty_like(w)
    problem.work.solves += 1
    if inverses is not None:

        def times(rows: slice) -> None:
            directions[rows] = (inverses[rows] @ right[rows, :, None])[:, :, 0]

        for_chunks(times, len(w), right[0].nbytes * problem.parameters)
        return directions
    iterations = []
    tolerance = _TOLERANCE if w.dtype == np.float64 else 1e-6

    def solve(rows: slice, system: System) -> None:
        directions[rows], taken, _ = system.solve(right[rows], np.full(rows.stop - rows.start, tolerance), _MOST)
        iterations.append(int(taken.sum()))

    def solve_again(some: slice) -> None:
        for rows, system, at_once in kept[some]:
            if at_once:
                directions[rows] = at_once(right[rows])
            else:
                solve(rows, system)

    if kept:  # of a linear model: not even its outputs are needed
        for_chunks(solve_again, len(kept), right.nbytes * problem.parameters // len(kept))
    else:
        systems.keep(_made(problem, w, right, damping, tolerance, solve))
    problem.work.iterations += sum(iterations)
    return directions


class _Systems:
    """The linear systems that all rounds have: their ``inverses`` (agents, P, P) if all are kept as such, else all ``kept``."""

    def __init__(self) -> None:
        self.inverses: np.ndarray | None = None
        self.kept: list[_Kept] = []

    def keep(self, made: list[_Kept]) -> None:
        made.sort(key=lambda one: one.rows.start)
        inverses = [one.system.inverses for one in made if one.at_once and one.system.inverses is not None]
        if not made or len(inverses) < len(made):
            self.kept = made
            return
        self.inverses = np.concatenate(inverses)
        for rows, system, _ in made:
            if isinstance(system, Primal):  # it alone has inverses
                system.factors = replace(system.factors, inverses=self.inverses[rows])  # in memory once


def _made(
    problem: Linearizable,
    w: np.ndarray,
    right: np.ndarray,
    damping: float,
    tolerance: float,
    solve: Callable[[slice, System], None],
) -> list[_Kept]:
    """Make the systems, some agents at a time, and ``solve(rows, system)`` them; return those that all rounds have, if any."""
    r, dense = problem.regularizer, forms_jacobian(problem)
    costs = estimates(problem, r, problem.parameters, dense)
    method = min(costs, key=lambda name: costs[name].operations)
    part = SubproblemBlock(LinearizedModel(problem, w, right, problem.network_size, damping), r, slice(None), dense, right)
    constant = problem.loss.quadratic and part.keeps(SYSTEMS[method])
    kept = []

    def chunk(rows: slice) -> None:
        sub = part.subproblem(rows, problem.linearize(w, rows))
        system = part.system(sub, rows, SYSTEMS[method])
        if not (system.ready and constant):
            system.set(sub.root(np.zeros_like(sub.outputs)), sub.strong_convexity)
        if constant:
            kept.append(_Kept(rows, system, system.at_once(tolerance)))
        solve(rows, system)

    for_chunks(chunk, problem.agents, *costs[method].of_agent(problem.dtype))
    return kept
