"""Any mixing matrix, averaged with the identity."""

from dataclasses import dataclass

from scipy import sparse

from topologies import _checks
from topologies.pattern import GraphLike, adjacency
from topologies.weights.base import Weights, mixing_matrix, weights_function


@dataclass(frozen=True)
class Lazy:
    """The weights function (I + W) / 2 of another: see `lazy`."""

    weights: Weights

    @property
    def __name__(self) -> str:
        return f"lazy({_checks.name_of(self.weights)})"

    def __call__(self, graph: GraphLike) -> sparse.csr_array:
        matrix = mixing_matrix(self.weights, graph, adjacency(graph))
        return sparse.csr_array(matrix + sparse.eye_array(matrix.shape[0], format="csr")) * 0.5


def lazy(weights: Weights) -> Lazy:
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
    >>> from topologies import lazy
    >>> topologies.Static(topologies.path(2), weights=lazy(topologies.metropolis)).weights(0).toarray()
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    return Lazy(weights_function(weights, remedy="; topologies.from_matrix makes a function of a matrix"))
