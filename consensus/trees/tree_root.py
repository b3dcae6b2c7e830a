"""The rule of :class:`TreeNewton`, by which the root of a tree chooses steps from sums of values, gradients and curvature."""

from typing import NamedTuple, cast

import numpy as np

from consensus.problems import BaseProblem, Linearizable
from consensus.solvers.adaptive.gauss_newton import products
from consensus.trees.tree_lbfgs import power_of_two
from consensus.trees.tree_model import Model, corrected, rounded

FACTORS = (0.25, 1.0, 4.0)  # trial steps of a round: tau times these
MIDDLE = 1  # of them, where products are taken
_BLOCKS = 4  # of products that correct the root's own curvature
_SHARE = 0.01  # of the model's decrease may be lost by rounding a step, and as much by rounding the gradient
_AHEAD = 0.3  # the same for the look-ahead
_GUESSED = 0.02  # of the gradient's norm, as the root guesses it, that rounding may move it in the first sum
_NOISE = 0.1  # 2-norm of all rounding of products, in units of tau
_FINER = 256.0  # by which the gradients' unit is divided where their rounded sum is zero
_PROMISE = 1e-4  # of the model's decrease by which U must fall
_REFUSED = 8.0  # by which tau is multiplied where it does not
_FIRST, _LEAST = 1e-2, 1e-7  # the first tau and the least one, in units of the trace of M


class Plan(NamedTuple):
    """The next evaluation of all agents, as the root sends it down.

    Attributes
    ----------
    steps : ndarray (agents, 4, P)
        The three trial steps, and the look-ahead.
    step_units : ndarray (agents, 4)
        Units of the steps, powers of two.
    units : ndarray (agents, 2)
        Units of gradients and of products.
    refused : bool
        Whether the last trials were refused, so that the gradient at w is sent again in a finer unit.
    """

    steps: np.ndarray
    step_units: np.ndarray
    units: np.ndarray
    refused: bool

    @classmethod
    def none(cls, agents: int, parameters: int) -> "Plan":
        """Return the plan without steps, which evaluates the start."""
        count = len(FACTORS) + 1
        return cls(np.zeros((agents, count, parameters)), np.ones((agents, count)), np.ones((agents, 2)), False)

    def directions(self, round: int, columns: int) -> np.ndarray:
        """Return O (P, columns): the middle step and the look-ahead, normed, and random signs over sqrt(P)."""
        parameters = self.steps.shape[2]
        columns = min(columns, parameters)
        known = self.steps[0, [MIDDLE, len(FACTORS)]][: columns if round else 0]
        known = known / np.maximum(np.linalg.norm(known, axis=1, keepdims=True), np.finfo(float).tiny)
        signs = np.random.default_rng(round).choice([-1.0, 1.0], (columns - len(known), parameters))
        return np.concatenate([known, signs / np.sqrt(parameters)]).T


class Known(NamedTuple):
    """The root's knowledge; rows of other agents are zero.

    Attributes
    ----------
    total : ndarray (agents, P)
        Sum of the agents' sent gradients at w.
    scalars : ndarray (agents, 3)
        U at w, tau, and the first trace of M.
    promised : ndarray (agents, 3)
        Decrease of the model at the three trial steps.
    directions, products : ndarray (agents, 4, P, columns)
        The last blocks O and Z = H O, the newest last.
    noise : ndarray (agents, 4)
        2-norm of the rounding of each block of products; zero for missing blocks.
    """

    total: np.ndarray
    scalars: np.ndarray
    promised: np.ndarray
    directions: np.ndarray
    products: np.ndarray
    noise: np.ndarray

    @classmethod
    def nothing(cls, agents: int, parameters: int, columns: int) -> "Known":
        """Return the knowledge at the start."""
        blocks = (_BLOCKS, parameters, columns)
        shapes = ((parameters,), (3,), (len(FACTORS),), blocks, blocks, (_BLOCKS,))
        return cls(*(np.zeros((agents, *shape)) for shape in shapes))

    def of(self, root: int) -> "Known":
        """Return the root's row of every field."""
        return Known(*(part[root] for part in self))

    def at(self, root: int, agents: int) -> "Known":
        """Return one row of every field as that of agent ``root`` of ``agents``."""
        rows = [np.zeros((agents, *np.shape(part))) for part in self]
        for row, part in zip(rows, self, strict=True):
            row[root] = part
        return Known(*rows)


class Sums(NamedTuple):
    """The sums at the root.

    Attributes
    ----------
    points : ndarray (trials, P)
        Trial points.
    values : ndarray (trials,)
        Sums of values at the trial points.
    codes : ndarray (rows, P)
        Sums of codes of gradients and of products with ``directions``.
    directions : ndarray (P, columns)
        Directions O of the products.
    """

    points: np.ndarray
    values: np.ndarray
    codes: np.ndarray
    directions: np.ndarray


def first_units(problem: BaseProblem, w: np.ndarray, gradient: np.ndarray, root: int, columns: int) -> np.ndarray:
    """Return the units (agents, 2) of gradients and products in the first sum, in the root's row: guessed from its data."""
    agents, parameters = problem.network_size, w.shape[1]
    size = agents * np.linalg.norm(gradient[root])
    trace = agents * np.trace(_own_curvature(problem, w[root], root))
    units = np.zeros((len(w), 2))
    units[root] = (
        power_of_two(_GUESSED * size * np.sqrt(12 / (agents * parameters))),
        power_of_two(_NOISE * _FIRST * trace * _unit(agents, parameters, columns)),
    )
    return units


def decide(
    problem: BaseProblem, w: np.ndarray, root: int, plan: Plan, known: Known, sums: Sums, own: bool = True
) -> tuple[int, Plan, Known]:
    """Return the trial that is taken, or -1, the next plan, one row, and the root's knowledge.

    ``root`` is its row of ``w`` (agents, P). The model begins with the root's ``own`` curvature, or else with a multiple of the
    identity, by the sums alone.
    """
    total, (value, tau, scale), promised, directions, blocks, noise = known.of(root)
    (agents, columns), first, (a, b) = (problem.network_size, sums.directions.shape[1]), scale == 0, plan.units[0]
    totals = total + np.cumsum(sums.codes[:-columns], axis=0) * a
    values = sums.values + [float(problem.regularizer.value(point)) for point in sums.points]
    chosen = int(np.argmin(np.where(np.isfinite(values), values, np.inf)))
    if first or values[chosen] <= value - _PROMISE * promised[chosen]:
        point, value, total = sums.points[chosen], values[chosen], totals[chosen - len(values)]
        directions = np.concatenate([directions[1:], sums.directions[None]])
        blocks = np.concatenate([blocks[1:], sums.codes[-columns:].T[None] * b])
        noise = np.append(noise[1:], b / _unit(agents, *sums.directions.shape))
        tau = max(tau * FACTORS[chosen], _LEAST * scale)
    else:
        chosen, point, tau = -1, w[root], _REFUSED * tau
        total = totals[0] if plan.refused else total
    M = agents * _own_curvature(problem, point, root) if own else _round(directions, blocks, noise)
    for basis, Z, rounding in zip(directions, blocks, noise, strict=True):
        M = corrected(M, basis, Z, rounding) if rounding else M
    ridge = quadratic_weights(problem)
    assert ridge is not None, "TreeNewton.check rejects other regularizers"
    model = Model.of(M, ridge)
    if first:
        scale, tau = model.scale, _FIRST * model.scale
    finer = max(a / _FINER, float(np.finfo(float).eps * np.sqrt(abs(value) * scale)))  # the latter is rounding of floats
    planned, promised = _planned(model, total + problem.regularizer.gradient(point), tau, agents, columns, finer)
    planned = planned._replace(refused=chosen < 0)
    return chosen, planned, Known(total, np.array([value, tau, scale]), promised, directions, blocks, noise).at(root, len(w))


def _planned(model: Model, g: np.ndarray, tau: float, agents: int, columns: int, finer: float) -> tuple[Plan, np.ndarray]:
    """Return the next steps and units, and the decrease of the model at the trial steps.

    A rounded gradient g of zero promises nothing: it is asked again in a ``finer`` unit.
    """

    def step(damping: float, slope: np.ndarray, share: float) -> tuple[np.ndarray, float]:
        d = model.step(damping, slope)
        enough = (1 - share) * model.decrease(d, slope)
        codes, unit = rounded(d, lambda x: model.decrease(x, slope) >= enough)
        return codes * unit, unit

    steps, units = zip(*(step(factor * tau, g, _SHARE) for factor in FACTORS), strict=True)
    promised = np.array([model.decrease(d, g) for d in steps])
    ahead, ahead_unit = step(tau / 4, g + model.times(steps[MIDDLE]), _AHEAD)
    a = power_of_two(np.sqrt(_SHARE * promised[MIDDLE] * 24 / agents / (1 / (model.s + tau)).sum()) if g.any() else finer)
    b = power_of_two(_NOISE * tau * _unit(agents, len(g), columns))
    return Plan(np.stack([*steps, ahead])[None], np.array([[*units, ahead_unit]]), np.array([[a, b]]), False), promised


def _own_curvature(problem: BaseProblem, point: np.ndarray, root: int) -> np.ndarray:
    """Return the root's own Gauss-Newton matrix (P, P) at a ``point``."""
    own = cast(Linearizable, problem.restrict(slice(root, root + 1)))  # as needs say
    identity = np.eye(len(point), dtype=problem.dtype)
    matrix: np.ndarray = products(own, point[None].astype(problem.dtype), identity)[0].astype(float)
    return matrix


def _round(directions: np.ndarray, blocks: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return the identity (P, P) times the mean curvature along the directions of the block with the least rounding."""
    best = int(np.argmin(np.where(noise > 0, noise, np.inf)))
    mean = float(np.vecdot(directions[best].T, blocks[best].T).mean())  # the directions have length one
    return np.diag(np.full(directions.shape[1], max(mean, 0.0) + float(noise[best])))


def quadratic_weights(problem: BaseProblem) -> np.ndarray | None:
    """Return the weights (P,) of squares in a quadratic r; None for another."""
    r = problem.regularizer
    if r.quadratic:
        return np.full(problem.parameters, float(r.strong_convexity))
    return r.squares


def _unit(agents: int, parameters: int, columns: int) -> float:
    """Return the unit of products for which all their rounding together has a 2-norm of about one."""
    return float(np.sqrt(12 / agents) / (np.sqrt(parameters) + np.sqrt(min(columns, parameters))))
