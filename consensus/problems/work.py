"""The work done on a problem, which the history shows."""

from dataclasses import dataclass


@dataclass
class Work:
    """What an agent of a block has computed so far.

    Attributes
    ----------
    gradients : int
        Gradients of its local cost, of all its samples or of a batch, per agent.
    samples : int
        Samples in these gradients, summed over the agents of the block; none where costs are functions. Divided by the
        network's number of samples, it is how many whole gradients would have been as much work.
    solves : int
        Local problems solved, per agent.
    iterations : int
        Iterations inside the local solves, summed over the agents of the block (they differ); closed forms take none.
    unfinished : int
        Local solves that did not get as far as was asked, over the agents of the block.
    """

    gradients: int = 0
    samples: int = 0
    solves: int = 0
    iterations: int = 0
    unfinished: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """All of these by name, for the history."""
        return {
            "gradients": self.gradients,
            "samples": self.samples,
            "solves": self.solves,
            "iterations": self.iterations,
            "unfinished": self.unfinished,
        }
