"""Lazy weights: a mixing matrix averaged with the identity."""

from dataclasses import dataclass

from scipy import sparse

from topologies import _checks
from topologies.pattern import GraphLike, adjacency
from topologies.weights.base import Weights, mixing_matrix, weights_function


@dataclass(frozen=True)
class Lazy:
    """The weights function that `lazy` returns."""

    weights: Weights

    @property
    def __name__(self) -> str:
        """Name in the ``repr`` of schedules."""
        return f"lazy({_checks.name_of(self.weights)})"

    def __call__(self, graph: GraphLike) -> sparse.csr_array:
        matrix = mixing_matrix(self.weights, graph, adjacency(graph))
        return sparse.csr_array(matrix + sparse.eye_array(matrix.shape[0], format="csr")) * 0.5


def lazy(weights: Weights) -> Lazy:
    """Return the weights function that averages the mixing matrix W of another with the identity, (I + W) / 2.

    Eigenvalues mu become (1 + mu) / 2: for a symmetric doubly stochastic W the result is positive semidefinite, as the analyses
    of EXTRA and NIDS require of their second matrix [1]_, and for a nonnegative W its diagonal is at least 1/2. Mixing takes up
    to twice as many rounds.

    Parameters
    ----------
    weights : function
        Weights function, such as `topologies.metropolis`.

    Returns
    -------
    function
        Weights function of the lazy matrix; it can be pickled if `weights` can.

    References
    ----------
    .. [1] W. Shi, Q. Ling, G. Wu and W. Yin, "EXTRA: an exact first-order algorithm for decentralized consensus
       optimization" (2015), Assumption 1 and the choice of the second matrix.

    Examples
    --------
    >>> import topologies
    >>> topologies.Static(topologies.path(2), weights=topologies.lazy(topologies.metropolis)).weights(0).toarray()
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    return Lazy(weights_function(weights, remedy="; topologies.from_matrix makes a function of a matrix"))
