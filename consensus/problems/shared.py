"""A problem that is sent to worker processes."""

from typing import Any, NamedTuple

import cloudpickle

from consensus.workers.shared_memory import SharedArray


class SharedProblem(NamedTuple):
    """A pickled problem without its data, and the data as ``arrays`` that all processes share, for its ``take``."""

    rest: bytes
    arrays: tuple[SharedArray, ...] = ()

    def problem(self) -> Any:  # noqa: ANN401  # of the class that was pickled
        """Return the problem, with views of the shared data."""
        problem = cloudpickle.loads(self.rest)
        if self.arrays:
            problem.take(*(array.array for array in self.arrays))
        return problem
