"""Engines: where a run happens. A solver gives the same bits on all of them."""

from typing import TYPE_CHECKING

from consensus._elsewhere import elsewhere
from consensus.engines.base import Engine
from consensus.engines.mpi import MPI
from consensus.engines.processes import Processes
from consensus.engines.rounds import reports, run_rounds
from consensus.engines.stacked import Stacked, StackedNetwork
from consensus.engines.states import Begin

if TYPE_CHECKING:
    from consensus.frameworks.torch_engine import Torch as Torch

__getattr__, __dir__ = elsewhere(
    __name__,
    {
        "Torch": "consensus.frameworks.torch_engine",
    },
)

__all__ = ["MPI", "Begin", "Engine", "Processes", "Stacked", "StackedNetwork", "Torch", "reports", "run_rounds"]
