"""Curvature of costs that have a model: products of their Gauss-Newton curvature with directions that all agents know."""

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consensus.packing import Multiples
from consensus.problems import Linearizable
from consensus.solvers.adaptive import gauss_newton
from consensus.solvers.adaptive.blocks import Nothing, choose
from consensus.solvers.adaptive.damping import LEAST
from consensus.solvers.adaptive.first_exchanges import MOST
from consensus.solvers.adaptive.gauss_newton import Test
from consensus.solvers.adaptive.held import PROBES
from consensus.solvers.adaptive.news import News
from consensus.solvers.adaptive.nystrom import factor
from consensus.solvers.adaptive.quadratic import LowRank

if TYPE_CHECKING:
    from consensus.engines.network import Network

DIRECTIONS, _NUMBERS = 64, 1 << 18  # columns of curvature in a message, and numbers in them, at most
_WIDE = 128  # columns at most in the first message of agents that moved alone on a changing graph
_ROUNDING = 0.125  # what all agents' rounding may do to H along trees, in units of tau
_FEW, _NOISE = 32, 1e-4  # without trees: columns in a message but the first, and what estimates do to H, in units of its trace
_TOLD = 0.2  # curvature along the last step, in units of what V has of it, from which on it counts


class Products(NamedTuple):
    """What is mixed in full."""

    products: np.ndarray


class Sketch(NamedTuple):
    """The local curvature, as far as it is known.

    Fields: ``products`` J_i' S_i J_i Omega (agents, P, count) at the trial points; the directions Omega (agents, P, count), the
    same for all, as ``basis``; the ``unit`` (agents,) of what products are rounded to, the same for all, 0 before they know it.

    On a graph with a tree (:attr:`consensus.engines.Network.tree`) the products go along trees, rounded, and are summed
    exactly. All agents then have the same V, so that the next directions need no message: half of them span what V is largest
    in, the others are drawn. Where H is the same everywhere, and a message can hold all of it, that is done once.

    On changing and directed graphs products are mixed in twelve bits
    (:class:`consensus.solvers.adaptive.alongside.Alongside`), from the second time on 32: the other columns of V stay
    (:func:`updated`), but for what the last step tells of them (:func:`stretched`). There are 64, or 128 where agents moved
    alone at first. On long graphs of many agents (:func:`on_trees`) they are mixed as the trackers are.
    """

    products: np.ndarray
    basis: np.ndarray
    unit: np.ndarray

    @classmethod
    def at_start(cls, problem: Linearizable, w: np.ndarray) -> "Sketch":
        """At the start w (agents, P)."""
        return cls._at(problem, w, _drawn(problem, 0), np.zeros(len(w)))

    @classmethod
    def _at(cls, problem, w, basis, unit):
        return cls(gauss_newton.products(problem, w, basis), np.broadcast_to(basis, (len(w), *basis.shape)), unit)

    @staticmethod
    def numbers(problem: Linearizable) -> int:
        """How many numbers an agent sends."""
        return columns(problem) * problem.parameters

    def scale(self, problem: Linearizable, w: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, float]:
        """The trace of H (agents,) as the local cost lets an agent estimate it, and tau's first value in units of that."""
        A, P = problem.network_size, problem.parameters
        scale = A * P / columns(problem) * np.einsum("apk,apk->a", self.basis, self.products)
        # A loss may have no curvature at the start, as Huber's far away: then by what step would be as long as w.
        return np.maximum(scale, A * np.linalg.norm(gradient, axis=1) / (1 + np.linalg.norm(w, axis=1))), 3e-3

    def unknown(self) -> LowRank:
        """No curvature, before any is known."""
        return LowRank.of(np.zeros((*self.products.shape[:2], 1), self.products.dtype))

    def alone(self, network: "Network") -> LowRank | None:
        """H = V V' if all local costs were as an agent's own: where a tree, or mixing on changing links that go both ways, will
        tell more of the network's. Not where all are neighbours of all, whom a tree tells at once.
        """
        if network.static:
            used = on_trees(network) and not (network.acquainted and network.crossing(0) == 1)
        else:
            used = network.agents <= PROBES and network.both_ways
        if not used:
            return None
        return LowRank.of(np.sqrt(network.agents).astype(self.products.dtype) * factor(self.basis[0], self.products))

    def mixed(self, network: "Network") -> Products | Nothing:
        """The blocks that are mixed in full, whose sums over the network are wanted: on long graphs of many agents."""
        return Products(self.products) if network.least_eigenvalue is not None and not on_trees(network) else Nothing()

    def rounded(self, network: "Network") -> np.ndarray | None:
        """The products, where agents fit their averages themselves, and nothing goes along trees."""
        return self.products if network.least_eigenvalue is None and not on_trees(network) else None

    def of_network(self, problem: Linearizable, network: "Network", round: int, news: News) -> tuple[LowRank, "Sketch"]:
        """H = V V' with V (agents, P, count), and what is kept of it."""
        drawn = _drawn(problem, round + 1)
        if news.rounded is not None:
            V = stretched(news.known.H.V, news.step, news.change, news.damping.scale)
            V = updated(V, self.basis[0], news.rounded)
            return LowRank.of(V), self._replace(basis=drawn[None, :, :_FEW])
        if not on_trees(network):
            return LowRank.of(factor(self.basis[0], news.sums.products)), self._replace(basis=drawn[None])
        if not self.products.shape[2]:  # everything was sent before
            return news.known.H, self
        (_, P, count), once = self.products.shape, sent_once(problem)
        tau = LEAST * news.damping.scale if once else news.damping.tau
        # The rounding errors of A agents add up to a matrix (P, count) of about this 2-norm in units of _ROUNDING tau.
        step = _ROUNDING * np.sqrt(12 / network.agents) / (np.sqrt(P) + np.sqrt(count)) * tau.astype(float)
        if self.unit.all():
            step = np.ldexp(self.unit, np.floor(np.log2(step / self.unit)).astype(int))
        total, steps = network.total(Multiples.nearest(self.products, step), news.exchanges)
        noise = np.sqrt(2 * count * np.square(steps).sum() / 12)
        V = factor(self.basis[0], total[None].astype(problem.dtype), noise)
        basis = self.basis[0, :, :0] if once else turned(V[0], drawn)
        unit = self.unit if self.unit.all() else np.full(len(step), steps.max())
        return LowRank.common(V[0], len(self.products)), self._replace(basis=basis[None], unit=unit)

    def moved(self, problem: Linearizable, trial: np.ndarray) -> "Sketch":
        """At new trial points (agents, P)."""
        return self._at(problem, trial, self.basis[0], self.unit)

    def widened(self, problem: Linearizable) -> "Sketch":
        """With more directions, for the first message to all of those who know their own curvature only."""
        basis = directions(problem.parameters, columns(problem, _WIDE), 0, problem.dtype)
        return self._replace(basis=np.broadcast_to(basis, (len(self.basis), *basis.shape)))

    def each_local_model(self, problem: Linearizable, w: np.ndarray, test: Test) -> None:
        """As :func:`gauss_newton.each_local_model`, if there is anything to test."""
        if not gauss_newton.exact(problem):
            gauss_newton.each_local_model(problem, w, test)


def columns(problem: Linearizable, most: int = DIRECTIONS) -> int:
    """How many directions there are, at ``most``."""
    return max(1, min(problem.parameters, most, _NUMBERS // problem.parameters))


def on_trees(network: "Network") -> bool:
    """Whether sums go along trees: where there are some, and up and down them is not too far for a round of many agents."""
    return network.acquainted or (network.tree is not None and 2 * network.tree.depth <= MOST)


def sent_once(problem: Linearizable) -> bool:
    """Whether H is the same everywhere, and one message holds all of it."""
    return gauss_newton.exact(problem) and columns(problem) == problem.parameters


def _drawn(problem, seed):
    return directions(problem.parameters, columns(problem), seed, problem.dtype)


@functools.lru_cache(maxsize=2)
def directions(parameters: int, count: int, seed: int, dtype: np.dtype) -> np.ndarray:
    """Orthonormal random directions (P, count), the same for all agents: they draw them from a common ``seed``."""
    draw = np.random.default_rng(seed).standard_normal((parameters, count))
    basis = np.linalg.qr(draw)[0].astype(dtype)
    basis.flags.writeable = False  # it is kept, for whoever asks next
    return basis


def updated(V: np.ndarray, basis: np.ndarray, products: np.ndarray) -> np.ndarray:
    """V (agents, P, columns) after new ``products`` H Omega: that of these, and of the old V what is conjugate to Omega.

        V+ = [V N, factor(Omega, H Omega)],      N an orthonormal basis of what is orthogonal to V' Omega ,

    the block update of Broyden, Fletcher, Goldfarb and Shanno, with as many columns as before or the new ones.
    """
    noise = _NOISE * np.abs(np.einsum("pk,apk->a", basis, products))
    new = factor(basis, products, noise)
    few = new.shape[2]
    if few >= V.shape[2]:
        return new
    across = np.linalg.qr(np.nan_to_num(V.swapaxes(1, 2) @ basis), mode="complete")[0][:, :, few:]
    return np.concatenate([V @ across, new], axis=2)


def stretched(V: np.ndarray, step: np.ndarray, change: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """V (agents, P, columns) after a ``step`` s (agents, P), along which the network's gradient ``change`` d by y.

        V+ = [V N, y / sqrt(s . y)],      N an orthonormal basis of what is orthogonal to V' s ,

    so that V+ V+' s = y. Gauss-Newton's curvature leaves out that of the model's outputs, the pair has it. V stays where the
    curvature along s is less than a fifth of what V has, or where y would give H an eigenvalue above the ``largest`` (agents,).
    """
    image = np.nan_to_num(step[:, None] @ V)[:, 0]
    curvature = np.vecdot(step, change)
    told = (curvature > _TOLD * np.vecdot(image, image)) & (np.vecdot(change, change) <= largest * curvature)
    across = np.linalg.qr(image[:, :, None], mode="complete")[0][:, :, 1:]
    new = change / np.sqrt(np.where(told, curvature, 1))[:, None]
    return choose(told, np.concatenate([V @ across, new[:, :, None]], axis=2), V)


def turned(V: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Orthonormal directions (P, count): half of them span the left singular vectors of V (P, count) with the largest singular
    values, the others are of those ``drawn`` (P, count)."""
    V = np.nan_to_num(V.astype(float))
    squares, vectors = np.linalg.eigh(V.T @ V)
    large = (np.arange(len(squares)) >= -(-len(squares) // 2)) & (squares > 1e-12 * squares[-1])
    basis: np.ndarray = np.linalg.qr(np.concatenate([V @ vectors[:, large], drawn[:, : (~large).sum()]], axis=1))[0]
    return basis.astype(drawn.dtype)
