"""Any mixing matrix, averaged with the identity."""

from collections.abc import Callable
from dataclasses import dataclass

from scipy import sparse

from topologies.pattern import adjacency
from topologies.weights.base import mixing


@dataclass(frozen=True)
class Lazy:
    """The weights function (I + W) / 2 of another: see `lazy`."""

    weights: Callable

    @property
    def __name__(self):
        return f"lazy({getattr(self.weights, '__name__', type(self.weights).__name__)})"

    def __call__(self, graph):
        matrix = mixing(self.weights, graph, adjacency(graph))
        return sparse.csr_array(matrix + sparse.eye_array(matrix.shape[0], format="csr")) * 0.5


def lazy(weights):
    """Weights function of the lazy version of another,

        (I + W) / 2.

    Keeps W doubly stochastic, symmetric, row or column stochastic and nonnegative where it is so. Eigenvalues move from
    mu to (1 + mu) / 2: for a symmetric W with spectrum in [-1, 1] they lie in [0, 1], so the matrix is positive
    semidefinite, as the analyses of EXTRA and NIDS ask of their second matrix [1]_, and for a nonnegative W the diagonal is
    at least 1/2. Mixing takes up to twice as many rounds; but where the slowest eigenvalue of W is near -1, on bipartite
    graphs with small self-weights, it takes fewer.

    Parameters
    ----------
    weights : function
        Takes a graph and returns a scipy sparse matrix (A, A), such as `topologies.metropolis`.

    Returns
    -------
    function
        To be used in its place; it can be pickled when `weights` can.

    Raises
    ------
    TypeError
        If `weights` is not a function.

    References
    ----------
    .. [1] W. Shi, Q. Ling, G. Wu and W. Yin, "EXTRA: an exact first-order algorithm for decentralized consensus
       optimization", SIAM Journal on Optimization 25 (2015), Assumption 1 and the choice of the second matrix.

    Examples
    --------
    >>> import topologies
    >>> topologies.Static(topologies.path(2), weights=lazy(topologies.metropolis)).weights(0).toarray()
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    if not callable(weights):
        raise TypeError(
            f"weights must be a function from a graph to a matrix, got a {type(weights).__name__}; "
            "topologies.from_matrix makes a function of a matrix"
        )
    return Lazy(weights)
