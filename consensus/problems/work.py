"""The work done on a problem, which the history shows."""

from dataclasses import asdict, dataclass


@dataclass
class Work:
    """The work that a block of agents has done so far.

    Parameters
    ----------
    gradients : int
        Gradients of the local cost, of all samples or of a batch, per agent.
    samples : int
        Samples in these gradients, summed over the agents of the block; 0 for costs given by functions. Divided by the
        network's number of samples, it is the equivalent number of whole gradients.
    solves : int
        Local problems solved, per agent.
    iterations : int
        Iterations inside the local solves, summed over the agents of the block; closed forms take none.
    unfinished : int
        Local solves that did not reach their tolerance, summed over the agents of the block.

    Examples
    --------
    >>> import numpy as np, consensus
    >>> shards = consensus.partition(np.eye(6), np.zeros(6), agents=2)
    >>> problem = consensus.Problem(consensus.Linear(6), consensus.SquaredLoss(), shards)
    >>> whole = problem.gradient(np.ones((2, 7)))
    >>> some = problem.gradient(np.ones((2, 7)), consensus.Minibatches(2).at(problem, 0))
    >>> problem.work.gradients, problem.work.samples
    (2, 10)
    """

    gradients: int = 0
    samples: int = 0
    solves: int = 0
    iterations: int = 0
    unfinished: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """All counts by name, for the history."""
        return asdict(self)
