"""A problem on its way to worker processes."""

from typing import Any, NamedTuple

import cloudpickle

from consensus.workers.shared_memory import SharedArray


class SharedProblem(NamedTuple):
    """A problem to be sent to workers: the ``rest`` of it pickled, its data as ``arrays`` that all processes share."""

    rest: bytes
    arrays: tuple[SharedArray, ...] = ()

    def problem(self) -> Any:
        """The problem, with views of the shared data."""
        problem = cloudpickle.loads(self.rest)
        if self.arrays:
            problem.take(*(array.array for array in self.arrays))
        return problem
