"""Engines: where a run happens. A solver gives the same bits on all of them."""

from consensus.engines.mpi import MPI
from consensus.engines.processes import Processes
from consensus.engines.stacked import Stacked

__all__ = ["MPI", "Processes", "Stacked"]
