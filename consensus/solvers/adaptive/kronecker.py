"""Curvature of layered models with many parameters: for every layer a Kronecker product of two small matrices."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from consensus._parallel import for_chunks
from consensus.problems import Linearizable
from consensus.solvers.adaptive import gauss_newton
from consensus.solvers.adaptive.costs import quadratic_weight
from consensus.solvers.adaptive.gauss_newton import Test
from consensus.solvers.adaptive.layered import Layer, Nothing
from consensus.solvers.adaptive.news import News

if TYPE_CHECKING:
    from consensus.engines.network import Network

_FASTEST = 4.0  # by which the stretch changes in a round, at most


class Factors(NamedTuple):
    """Two symmetric matrices for a layer, ``inputs`` and ``outputs``, and those of the layers after it, ``next``.

    They have shapes (agents, m, m) and (agents, k, k), or are sent as upper triangles, row by row.
    """

    inputs: np.ndarray
    outputs: np.ndarray
    next: "Factors | Nothing"

    @classmethod
    def row(cls, layers: Iterable[tuple[np.ndarray, np.ndarray]]) -> "Factors":
        """One after the other."""
        result: Factors | Nothing = Nothing()
        for inputs, outputs in reversed(list(layers)):
            result = cls(inputs, outputs, result)
        assert isinstance(result, Factors)
        return result

    def pairs(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of all layers."""
        rest = self.next.pairs() if isinstance(self.next, Factors) else []
        return [(self.inputs, self.outputs), *rest]


class Kronecker(NamedTuple):
    """The local curvature as Kronecker factors, and what is known of the network's.

    Of a layer with m inputs, the bias' one among them, and k outputs the network's curvature is near ``stretch / C  A x G``,
    with sums over the samples of all agents: A (m, m) of ``c h h'``, G (k, k) of ``c D' S D`` and C, A's last entry, of the
    samples' weights c (:meth:`consensus.models.layers_linearized.LayeredLinearization.kronecker`). The stretch makes this
    the curvature that the network's gradient has shown along the last step.

    Fields: the local A and G of every layer, ``own``; the eigenvalues ``values`` (agents, m) and eigenvectors ``vectors``
    (agents, m, m) of the first layer's A, which does not change: it is sent until they are there, m = 0 at first; the
    ``stretch`` (agents,).

    References
    ----------
    Martens, Grosse, "Optimizing neural networks with Kronecker-factored approximate curvature", ICML 2015 (from memory), for
    the factors. They find the step along theirs by one more product with the curvature, the stretch does so a round later.
    """

    own: Factors
    values: np.ndarray
    vectors: np.ndarray
    stretch: np.ndarray

    @classmethod
    def at_start(cls, problem: Linearizable, w: np.ndarray) -> "Kronecker":
        """At the start w (agents, P)."""
        none = np.zeros((len(w), 0), w.dtype)
        return cls(Factors.row(gauss_newton.kronecker(problem, w)), none, none[:, None], np.ones(len(w), w.dtype))

    @staticmethod
    def numbers(problem: Linearizable) -> int:
        """How many numbers an agent sends, at most."""
        sizes = [(m + 1, k) for _, m, k in problem.model.matrices]  # type: ignore[attr-defined]  # a Layered's
        return sum((m * (m + 1) + k * (k + 1)) // 2 for m, k in sizes)

    def unknown(self) -> Layer:
        """No curvature, before any is known."""
        none = np.zeros((len(self.stretch), 0, 0), self.stretch.dtype)
        return Layer.row((none, none, none) for _ in self.own.pairs())

    def scale(self, problem: Linearizable, w: np.ndarray, gradient: np.ndarray) -> tuple[np.ndarray, float]:
        """The trace of H (agents,) as the local cost lets an agent estimate it, and tau's first value in units of that."""
        traces = (np.einsum("amm->a", A) * np.einsum("akk->a", G) / A[:, -1, -1] for A, G in self.own.pairs())
        # A loss may have no curvature at the start, as Huber's far away: then by what step would be as long as w.
        shortest = np.linalg.norm(gradient, axis=1) / (1 + np.linalg.norm(w, axis=1))
        return problem.network_size * np.maximum(sum(traces), shortest), 3e-3

    def alone(self, network: "Network") -> None:
        """The curvature of the local cost alone is not used."""

    def rounded(self, network: "Network") -> None:
        """Nothing is rounded."""

    def mixed(self, network: "Network") -> Factors:
        """The blocks that are mixed, whose sums over the network are wanted."""
        return Factors.row((_triangle(A), _triangle(G)) for A, G in self.own.pairs())

    def of_network(self, problem: Linearizable, network: "Network", round: int, news: News) -> tuple[Layer, "Kronecker"]:
        """H, from the sums of what was mixed in a round and how the network's gradient changed along the last step; and what is
        kept of it."""
        (A, _), *_ = pairs = [(_whole(A), _whole(G)) for A, G in news.sums.pairs()]
        values, vectors = (self.values, self.vectors) if self.values.size else _spectrum(A)
        layers = []
        for place, (A, G) in enumerate(pairs):
            a, Q = _spectrum(A) if place else (values, vectors)
            g, R = _spectrum(G)
            # The inputs' last entry, which the first layer's spectrum has, too, is the sum of all weights.
            weight = np.einsum("am,am->a", Q[:, -1] ** 2, a)[:, None, None]
            layers.append((Q, R, a[:, :, None] * g[:, None] / np.where(weight > 0, weight, 1)))
        stretch = self.stretch
        if round > 0:
            stretch = self._stretch(Layer.row(layers), quadratic_weight(problem), news.step, news.change)
        H = Layer.row((Q, R, stretch[:, None, None] * values) for Q, R, values in layers)
        return H, self._replace(stretch=stretch, values=values, vectors=vectors)._without_first()

    def _stretch(self, H, weight, step, change):
        shown, plain = np.vecdot(step, change) - weight * np.vecdot(step, step), H.square(step)
        seen = (shown > 0) & (plain > 0)
        ratio = np.divide(shown, plain, out=self.stretch.copy(), where=seen)
        return np.clip(ratio, self.stretch / _FASTEST, self.stretch * _FASTEST)

    def _without_first(self):
        return self._replace(own=self.own._replace(inputs=self.own.inputs[:, :0, :0]))

    def moved(self, problem: Linearizable, trial: np.ndarray) -> "Kronecker":
        """At new trial points (agents, P)."""
        moved = self._replace(own=Factors.row(gauss_newton.kronecker(problem, trial)))
        return moved._without_first() if self.values.size else moved

    def widened(self, problem: Linearizable) -> "Kronecker":
        """As it is: there are no rounds alone."""
        return self

    def each_local_model(self, problem: Linearizable, w: np.ndarray, test: Test) -> None:
        """As :func:`gauss_newton.each_local_model`, if there is anything to test."""
        if not gauss_newton.exact(problem):
            gauss_newton.each_local_model(problem, w, test)


def _triangle(matrix):
    """The upper triangles of matrices (agents, n, n), row by row."""
    return matrix[:, *np.triu_indices(matrix.shape[1])]


def _whole(triangle):
    """The symmetric matrices (agents, n, n) of such triangles (agents, n (n + 1) / 2)."""
    agents, numbers = triangle.shape
    n = int((2 * numbers) ** 0.5)
    upper = np.triu_indices(n)
    matrix = np.empty((agents, n, n), triangle.dtype)
    matrix[:, *upper] = triangle
    matrix[:, *upper[::-1]] = triangle
    return matrix


def _spectrum(matrix):
    """Eigenvalues (agents, n), none of them negative, and eigenvectors (agents, n, n) of symmetric matrices (agents, n, n)."""
    agents, n, _ = matrix.shape
    values, vectors = np.empty(matrix.shape[:2], matrix.dtype), np.empty_like(matrix)

    def chunk(rows):
        values[rows], vectors[rows] = np.linalg.eigh(np.where(np.isfinite(matrix[rows]), matrix[rows], 0))

    for_chunks(chunk, agents, 3 * matrix[0].nbytes, 10 * n**3)
    return np.maximum(values, 0), vectors
