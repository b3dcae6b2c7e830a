"""Engines: where a run happens. A solver gives the same bits on all of them."""

from consensus.engines.base import Engine
from consensus.engines.mpi import MPI
from consensus.engines.processes import Processes
from consensus.engines.rounds import reports, run_rounds
from consensus.engines.stacked import Stacked, StackedNetwork
from consensus.engines.states import Begin
from consensus.engines.torch import Torch

__all__ = ["MPI", "Begin", "Engine", "Processes", "Stacked", "StackedNetwork", "Torch", "reports", "run_rounds"]
