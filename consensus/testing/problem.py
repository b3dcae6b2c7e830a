"""Check that a problem's gradients are those of its costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from consensus import _checks
from consensus.problems.base import BaseProblem
from consensus.problems.functions import FunctionProblem
from consensus.testing.laws import Laws, Report, constant

_AGENTS, _ENTRIES, _DIRECTIONS = 3, 20, 3  # that are tried, at most


def check_problem(problem: BaseProblem, w: ArrayLike | None = None, *, seed: int = 0) -> Report:
    """Check a problem, such as one of your own functions: gradients against differences of costs, agents by themselves.

    ``grad g_i(w_i) . u`` is compared with ``(g_i(w_i + h u) - g_i(w_i - h u)) / 2h`` along up to 20 entries of w and along
    three random directions, so the costs must be smooth at ``w``. An agent's numbers must not depend on the other agents'
    points, nor on which agents are computed together (:meth:`~consensus.problems.BaseProblem.restrict`). Gradients must not
    change by more than the Lipschitz constants given to :meth:`~consensus.Problem.from_functions` allow. Functions that
    compute in single precision are compared more coarsely.

    Parameters
    ----------
    problem : BaseProblem
        The problem to be checked.
    w : array_like (P,) or (agents, P), optional
        The points w_i; by default random.
    seed : int
        Seed of points and directions.

    Returns
    -------
    Report
        The laws that hold, with the largest relative error of each.

    Raises
    ------
    AssertionError
        If a law does not hold: the message has the law, the numbers, and where they are: ``(agent, entry)``.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> from consensus.testing import check_problem
    >>> centres = np.array([[0.0], [2.0]])
    >>> def value(w):
    ...     return ((w - centres) ** 2).sum(axis=1) / 2
    >>> problem = consensus.Problem.from_functions(value, lambda w: w - centres, agents=2, parameters=1)
    >>> check_problem(problem).errors["gradient is the slope of value"] < 1e-7
    True
    >>> wrong = consensus.Problem.from_functions(value, lambda w: 2 * (w - centres), agents=2, parameters=1)
    >>> try:
    ...     check_problem(wrong, w=[1.0])
    ... except AssertionError as error:
    ...     print(str(error).partition(": ")[2])
    gradient is the slope of value: found 2 instead of 1 at (0, 0), a relative error of 1 (at most 1.5e-07)
    """
    if not isinstance(problem, BaseProblem):
        raise TypeError(
            "problem must be a consensus.Problem, one of Problem.from_functions, or of a class of your own that derives from "
            f"consensus.problems.BaseProblem; got {_checks.shown(problem)}"
        )
    rng, laws = _checks.seed(seed), Laws(problem)
    shape = (problem.agents, problem.parameters)
    # Uniform: the normal numbers of this seed may be the user's own data, where slopes are zero, right or wrong.
    at = rng.uniform(-2, 2, shape) if w is None else _checks.floats("w", w)
    if at.shape not in (shape, shape[1:]) or not np.isfinite(at).all():
        raise ValueError(f"w must hold finite numbers, (P,) = {shape[1:]} or (agents, P) = {shape}; got {_checks.shown(w)}")
    at = constant(np.broadcast_to(at, shape).astype(problem.dtype))
    with laws.unwritten("the functions leave w as it is"):
        value, gradient = problem.value(at), problem.gradient(at)
    laws.array("value has shape (agents,) and the problem's dtype", value, at.shape[:1], problem.dtype)
    laws.array("gradient has shape (agents, P) and the problem's dtype", gradient, at.shape, problem.dtype)
    laws.true("value is finite", np.isfinite(value).all(), f"found {value}")
    laws.true("gradient is finite", np.isfinite(gradient).all(), f"found {gradient}")
    near = _moved(at, rng)
    values = np.concatenate([value, problem.value(near)])
    single = (values == values.astype(np.float32)).all()  # functions of PyTorch or JAX, in float64 again
    eps = float(np.finfo(np.float32 if single else np.float64).eps)
    _alone(laws, problem, at, near, eps)
    _slopes(laws, problem, at, rng, eps)
    if isinstance(problem, FunctionProblem):
        _lipschitz(laws, problem, at, rng, eps)
    return laws.report


def _moved(at: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return points near ``at``, with entries of the same signs: costs may be defined there alone."""
    sizes = np.where(at == 0, 1, np.abs(at))
    return np.asarray(at + (0.1 * rng.uniform(-1, 1, at.shape) * sizes).astype(at.dtype))


def _alone(laws: Laws, problem: BaseProblem, at: np.ndarray, near: np.ndarray, eps: float) -> None:
    """Check that an agent's numbers do not depend on other points, nor on which agents are computed together."""
    agents = np.arange(min(problem.agents, _AGENTS))
    for name in ("value", "gradient"):
        wanted = getattr(problem, name)(at)[agents]
        moved, alone = wanted.copy(), wanted.copy()
        for agent in agents:
            mixed = near.copy()
            mixed[agent] = at[agent]
            moved[agent] = getattr(problem, name)(mixed)[agent]
            alone[agent] = getattr(problem.restrict([agent]), name)(at[[agent]])[0]
        laws.close(f"{name} of an agent does not depend on the others", moved, wanted, 1e3 * eps)
        laws.close(f"{name} of an agent is the same without the others", alone, wanted, 1e3 * eps)


def _slopes(laws: Laws, problem: BaseProblem, at: np.ndarray, rng: np.random.Generator, eps: float) -> None:
    """Compare the gradient with differences of values, along entries and along random directions."""
    value, gradient = problem.value(at), problem.gradient(at)
    h = eps ** (1 / 3) * max(1.0, float(np.abs(at).max()))
    rounding = eps * float(np.abs(value).max()) / (h * max(1.0, float(np.abs(gradient).max())))
    tolerance = 10 * (eps**0.5 + rounding)

    def slope(u: np.ndarray) -> np.ndarray:
        step = (h * u / np.linalg.norm(u)).astype(at.dtype)
        difference = problem.value(at + step).astype(float) - problem.value(at - step)
        return np.asarray(difference / (2 * np.linalg.norm(step)))

    wanted = gradient.astype(float)
    for entry in rng.permutation(problem.parameters)[:_ENTRIES]:
        wanted[:, entry] = slope(np.eye(1, problem.parameters, entry)[0])
    laws.close("gradient is the slope of value", gradient, wanted, tolerance)
    directions = rng.standard_normal((_DIRECTIONS, problem.parameters))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    slopes = np.stack([slope(u) for u in directions], axis=1)
    laws.close("gradient is the slope of value in random directions", gradient @ directions.T, slopes, tolerance)


def _lipschitz(laws: Laws, problem: FunctionProblem, at: np.ndarray, rng: np.random.Generator, eps: float) -> None:
    """Check that gradients change no faster than the given constants allow."""
    law = "gradients change by at most lipschitz times the distance"
    bound = laws.offered(law, problem.lipschitz, "")  # None if no constants are given, or that of r is not known
    if bound is None:
        return
    bound, gradient = bound / problem.network_size, problem.gradient(at)
    rounding = 10 * eps**0.5 * max(float(bound.max()), float(np.abs(gradient).max()))
    for size in (0.1, 1.0):
        step = size * rng.standard_normal(at.shape)
        changes = np.linalg.norm(problem.gradient(at + step) - gradient, axis=1) / np.linalg.norm(step, axis=1)
        laws.at_most(law, changes, bound, rounding)
