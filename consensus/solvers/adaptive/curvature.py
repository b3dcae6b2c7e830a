"""The two kinds of curvature that agents can know of."""

from consensus.problems.base import BaseProblem
from consensus.solvers.adaptive.secants import Secants
from consensus.solvers.adaptive.sketch import Sketch


def curvature_of(problem: BaseProblem) -> type[Sketch] | type[Secants]:
    """The kind of curvature for ``problem``: :class:`Sketch` where its model can be linearised, else :class:`Secants`.

    Both are NamedTuples with the methods ``at_start(problem, w)``, which makes one; ``scale``, what tau begins with;
    ``sent()``, the blocks that the exchanges sum; ``of_network``, which makes V of the sums; ``moved``, for new trial points;
    ``each_local_model``, a test of how far the local costs are from their models; and ``numbers(problem)``, how many are sent.
    """
    return Sketch if hasattr(problem, "linearize") else Secants
